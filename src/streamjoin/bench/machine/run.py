"""`streamjoin bench machine`: measures, prints a line for each contestant and the tables, writes the figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from ...errors import ArgumentError
from ...reporting import plots
from ...reporting.files import write_json
from ...reporting.measure import Others, machine
from .cells import chosen_cells
from .contestants import contestants, cores, knows_devices, usual_workers
from .gpu import gpu_name
from .limits import measure_limits
from .measure import measure
from .pictures import draw, read
from .report import cell_lines, limit_lines, tables
from .results import MachineResults, MachineSettings


def run(
    console: Console, *, cells: Sequence[str], workers: Sequence[int] | None, laps: int, seconds: float, limit: float,
    seed: int, quick: bool = False, json_file: Path | None = None, plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print, and write the figures, also after each cell.

    AssertionError if contestants found wrong numbers of results.
    """
    if not (seconds > 0 and limit > 0):
        raise ArgumentError(f"--seconds, --limit: {seconds:g} and {limit:g} are not valid; give more than 0")
    if plots_directory is not None:
        plots.library()
    gpu = gpu_name()
    gpu_joins = gpu is not None and knows_devices()
    chosen = chosen_cells(cells, quick, gpu_joins)
    counted = sorted(set(workers or usual_workers()))
    settings = MachineSettings([cell.name for cell in chosen], counted, laps, seconds, limit, seed, quick)
    about = machine() | {"cores": str(cores()), "gpu": gpu or "none"}
    _say(
        console,
        f"{len(chosen)} cells, workers {', '.join(map(str, counted))}, {laps} laps and {seconds:g} s for each "
        f"contestant, seed {seed}; {about['cpu']}, {about['cores']} cores, GPU: {about['gpu']}",
    )
    started, results = time.perf_counter(), MachineResults()
    first = {"machine": about, "settings": asdict(settings)}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("machine", total=len(chosen))

        def doing(text: str) -> None:
            progress.update(task, description=text)

        results.limits = measure_limits(counted, gpu, laps, seconds, seed, doing)
        for line in limit_lines(results.limits):
            _say(progress.console, line)
        write_json(json_file, first | results.figures())
        for cell in chosen:
            results.cells.append(measure(cell, contestants(cell, counted, gpu_joins), settings, doing))
            for line in cell_lines(results.cells[-1]):
                _say(progress.console, line)
            progress.advance(task)
            write_json(json_file, first | results.figures())
    for table in tables(results):
        console.print(table)
    _conclude(console, results, time.perf_counter() - started)
    if plots_directory is not None:
        _draw(console, results.figures(), plots_directory)
    if results.wrong:
        raise AssertionError("; ".join(results.wrong))


def redraw(console: Console, file: Path, plots_directory: Path | None) -> None:
    """Draw the figures of an earlier run, which may be of another machine."""
    if plots_directory is None:
        raise ArgumentError("--from: the plots of an earlier run go to a directory; add --plots DIR")
    plots.library()
    _draw(console, read(file), plots_directory)


def _draw(console: Console, figures: dict[str, Any], directory: Path) -> None:
    for file in draw(figures, directory):
        _say(console, f"wrote {file}")


def _conclude(console: Console, results: MachineResults, seconds: float) -> None:
    for text in results.stopped():
        _say(console, f"stopped: {text}")
    for text in results.not_monotone():
        _say(console, f"NOT MONOTONE: {text}")
    if not results.not_monotone():
        _say(console, "Monotone: no number of workers is over 10% slower than a smaller one.")
    busy = [cell.cell.name for cell in results.cells if cell.others is not None and cell.others > Others.WARN]
    if busy:
        _say(console, f"OTHER PROGRAMS RAN BESIDE {', '.join(busy)}: do not rely on their figures.")
    if not results.wrong:
        _say(console, f"All counts of results were right; {seconds:.0f} s in all.")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
