"""The command."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ...reporting import plots
from ...reporting.files import write_json
from ...reporting.measure import Others, machine
from ...reporting.tables import others_text, text_table
from .experiments import measure_all
from .measure import JoinRates
from .report import draw, entry_table, memory_table, system_table
from .results import PAPER, PanJoinSettings


def run(
    console: Console, *, windows: list[int], kinds: Iterable[str], batch: int, rounds: int, workers: list[int],
    indexes: Iterable[str], skew: bool, seed: int, quick: bool = False, json_file: Path | None = None,
    plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    if plots_directory is not None:
        plots.library()
    settings = PanJoinSettings(windows, list(kinds), batch, rounds, workers, list(indexes), skew, seed, quick)
    about = machine()
    console.print(
        f"count windows, batches of {batch:,} of each stream, up to {rounds} rounds or {settings.seconds:g} s each, "
        f"seed {seed}; {about['cpu']}, {os.cpu_count()} cores",
        markup=False, highlight=False,
    )  # fmt: skip
    started = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("panjoin", total=None)
        results = measure_all(settings, lambda text: progress.update(task, description=text))
    for kind in settings.kinds:
        for window in windows:
            same = [entry for entry in results.systems if (entry.kind, entry.window) == (kind, window)]
            if same:
                console.print(system_table(kind, window, same))
    if results.indexes:
        title = f"M tuples/s by index, windows of {settings.middle:,}: median (min - max)"
        console.print(entry_table(title, "join", results.indexes, lambda entry: entry.kind))
    if results.selectivity:
        title = f"M tuples/s by matches per tuple, band, windows of {results.selectivity[0].window:,}"
        selectivity: Callable[[JoinRates], str] = lambda entry: f"{entry.more['selectivity']}"  # noqa: E731
        console.print(entry_table(title, "S", results.selectivity, selectivity))
    if results.skew:
        title = "M tuples/s by distribution of the keys; hash: equality, else: band"
        console.print(entry_table(title, "keys", results.skew, lambda entry: str(entry.more["keys"])))
    console.print(memory_table(results.memory))
    console.print(text_table("In the paper (not this machine)", PAPER))
    for text in results.left_out:
        console.print(f"left out: {text}", markup=False, highlight=False)
    busy = [e for e in results.all if e.others is not None and e.others > Others.WARN]
    console.print(others_text(results.others), markup=False, highlight=False)
    if busy:
        console.print(f"{len(busy)} of {len(results.all)} contestants ran beside others (see the column): not valid.")
    console.print(
        "All counts of results were right in the first and in the last round of every contestant; "
        f"{time.perf_counter() - started:.0f} s in all."
    )
    figures = {"machine": about | {"cores": str(os.cpu_count())}, "settings": asdict(settings), **results.figures()}
    write_json(json_file, figures)
    if plots_directory is not None:
        for file in draw(figures, plots_directory):
            console.print(f"wrote {file}", markup=False, highlight=False)
