"""What was measured, as tables."""

from __future__ import annotations

from rich.table import Table

from ...reporting.tables import titled
from .measure import EndToEnd, Series

PAPERS = (
    ("ScaleJoin (Gulisano et al. 2015), Java, 48 cores", "0.08"),
    ("CellJoin (Gedik et al. 2009), 8 SPEs, 1,000 tuples/s", "0.23"),
    ("handshake join (Teubner, Mueller 2011), 8 cores, 1,400 tuples/s", "0.44"),
    ("the same in Roy et al. 2014, SSE, 40 cores, 5,125 tuples/s", "1.2"),
)
"""G comparisons/s per core: 2 x window x rate^2 / cores at 15-minute windows; ScaleJoin gives the figure itself."""


def series_table(probes: int, series: list[Series]) -> Table:
    table = titled(
        f"G comparisons/s, {probes:,} probing tuples at a time",
        "stored", "contestant", "best", "median", "min - max", "of C++", texts=2,
    )  # fmt: skip
    for entry in sorted(series, key=lambda entry: entry.stored):
        f = entry.figures()
        ratio = "" if f["ratio_to_cpp"] is None else f"{f['ratio_to_cpp']:.2f}"
        spread = f"{f['min']:.2f} - {f['best']:.2f}"
        table.add_row(entry.stored, entry.contestant, f"{f['best']:.2f}", f"{f['median']:.2f}", spread, ratio)
    return table


def end_to_end_table(window: int, whole: list[EndToEnd]) -> Table:
    table = titled(
        f"G comparisons/s, whole WindowJoin (SQL), count windows of {window:,}",
        "batch", "best", "median", "min - max", "tuples/s", texts=0,
    )  # fmt: skip
    for entry in whole:
        f = entry.figures()
        spread, rate = f"{f['min']:.2f} - {f['best']:.2f}", f"{f['tuples_per_second']:,.0f}"
        table.add_row(f"{entry.batch:,}", f"{f['best']:.2f}", f"{f['median']:.2f}", spread, rate)
    return table


def paper_table() -> Table:
    table = titled("G comparisons/s per core in the papers, on the machines of their time", "system", "per core")
    for name, figure in PAPERS:
        table.add_row(name, figure)
    return table
