"""The embedded engine: Arrow in, Arrow out.

A tuple's walk: `push` checks the batch, reads the predicate's slots (`intake`) and drops what is late; the front
decides when it takes part and whom it may meet; the topology finds pairs of row numbers (`steps`); `poll` gathers the
rows. The payload is never touched in between.
"""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from ..arguments import checked_names, choose
from ..arrays import INT64_MAX, Mask
from ..arrow.tables import as_schema, as_table, conform, restored, result_schema, single_arrays, takeable
from ..arrow.times import Times, read_time, rows_with_time
from ..compile.cache import cache_directory
from ..errors import ArgumentError, BackPressure, DataError, StateError
from ..predicate import Predicate, check_aliases, not_too_deep
from ..predicate.lower import lower
from ..predicate.render import render
from ..side import SIDES, Side
from ..store.costs import costs
from ..window import Duration, TimeWindow, Window, described_windows
from .intake import Intake
from .options import (
    MAX_BATCH,
    MAX_PENDING,
    MAX_WAIT,
    Algorithm,
    DeviceName,
    How,
    IndexName,
    Late,
    Match,
    NullTime,
    Options,
    Order,
)
from .planning import planned
from .rehearsal import rehearsed
from .steps import Steps

WindowArgument: TypeAlias = "Window | Duration | int"
LatenessArgument: TypeAlias = "Duration | TimeWindow | int"
_WHY = {
    "finished": "is finished; open a new WindowJoin to push more",
    "closed": "is closed; use it inside its `with` block",
    "broken": "failed half way through an earlier batch and cannot go on; open a new WindowJoin",
}


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

    @checked_names
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
        match: Match = "all",
        algorithm: Algorithm = "auto",
        index: IndexName = "auto",
        workers: int | None = None,
        device: DeviceName = "auto",
        order: Order = "none",
        aliases: Sequence[str] | None = None,
        late: Late = "drop",
        null_time: NullTime = "error",
        suffix: str = "_right",
        max_pending: int = MAX_PENDING,
        max_batch: int = MAX_BATCH,
        max_wait: float | timedelta = MAX_WAIT,
    ) -> None:
        left, right = as_schema(left, "left"), as_schema(right, "right")
        self._schemas: dict[Side, pa.Schema] = {"left": left, "right": right}
        self.plan, lowered, self.options = planned(
            left, right, on, aliases, window=window, time=time, lateness=lateness, how=how, match=match,
            algorithm=algorithm, index=index, workers=workers, order=order, late=late, null_time=null_time,
            device=device, max_pending=max_pending, max_batch=max_batch, max_wait=max_wait,
        )  # fmt: skip
        self._schema = result_schema(left, right, how, suffix)
        self._described = _described(render(self.plan.predicate, check_aliases(aliases)), window, time, self.options)
        with not_too_deep():
            if self.options.is_scanned and self.options.device != "gpu":
                lowered = lower(self.plan, with_keys=False)
            self._intake = Intake(lowered, self._schemas, self.options.time)
            is_ready = rehearsed(self.options, lowered, self._schemas)
            self._steps: Steps | None = Steps(self.options, lowered, self._schemas, is_ready)
        self._may_be_null = {side: all(field.nullable for field in self._schemas[side]) for side in SIDES}
        self._nothing: pa.Table | None = None
        """What an empty poll has returned."""
        self._counts: dict[Side, dict[str, int]] = {side: {"in": 0, "late": 0, "null_time": 0} for side in SIDES}
        self._out = 0
        self._late: dict[Side, list[pa.Table]] = {side: [] for side in SIDES}
        self._watermark: int | None = None
        self._state = "open"
        self._ended: set[Side] = set()
        self._final_figures: dict[str, Any] = {}
        """What `metrics` says once the join is closed."""
        self._lock = threading.RLock()
        cache_directory()
        costs()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        return self._schema

    def push_left(self, batch: Any) -> None:
        """Take a batch of the left stream: anything with the Arrow PyCapsule interface."""
        self.push("left", batch)

    def push_right(self, batch: Any) -> None:
        """Take a batch of the right stream: anything with the Arrow PyCapsule interface."""
        self.push("right", batch)

    def push(self, side: Side, batch: Any) -> None:
        """The same for the side that is named."""
        began = clock.perf_counter()
        choose("side", side, SIDES)
        call = f"push_{side}"
        with self._lock:
            steps = self._usable(call, "open")
            waiting = steps.waits_for_the_other(side)
            if waiting:
                raise BackPressure(
                    f"{call}: {waiting} rows of this stream wait for the other one to come as far; the batch was "
                    "not taken: push rows of the other stream, or say how far it has come with heartbeat() or end(), "
                    "and push the batch again"
                )
            self._push(steps, side, batch, call, began)

    def feed(self, side: Side, batch: Any) -> None:
        """Push a batch for a caller who reads both streams and so cannot keep them together better: any number of rows
        may wait for the other stream. The messages of errors begin with the side."""
        with self._lock:
            self._push(self._usable(side, "open"), side, batch, side, clock.perf_counter())

    @property
    def is_full(self) -> bool:
        """Whether so many results wait that a push would be refused until some are polled."""
        with self._lock:
            return self._steps is not None and self._steps.is_full()

    def heartbeat(self, side: Side, time: Any) -> None:
        """Say that a stream has come to this time, as if a row with it had been pushed: rows that wait for the stream
        are joined, and windows that have closed are let go. The time is given as the time column has it. One that the
        stream has reached already says nothing new and changes nothing."""
        began = clock.perf_counter()
        choose("side", side, SIDES)
        if self.options.time is None:
            raise ArgumentError("heartbeat: the join has no time column, so no row waits for a stream's time")
        name = self.options.time.of(side)
        type_ = self._schemas[side].field(name).type
        try:
            is_number = hasattr(time, "__index__")  # and a number has no unit
            if time is None or isinstance(time, bool) or is_number != pa.types.is_integer(type_):
                raise TypeError
            if isinstance(time, datetime) and (time.tzinfo is None) != (getattr(type_, "tz", None) is None):
                raise TypeError
            column = pa.array([time], type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise ArgumentError(f"time: {time!r} is no {type_}, as the time column {name!r} has it") from None
        reached = int(read_time(column, self.options.time.unit, "heartbeat: time")[0])
        with self._lock:
            steps = self._usable("heartbeat", "open")
            self._check_running("heartbeat", side)
            self._reach(steps, side, reached, began)

    def end(self, side: Side) -> None:
        """Say that a stream has ended: the other one no longer waits for it. A later push, heartbeat or end of it
        raises StateError."""
        began = clock.perf_counter()
        choose("side", side, SIDES)
        with self._lock:
            steps = self._usable("end", "open")
            self._check_running("end", side)
            self._ended.add(side)
            if self.options.time is not None:
                self._reach(steps, side, INT64_MAX, began)

    def poll(self) -> pa.Table:
        """The results that are ready and were not polled yet, without waiting."""
        began = clock.perf_counter()
        with self._lock:
            steps = self._usable("poll", "open", "finished")
            self._advance(steps)
            steps.latency.note(began)
            return self._ready(steps)

    def finish(self) -> pa.Table:
        """End both streams and return the rest of the results."""
        began = clock.perf_counter()
        with self._lock:
            steps = self._usable("finish", "open", "finished")
            if self._state == "open":
                try:
                    steps.finish(began)
                    self._state = "finished"
                except BaseException:
                    self.break_off()
                    raise
                steps.latency.note(began)
            return self._ready(steps)

    def late(self) -> LateRows:
        """The late rows of both streams since the last call; the join must have been opened with late="keep"."""
        if self.options.late != "keep":
            raise StateError('late: late rows are only counted here; open the join with late="keep" to get them')
        with self._lock:
            taken, self._late = self._late, {side: [] for side in SIDES}
        return LateRows(*(pa.concat_tables([self._schemas[side].empty_table(), *taken[side]]) for side in SIDES))

    @property
    def pending(self) -> int:
        """How many results wait to be polled."""
        with self._lock:
            return 0 if self._steps is None else len(self._steps.results)

    @property
    def watermark(self) -> int | None:
        """No result of a later poll has an earlier timestamp (in ticks of the time column): the promise of the last
        poll. None before both streams have begun, and without a time column."""
        return self._watermark

    def metrics(self) -> dict[str, Any]:
        """Counts in, out and late, comparisons, latency percentiles in ms, window occupancy, figures per worker.

        A side's `in` counts all its rows, `late` and `null_time` those of them that were left out. Its `window` counts
        the tuples that later ones of the other side can still meet. `undecided` counts the left rows that wait because
        a closer partner may come, where only the closest is asked for.
        """
        with self._lock:
            if self._steps is None:
                return deepcopy(self._final_figures)
            if self._state == "open":
                self._advance(self._steps)
            return self._figures(self._steps)

    def close(self) -> None:
        """Release everything but late rows that were kept; results that were not polled are gone."""
        with self._lock:
            steps, self._steps, self._state = self._steps, None, "closed"
            if steps is not None:
                try:
                    steps.close()
                finally:
                    figures = self._figures(steps)
                    held = dict.fromkeys(("window", "waiting", "payload_rows"), 0)
                    nothing = {"pending": 0, "undecided": 0}
                    self._final_figures = {**figures, **{side: figures[side] | held for side in SIDES}, **nothing}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        left, right = (self._counts[side]["in"] for side in SIDES)
        counts = f"{left:,} left and {right:,} right rows in, {self._out:,} out"
        return f"<WindowJoin {self._described}: {self._state}, {counts}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a WindowJoin cannot be pickled or copied: it has threads, and windows in memory that they share; open one "
            "where it is used. A join that goes on after a restart is streamjoin.spark.stream_join, from its checkpoint"
        )

    # -- the walk of a batch ---------------------------------------------------------------------------------------

    def _usable(self, call: str, *states: str) -> Steps:
        if self._state not in states or self._steps is None:
            raise StateError(f"{call}: the join {_WHY[self._state]}")
        return self._steps

    def _check_running(self, call: str, side: Side) -> None:
        if side in self._ended:
            raise StateError(f"{call}: end({side!r}) has ended this stream; if it goes on, open a new WindowJoin")

    def break_off(self) -> None:
        """Something failed half way, so the join can no longer be trusted."""
        self._state = "broken"

    def _reach(self, steps: Steps, side: Side, time: int, began: float) -> None:
        try:
            steps.reach(side, time, began)
            steps.advance()
        except BaseException:
            self.break_off()
            raise
        steps.latency.note(began)

    def _push(self, steps: Steps, side: Side, batch: Any, argument: str, began: float) -> None:
        self._check_running(argument, side)
        if steps.is_full():
            self._advance(steps)
            if steps.is_full():
                raise BackPressure(
                    f"{argument}: {len(steps.results)} results wait to be polled, and max_pending stops the join at "
                    f"{self.options.max_pending}; the batch was not taken: poll() and push it again until it is"
                )
        table = as_table(batch, argument)
        if not (self._may_be_null[side] and table.schema.equals(self._schemas[side])):
            table = conform(table, self._schemas[side], argument)
        null_times = 0
        if self.options.null_time == "drop" and self.options.time is not None:
            given, table = table.num_rows, rows_with_time(table, self.options.time.of(side))
            null_times = given - table.num_rows
        if not table.num_rows:
            self._count(side, null_times, null_times)
            return
        steps.payload[side].check(table, argument)
        arrays = single_arrays(table)
        times = self._intake.times(side, table, argument, arrays)
        slots = self._intake.slots(side, table, argument, arrays)
        late = None
        on_time = None if times is None else steps.progress.on_time(side, times)
        if times is not None and on_time is not None:  # late rows take no part and are not kept here
            late, table = _rows_where(table, ~on_time), _rows_where(table, on_time)
            times, slots, arrays = Times.of(times.ticks[on_time]), slots.where(on_time), None
        # Nothing has changed so far: a batch that breaks a rule leaves the join as it was.
        try:
            counts = self._counts[side]
            self._count(side, table.num_rows + null_times, null_times)
            if late is not None:
                counts["in"] += late.num_rows
                counts["late"] += late.num_rows
                if self.options.late == "keep":
                    self._late[side].append(late)
            if steps.take(side, table, times, slots, began, arrays):
                steps.advance()
        except BaseException:
            self.break_off()
            raise
        steps.latency.note(began)

    def _count(self, side: Side, rows: int, null_times: int) -> None:
        self._counts[side]["in"] += rows
        self._counts[side]["null_time"] += null_times

    def _advance(self, steps: Steps) -> None:
        try:
            steps.advance()
        except BaseException:
            self.break_off()
            raise

    def _ready(self, steps: Steps) -> pa.Table:
        """Gather the rows of the results that wait."""
        if not len(steps.results) and self._nothing is not None:
            return self._marked(steps, self._nothing)
        try:
            columns = steps.gathered(1 if self.options.how in ("semi", "anti") else 2)
        except pa.ArrowException as error:
            raise DataError(f"poll: {len(steps.results)} results cannot be put into one table: {error}") from None
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C comes at any place
                self.break_off()
            raise
        table = pa.Table.from_arrays(columns, schema=self._schema)
        steps.results.clear()
        self._out += table.num_rows
        if not table.num_rows:
            self._nothing = table
        return self._marked(steps, table)

    def _marked(self, steps: Steps, table: pa.Table) -> pa.Table:
        """Results on their way to the reader, with the promise that holds when they are read."""
        if self.options.time is not None and not steps.has_work():
            self._watermark = steps.watermark()
        if self.options.order == "punctuated" and self._watermark is not None:
            table = table.replace_schema_metadata({"streamjoin.watermark": str(self._watermark)})
        return table

    def _figures(self, steps: Steps) -> dict[str, Any]:
        figures = steps.figures()
        return {
            **figures,
            **{side: self._counts[side] | figures[side] for side in SIDES},
            "out": self._out,
            **{what: sum(self._counts[side][what] for side in SIDES) for what in ("late", "null_time")},
            "watermark": self.watermark,
            "algorithm": self.options.algorithm,
            "algorithm_why": self.options.algorithm_why,
        }


def _rows_where(table: pa.Table, mask: Mask) -> pa.Table:
    return restored(takeable(table).take(pa.array(np.flatnonzero(mask))), table.schema)


def _described(on: str, window: Any, time: Any, options: Options) -> str:
    """The arguments that say which rows belong to the join, those left out that are as usual."""
    usual = {"match": "all", "order": "none", "lateness": 0}
    chosen = {name: value for name, default in usual.items() if (value := getattr(options, name)) != default}
    given = {"on": on, "window": described_windows(window), "time": time, "how": options.how, **chosen}
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
