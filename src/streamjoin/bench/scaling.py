"""ScaleJoin's figures (Figs. 5 to 8), and what the model of many cores needs to know (`topology.model`).

Skew: the physical streams of each side are merged by a `Gate` and joined by as many threads as in the paper; time is
that of the tuples, not of the clock, and threads may be more than cores, since comparisons are counted and not timed.
A thread's share of the work is looked at in every slice of time once the windows are full.

Costs: measured with small windows, where nodes have little to compare: a thread's busy time per small block is what a
message costs, and the rest of a small step is the driver's; what a large step takes beyond that is work per tuple, of
nodes while they are busy and of the driver while they are not. A hop is measured with two nodes that send one message
to and fro. None of this is fitted to the runs that the model is then compared with.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Array
from ..engine.window_join import WindowJoin, join
from ..lab.model import Costs, Machine
from ..parallel.gate import Gate
from ..parallel.threads import Port, Threads
from ..side import SIDES
from ..topology.driver import CHAIN, block_size
from ..topology.node import Kind, Message, Send
from .handshaking import BATCH, MICROSECONDS, STREAM_SCHEMAS, Feed, Latency, Point, Setup, measure
from .scan import SQL, Scan, tuples
from .subwindow import check

Rate = Callable[[Array], Array]
"""Tuples per second at some times."""
WINDOW_SECONDS, SPAN, SLICE = 5, 20, 1
"""Seconds of the tuples' time: the windows, the whole, and a slice that the work is looked at in."""
GATE_CAPACITY = 1 << 14
GATE_BATCHES = (1, 256)
COST_WINDOW, SMALL_BATCH, LARGE_BATCH, HOPS = 8_192, 4, 8_192, 5_000
FRESH = 64
"""Batches that probe in the bound before the first comes again."""


# -- skew ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Physical streams of each side, and the threads that the paper gave them."""

    name: str
    threads: int
    left: tuple[Rate, ...]
    right: tuple[Rate, ...]
    paper: str


def _constant(rate: float) -> Rate:
    return lambda t: np.full(len(t), rate)


def _waves(rate: float, amplitude: float, period: float) -> Rate:
    return lambda t: rate + amplitude * np.sin(2 * np.pi * t / period)


def _peaks(rate: float, every: float, times: float) -> Rate:
    """For a tenth of the time so many times the rate."""
    return lambda t: np.where(t % every < every / 10, times * rate, rate)


