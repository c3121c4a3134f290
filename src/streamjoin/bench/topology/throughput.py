"""Throughput of the topologies, with and without indexes (handshake join, Figs. 15 and 16; low-latency handshake join,
Fig. 17 and Table 2).

Windows are full before the first round. In a round, a batch of fresh tuples of each stream is pushed and all results
are polled. Rates in comparisons count those that the join needs (tuples times window), not those that were made.

The number of results is checked in every round against a three-step join with an index. NumPy checks that join, with
count windows, in the first and the last round. Handshake join finds pairs late, and sorted results come late. For
these, only the sum after the end of the streams is checked.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...engine.window_join import WindowJoin
from ...reporting.measure import Others, Rates, check
from ...side import SIDES
from ..compiled_scan import CompiledScan
from ..workloads import CELLJOIN_SQL, celljoin_tuples
from .streams import BATCH, MOST_ROUNDS, Feed, Setup, stepped

LOW_LATENCY = "low-latency-handshake"
ALGORITHMS = ("celljoin", "handshake", LOW_LATENCY, "splitjoin", "scalejoin")
LEAST_ROUNDS = 3
FRESH = 64
"""Different batches that the bound probes with, before it starts again with the first."""


@dataclass
class Point:
    """A contestant's rounds."""

    setup: Setup
    window: int
    batch: int
    rates: Rates = field(default_factory=Rates)
    found: list[int] = field(default_factory=list)
    """Results of each round; the first round warms up."""
    busy: list[float] = field(default_factory=list)
    """Busy seconds of each round, summed over all workers."""
    made: int = 0
    """Comparisons, including those with tuples that have left the window."""
    others: float | None = None
    more: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Tuples of both streams per second."""
        return self.rates.median * 1e6

    @property
    def comparisons(self) -> float:
        return self.rate * self.window

    def figures(self) -> dict[str, Any]:
        return {
            **vars(self.setup), "window": self.window, "batch": self.batch, "tuples_per_second": self.rate,
            "comparisons_per_second": self.comparisons, "results": sum(self.found), "others_cores": self.others,
            "rates": self.rates.figures(), "busy_seconds": self.busy, "comparisons_made": self.made, **self.more,
        }  # fmt: skip


class _Entrant:
    """A contestant at work."""

    def __init__(self, feed: Feed, setup: Setup, opened: WindowJoin) -> None:
        self.point = Point(setup, feed.window, feed.batch)
        self._feed, self._opened = feed, opened
        self._filling = feed.filled(opened, setup.timed)
        self._rounds = feed.rounds(setup.timed)

    def round(self, warming_up: bool) -> None:
        point, opened, tables = self.point, self._opened, next(self._rounds)
        before = opened.metrics()
        with point.rates.round(2 * point.batch, by_cpu=False):
            point.found.append(stepped(opened, tables))
        if warming_up:
            point.rates = Rates()
            return
        after = opened.metrics()
        point.busy.append(_busy(after) - _busy(before))
        point.made += after["comparisons"] - before["comparisons"]

    def finish(self) -> None:
        """End the streams; AssertionError if the number of results is wrong."""
        point, setup = self.point, self.point.setup
        rest = int(self._opened.finish().num_rows)
        expected = self._feed.expected(setup.timed)[: 1 + len(point.found)]
        name = f"{setup.algorithm}, {setup.workers} workers, {setup.index}, order {setup.order}"
        check(name, self._filling + sum(point.found) + rest, sum(expected))
        if setup.algorithm != "handshake" and setup.order != "sorted":
            for found, right in zip([self._filling, *point.found], expected, strict=True):
                check(name, found, right)


def in_turns(feed: Feed, setups: Sequence[Setup], seconds: float) -> list[Point]:
    """Fill all windows, run one round each to warm up, then rounds in turns until each has run for `seconds`. Taking
    turns is fair if the machine's speed changes."""
    with ExitStack() as stack:
        runs = [_Entrant(feed, setup, stack.enter_context(feed.open(setup))) for setup in setups]
        gc.collect()
        others = Others()
        for number in range(MOST_ROUNDS):
            for run in runs:
                run.round(warming_up=number == 0)
            if number >= LEAST_ROUNDS and min(run.point.rates.wall for run in runs) > seconds:
                break
        for run in runs:
            run.point.others = others.cores()
        for run in runs:
            run.finish()
    return [run.point for run in runs]


def measure(feed: Feed, setup: Setup, seconds: float) -> Point:
    """One contestant alone."""
    return in_turns(feed, [setup], seconds)[0]


def ratio(point: Point, other: Point) -> float:
    """The median ratio of the rates, round by round, of two contestants that ran in turns."""
    return float(np.median(np.array(point.rates.rates) / np.array(other.rates.rates)))


def _busy(metrics: dict[str, Any]) -> float:
    """Busy seconds so far, summed over all workers."""
    return sum(worker.get("busy_s", 0.0) for worker in metrics["workers"])


def held_back(sorted_: Point, unsorted: Point) -> int:
    """The largest number of results, after any round, that the unsorted join had given and the sorted one had not."""
    rounds = min(len(sorted_.found), len(unsorted.found))
    return max(0, int(np.max(np.cumsum(unsorted.found[:rounds]) - np.cumsum(sorted_.found[:rounds]))))


def bound(window: int, threads: int, seconds: float, seed: int) -> float:
    """The upper bound: comparisons per second of threads that scan their shares of both windows all at once and do not
    communicate."""
    share = max(window // threads, 1)
    ready = threading.Barrier(threads)
    rates = [0.0] * threads

    def scan(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        scans = [CompiledScan(CELLJOIN_SQL, side, celljoin_tuples(rng, share)) for side in SIDES]
        fresh = [celljoin_tuples(rng, BATCH) for _ in range(FRESH)]
        for one in scans:
            one(fresh[-1])
        ready.wait()
        started, turn = time.perf_counter(), 0
        while not turn or time.perf_counter() - started < seconds:
            scans[turn % 2](fresh[turn % FRESH])
            turn += 1
        rates[number] = turn * BATCH * share / (time.perf_counter() - started)

    crew = [threading.Thread(target=scan, args=(number,)) for number in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return sum(rates)
