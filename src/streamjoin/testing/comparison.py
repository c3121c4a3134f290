"""A strict comparison of rows, with an explanation of the first difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_SHOWN = 3


def assert_same_rows(actual: Any, expected: Any, *, ordered: bool = False, context: object = "") -> None:
    """Raise an AssertionError that explains the first difference. Each row must occur equally often.

    Takes Arrow tables, which must also agree in column names and types, or lists of tuples such as pairs of positions.
    NaN equals NaN, and -0.0 equals 0.0. `ordered` demands the same sequence.
    """
    where = f" [{context}]" if context else ""
    names: list[str] = []
    if isinstance(actual, pa.Table) and isinstance(expected, pa.Table):
        names = expected.column_names
        if _schema(actual) != _schema(expected):
            raise AssertionError(f"columns{where}: {_schema(actual)}\nexpected: {_schema(expected)}")
    found, wanted = _rows(actual), _rows(expected)
    problem = _difference_of_counts(found, wanted, names)
    if ordered and not problem:
        problem = _difference_of_order(found, wanted, names)
    if problem:
        raise AssertionError(f"{len(found)} rows instead of the expected {len(wanted)}{where}:\n{problem}")


compare = assert_same_rows


def _difference_of_counts(found: list[Hashable], wanted: list[Hashable], names: list[str]) -> str:
    has, needs = Counter(found), Counter(wanted)
    missing = [row for row in needs if row not in has]
    extra = [row for row in has if row not in needs]
    other = [row for row in needs if row in has and has[row] != needs[row]]
    lines = []
    for rows, counts, title in ((missing, needs, "missing"), (extra, has, "extra")):
        if rows:
            lines.append(f"{sum(counts[row] for row in rows)} {title}:")
            lines += [f"  {_show(row, names)}{_times(counts[row])}" for row in rows[:_SHOWN]]
            lines += ["  ..."] if len(rows) > _SHOWN else []
    if other:
        lines.append(f"{len(other)} present, but not as often as expected:")
        lines += [f"  {_show(row, names)} {has[row]} times instead of {needs[row]}" for row in other[:_SHOWN]]
        lines += ["  ..."] if len(other) > _SHOWN else []
    return "\n".join(lines)


def _difference_of_order(found: list[Hashable], wanted: list[Hashable], names: list[str]) -> str:
    """The first place where two sequences of the same rows differ, with its neighbours."""
    at = next((i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b), None)
    if at is None:
        return ""
    lines = [f"the same rows in another order; the sequences diverge at index {at}:"]
    for i in range(max(0, at - 1), min(len(found), at + _SHOWN)):
        mark = "  " if found[i] == wanted[i] else "->"
        lines.append(f"{mark} {i}: {_show(found[i], names)}   expected {_show(wanted[i], names)}")
    return "\n".join(lines)


def _rows(data: Any) -> list[Hashable]:
    """Rows as hashable values, in which NaN equals itself."""
    if isinstance(data, pa.Table):
        columns = [_python_values(column) for column in data.columns]
        return [_frozen(row) for row in zip(*columns, strict=True)] if columns else [()] * data.num_rows
    return [_frozen(row) for row in (data.tolist() if isinstance(data, np.ndarray) else data)]


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """Timestamps and durations as ticks, because Python's types end at microseconds and at the year 9999."""
    in_ticks = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    return (column.cast(pa.int64()) if in_ticks else column).to_pylist()


class _NaN:
    """Stands for every NaN, because a NaN equals no other NaN."""

    def __repr__(self) -> str:
        return "nan"


_NAN = _NaN()


def _frozen(value: Any) -> Hashable:
    if isinstance(value, float | np.floating) and value != value:
        return _NAN
    if isinstance(value, Mapping):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, tuple | list):
        return tuple(_frozen(item) for item in value)
    return value if isinstance(value, Hashable) else repr(value)


def _show(row: Hashable, names: list[str]) -> str:
    if names and isinstance(row, tuple):
        return "(" + ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True)) + ")"
    return repr(row)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _schema(table: pa.Table) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in table.schema)
