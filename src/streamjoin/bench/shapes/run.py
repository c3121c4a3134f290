"""`streamjoin bench shapes`: measures, prints the table and the worst cells, writes the figures."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from ...reporting import plots
from ...reporting.files import write_json
from ...reporting.measure import machine
from .cells import chosen_cells
from .experiments import measure_all
from .report import cell_line, draw, shape_table, summary_lines
from .results import ShapesResults, ShapesSettings
from .work import Sizes


def run(
    console: Console, *, cells: Sequence[str], laps: int, seconds: float, limit: float, rows: int, scale: float,
    data: Path, seed: int, quick: bool = False, json_file: Path | None = None, plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print, and write the figures, also after each cell.

    AssertionError if contestants failed or found different results.
    """
    if plots_directory is not None:
        plots.library()
    chosen = chosen_cells(cells, quick)
    settings = ShapesSettings([cell.name for cell in chosen], laps, seconds, limit, rows, scale, seed, quick)
    about = machine()
    console.print(
        f"{len(chosen)} cells, {laps} laps and {seconds:g} s for each contestant, tables at a scale of {scale:g}, "
        f"seed {seed}; {about['cpu']}, {os.cpu_count()} cores",
        markup=False, highlight=False,
    )  # fmt: skip
    started = time.perf_counter()
    first = {"machine": about | {"cores": str(os.cpu_count())}, "settings": asdict(settings)}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("shapes", total=len(chosen))

        def done(some: ShapesResults) -> None:
            progress.console.print(cell_line(some.cells[-1]), markup=False, highlight=False)
            progress.advance(task)
            write_json(json_file, first | some.figures())

        sizes = Sizes(seed, rows, scale, data)
        results = measure_all(settings, sizes, chosen, lambda text: progress.update(task, description=text), done)
    console.print(shape_table(results.cells))
    for text in results.left_out:
        console.print(f"left out: {text}", markup=False, highlight=False)
    loads = [cell.others for cell in results.cells if cell.others is not None]
    for line in summary_lines(results.summary(), float(np.mean(loads)) if loads else None):
        console.print(line, markup=False, highlight=False)
    console.print(f"{time.perf_counter() - started:.0f} s in all.", markup=False, highlight=False)
    figures = first | results.figures()
    write_json(json_file, figures)
    if plots_directory is not None:
        for file in draw(figures, plots_directory):
            console.print(f"wrote {file}", markup=False, highlight=False)
    if results.wrong:
        raise AssertionError("contestants must not fail, and must find the same: " + "; ".join(results.wrong))
