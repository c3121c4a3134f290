"""The command."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ...reporting import plots
from ...reporting.files import write_json
from ...reporting.measure import machine
from ...reporting.tables import others_text, text_table
from ...store.words import PLACE_BITS
from .experiments import measure_all
from .report import convergence_table, draw, grid_table, ratio_table, sweep_table
from .results import PAPER


def run(
    console: Console, *, sizes: list[int], batches: list[int], rounds: int, seed: int, quick: bool = False,
    json_file: Path | None = None, plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    if plots_directory is not None:
        plots.library()
    about = machine()
    console.print(f"one subwindow, one thread, seed {seed}; {about['cpu']}", markup=False, highlight=False)
    console.print(
        f"32-bit keys, uniform; {rounds} rounds; words of {PLACE_BITS} place bits, more where a subwindow has over "
        f"{1 << PLACE_BITS:,} tuples",
        markup=False, highlight=False,
    )  # fmt: skip
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("subwindow", total=None)
        results = measure_all(sizes, batches, rounds, seed, quick, lambda text: progress.update(task, description=text))
    for size in sizes:
        console.print(grid_table(size, [entry for entry in results.grid if entry.size == size]))
    console.print(ratio_table(results.ratios()))
    if results.partitions:
        console.print(sweep_table("partitions", results.partitions))
    console.print("BI-Sort's partitions are always 16 words: there is no P to choose.")
    if results.selectivity:
        console.print(sweep_table("selectivity", results.selectivity))
    console.print(convergence_table(results.convergence))
    console.print(text_table("In the paper (not this machine)", PAPER))
    for text in results.left_out:
        console.print(f"left out: {text}", markup=False)
    console.print(others_text(results.others), markup=False, highlight=False)
    console.print("In every round all contestants found as many pairs as np.searchsorted counts.")
    about |= {"compiler": results.compiler} if results.compiler else {}
    settings = {"sizes": sizes, "batches": batches, "rounds": rounds, "seed": seed, "quick": quick}
    figures = {"machine": about, "settings": settings, **results.figures()}
    write_json(json_file, figures)
    if plots_directory is not None:
        for file in draw(figures, plots_directory):
            console.print(f"wrote {file}", markup=False, highlight=False)
