"""What was measured, as tables and plots."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.table import Table

from ...reporting import plots
from ...reporting.tables import spread, titled
from .convergence import ADJUSTMENTS
from .measure import Measured
from .results import TARGETS


def grid_table(size: int, entries: list[Measured]) -> Table:
    title = f"M tuples/s, N = {size:,}: median (min - max). Inserting: the last batches before the subwindow is full"
    columns = "contestant", "batch", "insert", "probe meanwhile", "insert + probe", "fill, seal", "probe, full", "cpu"
    table = titled(title, *columns)
    batch = None
    for entry in entries:
        if batch not in (None, entry.batch):
            table.add_section()
        batch = entry.batch
        cpu = sum(rates.cpu for rates in (entry.insert, entry.probe_filling, entry.probe))
        wall = sum(rates.wall for rates in (entry.insert, entry.probe_filling, entry.probe))
        fill = "" if entry.fill is None else f"{entry.fill:.3g}"
        table.add_row(
            entry.contestant, f"{batch:,}", spread(entry.insert), spread(entry.probe_filling),
            spread(entry.insert_probe), fill, spread(entry.probe), f"{cpu / max(wall, 1e-9):.0%}",
        )  # fmt: skip
    table.caption = (
        "probe: one match per range on average. np.searchsorted finds positions, no pairs. fill, seal: all insertions "
        "from empty on, and sealing. cpu: CPU time per wall time; well under 100%: others were using this core"
    )
    return table


def ratio_table(ratios: list[dict[str, Any]]) -> Table:
    title = f"Ratios. Targets: {TARGETS['probe']:g}x np.searchsorted, {TARGETS['insert_probe']:g}x C++"
    columns = (
        "index",
        "N",
        "batch",
        "probe / searchsorted",
        "/ argsort + it",
        "insert + probe / C++",
        "all rounds",
        "fill / C++",
    )
    table = titled(title, *columns, "probe / C++")
    for entry in ratios:
        texts = [spread(entry[key]) for key in ("probe_to_searchsorted", "probe_to_sorted_searchsorted")]
        cpp = entry.get("insert_probe_to_cpp")
        texts += [spread(cpp), f"{cpp['overall']:.3g}"] if cpp else ["", ""]
        fill = f"{entry['fill_to_cpp']:.3g}" if "fill_to_cpp" in entry else ""
        probe = spread(entry["probe_to_cpp"]) if "probe_to_cpp" in entry else ""
        table.add_row(entry["contestant"], f"{entry['size']:,}", f"{entry['batch']:,}", *texts, fill, probe)
    table.caption = (
        "probe: of the full subwindow. searchsorted gets the ranges unsorted, as they come; argsort + it puts them in "
        "order first. insert + probe: the last batches before the subwindow is full, median (min - max) and all rounds "
        "together, since merges fall into a few rounds; fill: from empty on, sealing included"
    )
    return table


def sweep_table(what: str, entries: list[Measured]) -> Table:
    letter = "P" if what == "partitions" else "S"
    title = f"M tuples/s by {what}, N = {entries[0].size:,}, batches of {entries[0].batch:,}: median (min - max)"
    table = titled(title, "contestant", letter, "insert", "probe meanwhile", "probe, full")
    for entry in entries:
        number = entry.partitions if what == "partitions" else entry.selectivity
        cells = spread(entry.insert), spread(entry.probe_filling), spread(entry.probe)
        table.add_row(entry.contestant, f"{number:,}", *cells)
    if what == "partitions":
        table.caption = "WiB+-Tree: leaves of N / P words, which are half to wholly full: P is approximate"
    return table


def convergence_table(series: list[dict[str, Any]]) -> Table:
    title = f"RaP-Table: normalised MAE of the partitions' sizes after so many adjustments, N = {series[0]['size']:,}"
    table = titled(title, "distribution", "P", *map(str, range(ADJUSTMENTS + 1)), "by chance")
    for entry in series:
        errors = (f"{error:.3f}" for error in entry["errors"])
        table.add_row(entry["distribution"], f"{entry['partitions']:,}", *errors, f"{entry['chance']:.3f}")
    return table


def draw(figures: dict[str, Any], directory: Path) -> list[Path]:
    """Throughput over batch size, N, P and S, and the convergence of the splitters."""
    written = []
    grid = figures["grid"]
    for what, label in (("insert", "insertion"), ("probe", "band probe, full subwindow")):
        for size in dict.fromkeys(entry["size"] for entry in grid):
            points = plots.points_of(
                [entry for entry in grid if entry["size"] == size and what in entry],
                lambda entry: entry["contestant"], lambda entry: entry["batch"], what,
            )  # fmt: skip
            written += plots.lines(
                directory / f"subwindow-{what}-n{size}", points, f"{label}, N = {size:,}, one thread", "batch"
            )
        for batch in [max(entry["batch"] for entry in grid)] if grid else []:
            points = plots.points_of(
                [entry for entry in grid if entry["batch"] == batch and what in entry],
                lambda entry: entry["contestant"], lambda entry: entry["size"], what,
            )  # fmt: skip
            title = f"{label}, batches of {batch:,}, one thread"
            written += plots.lines(directory / f"subwindow-{what}-by-n", points, title, "N")
    for sweep, letter in (("partitions", "P"), ("selectivity", "S")):
        for what in ("insert", "probe"):
            chosen = [entry for entry in figures[sweep] if what in entry]
            if not chosen or (sweep == "selectivity" and what == "insert"):
                continue
            points = plots.points_of(chosen, lambda e: e["contestant"], itemgetter(sweep), what)
            title = f"{what}, N = {chosen[0]['size']:,}, batches of {chosen[0]['batch']:,}"
            written += plots.lines(directory / f"subwindow-{what}-by-{sweep}", points, title, letter)
    errors: plots.Points = {
        f"{entry['distribution']}, P = {entry['partitions']:,}": list(enumerate(entry["errors"]))
        for entry in figures["convergence"]
    }
    title = "RaP-Table: error of the partitions' sizes"
    written += plots.lines(
        directory / "subwindow-convergence", errors, title, "adjustments", "normalised MAE", log_x=False
    )
    return written
