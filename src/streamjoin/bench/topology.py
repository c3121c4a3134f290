"""`streamjoin bench topology`: the papers' figures for the multi-core topologies, and a model of 1 to 256 cores.

    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.      uniform 1..10,000 (CellJoin)

    throughput   every topology against kernels that only scan; what punctuation and sorting cost
    index        an equality with low-latency handshake join, with and without an index
    latency      both handshake joins at half their highest rate, beside the model of handshake join's latency
    scalejoin    how evenly threads share the work of several physical streams, and the gate's own throughput
    model        `topology.model` with costs measured here: against the runs, and for the papers' core counts

How each is measured stands in `handshaking` and `scaling`. Rates are tuples of both streams per second of wall time,
except where they are said to be each stream's, as the papers give them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import Progress

from ..errors import ArgumentError
from ..lab.model import papers_benchmark
from ..reporting import plots
from .handshaking import ALGORITHMS, BATCH, Feed, Setup, held_back, in_turns, latency, measure, ratio
from .scaling import CASES, GATE_BATCHES, CostFeeds, bound, gate_throughput, hop_seconds, skew, validated
from .scan import machine
from .subwindow import Others, others_text, write_json
from .topology_report import GATE_READERS, GATE_SOURCES, LOW_LATENCY, Results, draw, tables

INDEX_TIMES = 8
"""The index is tried with windows that much larger, as the paper's are, and with larger batches."""
EXPERIMENTS = ("throughput", "index", "latency", "scalejoin", "model")
LATENCY_BATCHES = {LOW_LATENCY: (64, 4), "handshake": (64,)}


@dataclass
class Settings:
    experiments: list[str]
    window: int
    time_window: float
    workers: list[int]
    seconds: float
    seed: int


# -- experiments ---------------------------------------------------------------------------------------------------

Say = Callable[[str], None]


def _throughput(results: Results, settings: Settings, say: Say) -> None:
    feed = Feed("celljoin", settings.window, BATCH, settings.seed)
    for workers in settings.workers:
        bounds = [_bound(workers, settings, say)]
        for number, algorithm in enumerate(ALGORITHMS):
            say(f"throughput: {algorithm}, {workers} workers")
            point = measure(feed, Setup(algorithm, workers), settings.seconds)
            bounds.append(_bound(workers, settings, say))  # before and after each: the machine's speed may change
            results.throughput.append(point)
            point.more["of_bound"] = point.comparisons / (sum(bounds[-2:]) / 2)
            point.more["to_first"] = point.rate / results.throughput[number].rate
        results.bounds[workers] = median(bounds)


def _bound(workers: int, settings: Settings, say: Say) -> float:
    say(f"throughput: {workers} scanning alone")
    return bound(settings.window, workers, settings.seconds, settings.seed)


def _orders(results: Results, settings: Settings, say: Say) -> None:
    feed = Feed("celljoin", settings.window, BATCH, settings.seed)
    for algorithm, orders in ((LOW_LATENCY, ("none", "punctuated", "sorted")), ("handshake", ("none", "sorted"))):
        say(f"throughput: {algorithm}, orders {', '.join(orders)} in turns")
        setups = [Setup(algorithm, max(settings.workers), order=order, timed=True) for order in orders]
        points = in_turns(feed, setups, settings.seconds)
        for point in points:
            point.more["to_none"] = ratio(point, points[0])
            if point.setup.order == "sorted":
                point.more |= {"held_back": held_back(point, points[0]), "most_in_a_poll": max(point.found)}
        results.orders += points


def _index(results: Results, settings: Settings, say: Say) -> None:
    feed = Feed("equality", INDEX_TIMES * settings.window, INDEX_TIMES // 2 * BATCH, settings.seed)
    for index in ("scan", "hash", "bi-sort"):
        say(f"index: {index}")
        point = measure(feed, Setup(LOW_LATENCY, max(settings.workers), index), settings.seconds)
        results.index.append(point)
        point.more["to_scan"] = point.rate / results.index[0].rate


def _latency(results: Results, settings: Settings, say: Say) -> None:
    size = settings.time_window
    for windows in ((size, size), (size / 2, size)):
        for algorithm, batches in LATENCY_BATCHES.items():
            for batch in batches:
                span = max(settings.seconds, size)
                found = latency(algorithm, max(settings.workers), windows, batch, span, settings.seed, say)
                results.latency.append(found)


def _scalejoin(results: Results, settings: Settings, say: Say) -> None:
    for case in CASES:
        say(f"scalejoin: {case.name} rates")
        results.skew.append(skew(case, settings.seed))
    for batch in GATE_BATCHES:
        say(f"scalejoin: the gate, {batch} tuples at a time")
        results.gate[batch] = gate_throughput(GATE_SOURCES, GATE_READERS, batch, settings.seconds)


def _model(results: Results, settings: Settings, say: Say) -> None:
    if not results.throughput:
        _throughput(results, settings, say)
    say("model: a core's scan and a hop")
    alone, together = (bound(settings.window, n, settings.seconds, settings.seed) / n for n in (1, 2))
    hop, feeds = hop_seconds(), CostFeeds(settings.seed)
    for algorithm in ALGORITHMS:
        say(f"model: costs of {algorithm}")
        results.costs[algorithm] = feeds.measure(algorithm, alone, together, hop, settings.seconds / 2)
    measured = [run for run in results.latency if run.results]
    results.validation = validated(results.throughput, measured, results.costs)
    for lock in (True, False):
        for algorithm, costs in results.costs.items():
            say(f"model: {algorithm} on many cores, {'one interpreter' if lock else 'an interpreter per core'}")
            results.predictions += [
                {"algorithm": algorithm, "lock": lock, "cores": cores, "rate": rate,
                 "latency": mean if math.isfinite(mean) else None}
                for cores, rate, mean in papers_benchmark(algorithm, costs, 2 * BATCH, lock)
            ]  # fmt: skip


def run(
    console: Console, *, experiments: Iterable[str], window: int, time_window: float, workers: list[int],
    seconds: float, seed: int, json_file: Path | None = None, plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    if not (seconds > 0 and time_window > 0):
        raise ArgumentError(f"--seconds, --time-window: {seconds:g} and {time_window:g} will not do; give more than 0")
    if plots_directory is not None:
        plots.library()
    settings = Settings([e for e in EXPERIMENTS if e in experiments], window, time_window, workers, seconds, seed)
    about = machine()
    console.print(
        f"windows of {window:,} tuples, latency: {time_window:g} s; {seconds:g} s per point, seed {seed}; "
        f"{about['cpu']}, {os.cpu_count()} cores", markup=False, highlight=False,
    )  # fmt: skip
    results, started, others = Results(), time.perf_counter(), Others()
    steps: dict[str, list[Callable[[Results, Settings, Say], None]]] = {
        "throughput": [_throughput, _orders], "index": [_index], "latency": [_latency], "scalejoin": [_scalejoin],
        "model": [_model],
    }  # fmt: skip
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("topology", total=None)
        for experiment in settings.experiments:
            for step in steps[experiment]:
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
