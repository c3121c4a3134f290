"""Throughput, indexes and latency of the multi-core topologies (handshake join, Figs. 15 and 16; low-latency handshake
join, Figs. 5 and 17 to 21, Table 2).

Throughput: windows are full before the first round; in a round a batch of fresh tuples of each stream is pushed and all
results are polled. Comparisons are those that are needed, tuples times window, however many were made. The number of
results is compared in every round with that of a three-step join with an index, and that one's, with count windows,
in the first and the last round with NumPy's. Handshake join finds pairs late, and sorted results come late, so for
these the sum counts, after the end of the streams.

Latency: tuples become due one by one at a fixed rate, half of what was found to be possible just before; a batch is
pushed when its last tuple is due. A result's latency is the time when `poll` returned it less the time when the later
of its two tuples was due, so batching and a generator that falls behind count. Only results are counted whose later
tuple was due when the windows were full, and so long before the end that handshake join has found all of its pairs:
without those that are found last the mean would be too low.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Array
from ..engine.window_join import WindowJoin, join
from ..lab.model import meeting_latency
from ..side import SIDES
from .panjoin import Streams
from .scan import SCHEMAS, SQL, tuples
from .subwindow import Others, Rates, check

ALGORITHMS = ("celljoin", "handshake", "low-latency-handshake", "splitjoin", "scalejoin")
BATCH, LEAST_ROUNDS, MOST_ROUNDS = 8_192, 3, 64
TRIES, FIRST_RATE = 3, 5_000.0
"""How often the highest rate is corrected, and what is tried first: tuples per second of each stream."""
AWAKE = 0.002
"""Seconds before a batch is due from which on the generator looks at the clock instead of sleeping, as one on a core of
its own would."""
BINS = 40
"""Points of a latency's course over time."""
MICROSECONDS = 1_000_000
STREAM_SCHEMAS = {side: SCHEMAS[side].append(pa.field("ts", pa.timestamp("us"))) for side in SIDES}


# -- throughput ----------------------------------------------------------------------------------------------------


@dataclass
class Setup:
    """One contestant: `timed` windows reach as many microseconds back as others do tuples, one tuple in each."""

    algorithm: str
    workers: int
    index: str = "scan"
    order: str = "none"
    timed: bool = False


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


class Feed:
    """The same streams for every contestant, and how many results each round has."""

    def __init__(self, kind: str, window: int, batch: int, seed: int) -> None:
        self.window, self.batch = window, batch
        self._streams = Streams.make(kind, window, MOST_ROUNDS * batch, seed)
        self._expected: dict[bool, list[int]] = {}

    def open(self, setup: Setup) -> WindowJoin:
        left, right = (table.schema for table in self._tables(0, 1, setup.timed))
        given: dict[str, Any] = {"algorithm": setup.algorithm, "index": setup.index, "order": setup.order}
        if setup.timed:
            given |= {"time": "ts", "window": f"{self.window} us"}
        else:
            given["window"] = self.window
        return WindowJoin(left, right, on=self._streams.sql, workers=setup.workers, **given)

    def _tables(self, start: int, stop: int, timed: bool) -> list[pa.Table]:
        """Fresh arrays of both streams."""
        streams = self._streams
        tables = [
            pa.table(list(streams.part(columns, start, stop)), schema=streams.schemas[side])
            for side, columns in (("left", streams.left), ("right", streams.right))
        ]
        if timed:
            ts = pa.array(np.arange(start, start + tables[0].num_rows), pa.timestamp("us"))
            tables = [table.append_column("ts", ts) for table in tables]
        return tables

    def filled(self, opened: WindowJoin, timed: bool) -> int:
        """Fill both windows; returns how many results there were."""
        found = 0
        for start in range(0, self.window, self.batch):
            found += _stepped(opened, self._tables(start, min(start + self.batch, self.window), timed))
        return found

    def rounds(self, timed: bool) -> Iterator[list[pa.Table]]:
        for number in range(MOST_ROUNDS):
            start = self.window + number * self.batch
            yield self._tables(start, start + self.batch, timed)

    def expected(self, timed: bool) -> list[int]:
        """Results while the windows are filled, and of every round."""
        if timed not in self._expected:
            with self.open(Setup("three-step", 1, "bi-sort", timed=timed)) as opened:
                filling = self.filled(opened, timed)
                self._expected[timed] = [filling, *(_stepped(opened, tables) for tables in self.rounds(timed))]
            for number in () if timed else (0, MOST_ROUNDS - 1):
                found, right = self._expected[timed][1 + number], self._streams.expected(number, self.batch)
                check("the three-step join with an index", found, right)
        return self._expected[timed]


def _stepped(opened: WindowJoin, tables: list[pa.Table]) -> int:
    opened.push_left(tables[0])
    opened.push_right(tables[1])
    return int(opened.poll().num_rows)


class _Run:
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
            point.found.append(_stepped(opened, tables))
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
        runs = [_Run(feed, setup, stack.enter_context(feed.open(setup))) for setup in setups]
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


# -- latency -------------------------------------------------------------------------------------------------------


@dataclass
class Latency:
    """One configuration: `course` has (seconds, mean, maximum) of the results polled around that time."""

    algorithm: str
    workers: int
    windows: tuple[float, float]
    batch: int
    highest_rate: float
    rate: float
    results: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    batching: float = 0.0
    behind: float = 0.0
    """By how many seconds the generator was late at most, once the windows were full."""
    course: list[tuple[float, float, float]] = field(default_factory=list)
    model_mean: float = 0.0
    model_max: float = 0.0
    unlimited_max: float = 0.0

    def figures(self) -> dict[str, Any]:
        return dict(vars(self))


