"""A few rows as a table on the screen."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .console import wide_console

WIDEST = 40
"""Characters of a value that are shown."""


def show(rows: pa.Table, total: int, *, is_all: bool) -> None:
    """Print rows under the names and types of their columns, as many columns as fit, and how many rows there are."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = wide_console()
    columns = [
        [name, str(f.type), *map(_text, rows.column(i).to_pylist())] for i, (name, f) in enumerate(_fields(rows))
    ]
    shown: list[list[str]] = []
    width = 0
    for texts in columns:
        width += max(map(len, texts)) + 2
        if console.is_terminal and shown and width > console.width - 6:
            break
        shown.append(texts)
    if not console.is_terminal:
        console.width = max(console.width, width + 2)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for texts, (_, field) in zip(shown, _fields(rows), strict=False):
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        table.add_column(f"{_escaped(texts[0])}\n[dim]{_escaped(texts[1])}[/]", justify="right" if number else "left")
    if len(shown) < len(columns):
        table.add_column("…")
    for row in zip(*(texts[2:] for texts in shown), strict=True):
        table.add_row(*map(_escaped, row), *(["…"] if len(shown) < len(columns) else []))
    console.print(table)
    hidden = [texts[0] for texts in columns[len(shown) :]]
    if hidden:
        console.print(f"not shown: {', '.join(hidden)}", markup=False, highlight=False)
    plural = "" if total == 1 else "s"
    few = "" if rows.num_rows == total else f", the first {rows.num_rows:,} of them shown; -o FILE writes all"
    console.print(f"{total:,} row{plural}{few}" + ("" if is_all else " (--limit)"), markup=False, highlight=False)


def _fields(rows: pa.Table) -> list[tuple[str, Any]]:
    return [(field.name, field) for field in rows.schema]


def _text(value: Any) -> str:
    text = "NULL" if value is None else repr(value)[1:-1] if isinstance(value, str) else str(value)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
