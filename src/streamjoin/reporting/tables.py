"""Tables of figures for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from .measure import Others, Rates


def titled(title: str, *columns: str, texts: int = 1) -> Table:
    """A table whose first `texts` columns are text and whose others are numbers."""
    table = Table(title=title, title_justify="left", min_width=min(len(title), 110))
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < texts else "right")
    return table


def text_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Facts in words, such as a paper's figures."""
    table = Table("what", "figure", title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


def spread(rates: Rates | dict[str, float]) -> str:
    """Median and extremes: 12.3 (11.0 - 12.9)."""
    if isinstance(rates, Rates):
        if not rates.rates:
            return ""
        rates = rates.figures()
    return f"{_short(rates['median'])} ({_short(rates['min'])} - {_short(rates['max'])})"


def others_text(cores: float | None) -> str:
    """A sentence about the load of other programs."""
    if cores is None:
        return "The load of other programs is not known."
    text = f"Other programs used {cores:.2f} cores on average."
    return text + (" THE MACHINE WAS BUSY: do not rely on these figures." if cores > Others.WARN else "")


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
