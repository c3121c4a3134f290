"""The running of steps: rows that were taken in wait here, are joined, and wait again as pairs until they are read.

Everything that holds tuples is here, so letting go of a `Steps` frees it all.
"""

from __future__ import annotations

import time as clock
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Rows
from ..arrow.fields import taken
from ..arrow.tables import contiguous
from ..arrow.times import Times, read_time
from ..compile.background import is_rehearsing
from ..flow.collector import Collector
from ..flow.front import AsFound, Front, InOrder, Step
from ..flow.order import PushOrder
from ..flow.progress import Progress
from ..flow.results import Results
from ..gpu.scan import device_scan
from ..parallel.crew import Crew
from ..payload import Payload, gathered, have_same_texts, plain
from ..predicate.lower import Lowered
from ..predicate.recheck import Recheck
from ..predicate.slots import SlotValues
from ..side import SIDES, Side
from ..store import SideWindow
from ..topology.interim import Interim
from ..topology.protocol import Pairs, Setting, Topology, Unmet
from ..topology.registry import ALGORITHMS
from .latency import Latency
from .options import MAX_BATCH, Options

FORGET_ROWS = 3 << 12
"""Where no result waits for windows to close, it is seen what has expired after so many rows."""
RELEASE_ROWS = 1 << 14
"""The payload is searched for rows to release after it has grown by so many, or by an eighth."""


