"""The embedded engine: Arrow in, Arrow out.

A tuple's walk: `push` checks the batch, takes the predicate's slots out of it and drops what is late; the front
decides when it takes part and whom it may meet; the topology finds pairs of row numbers; `poll` gathers the rows.
The payload is never touched in between.
"""

from __future__ import annotations

import threading
import time as clock
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrow.tables import as_schema, as_table, conform, contiguous, is_text, restored, result_schema, takeable
from ..arrow.times import read_time
from ..compile.cache import cache_directory
from ..errors import BackPressure, DataError, StateError
from ..flow.collector import Collector
from ..flow.front import Arrival, AsFound, Front, InOrder, Step
from ..flow.order import PushOrder
from ..flow.progress import Progress
from ..flow.results import Results
from ..parallel.crew import Crew
from ..payload.payload import Payload
from ..predicate import Predicate, not_too_deep, plan_for
from ..predicate.expr import Column, walk
from ..predicate.lower import Lowered, lower
from ..predicate.recheck import Recheck
from ..predicate.slots import SlotValues
from ..predicate.vector import Frame
from ..side import SIDES, Side
from ..store import SideWindow
from ..store.batch import Decide
from ..topology import Pairs, Topology, Unmet
from ..topology.cell import CellJoin
from ..topology.driver import HandshakeJoin, LowLatencyHandshakeJoin, MakeWindow, SplitJoin
from ..topology.pan import PanJoin
from ..topology.scale import ScaleJoin
from ..topology.three_step import ThreeStep
from ..window import Duration, TimeWindow
from ..window import Window as WindowSize
from .latency import Latency
from .options import MAX_BATCH, MAX_PENDING, MAX_WAIT, Algorithm, How, IndexName, Late, Options, Order, check_options

RELEASE_ROWS = 1 << 14
"""Rows by which a payload grows before it is looked at what of it can go."""
FEW_ROWS = 1 << 12
"""Results that are gathered before another thread would be awake."""
_WHY = {
    "finished": "is finished; open a new WindowJoin to push more",
    "closed": "is closed; use it inside its `with` block",
    "broken": "failed half way through an earlier batch and cannot go on; open a new WindowJoin",
}
WindowArgument: TypeAlias = "WindowSize | Duration | int"
LatenessArgument: TypeAlias = "Duration | TimeWindow | int"


class LateRows(NamedTuple):
    """Late rows of both streams since the last call."""

    left: pa.Table
    right: pa.Table


