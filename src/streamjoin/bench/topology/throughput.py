"""Throughput."""

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
ALGORITHMS = ("celljoin", "handshake", "low-latency-handshake", "splitjoin", "scalejoin")
LEAST_ROUNDS = 3
FRESH = 64
"""Batches that probe in the bound before the first comes again."""


@dataclass
class Point:
    """A contestant's rounds."""

    setup: Setup
    window: int
    batch: int
    rates: Rates = field(default_factory=Rates)
    found: list[int] = field(default_factory=list)
    """Results of each round, the first one to warm up."""
    busy: list[float] = field(default_factory=list)
    """Seconds that all workers together were busy in each round."""
    made: int = 0
    """Comparisons, those of tuples that are in no window included."""
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
        """AssertionError if results are missing or too many."""
        point, setup = self.point, self.point.setup
        rest = int(self._opened.finish().num_rows)
        expected = self._feed.expected(setup.timed)[: 1 + len(point.found)]
        name = f"{setup.algorithm}, {setup.workers} workers, {setup.index}, order {setup.order}"
        check(name, self._filling + sum(point.found) + rest, sum(expected))
        if setup.algorithm != "handshake" and setup.order != "sorted":
            for found, right in zip([self._filling, *point.found], expected, strict=True):
                check(name, found, right)


def in_turns(feed: Feed, setups: Sequence[Setup], seconds: float) -> list[Point]:
    """Fill all, one round each to warm up, then rounds in turns until each has run for so long: a machine whose speed
    changes treats all alike."""
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
    """How fast one was beside another that ran in turns with it: the median over rounds."""
    return float(np.median(np.array(point.rates.rates) / np.array(other.rates.rates)))


def _busy(metrics: dict[str, Any]) -> float:
    """Seconds that all workers have worked."""
    return sum(worker.get("busy_s", 0.0) for worker in metrics["workers"])


def held_back(sorted_: Point, unsorted: Point) -> int:
    """The largest number of results that one had given after a round and the other had not."""
    rounds = min(len(sorted_.found), len(unsorted.found))
    return max(0, int(np.max(np.cumsum(unsorted.found[:rounds]) - np.cumsum(sorted_.found[:rounds]))))


def bound(window: int, threads: int, seconds: float, seed: int) -> float:
    """Comparisons per second of so many threads that have a share of both windows each and scan at once, with fresh
    tuples and with nothing to tell each other."""
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