class Steps:
    """Takes rows in, joins them step by step, and forgets what has expired."""

    def __init__(
        self,
        options: Options,
        lowered: Lowered,
        schemas: Mapping[Side, pa.Schema],
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        algorithm = ALGORITHMS[options.algorithm]
        self._options = options
        self._crew = Crew(1 if algorithm.one_core else options.workers)
        finalize(self, self._crew.abandon).atexit = False  # a join that is dropped leaves no threads behind
        self.payload: dict[Side, Payload] = {side: Payload(schemas[side], self._crew.run, is_ready) for side in SIDES}
        self._needs_payload = bool(lowered.recheck or lowered.recheck_long_text)
        """Whether the join itself reads columns. Otherwise rows must be in their places only for the results."""
        self._chores = [] if self._needs_payload else [payload.settling for payload in self.payload.values()]
        self.progress = Progress(options.lateness)
        self._may_wait = options.match != "all" or (options.needs_order and options.time is not None)
        """Whether rows of one stream may have to wait for the other."""
        self._push_order = PushOrder()
        front = InOrder if options.needs_order else AsFound
        self._front: Front = front(options.windows, self.progress)
        payload, run_all = self.payload, self._crew.run  # not `self`: threads hold these, and would hold everything
        self._recheck = Recheck(
            lowered,
            lambda side, rows, names: taken(payload[side].take, schemas[side], rows, names),
            lambda left, right, *rows: have_same_texts(payload["left"], left, payload["right"], right, *rows),
        )

        def make_window(side: Side, index: str) -> SideWindow:
            device = device_scan(lowered, side, options.device, options.workers)
            return SideWindow(lowered, side, index or options.index, run_all, device)

        decide = self._recheck if self._needs_payload else _all_match
        setting = Setting(options.workers, make_window, decide, self._crew)
        self.topology: Topology = algorithm(setting) if is_ready() else Interim(algorithm, setting, lowered, is_ready)
        self._collector = Collector(self._front.together)
        self._queue: deque[Step] = deque()
        self._work: Iterator[Pairs] | None = None
        by_time = options.time is not None and not options.needs_order
        self.results = Results(options.how, options.order, algorithm.finds_late, by_time, options.match)
        self.latency = Latency()
        self._release_at = dict.fromkeys(SIDES, RELEASE_ROWS)
        self._unforgotten = 0
        """Rows since it was seen what has expired."""
        self._is_news = False
        """Whether a stream has come further without a row, so that windows may have closed."""

    def has_work(self) -> bool:
        """Whether some tuples that were taken in have not been joined yet."""
        return self._work is not None or bool(self._queue) or self._collector.rows > 0

    def is_full(self) -> bool:
        """Whether so many results wait to be polled that work stops, or has stopped."""
        return self._work is not None or bool(self._queue) or self.results.count >= self._options.max_pending

    def waits_for_the_other(self, side: Side) -> int:
        """How many rows of a stream wait for the other one, if they are too many to take more; else 0."""
        if not self._may_wait or not self.progress.is_ahead(side):
            return 0
        waiting = self._front.waiting(side) + (self.results.undecided if side == "left" else 0)
        return waiting if waiting >= max(self._options.max_pending, MAX_BATCH) else 0

    def take(
        self,
        side: Side,
        table: pa.Table,
        times: Times | None,
        slots: SlotValues,
        began: float,
        arrays: Sequence[pa.Array] | None = None,
    ) -> bool:
        """Take in rows that are not late, of a push that `began` then. Returns whether it is time to join what has been
        collected. `arrays` are the columns of the table, if each is one array."""
        payload = self.payload[side]
        first = payload.end
        if slots.long_text:
            self._recheck.long_text[side] = True
        if times is None:
            self._push_order.push(side, first, table.num_rows)
        else:
            self.progress.advance(side, times)
        payload.append(table, arrays)
        if self._needs_payload:
            payload.settle()
        steps = self._front.push(side, np.arange(first, payload.end), times, slots)
        for step in steps:
            self._collector.add(step, began)
        if not steps:
            return False
        options, collector = self._options, self._collector
        return collector.rows >= options.max_batch or clock.perf_counter() - collector.since >= options.max_wait

    def reach(self, side: Side, time: int, began: float) -> None:
        """A stream has come to this time, though it brought no row."""
        self.progress.reach(side, time)
        for step in self._front.ready():
            self._collector.add(step, began)
        self._is_news = True

    def watermark(self) -> int | None:
        """No result to come has an earlier timestamp. Nothing that was taken in may still have to be joined."""
        return self.results.watermark(self.progress.watermark, self._times)

    def advance(self, without_limit: bool = False) -> None:
        """Join what was collected and forget what has expired, unless too many results wait."""
        if not self.has_work():
            if self._is_news:
                self._is_news = False
                self._forget()
            return
        limit = None if without_limit else self._options.max_pending
        began, before = self._collector.began, self.results.count
        while self._join_one(limit):
            pass
        if not self.has_work():
            if isinstance(self.topology, Interim):
                self.topology = self.topology.retired() or self.topology
            if self._unforgotten >= FORGET_ROWS or self.results.waits_for_windows:
                self._forget()
        self.latency.add(began, self.results.count - before)

    def finish(self, began: float) -> None:
        """Both streams have ended: join the rest, and close all windows."""
        for step in self._front.finish():
            self._collector.add(step, began)
        self.advance(without_limit=True)
        for pairs in self.topology.finish():
            for left, right in zip(*pairs, strict=True):
                self.results.add(left, right, self._times)
        self.results.end(self._times)
        self.results.close(self._times)

    def gathered(self, sides: int) -> list[pa.Array | pa.ChunkedArray]:
        """The columns of the results that are ready: of the left, or of both sides.

        They stay ready until `results.clear`.
        """
        return gathered(list(self.payload.values())[:sides], self.results.ready()[:sides], self._crew.run)

    def exercise(self) -> None:
        """Call what only results call, whether or not there were any: for a rehearsal."""
        plain.rehearse()
        self.results.exercise()
        for side in SIDES:
            payload = self.payload[side]
            for rows in (np.arange(payload.first, payload.end), np.array([-1, payload.end - 1])):
                payload.arrays(rows)
            self._times(side, np.array([payload.end - 1]))
        self._recheck(*(np.array([self.payload[side].end - 1]) for side in SIDES))

    def figures(self) -> dict[str, Any]:
        """What `metrics` says of the windows and of the work."""
        topology = self.topology
        indexes = topology.indexes()
        floors = {side: self._front.floor(side) for side in SIDES}
        sides: dict[str, Any] = {
            side: {
                "window": topology.occupancy(side, floors[side]),
                "waiting": self._front.waiting(side),
                "payload_rows": self.payload[side].rows,
            }
            for side in SIDES
        }
        return {
            **sides,
            "pending": len(self.results),
            "undecided": self.results.undecided,
            "comparisons": topology.comparisons,
            "latency_ms": self.latency.percentiles(),
            "index": " and ".join(dict.fromkeys(figures["index"] for figures in indexes.values())),
            "indexes": indexes,
            "workers": topology.workers(floors),
        }

    def close(self) -> None:
        """Let threads and stored tuples go. The rest goes with this object."""
        try:
            self.topology.close()
        finally:
            self._crew.close()

    def _join_one(self, limit: int | None) -> bool:
        """Run the next step as far as the limit allows; returns whether there may be another one to run."""
        if limit is not None and self.results.count >= limit:
            return False
        if self._work is None:
            self._queue.extend(self._collector.take(self.topology.meets_once))
            if not self._queue:
                return False
            step = self._queue.popleft()
            self._unforgotten += step.rows
            self.results.begin(step, self._times)
            # The front counts all that was taken in as seen, so its floors hold for later steps if none is waiting. A
            # rehearsal stores everything, so that it fills subwindows.
            is_last = not self._queue and not is_rehearsing()
            floors = {side: self._front.floor(side) for side in step.batches} if is_last else {}
            self._work = self.topology.step(step.batches, self._chores, floors)
        for pairs in self._work:
            for left, right in zip(*pairs, strict=True):
                self.results.add(left, right, self._times)
            if limit is not None and self.results.count >= limit:
                return False
        self._work = None
        self.results.end(self._times)
        return self.has_work()

    def _forget(self) -> None:
        """Let go of what no tuple to come can meet. All that was taken in must have been joined: the front's floor
        counts it as seen."""
        self._unforgotten = 0
        topology, results = self.topology, self.results
        unmet = topology.unmet()
        for side in SIDES:
            floor = self._front.floor(side)
            if floor is not None:
                topology.expire(side, floor)
                if unmet:
                    floor = min(floor, *(bound[side][0] for bound in unmet))
                results.expire(side, floor, self._times)
        if self._options.match != "all":
            self._decide(unmet)
        results.settle(self._times, self._earliest(unmet) if unmet else None)
        for side, payload in self.payload.items():
            if payload.rows >= self._release_at[side]:
                self._release(side)

    def _decide(self, unmet: list[Unmet]) -> None:
        """Report the left tuples whose closest partner is known."""
        time = self._front.next_time("right")
        if time is not None:
            rows = np.array([bound["right"][1] for bound in unmet], np.int64)
            self.results.decide(min([time, *self._times("right", rows).tolist()]), self._times)

    def _earliest(self, unmet: list[Unmet]) -> int:
        """Pairs that the topology will find later have at least this timestamp."""
        rows: dict[Side, Rows] = {side: np.array([bound[side][1] for bound in unmet]) for side in SIDES}
        return int(np.maximum(*(self._times(side, rows[side]) for side in SIDES)).min())

    def _times(self, side: Side, rows: Rows) -> Integers:
        """The timestamps of rows that are still here; without a time column, their place in the order of pushing."""
        time = self._options.time
        if time is None:
            return self._push_order.of(side, rows)
        name = time.of(side)
        (column,) = self.payload[side].arrays(rows, [name])
        return read_time(column if isinstance(column, pa.Array) else contiguous(column), time.unit, name)

    def _release(self, side: Side) -> None:
        """Release payload that no future result can need."""
        payload = self.payload[side]
        holders = (self.topology.first_row(side), self._front.first_row(side), self.results.first_row(side))
        floor = min((row for row in holders if row is not None), default=payload.end)
        payload.release(floor)
        self._push_order.forget(side, floor)
        self.results.forget(side, floor)
        self._release_at[side] = payload.rows + max(payload.rows // 8, RELEASE_ROWS)


def _all_match(left: Rows, right: Rows) -> None:
    """Decides candidates where the kernels leave nothing open."""
