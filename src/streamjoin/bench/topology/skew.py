"""How evenly ScaleJoin's nodes share the work of several physical streams (ScaleJoin, Figs. 6 and 8).

A `Gate` merges the physical streams of each side, and as many nodes as the paper has threads join them. Time is the
tuples' time, not the clock's. There may be more nodes than cores, because comparisons are counted and not timed. Once
the windows are full, each node's share is computed for every slice of time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...engine.replay import join
from ...engine.window_join import WindowJoin
from ...parallel.gate import Gate
from ...reporting.measure import check
from ...side import SIDES
from ..workloads import CELLJOIN_SQL, celljoin_tuples
from .streams import MICROSECONDS, STREAM_SCHEMAS

Rate = Callable[[Array], Array]
"""A stream's rate, in tuples per second, at the given times."""
WINDOW_SECONDS, SPAN, SLICE = 5, 20, 1
"""Seconds of the tuples' time: the windows, the whole run, and a slice."""


@dataclass(frozen=True)
class Case:
    """The physical streams of each side, and the paper's number of threads."""

    name: str
    threads: int
    left: tuple[Rate, ...]
    right: tuple[Rate, ...]
    paper: str


def constant(rate: float) -> Rate:
    return lambda t: np.full(len(t), rate)


def waves(rate: float, amplitude: float, period: float) -> Rate:
    return lambda t: rate + amplitude * np.sin(2 * np.pi * t / period)


def peaks(rate: float, every: float, times: float) -> Rate:
    """Peaks of `times` the rate, for a tenth of every period."""
    return lambda t: np.where(t % every < every / 10, times * rate, rate)


CASES = (
    Case("constant", 10, (constant(1_200),), tuple(map(constant, (300, 250, 200, 150))), "std about 0.05%"),
    Case(
        "fluctuating", 12, (waves(400, 250, 7), waves(300, 200, 5), waves(300, 100, 3)),
        (waves(500, 300, 6), waves(400, 250, 4)), "std about 0.1%",
    ),
    Case(
        "bursty", 14, (peaks(250, 4, 6), peaks(200, 5, 8), constant(250), constant(200)),
        (peaks(500, 3, 5), constant(400)), "std about 0.1%",
    ),
)  # fmt: skip


@dataclass
class Skew:
    """How evenly the threads share the work; shares are in percent of the mean."""

    case: str
    threads: int
    sources: tuple[int, int]
    paper: str
    tuples: int = 0
    results: int = 0
    deviations: list[float] = field(default_factory=list)
    """The standard deviation in each slice."""
    differences: list[float] = field(default_factory=list)
    """The most work minus the least work, in each slice."""
    comparisons: list[int] = field(default_factory=list)
    """The total of each thread."""

    @property
    def deviation(self) -> float:
        return _percent(float(np.std(self.comparisons)), self.comparisons)

    @property
    def difference(self) -> float:
        return _percent(float(np.ptp(self.comparisons)), self.comparisons)

    def figures(self) -> dict[str, Any]:
        return {**vars(self), "deviation": self.deviation, "difference": self.difference}


def _percent(amount: float, of: Any) -> float:
    mean = float(np.mean(of))
    return 100 * amount / mean if mean else 0.0


def arrivals(rate: Rate) -> Array:
    """The arrival times of a physical stream's tuples, in microseconds."""
    grid = np.linspace(0, SPAN, 100 * SPAN + 1)
    arrived = np.concatenate([[0.0], np.cumsum(rate(grid[:-1]) / 100)])
    return (np.interp(np.arange(1, int(arrived[-1])), arrived, grid) * MICROSECONDS).astype(np.int64)


class Merged:
    """One side's physical streams through a gate."""

    def __init__(self, rates: tuple[Rate, ...]) -> None:
        self._sources = [arrivals(rate) for rate in rates]
        self.count = sum(map(len, self._sources))
        self._gate = Gate(len(rates), 1, max(map(len, self._sources)))
        self._added = [0] * len(rates)

    def until(self, end: int) -> Array:
        """The timestamps, in order, of the tuples before `end` that were not returned yet."""
        for number, times in enumerate(self._sources):
            first, last = self._added[number], int(np.searchsorted(times, end))
            self._gate.add(number, times[first:last], np.arange(first, last))
            self._gate.heartbeat(number, end)
            self._added[number] = last
        return self._gate.next_ready(0, self.count)[0]


def skew(case: Case, seed: int) -> Skew:
    """Run one of the paper's cases; AssertionError if results or tuples are missing or out of order."""
    rng = np.random.default_rng(seed)
    found = Skew(case.name, case.threads, (len(case.left), len(case.right)), case.paper)
    sides = dict(zip(SIDES, (Merged(case.left), Merged(case.right)), strict=True))
    pushed: dict[str, list[pa.Table]] = {side: [] for side in SIDES}
    window = f"{WINDOW_SECONDS} s"
    with WindowJoin(
        STREAM_SCHEMAS["left"], STREAM_SCHEMAS["right"], on=CELLJOIN_SQL, time="ts", window=window, index="scan",
        algorithm="scalejoin", workers=case.threads,
    ) as opened:  # fmt: skip
        before = np.zeros(case.threads, np.int64)
        for end in range(SLICE, SPAN + SLICE, SLICE):
            for side, merged in sides.items():
                ts = merged.until(end * MICROSECONDS)
                assert not len(ts) or int(np.diff(ts).min(initial=0)) >= 0, "the gate's tuples are out of order"
                columns = [*celljoin_tuples(rng, len(ts)), pa.array(ts, pa.timestamp("us"))]
                pushed[side].append(pa.table(columns, schema=STREAM_SCHEMAS[side]))
                (opened.push_left if side == "left" else opened.push_right)(pushed[side][-1])
            found.results += opened.poll().num_rows
            work = np.array([worker["comparisons"] for worker in opened.metrics()["workers"]])
            if end > WINDOW_SECONDS:
                found.deviations.append(_percent(float(np.std(work - before)), work - before))
                found.differences.append(_percent(float(np.ptp(work - before)), work - before))
            before = work
        found.comparisons = work.tolist()
        found.results += opened.finish().num_rows
    whole = [pa.concat_tables(pushed[side]) for side in SIDES]
    found.tuples = sum(table.num_rows for table in whole)
    check("gates", found.tuples, sum(merged.count for merged in sides.values()))
    check(
        f"scalejoin, {case.name}",
        found.results,
        join(*whole, on=CELLJOIN_SQL, time="ts", window=window, workers=1).num_rows,
    )
    return found
