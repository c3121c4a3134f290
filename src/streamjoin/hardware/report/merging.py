"""PanJoin's BI-Sort worker (section IV; Figure 14) against the bandwidth of its memory, with 1 to 16 mergers and
probers: "more mergers or probers can not provide better performance because these 16 units are enough to fully utilize
the memory bandwidth" (section V-B, 8 of each).

The bound of a command is the fewest clocks in which the memory could have moved the words that it moved, of which it
moves `BANDWIDTH` per clock; `of_bound` is the bound over the clocks taken, so 1.0 is a memory that never waits. A
merger reads and writes a tuple per clock at best, so 4 mergers could use 8 words per clock. The batch that is counted
goes into a subwindow that is half full, which is then probed for a band of keys. The tuples in the end and the places
found are checked against NumPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ...reporting import plots
from ...reporting.tables import titled
from ..bi_sort import BiSortRun, BiSortShape, Insert, Probe, simulate_bi_sort
from ..bi_sort.steps import Step
from ..synthesis import Say
from .common import Entries, Experiment

UNITS, QUICK_UNITS = (1, 2, 4, 8, 16), (1, 2)
SHAPE, QUICK_SHAPE = (8192, 128, 1024), (256, 16, 64)
"""Tuples of a subwindow, partitions, tuples of a batch."""
BANDWIDTH, LATENCY = 8, 8
BAND = 1 << 20
NAMES = {"insert": "insertion", "probe": "probing"}


def measure_units(units: int, sizes: tuple[int, int, int], seed: int) -> list[dict[str, Any]]:
    """Insert into a subwindow that is half full, then probe it."""
    subwindow, partitions, batch = sizes
    shape = BiSortShape(subwindow=subwindow, partitions=partitions, batch=batch, mergers=units, probers=units)
    rng = np.random.default_rng(seed)
    batches = [np.sort(rng.integers(-(1 << 31), 1 << 31, batch)) for _ in range(subwindow // 2 // batch + 2)]
    steps: list[Step] = [*(Insert(keys) for keys in batches[:-1]), Probe(batches[-1], BAND, BAND)]
    done = simulate_bi_sort(steps, shape, latency=LATENCY, bandwidth=BANDWIDTH)
    _check(done, batches)
    found = []
    for name, figures in zip(("insert", "probe"), done.figures[-2:], strict=True):
        found.append({
            "units": units, "operation": name, "tuples": figures.count, "stored": figures.size,
            "clocks": figures.cycles, "words": figures.words, "bound": figures.bound,
            "of_bound": figures.bound / figures.cycles, "clocks_per_tuple": figures.cycles / figures.count,
        })  # fmt: skip
    return found


def _check(done: BiSortRun, batches: list[Any]) -> None:
    stored = np.sort(np.concatenate(batches[:-1]))
    assert np.array_equal(done.keys, stored), "the worker's main array is not the sorted tuples"
    starts, ends = done.intervals[0].T
    places = np.searchsorted(stored, batches[-1] - BAND), np.searchsorted(stored, batches[-1] + BAND, "right")
    filled = starts < ends
    assert np.array_equal(ends - starts, places[1] - places[0]), "the worker's probe finds another number of tuples"
    assert np.array_equal(starts[filled], places[0][filled]), "the worker's probe finds other tuples"


def _measure(quick: bool, say: Say) -> Entries:
    entries: Entries = []
    for units in QUICK_UNITS if quick else UNITS:
        say(f"bi-sort: {units} mergers and probers")
        entries += measure_units(units, QUICK_SHAPE if quick else SHAPE, seed=1)
    return entries


def _tables(entries: Entries) -> list[Table]:
    title = f"BI-Sort worker, memory of {BANDWIDTH} words per clock and a latency of {LATENCY}"
    table = titled(title, "operation", "units", "tuples", "stored", "clocks", "bound", "of the bound", "clocks/tuple")
    for name, label in NAMES.items():
        for entry in (entry for entry in entries if entry["operation"] == name):
            table.add_row(
                label, f"{entry['units']}", f"{entry['tuples']:,}", f"{entry['stored']:,}",
                f"{entry['clocks']:,}", f"{entry['bound']:,}", f"{entry['of_bound']:.0%}",
                f"{entry['clocks_per_tuple']:.2f}",
            )  # fmt: skip
        table.add_section()
    return [table]


def _draw(entries: Entries, directory: Path) -> list[Path]:
    points: plots.Points = {}
    for entry in entries:
        for what, label in (("clocks", NAMES[entry["operation"]]), ("bound", f"{NAMES[entry['operation']]}, bound")):
            points.setdefault(label, []).append((entry["units"], entry[what]))
    return plots.lines(directory / "hardware-bi-sort", points, "BI-Sort worker", "mergers and probers", "clocks")


BI_SORT = Experiment(
    "PanJoin's BI-Sort worker against the bandwidth of its memory (PanJoin, Fig. 14)", _measure, _tables, _draw,
    (("PanJoin, section V-B, Arria 10, 2 channels of DDR3", "8 mergers and 8 probers use the memory's bandwidth fully; "
      "insertion 0.4 to 0.6 of the throughput on 8 CPU cores; 42% of the logic, 31% of the block RAM"),),
)  # fmt: skip
