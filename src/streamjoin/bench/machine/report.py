"""What was measured, as lines, tables and plots, with the papers' figures beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.table import Table

from ...reporting import plots
from ...reporting.measure import Rates
from ...reporting.tables import spread, text_table, titled
from .cells import COMPARISONS, LATENCY, TUPLES, short
from .contestants import GPU
from .papers import stated
from .results import MILLISECONDS, CellResults, Entry, Limits, MachineResults, said

UNITS = {TUPLES: ("M tuples/s", 1.0), COMPARISONS: ("G comparisons/s", 1e-3)}
LIMIT = "limit: processes that only scan"


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
        texts += [f"{_busy(entry):.1f} cores busy", entry.chosen, entry.stopped]
        lines.append(", ".join(text for text in texts if text))
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


def draw(results: MachineResults, directory: Path) -> list[Path]:
    """Scans, joins with keys and latencies over the workers, beside the limits and the papers' figures."""
    written = []
    scans = [cell for cell in results.of(COMPARISONS) if cell.cell.kind == "celljoin"]
    if scans:
        points = _points(scans, lambda cell, entry: entry.rate * cell.cell.window / 1e9)
        points[LIMIT] = [(n, rates.median / 1e3) for n, rates in results.limits.scans.items()]
        for paper in stated():
            if paper.cores is not None and paper.comparisons is not None and paper.kind == "celljoin":
                points.setdefault(_paper(paper.paper), []).append((paper.cores, paper.comparisons / 1e9))
        written += plots.lines(
            directory / "machine-scan", points, "CellJoin's predicate by scanning", "workers", "G comparisons/s, median"
        )
    for window in dict.fromkeys(cell.cell.window for cell in results.of(TUPLES)):
        some = [cell for cell in results.of(TUPLES) if cell.cell.window == window]
        points = _points(some, lambda _, entry: entry.rate / 1e6)
        for paper in stated():
            if paper.cores is not None and paper.window is not None and paper.tuples_per_second is not None:
                label = _paper(f"{paper.paper}, {paper.kind}, W = {short(paper.window)}")
                points[label] = [(paper.cores, paper.tuples_per_second / 1e6)]
        title = f"joins with keys, one match, windows of {short(window)}"
        written += plots.lines(directory / f"machine-keys-{short(window)}", points, title, "workers")
    keyless = [cell for cell in results.of(COMPARISONS) if cell.cell.kind == "keyless"]
    if keyless:
        points = _points(keyless, lambda cell, entry: entry.rate * cell.cell.window / 1e9)
        title, unit = "a predicate without a key", "G comparisons/s, median"
        written += plots.lines(directory / "machine-keyless", points, title, "workers", unit)
    if latencies := results.of(LATENCY):
        points = _points(latencies, lambda _, entry: entry.latency["median"])
        title, unit = "batches of 64, from push to poll", "ms, median"
        written += plots.lines(directory / "machine-latency", points, title, "workers", unit)
    return written


def _points(cells: list[CellResults], of: Callable[[CellResults, Entry], float]) -> plots.Points:
    """A line for each cell, and one for its GPU, which is as high for every number of workers."""
    points: plots.Points = {}
    for results in cells:
        entries = [entry for entry in results.entries if entry.rates.rates]
        counted = [(e.contestant.workers, of(results, e)) for e in entries if e.contestant.workers is not None]
        if counted:
            points[results.cell.name] = [(workers, figure) for workers, figure in counted if workers]
        ends = {workers for workers, _ in counted if workers} or {1}
        for entry in entries:
            if entry.contestant.name == GPU:
                points[f"{results.cell.name}, GPU"] = [(end, of(results, entry)) for end in (min(ends), max(ends))]
    return points


def _paper(name: str) -> str:
    return f"paper: {name}"
