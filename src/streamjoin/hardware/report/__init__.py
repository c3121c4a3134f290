"""`streamjoin hardware report`: the papers' figures for the FPGA designs, measured on circuits and simulations here.

    area         LUT, FF and RAM by the number of cores
    frequency    the highest clock frequency by the number of cores, and what limits it
    throughput   output and input throughput over the match rate, and what the variants of the design gain
    power        what power depends on, counted
    windows      windows in block RAM instead of shift registers
    bi-sort      PanJoin's BI-Sort worker against its memory's bandwidth

How each is measured stands in its module. Nothing here depends on the machine: figures are cells, clocks and the timing
of a chip. What the tools made is kept, so a second run takes seconds, but for the simulations.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from ...errors import ArgumentError
from ...reporting import plots
from ...reporting.files import write_json
from ...reporting.tables import text_table
from .chip import AREA, FREQUENCY
from .common import Experiment
from .merging import BI_SORT
from .power import POWER
from .throughput import THROUGHPUT
from .windows import WINDOWS

EXPERIMENTS: dict[str, Experiment] = {
    "area": AREA,
    "frequency": FREQUENCY,
    "throughput": THROUGHPUT,
    "power": POWER,
    "windows": WINDOWS,
    "bi-sort": BI_SORT,
}


def run(
    console: Console, *, experiments: Iterable[str], quick: bool = False, json_file: Path | None = None,
    plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    chosen = list(experiments)
    for name in chosen:
        if name not in EXPERIMENTS:
            raise ArgumentError(f"--experiments: there is no {name!r}; there are {', '.join(EXPERIMENTS)}")
    if plots_directory is not None:
        plots.library()
    figures: dict[str, Any] = {"settings": {"experiments": chosen, "quick": quick}}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("hardware", total=None)
        for name in chosen:
            experiment, started = EXPERIMENTS[name], time.perf_counter()
            entries = experiment.measure(quick, lambda text: progress.update(task, description=text))
            figures[name] = {"about": experiment.about, "figures": entries, "paper": dict(experiment.paper)}
            write_json(json_file, figures)
            for table in experiment.tables(entries):
                console.print(table)
            console.print(text_table("In the papers", experiment.paper))
            if plots_directory is not None:
                for file in experiment.draw(entries, plots_directory):
                    console.print(f"wrote {file}", markup=False, highlight=False)
            console.print(f"{name}: {time.perf_counter() - started:.0f} s", highlight=False)
