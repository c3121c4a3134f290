"""The command."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ...errors import ArgumentError
from ...reporting import plots
from ...reporting.files import write_json
from ...reporting.measure import Others, machine
from ...reporting.tables import others_text
from .experiments import EXPERIMENTS, TopologySettings
from .report import draw, tables
from .results import TopologyResults


def run(
    console: Console, *, experiments: Iterable[str], window: int, time_window: float, workers: list[int],
    seconds: float, seed: int, json_file: Path | None = None, plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    if not (seconds > 0 and time_window > 0):
        raise ArgumentError(
            f"--seconds, --time-window: {seconds:g} and {time_window:g} are not valid; give more than 0"
        )
    if plots_directory is not None:
        plots.library()
    settings = TopologySettings(
        [e for e in EXPERIMENTS if e in experiments], window, time_window, workers, seconds, seed
    )
    about = machine()
    console.print(
        f"windows of {window:,} tuples, latency: {time_window:g} s; {seconds:g} s per point, seed {seed}; "
        f"{about['cpu']}, {os.cpu_count()} cores", markup=False, highlight=False,
    )  # fmt: skip
    results, started, others = TopologyResults(), time.perf_counter(), Others()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("topology", total=None)
        for experiment in settings.experiments:
            for step in EXPERIMENTS[experiment]:
                step(results, settings, lambda text: progress.update(task, description=text))
    results.others = others.cores()
    for table in tables(results):
        console.print(table)
    console.print(others_text(results.others), markup=False, highlight=False)
    console.print(f"All counts of results were right in every run; {time.perf_counter() - started:.0f} s in all.")
    figures = {"machine": about | {"cores": str(os.cpu_count())}, "settings": asdict(settings), **results.figures()}
    write_json(json_file, figures)
    if plots_directory is not None:
        for file in draw(results, plots_directory):
            console.print(f"wrote {file}", markup=False, highlight=False)