class Arrivals:
    """Both streams at one rate: a tuple's timestamp is when it is due."""

    def __init__(self, rate: float, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.count = count
        self.due: Array = (np.arange(count) * (MICROSECONDS / rate)).astype(np.int64)
        ts = pa.array(self.due, pa.timestamp("us"))
        self.tables = [pa.table([*tuples(rng, count), ts], schema=STREAM_SCHEMAS[side]) for side in SIDES]

    def push(self, opened: WindowJoin, start: int, stop: int) -> None:
        opened.push_left(self.tables[0].slice(start, stop - start))
        opened.push_right(self.tables[1].slice(start, stop - start))


def _open(algorithm: str, workers: int, windows: tuple[float, float]) -> WindowJoin:
    sizes = tuple(f"{round(seconds * MICROSECONDS)} us" for seconds in windows)
    return WindowJoin(
        STREAM_SCHEMAS["left"], STREAM_SCHEMAS["right"], on=SQL, time="ts", window=sizes, index="scan",  # type: ignore[arg-type]
        algorithm=algorithm, workers=workers,  # type: ignore[arg-type]
    )  # fmt: skip


def highest_rate(
    algorithm: str, workers: int, windows: tuple[float, float], batch: int, seconds: float, seed: int
) -> float:
    """Tuples per second of each stream that go through one batch at a time, with windows that are full at that rate:
    comparing takes time in proportion to the rate's square, so each try is the geometric mean of the last one and of
    what it allowed."""
    rate = FIRST_RATE
    for number in range(TRIES):
        fill = max(int(rate * max(windows)), batch)
        arrivals = Arrivals(rate, fill + max(int(2 * FIRST_RATE * seconds), 64 * batch), seed + number)
        with _open(algorithm, workers, windows) as opened:
            for start in range(0, fill, BATCH):
                arrivals.push(opened, start, min(start + BATCH, fill))
                opened.poll()
            started, at = time.perf_counter(), fill
            while time.perf_counter() - started < seconds and at + batch <= arrivals.count:
                arrivals.push(opened, at, at + batch)
                opened.poll()
                at += batch
            possible = (at - fill) / (time.perf_counter() - started)
        rate = float(np.sqrt(rate * possible))
    return rate


def latency(
    algorithm: str, workers: int, windows: tuple[float, float], batch: int, seconds: float, seed: int,
    say: Callable[[str], None],
) -> Latency:  # fmt: skip
    """Run at half the highest rate until the windows have been full for so long."""
    name = f"latency, {algorithm}, windows {windows[0]:g} s and {windows[1]:g} s, batches of {batch}"
    say(f"{name}: the highest rate")
    highest = highest_rate(algorithm, workers, windows, batch, min(seconds, 1.0), seed)
    rate = highest / 2
    measured = Latency(algorithm, workers, windows, batch, highest, rate)
    full, until = max(windows), max(windows) + seconds
    if algorithm == "handshake":
        measured.model_mean, measured.model_max = meeting_latency(windows, workers)
        measured.unlimited_max = meeting_latency(windows)[1]
    arrivals = Arrivals(rate, -(-int(rate * (until + measured.unlimited_max)) // batch) * batch, seed)
    due_batches = arrivals.due[batch - 1 :: batch] / MICROSECONDS
    polled: list[tuple[float, Array]] = []
    say(f"{name}: {rate:,.0f} tuples/s")
    with _open(algorithm, workers, windows) as opened:
        gc.collect()
        started, pushed = time.perf_counter(), 0
        while pushed < len(due_batches):
            ready = int(np.searchsorted(due_batches, now := time.perf_counter() - started, side="right"))
            if ready == pushed:
                if (rest := due_batches[pushed] - now - AWAKE) > 0:
                    time.sleep(rest)
                continue
            if now >= full:
                measured.behind = max(measured.behind, now - float(due_batches[pushed]))
            for number in range(pushed, ready):
                arrivals.push(opened, number * batch, (number + 1) * batch)
            pushed = ready
            results = opened.poll()
            now = time.perf_counter() - started
            if results.num_rows:
                polled.append((now, _due(results)))
        count = sum(len(due) for _, due in polled) + opened.finish().num_rows
    sizes = tuple(f"{round(window * MICROSECONDS)} us" for window in windows)
    say(f"{name}: counting")
    everything = join(*arrivals.tables, on=SQL, time="ts", window=sizes, workers=1)  # type: ignore[arg-type]
    check(name, count, everything.num_rows)
    _summarise(measured, polled, full, until)
    measured.batching = (batch - 1) / 2 / rate
    return measured


def _due(results: pa.Table) -> Array:
    """When the later of each result's tuples was due, in seconds."""
    times = [column.to_numpy().astype("datetime64[us]").astype(np.int64) for column in results.select(_TIMES).columns]
    return np.maximum(*times) / MICROSECONDS


_TIMES = ["ts", "ts_right"]


def _summarise(measured: Latency, polled: list[tuple[float, Array]], full: float, until: float) -> None:
    if not polled:
        return
    late = np.concatenate([now - due for now, due in polled])
    due = np.concatenate([due for _, due in polled])
    at = np.concatenate([np.full(len(due), now) for now, due in polled])
    for some in np.array_split(np.arange(len(at)), min(BINS, len(at))):
        measured.course.append((float(at[some].mean()), float(late[some].mean()), float(late[some].max())))
    counted = late[(due >= full) & (due < until)]
    measured.results = len(counted)
    if len(counted):
        measured.seconds = {
            "mean": float(counted.mean()), "median": float(np.median(counted)),
            "p99": float(np.quantile(counted, 0.99)), "max": float(counted.max()),
        }  # fmt: skip
