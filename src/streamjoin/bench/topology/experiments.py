"""The experiments, each into the results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ...lab.model import papers_benchmark
from .costs import CostFeeds, hop_seconds, validated
from .gate import GATE_BATCHES, GATE_READERS, GATE_SOURCES, gate_throughput
from .latency import latency
from .results import TopologyResults
from .skew import CASES, skew
from .streams import BATCH, Feed, Setup
from .throughput import ALGORITHMS, LOW_LATENCY, bound, held_back, in_turns, measure, ratio

INDEX_TIMES = 8
"""The index is tried with windows that much larger, as the paper's are, and with larger batches."""
LATENCY_BATCHES = {LOW_LATENCY: (64, 4), "handshake": (64,)}
Say = Callable[[str], None]


@dataclass
class TopologySettings:
    experiments: list[str]
    window: int
    time_window: float
    workers: list[int]
    seconds: float
    seed: int


def _throughput(results: TopologyResults, settings: TopologySettings, say: Say) -> None:
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


def _bound(workers: int, settings: TopologySettings, say: Say) -> float:
    say(f"throughput: {workers} scanning alone")
    return bound(settings.window, workers, settings.seconds, settings.seed)


def _orders(results: TopologyResults, settings: TopologySettings, say: Say) -> None:
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


def _index(results: TopologyResults, settings: TopologySettings, say: Say) -> None:
    feed = Feed("equality", INDEX_TIMES * settings.window, INDEX_TIMES // 2 * BATCH, settings.seed)
    for index in ("scan", "hash", "bi-sort"):
        say(f"index: {index}")
        point = measure(feed, Setup(LOW_LATENCY, max(settings.workers), index), settings.seconds)
        results.index.append(point)
        point.more["to_scan"] = point.rate / results.index[0].rate


def _latency(results: TopologyResults, settings: TopologySettings, say: Say) -> None:
    size = settings.time_window
    for windows in ((size, size), (size / 2, size)):
        for algorithm, batches in LATENCY_BATCHES.items():
            for batch in batches:
                span = max(settings.seconds, size)
                found = latency(algorithm, max(settings.workers), windows, batch, span, settings.seed, say)
                results.latency.append(found)


def _scalejoin(results: TopologyResults, settings: TopologySettings, say: Say) -> None:
    for case in CASES:
        say(f"scalejoin: {case.name} rates")
        results.skew.append(skew(case, settings.seed))
    for batch in GATE_BATCHES:
        say(f"scalejoin: the gate, {batch} tuples at a time")
        results.gate[batch] = gate_throughput(GATE_SOURCES, GATE_READERS, batch, settings.seconds)


def _model(results: TopologyResults, settings: TopologySettings, say: Say) -> None:
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


EXPERIMENTS: dict[str, tuple[Callable[[TopologyResults, TopologySettings, Say], None], ...]] = {
    "throughput": (_throughput, _orders),
    "index": (_index,),
    "latency": (_latency,),
    "scalejoin": (_scalejoin,),
    "model": (_model,),
}
"""The steps of each experiment, in the order in which they run."""
