"""What was measured, as lines and tables, with the papers' figures beside it."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from ...reporting.measure import Rates
from ...reporting.tables import spread, text_table, titled
from .cells import COMPARISONS, LATENCY, TUPLES
from .papers import stated
from .pictures import LIMIT
from .results import MILLISECONDS, CellResults, Entry, Limits, MachineResults, said

UNITS = {TUPLES: ("M tuples/s", 1.0), COMPARISONS: ("G comparisons/s", 1e-3)}


def cell_lines(results: CellResults) -> list[str]:
    """What is said of a cell as soon as it is done: a line for each contestant."""
    lines = []
    for entry in results.entries:
        if not entry.rates.rates:
            lines.append(f"{results.cell.name}, {entry.contestant.name}: {entry.stopped}")
            continue
        number, unit = said(results.cell, entry)
        texts = [f"{results.cell.name}, {entry.contestant.name}: {number:,.3g} {unit}"]
        if unit == MILLISECONDS:
            texts.append(f"p99 {entry.latency['p99']:,.3g} ms")
        elif (each := results.efficiency(entry)) is not None:
            texts.append(f"efficiency {each:.2f}")
        if (times := results.to_best(entry)) is not None:
            texts.append(f"{times:.3g} times the best number of workers")
        lines.append(", ".join([*texts, f"{_busy(entry):.1f} cores busy", entry.chosen]))
    return [*lines, *(f"not monotone: {text}" for text in results.not_monotone())]


def _busy(entry: Entry) -> float:
    return float(entry.rates.figures()["cpu_per_wall"])


def limit_lines(limits: Limits) -> list[str]:
    lines = [
        f"limits: {n} processes scan {rates.median / 1e3:,.3g} G comparisons/s" for n, rates in limits.scans.items()
    ]
    lines += [f"limits: {n} threads copy {rates.median / 1e3:,.3g} GB/s" for n, rates in limits.copies.items()]
    if limits.gpu_integers is not None:
        lines.append(f"limits: {limits.gpu}: {limits.gpu_integers.median / 1e6:,.3g} T integer multiply-adds/s")
    return lines


def tables(results: MachineResults) -> list[Table]:
    limits = results.limits
    found = [_limit_table(limits)] if limits.scans else []
    for figure, (unit, scale) in UNITS.items():
        some = results.of(figure)
        if not some:
            continue
        rows = limits.scans if figure == COMPARISONS else None
        title = f"{unit} by number of workers: median (min - max)"
        found.append(_table(title, some, lambda c, e, scale=scale: _scaled(c, e, scale), rows, scale))  # type: ignore[misc]
        found.append(_efficiency_table(f"Efficiency, {unit}: speed / (speed of one worker x workers)", some, rows))
    if some := results.of(LATENCY):
        found.append(_table("Latency of batches of 64 in ms, by number of workers: median / p99", some, _latency))
    papers = [(f"{p.paper}, {p.section}", f"{p.figure} ({p.text})") for p in stated()]
    return [*found, text_table("In the papers (not this machine)", papers)]


def _limit_table(limits: Limits) -> Table:
    title = "Limits of this machine: median (min - max)"
    table = titled(title, "at a time", "scans, G comparisons/s", "of as many alone", "copies, GB/s")
    for number, rates in limits.scans.items():
        alone = limits.scans.get(1)
        share = "" if alone is None else f"{rates.median / (number * alone.median):.2f}"
        copies = _thousandth(limits.copies[number]) if number in limits.copies else ""
        table.add_row(f"{number}", _thousandth(rates), share, copies)
    table.caption = "scans: processes that share nothing; copies: threads, bytes read and written"
    if limits.gpu_integers is not None:
        table.caption += f"; {limits.gpu}: {limits.gpu_integers.median / 1e6:,.3g} T integer multiply-adds/s"
    return table


def _thousandth(rates: Rates) -> str:
    return spread(_times(rates, 1e-3))


def _times(rates: Rates, factor: float) -> dict[str, float]:
    return {name: rates.figures()[name] * factor for name in ("median", "min", "max")}


def _scaled(cell: CellResults, entry: Entry, scale: float) -> str:
    factor = 1.0 if cell.cell.figure == TUPLES else scale * cell.cell.window
    return spread(_times(entry.rates, factor))


def _latency(cell: CellResults, entry: Entry) -> str:
    latency = entry.latency
    return f"{latency['median']:,.3g} / {latency['p99']:,.3g}"


def _names(cells: list[CellResults]) -> list[str]:
    """The contestants of some cells: numbers of workers in ascending order, then the others."""
    names = list(dict.fromkeys(entry.contestant.name for cell in cells for entry in cell.entries))
    return sorted((n for n in names if n.isdigit()), key=int) + [n for n in names if not n.isdigit()]


def _table(
    title: str, cells: list[CellResults], text: Callable[[CellResults, Entry], str],
    limit: dict[int, Rates] | None = None, scale: float = 1.0,
) -> Table:  # fmt: skip
    names = _names(cells)
    table = titled(title, "cell", *names)
    if limit:
        table.add_row(LIMIT, *(spread(_times(limit[int(n)], scale)) if _is_in(n, limit) else "" for n in names))
    for cell in cells:
        table.add_row(cell.cell.name, *("" if (e := cell.of(name)) is None else text(cell, e) for name in names))
    return table


def _efficiency_table(title: str, cells: list[CellResults], limit: dict[int, Rates] | None) -> Table:
    names = [name for name in _names(cells) if name.isdigit()]
    table = titled(title, "cell", *names)
    if limit and 1 in limit:
        one = limit[1].median
        each = (f"{limit[int(n)].median / (one * int(n)):.2f}" if _is_in(n, limit) else "" for n in names)
        table.add_row(LIMIT, *each)
    for cell in cells:
        row = []
        for name in names:
            entry = cell.of(name)
            share = None if entry is None else cell.efficiency(entry)
            row.append("" if share is None else f"{share:.2f}")
        table.add_row(cell.cell.name, *row)
    return table


def _is_in(name: str, limit: dict[int, Rates]) -> bool:
    return name.isdigit() and int(name) in limit