CASES = (
    Case("constant", 10, (_constant(1_200),), tuple(map(_constant, (300, 250, 200, 150))), "std about 0.05%"),
    Case(
        "fluctuating", 12, (_waves(400, 250, 7), _waves(300, 200, 5), _waves(300, 100, 3)),
        (_waves(500, 300, 6), _waves(400, 250, 4)), "std about 0.1%",
    ),
    Case(
        "bursty", 14, (_peaks(250, 4, 6), _peaks(200, 5, 8), _constant(250), _constant(200)),
        (_peaks(500, 3, 5), _constant(400)), "std about 0.1%",
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
    """The most work less the least, in each slice."""
    comparisons: list[int] = field(default_factory=list)
    """Of each thread, altogether."""

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


def _arrivals(rate: Rate) -> Array:
    """When a physical stream's tuples come, in microseconds."""
    grid = np.linspace(0, SPAN, 100 * SPAN + 1)
    arrived = np.concatenate([[0.0], np.cumsum(rate(grid[:-1]) / 100)])
    return (np.interp(np.arange(1, int(arrived[-1])), arrived, grid) * MICROSECONDS).astype(np.int64)


class Merged:
    """One side's physical streams through a gate."""

    def __init__(self, rates: tuple[Rate, ...]) -> None:
        self._sources = [_arrivals(rate) for rate in rates]
        self.count = sum(map(len, self._sources))
        self._gate = Gate(len(rates), 1, max(map(len, self._sources)))
        self._added = [0] * len(rates)

    def until(self, end: int) -> Array:
        """The timestamps of the tuples before this time that were not given yet, in order."""
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
        STREAM_SCHEMAS["left"], STREAM_SCHEMAS["right"], on=SQL, time="ts", window=window, index="scan",
        algorithm="scalejoin", workers=case.threads,
    ) as opened:  # fmt: skip
        before = np.zeros(case.threads, np.int64)
        for end in range(SLICE, SPAN + SLICE, SLICE):
            for side, merged in sides.items():
                ts = merged.until(end * MICROSECONDS)
                assert not len(ts) or int(np.diff(ts).min(initial=0)) >= 0, "the gate's tuples are out of order"
                columns = [*tuples(rng, len(ts)), pa.array(ts, pa.timestamp("us"))]
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
    check(f"scalejoin, {case.name}", found.results, join(*whole, on=SQL, time="ts", window=window, workers=1).num_rows)
    return found


def gate_throughput(sources: int, readers: int, batch: int, seconds: float) -> float:
    """Tuples per second through a gate, each to all readers, with a thread for each source and each reader."""
    gate, stop = Gate(sources, readers, GATE_CAPACITY), threading.Event()
    added, taken = [0] * sources, [0] * readers

    def add(number: int) -> None:
        rows = np.arange(batch, dtype=np.int64)
        while not stop.is_set():
            rest = (added[number] + rows) * sources + number
            while len(rest) and not stop.is_set():
                count = gate.add(number, rest, rest)
                added[number] += count
                rest = rest[count:]
                if not count:
                    time.sleep(0)
        gate.end(number)

    def read(number: int, last: int = -1) -> None:
        while not stop.is_set() or any(thread.is_alive() for thread in adding) or taken[number] < sum(added):
            times = gate.next_ready(number, GATE_CAPACITY)[0]
            if len(times):
                taken[number] += int((np.diff(times, prepend=last) > 0).sum())  # what goes back in time does not count
                last = int(times[-1])
            else:
                time.sleep(0)

    adding = [threading.Thread(target=add, args=(number,)) for number in range(sources)]
    reading = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    started = time.perf_counter()
    for thread in (*adding, *reading):
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in (*adding, *reading):
        thread.join()
    elapsed = time.perf_counter() - started
    for number, count in enumerate(taken):
        check(f"the gate's reader {number}", count, sum(added))
    return sum(added) / elapsed


def bound(window: int, threads: int, seconds: float, seed: int) -> float:
    """Comparisons per second of so many threads that have a share of both windows each and scan at once, with fresh
    tuples and with nothing to tell each other."""
    share = max(window // threads, 1)
    ready = threading.Barrier(threads)
    rates = [0.0] * threads

    def scan(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        scans = [Scan(SQL, side, tuples(rng, share)) for side in SIDES]
        fresh = [tuples(rng, BATCH) for _ in range(FRESH)]
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


# -- costs and predictions -----------------------------------------------------------------------------------------


class _Relay:
    """Sends the message back to the other node until it has gone to and fro often enough."""

    def __init__(self, number: int) -> None:
        self.windows: dict[Any, Any] = {}
        self._to: Port = "right" if number == 0 else "left"
        self._left = HOPS // 2

    def receive(self, port: Port, message: Message, send: Send) -> None:
        self._left -= 1
        if self._left >= 0:
            send(self._to, message)


def hop_seconds() -> float:
    """From one node's sending to the next node's receiving, with a message on its own."""
    threads = Threads(2, CHAIN)
    threads.drive([_Relay(0), _Relay(1)])
    started = time.perf_counter()
    threads.feed(0, "left", Message(Kind.TICK))
    for _ in threads.run():
        pass
    elapsed = time.perf_counter() - started
    threads.close()
    return elapsed / HOPS


class CostFeeds:
    """Small windows, in steps of one small block of each side, and of several large ones."""

    def __init__(self, seed: int) -> None:
        self._small, self._large = (Feed("celljoin", COST_WINDOW, batch, seed) for batch in (SMALL_BATCH, LARGE_BATCH))

    def measure(self, algorithm: str, alone: float, together: float, hop: float, seconds: float) -> Costs:
        """An algorithm's costs, with one worker; see above."""
        small, large = (measure(feed, Setup(algorithm, 1), seconds) for feed in (self._small, self._large))
        step, steps = 2 * SMALL_BATCH / small.rate, 2 * LARGE_BATCH / large.rate
        scan = COST_WINDOW / alone  # of one tuple
        if algorithm == "celljoin":  # two pieces in every step, each in as many parts as there are workers
            with_two = 2 * SMALL_BATCH / measure(self._small, Setup(algorithm, 2), seconds).rate
            message = max(with_two - step, 0.0) / 2
            driver = max(step - 2 * message - 2 * SMALL_BATCH * scan, 0.0)
            each = max(steps - step, 0.0) / (2 * (LARGE_BATCH - SMALL_BATCH)) - scan
            return Costs(alone, together, message, 0.0, hop, driver, max(each, 0.0))
        message = max(float(np.median(small.busy)) / 2 - SMALL_BATCH * scan, 0.0)
        driver = max(step - float(np.median(small.busy)), 0.0)
        working = float(np.median(large.busy))
        stored = max(working / (2 * LARGE_BATCH) - message / block_size(LARGE_BATCH, 1) - scan, 0.0)
        each = max(steps - working - driver, 0.0) / (2 * LARGE_BATCH)
        return Costs(alone, together, message, stored, hop, driver, each)


def validated(points: list[Point], latencies: list[Latency], known: dict[str, Costs]) -> list[dict[str, Any]]:
    """What the model says of the runs that were made, beside what they gave."""
    rows = []
    for point in points:
        machine = Machine(point.setup.algorithm, point.setup.workers, known[point.setup.algorithm])
        predicted = machine.throughput(point.window, 2 * point.batch)
        rows.append(_compared(machine, "tuples/s", f"windows of {point.window:,}", point.rate, predicted))
    for run in latencies:
        machine = Machine(run.algorithm, run.workers, known[run.algorithm])
        predicted = 1e3 * machine.mean_latency(run.rate, run.windows, run.batch)
        what = f"{run.windows[0]:g} s and {run.windows[1]:g} s, batches of {run.batch}, {run.rate:,.0f} tuples/s"
        rows.append(_compared(machine, "mean latency, ms", what, 1e3 * run.seconds["mean"], predicted))
    return rows


def _compared(machine: Machine, figure: str, what: str, measured: float, predicted: float) -> dict[str, Any]:
    return {
        "algorithm": machine.algorithm, "workers": machine.cores, "figure": figure, "what": what,
        "measured": measured, "predicted": predicted, "error": predicted / measured - 1,
    }  # fmt: skip
