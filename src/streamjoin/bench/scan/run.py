"""The command."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ...reporting.files import write_json
from ...reporting.measure import machine
from ..cpp.band_join import CppBandJoin
from ..workloads import CELLJOIN_SQL
from .contestants import PREDICATES
from .measure import end_to_end, measure
from .report import PAPERS, end_to_end_table, paper_table, series_table


def run(
    console: Console, *, window: int, probes: list[int], rounds: int, seed: int, json_file: Path | None = None
) -> None:
    """Measure, print the tables, and write the figures."""
    try:
        cpp: CppBandJoin | None = CppBandJoin()
    except RuntimeError as error:
        cpp = None
        console.print(f"C++ baseline left out: {error}", markup=False)
    about = machine() | ({"compiler": cpp.compiler, "avx512": str(cpp.avx512)} if cpp else {})
    console.print(CELLJOIN_SQL, markup=False, highlight=False)
    console.print(f"window {window:,} tuples, one core, seed {seed}; {about['cpu']}", markup=False, highlight=False)
    per_round = 2 * (len(PREDICATES) + 1 + (cpp is not None))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scan", total=len(probes) * (rounds + 1) * per_round + len(probes))
        measured = []
        for count in probes:
            series = measure(window, count, rounds, seed, cpp, lambda: progress.advance(task))
            measured.append((count, series))
        whole = []
        for batch in dict.fromkeys([64, 1024]):
            whole.append(end_to_end(window, batch, max(3, rounds * 64 // batch), seed))
            progress.advance(task)
    for count, series in measured:
        console.print(series_table(count, series))
    console.print(end_to_end_table(window, whole))
    console.print(paper_table())
    console.print("In every round all contestants found the same pairs.")
    figures = {
        "machine": about, "predicate": CELLJOIN_SQL, "window": window, "rounds": rounds, "seed": seed,
        "scan": [{"probes": count, **entry.figures()} for count, series in measured for entry in series],
        "end_to_end": [entry.figures() for entry in whole],
        "papers": dict(PAPERS),
    }  # fmt: skip
    write_json(json_file, figures)
