"""Latency of both handshake joins (low-latency handshake join, Figs. 5 and 18 to 20).

Tuples become due one by one at a fixed rate, half of the highest rate that was found just before. A batch is pushed
when its last tuple is due. A result's latency is the time when `poll` returned it minus the time when the later of its
two tuples was due. So the wait for a batch counts, and so does a generator that falls behind.

A result counts if its later tuple was due after the windows were full, and early enough before the end that handshake
join has found all pairs of that tuple. Without the pairs that are found last, the mean would be too low.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...engine.replay import join
from ...engine.window_join import WindowJoin
from ...lab.model import meeting_latency
from ...reporting.measure import check
from ..workloads import CELLJOIN_SQL
from .streams import BATCH, MICROSECONDS, STREAM_SCHEMAS, PacedStreams

TRIES, FIRST_RATE = 3, 5_000.0
"""How often the highest rate is corrected, and the first guess: tuples per second of each stream."""
AWAKE = 0.002
"""The generator sleeps until this many seconds before a batch is due, and then polls the clock."""
BINS = 40
"""Points of the curve of latency over time."""
_TIMES = ["ts", "ts_right"]


@dataclass
class LatencyRun:
    """One run: `course` has (seconds, mean latency, maximum latency) of the results polled around that time."""

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
    """The generator's largest delay in seconds, once the windows were full."""
    course: list[tuple[float, float, float]] = field(default_factory=list)
    model_mean: float = 0.0
    model_max: float = 0.0
    unlimited_max: float = 0.0

    def figures(self) -> dict[str, Any]:
        return dict(vars(self))


def _open(algorithm: str, workers: int, windows: tuple[float, float]) -> WindowJoin:
    sizes = tuple(f"{round(seconds * MICROSECONDS)} us" for seconds in windows)
    return WindowJoin(
        STREAM_SCHEMAS["left"], STREAM_SCHEMAS["right"], on=CELLJOIN_SQL, time="ts", window=sizes, index="scan",  # type: ignore[arg-type]
        algorithm=algorithm, workers=workers,  # type: ignore[arg-type]
    )  # fmt: skip


def highest_rate(
    algorithm: str, workers: int, windows: tuple[float, float], batch: int, seconds: float, seed: int
) -> float:
    """The highest rate, in tuples per second of each stream, with one batch per push and full windows.

    The work grows with the square of the rate. So the next try is the geometric mean of the last try and of the rate
    that it reached."""
    rate = FIRST_RATE
    for number in range(TRIES):
        fill = max(int(rate * max(windows)), batch)
        arrivals = PacedStreams(rate, fill + max(int(2 * FIRST_RATE * seconds), 64 * batch), seed + number)
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
) -> LatencyRun:  # fmt: skip
    """Run at half the highest rate until the windows have been full for `seconds`."""
    name = f"latency, {algorithm}, windows {windows[0]:g} s and {windows[1]:g} s, batches of {batch}"
    say(f"{name}: the highest rate")
    highest = highest_rate(algorithm, workers, windows, batch, min(seconds, 1.0), seed)
    rate = highest / 2
    measured = LatencyRun(algorithm, workers, windows, batch, highest, rate)
    full, until = max(windows), max(windows) + seconds
    if algorithm == "handshake":
        measured.model_mean, measured.model_max = meeting_latency(windows, workers)
        measured.unlimited_max = meeting_latency(windows)[1]
    arrivals = PacedStreams(rate, -(-int(rate * (until + measured.unlimited_max)) // batch) * batch, seed)
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
    everything = join(*arrivals.tables, on=CELLJOIN_SQL, time="ts", window=sizes, workers=1)  # type: ignore[arg-type]
    check(name, count, everything.num_rows)
    summarise(measured, polled, full, until)
    measured.batching = (batch - 1) / 2 / rate
    return measured


def _due(results: pa.Table) -> Array:
    """When the later of each result's tuples was due, in seconds."""
    times = [column.to_numpy().astype("datetime64[us]").astype(np.int64) for column in results.select(_TIMES).columns]
    return np.maximum(*times) / MICROSECONDS


def summarise(measured: LatencyRun, polled: list[tuple[float, Array]], full: float, until: float) -> None:
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