class WindowJoin:
    """A running join of two streams.

    Push batches as they come, poll results as often as you like, and finish when the streams end. Several threads may
    use it, such as one for each stream and one that polls; their calls take turns. An error in the middle of a push or
    poll, Ctrl-C included, ends the join: later calls raise StateError.
    """

    def __init__(
        self,
        left: Any,
        right: Any,
        *,
        on: Predicate,
        window: WindowArgument | tuple[WindowArgument, WindowArgument],
        time: str | tuple[str, str] | None = None,
        lateness: LatenessArgument = 0,
        how: How = "inner",
        algorithm: Algorithm = "auto",
        index: IndexName = "auto",
        workers: int | None = None,
        order: Order = "none",
        aliases: Sequence[str] | None = None,
        late: Late = "drop",
        max_pending: int = MAX_PENDING,
        max_batch: int = MAX_BATCH,
        max_wait: float | timedelta = MAX_WAIT,
    ) -> None:
        schemas: dict[Side, pa.Schema] = {"left": as_schema(left, "left"), "right": as_schema(right, "right")}
        with not_too_deep():
            plan = plan_for(on, schemas["left"], schemas["right"], aliases)
            self._lowered = lower(plan)
        self.options = check_options(
            schemas["left"], schemas["right"], window=window, time=time, lateness=lateness, how=how,
            algorithm=algorithm, index=index, workers=workers, order=order, late=late,
            max_pending=max_pending, max_batch=max_batch, max_wait=max_wait,
            has_equality=bool(plan.equalities), has_order=self._lowered.has_order,
        )  # fmt: skip
        self.plan = plan
        if self.options.index == "scan":
            with not_too_deep():
                self._lowered = lower(plan, with_keys=False)
        read = {(n.side, n.name) for n in walk(plan.predicate) if isinstance(n, Column)}
        self._needs_payload = bool(self._lowered.recheck or self._lowered.recheck_long_text)
        """Whether the join itself looks at columns; else rows need to be in their places only for the results."""
        self._texts: dict[Side, list[str]] = {
            side: [field.name for field in schemas[side] if (side, field.name) in read and is_text(field.type)]
            for side in SIDES
        }
        self._may_be_null = {side: all(field.nullable for field in schemas[side]) for side in SIDES}
        self._schema = result_schema(schemas["left"], schemas["right"], how)
        self._nothing: pa.Table | None = None
        """What an empty poll has returned."""
        self._counts: dict[Side, dict[str, int]] = {side: {"in": 0, "late": 0} for side in SIDES}
        self._out = 0
        self._latency = Latency()
        self._watermark: int | None = None
        self._state = "open"
        self._lock = threading.RLock()
        with not_too_deep():
            self._reset(schemas)
        cache_directory()

    def _reset(self, schemas: dict[Side, pa.Schema]) -> None:
        """Everything that holds tuples, empty."""
        options = self.options
        self._crew = Crew(1 if options.algorithm == "three-step" else options.workers)
        finalize(self, self._crew.abandon).atexit = False  # a join that is dropped leaves no threads behind
        self._payload: dict[Side, Payload] = {side: Payload(schemas[side], self._crew.run) for side in SIDES}
        self._progress = Progress(options.lateness)
        self._push_order = PushOrder()
        front = InOrder if options.needs_order else AsFound
        self._front: Front = front(options.windows, self._progress)
        payload = self._payload  # not `self`: threads hold this, and would hold the whole join
        self._recheck = Recheck(self._lowered, lambda side, rows, names: payload[side].take(rows, names))
        self._topology = make_topology(options, self._lowered, self._recheck, self._crew)
        self._collector = Collector(self._front.together, self._topology.meets_once)
        self._queue: deque[Step] = deque()
        self._work: Iterator[Pairs] | None = None
        self._results = Results(options)
        self._late: dict[Side, list[pa.Table]] = {"left": [], "right": []}
        self._release_at = dict.fromkeys(SIDES, RELEASE_ROWS)

    # -- the public surface ----------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        return self._schema

    def push_left(self, batch: Any) -> None:
        """Take a batch of the left stream: anything with the Arrow PyCapsule interface."""
        with self._lock:
            self._push("left", batch)

    def push_right(self, batch: Any) -> None:
        """Take a batch of the right stream: anything with the Arrow PyCapsule interface."""
        with self._lock:
            self._push("right", batch)

    def poll(self) -> pa.Table:
        """The results that are ready and were not polled yet, without waiting."""
        with self._lock:
            self._check_state("poll", "open", "finished")
            self._advance()
            return self._ready()

    def _ready(self) -> pa.Table:
        """Gather the rows of the results that wait."""
        left, right = self._results.ready()
        if not len(left) and self._nothing is not None:
            return self._marked(self._nothing)
        try:
            takes = [partial(self._payload["left"].arrays, left)]
            if len(self._schema) > len(self._payload["left"].schema):
                takes.append(partial(self._payload["right"].arrays, right))
            taken = self._crew.run(takes) if len(left) > FEW_ROWS else [take() for take in takes]
            columns = [column for arrays in taken for column in arrays]
        except pa.ArrowException as error:
            raise DataError(f"poll: {len(left)} results cannot be put into one table: {error}") from None
        table = pa.Table.from_arrays(columns, schema=self._schema)
        self._results.clear()
        self._out += len(left)
        if not len(left):
            self._nothing = table
        return self._marked(table)

    def _marked(self, table: pa.Table) -> pa.Table:
        """Results on their way to the reader, with the promise that holds when they are read."""
        if self.options.time is not None and not self._has_work:
            self._watermark = self._results.watermark(self._progress.watermark)
        if self.options.order == "punctuated" and self._watermark is not None:
            table = table.replace_schema_metadata({"streamjoin.watermark": str(self._watermark)})
        return table

    def finish(self) -> pa.Table:
        """End both streams and return the rest of the results."""
        with self._lock:
            self._check_state("finish", "open", "finished")
            if self._state == "open":
                with self._whole():
                    for step in self._front.finish():
                        self._collector.add(step)
                    self._advance(without_limit=True)
                    for left, right in self._topology.finish():
                        for pair in zip(left, right, strict=True):
                            self._results.add(*pair)
                    self._results.end(self._times)
                    self._results.close(self._times)
                    self._state = "finished"
            return self._ready()

    def late(self) -> LateRows:
        """The late rows of both streams since the last call; the join must have been opened with late="keep"."""
        if self.options.late != "keep":
            raise StateError('late: late rows are only counted here; open the join with late="keep" to get them')
        with self._lock:
            taken, self._late = self._late, {"left": [], "right": []}
        tables = [pa.concat_tables([self._payload[s].schema.empty_table(), *taken[s]]) for s in SIDES]
        return LateRows(*tables)

    @property
    def watermark(self) -> int | None:
        """No result of a later poll has an earlier timestamp (in ticks of the time column): the promise of the last
        poll. None before both streams have begun, and without a time column."""
        return self._watermark

    def metrics(self) -> dict[str, Any]:
        """Counts in, out and late, comparisons, latency percentiles in ms, window occupancy, figures per worker."""
        with self._lock:
            if self._state == "open":
                self._advance()
            return self._figures()

    def _figures(self) -> dict[str, Any]:
        topology = self._topology
        indexes = topology.indexes()
        sides: dict[str, Any] = {
            side: {
                **self._counts[side],
                "window": topology.occupancy(side),
                "waiting": self._front.waiting(side),
                "payload_rows": self._payload[side].rows,
            }
            for side in SIDES
        }
        return {
            **sides,
            "out": self._out,
            "pending": len(self._results),
            "late": sum(self._counts[side]["late"] for side in SIDES),
            "comparisons": topology.comparisons,
            "latency_ms": self._latency.percentiles(),
            "watermark": self.watermark,
            "algorithm": self.options.algorithm,
            "algorithm_why": self.options.algorithm_why,
            "index": " and ".join(dict.fromkeys(figures["index"] for figures in indexes.values())),
            "indexes": indexes,
            "workers": topology.workers(),
        }

    def close(self) -> None:
        """Release everything; results that were not polled are gone."""
        with self._lock:
            self._state = "closed"
            self._topology.close()
            self._crew.close()
            self._reset({side: self._payload[side].schema for side in SIDES})

    def _check_state(self, call: str, *allowed: str) -> None:
        if self._state not in allowed:
            raise StateError(f"{call}: the join {_WHY[self._state]}")

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What happens inside happens as a whole; if it fails half way, the join can no longer be trusted."""
        try:
            yield
        except BaseException:
            self._state = "broken"
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the walk of a batch ---------------------------------------------------------------------------------------

    def _push(self, side: Side, batch: Any) -> None:
        argument = f"push_{side}"
        self._check_state(argument, "open")
        if self._is_full:
            self._advance()
        if self._is_full:
            raise BackPressure(
                f"{argument}: {len(self._results)} results wait to be polled, and max_pending stops the join at "
                f"{self.options.max_pending}; the batch was not taken: poll() and push it again until it is"
            )
        payload = self._payload[side]
        table = as_table(batch, argument)
        if not (self._may_be_null[side] and table.schema.equals(payload.schema)):
            table = conform(table, payload.schema, argument)
        if not table.num_rows:
            return
        payload.check(table, argument)
        time = self._time_of(side, table, argument)
        slots = self._slots(side, table, argument)
        live, late = slots.live, None
        on_time = None if time is None else self._progress.on_time(side, time)
        if time is not None and on_time is not None:  # late rows take no part and are not kept here
            late, table = _rows_where(table, ~on_time), _rows_where(table, on_time)
            time, live = time[on_time], None if live is None else live[on_time]
            slots.columns = [slot[on_time] for slot in slots.columns]
        arrival = Arrival(np.arange(payload.end, payload.end + table.num_rows), time, live, slots.columns)
        # Nothing has changed so far: a batch that breaks a rule leaves the join as it was.
        with self._whole():
            self._recheck.long_text[side] |= slots.long_text
            if time is None:
                self._push_order.push(side, payload.end, table.num_rows)
            payload.append(table)
            if self._needs_payload:
                payload.settle()
            self._counts[side]["in"] += table.num_rows
            if late is not None:
                self._counts[side]["in"] += late.num_rows
                self._counts[side]["late"] += late.num_rows
                if self.options.late == "keep":
                    self._late[side].append(late)
            if time is not None:
                self._progress.advance(side, time)
            steps = self._front.push(side, arrival)
            for step in steps:
                self._collector.add(step)
        if steps:
            waited = clock.perf_counter() - self._collector.since
            if self._collector.rows >= self.options.max_batch or waited >= self.options.max_wait:
                self._advance()

    def _slots(self, side: Side, table: pa.Table, argument: str) -> SlotValues:
        program = self._lowered.sides[side]
        columns = {(side, name): contiguous(table.column(name)) for name in program.columns}
        try:
            for name in self._texts[side]:
                table.column(name).validate(full=True)
            return program.run(Frame(table.num_rows, columns))
        except (DataError, UnicodeDecodeError, pa.ArrowException) as error:
            names = ", ".join(program.columns)
            raise DataError(f"{argument}: the predicate's columns ({names}) cannot be read: {error}") from None

    def _time_of(self, side: Side, table: pa.Table, argument: str) -> npt.NDArray[np.int64] | None:
        """A batch's timestamps in the common unit."""
        if self.options.time is None:
            return None
        name = self.options.time.of(side)
        return read_time(contiguous(table.column(name)), self.options.time.unit, f"{argument}: time column {name!r}")

    @property
    def _has_work(self) -> bool:
        """Whether some tuples that were pushed have not been joined yet."""
        return self._work is not None or bool(self._queue) or self._collector.rows > 0

    @property
    def _is_full(self) -> bool:
        """Whether so many results wait to be polled that work stops, or has stopped."""
        return self._work is not None or bool(self._queue) or len(self._results) >= self.options.max_pending

    def _advance(self, without_limit: bool = False) -> None:
        """Join what was collected and forget what has expired, unless too many results wait."""
        limit = None if without_limit else self.options.max_pending
        if self._work is None and not self._collector.rows and not self._queue:
            return
        since, before = self._collector.since, len(self._results)
        with self._whole():
            while self._join_one(limit):
                pass
            if not self._has_work:
                self._forget()
        self._latency.add(clock.perf_counter() - since, len(self._results) - before)

    def _join_one(self, limit: int | None) -> bool:
        """Run the next step as far as the limit allows; returns whether there may be another one to run."""
        if limit is not None and len(self._results) >= limit:
            return False
        if self._work is None:
            self._queue.extend(self._collector.take())
            if not self._queue:
                return False
            step = self._queue.popleft()
            self._results.begin(step)
            chores = [] if self._needs_payload else [self._payload[side].settle for side in SIDES]
            self._work = self._topology.step(step.batches, chores)
        for left, right in self._work:
            for pair in zip(left, right, strict=True):
                self._results.add(*pair)
            if limit is not None and len(self._results) >= limit:
                return False
        self._work = None
        self._results.end(self._times)
        return True

    def _forget(self) -> None:
        """Let go of what no tuple to come can meet. All that was pushed must have been joined: the front's floor
        counts it as seen."""
        assert not self._has_work
        unmet = self._topology.unmet()
        for side in SIDES:
            floor = self._front.floor(side)
            if floor is not None:
                self._topology.expire(side, floor)
                self._results.expire(side, min([floor, *(bound[side][0] for bound in unmet)]), self._times)
        self._results.settle(self._times, self._earliest(unmet))
        for side in SIDES:
            self._release(side)

    def _earliest(self, unmet: list[Unmet]) -> int | None:
        """Pairs that the topology will find later have at least this timestamp."""
        if not unmet:
            return None
        rows: dict[Side, npt.NDArray[np.int64]] = {
            side: np.array([bound[side][1] for bound in unmet]) for side in SIDES
        }
        return int(np.maximum(*(self._times(side, rows[side]) for side in SIDES)).min())

    def _times(self, side: Side, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The timestamps of rows that are still here; without a time column, their place in the order of pushing."""
        if self.options.time is None:
            return self._push_order.of(side, rows)
        name = self.options.time.of(side)
        column = self._payload[side].take(rows, [name]).column(0)
        return read_time(contiguous(column), self.options.time.unit, name)

    def _release(self, side: Side) -> None:
        """Let go of payload that no future result can need; looked at only when it has grown by an eighth."""
        payload = self._payload[side]
        if payload.rows < self._release_at[side]:
            return
        holders = (self._topology.first_row(side), self._front.first_row(side), self._results.first_row(side))
        floor = min((row for row in holders if row is not None), default=payload.end)
        payload.release(floor)
        self._push_order.forget(side, floor)
        self._results.forget(side, floor)
        self._release_at[side] = payload.rows + max(payload.rows // 8, RELEASE_ROWS)


def join(
    left: Any,
    right: Any,
    *,
    on: Predicate,
    window: WindowArgument | tuple[WindowArgument, WindowArgument],
    time: str | tuple[str, str] | None = None,
    lateness: LatenessArgument = 0,
    how: How = "inner",
    algorithm: Algorithm = "auto",
    index: IndexName = "auto",
    workers: int | None = None,
    order: Order = "none",
    aliases: Sequence[str] | None = None,
) -> pa.Table:
    """Join two tables as if they had been streamed: each is one batch, so nothing is late.

    Without a time column the order of pushing counts: the whole left table, then the whole right one.
    """
    tables = as_table(left, "left"), as_table(right, "right")
    with WindowJoin(
        tables[0].schema, tables[1].schema, on=on, window=window, time=time, lateness=lateness, how=how,
        algorithm=algorithm, index=index, workers=workers, order=order, aliases=aliases,
    ) as running:  # fmt: skip
        running.push_left(tables[0])
        running.push_right(tables[1])
        return running.finish()


def _rows_where(table: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    return restored(takeable(table).take(pa.array(np.flatnonzero(mask))), table.schema)


def make_topology(options: Options, lowered: Lowered, decide: Decide, crew: Crew) -> Topology:
    """The algorithm and index that the options name."""

    def window(side: Side, index: str = "") -> SideWindow:
        return SideWindow(lowered, side, index or options.index, crew.run)

    if options.algorithm in OVER_NODES:
        return OVER_NODES[options.algorithm](options.workers, window, decide)
    windows = {side: window(side) for side in SIDES}
    if options.algorithm == "three-step":
        return ThreeStep(windows, decide)
    return (PanJoin if options.algorithm == "panjoin" else CellJoin)(windows, decide, crew)


OVER_NODES: dict[str, Callable[[int, MakeWindow, Decide], Topology]] = {
    "handshake": HandshakeJoin,
    "low-latency-handshake": LowLatencyHandshakeJoin,
    "splitjoin": SplitJoin,
    "scalejoin": ScaleJoin,
}
