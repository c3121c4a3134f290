"""Tables and readers as two streams: a slice at a time, always of the stream that is behind.

So both streams move on together. Windows hold what a running join would hold, whatever the size of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..arguments import checked_names
from ..arrow.tables import as_schema, as_table, contiguous, restored, takeable
from ..arrow.times import TimeColumns, read_time, rows_with_time
from ..compile.generic import extremes, is_ascending
from ..errors import ArgumentError, DataError, StateError
from ..predicate import Predicate
from ..side import SIDES, Side
from .as_of import join_as_of
from .options import Algorithm, DeviceName, How, IndexName, Match, NullTime, Order
from .planning import planned
from .window_join import LatenessArgument, WindowArgument, WindowJoin

SLICE = 1 << 17
"""Rows that are pushed and joined at once: enough for the threads to share, and for Python's part of a step to be small
beside theirs, and so few that what they need stays in the last-level cache."""
ENOUGH = 1 << 20
"""Results that are gathered at once."""


@checked_names
def join(
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
    suffix: str = "_right",
    null_time: NullTime = "error",
) -> pa.Table:
    """Join two tables as if they had been streamed. Their rows may be in any order: none is late.

    Without a time column the order of pushing counts: the whole left table, then the whole right one.
    """
    tables = as_table(left, "left"), as_table(right, "right")
    if match != "all" and algorithm == index == "auto" and device != "gpu":
        schemas = as_schema(tables[0], "left"), as_schema(tables[1], "right")
        plan = planned(
            *schemas, on, aliases, window=window, time=time, lateness=lateness, how=how, match=match,
            algorithm=algorithm, index=index, workers=workers, device=device, order=order, late="drop",
            null_time=null_time,
        )  # fmt: skip
        found = join_as_of(*tables, plan, suffix)
        if found is not None:
            return found
    with WindowJoin(
        tables[0].schema, tables[1].schema, on=on, window=window, time=time, lateness=lateness, how=how, match=match,
        algorithm=algorithm, index=index, workers=workers, device=device, order=order, aliases=aliases, suffix=suffix,
        max_batch=SLICE, null_time=null_time,
    ) as running:  # fmt: skip
        return pa.concat_tables(replay(running, *tables))


@checked_names
def join_batches(
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
    suffix: str = "_right",
    null_time: NullTime = "error",
) -> pa.RecordBatchReader:
    """The same join as `join`, but its results come one batch after the other while the inputs are read.

    An input may be a `pyarrow.RecordBatchReader`, such as a Parquet dataset's or a DuckDB result's. It is read as it is
    needed, so more than memory can be joined. Its rows must be in time order, up to `lateness`; a row further back
    raises DataError. Tables may be in any order.
    """
    if left is right and isinstance(left, pa.RecordBatchReader):
        raise ArgumentError("right: it is the same reader as left, and a reader can be read once; open another one")
    running = WindowJoin(
        as_schema(left, "left"), as_schema(right, "right"), on=on, window=window, time=time, lateness=lateness,
        how=how, match=match, algorithm=algorithm, index=index, workers=workers, device=device, order=order,
        aliases=aliases, suffix=suffix, max_batch=SLICE, null_time=null_time,
    )  # fmt: skip

    def results() -> Iterator[pa.RecordBatch]:
        with running:
            for table in replay(running, left, right):
                yield from table.to_batches()

    return pa.RecordBatchReader.from_batches(running.schema, results())


class _Slice(NamedTuple):
    """Rows to push, and the latest time of their stream after them."""

    rows: pa.Table
    reached: int


def replay(running: WindowJoin, left: Any, right: Any) -> Iterator[pa.Table]:
    """Push all of both inputs through a join; its results, some at a time. If an input fails, what was found before
    comes first."""
    try:
        yield from _replayed(running, left, right)
    except Exception:
        with suppress(StateError):  # if the join itself has failed
            yield running.poll()
        raise


def _replayed(running: WindowJoin, left: Any, right: Any) -> Iterator[pa.Table]:
    inputs: dict[Side, Any] = {"left": left, "right": right}
    options = running.options
    if options.time is None:
        for side in SIDES:
            for rows in _pieces(_tables(inputs[side], side)):
                yield from _push(running, side, rows)
        yield from _rest(running)
        return
    in_order = options.order == "sorted"
    drops = options.null_time == "drop"
    sources = {side: _slices(inputs[side], side, options.time, options.lateness, in_order, drops) for side in SIDES}
    waiting: dict[Side, _Slice] = {}
    for side in SIDES:
        _fetch(running, side, sources[side], waiting)
    while waiting:
        side = min(waiting, key=lambda s: waiting[s].reached)
        yield from _push(running, side, waiting.pop(side).rows)
        _fetch(running, side, sources[side], waiting)
    yield from _rest(running)


def _fetch(running: WindowJoin, side: Side, source: Iterator[_Slice], waiting: dict[Side, _Slice]) -> None:
    """Have the next slice of a stream at hand, or let the other stream know that there is none."""
    piece = next(source, None)
    if piece is None:
        running.end(side)
    else:
        waiting[side] = piece


def _push(running: WindowJoin, side: Side, rows: pa.Table) -> Iterator[pa.Table]:
    while running.is_full:
        yield running.poll()
    running.feed(side, rows)
    if running.pending >= ENOUGH:
        yield running.poll()


def _rest(running: WindowJoin) -> Iterator[pa.Table]:
    """What is left once both inputs have been read, not more at a time than usual."""
    while running.is_full:
        yield running.poll()
    yield running.finish()


def _slices(
    data: Any, side: Side, time: TimeColumns, lateness: int, in_order: bool, drops: bool
) -> Iterator[_Slice]:  # fmt: skip
    """An input in time order. A table that is out of order is sorted, unless the places of its rows matter. `drops`:
    rows without a timestamp are left out."""
    name = time.of(side)

    def times_of(rows: pa.Table) -> Any:
        return read_time(contiguous(rows.column(name)), time.unit, f"{side}: time column {name!r}")

    if not isinstance(data, pa.RecordBatchReader):
        table = as_table(data, side)
        table = rows_with_time(table, name) if drops else table
        times = times_of(table)
        if is_ascending(times):
            for start in range(0, len(times), SLICE):
                stop = min(start + SLICE, len(times))
                yield _Slice(table.slice(start, SLICE), int(times[stop - 1]))
        elif in_order:
            yield _Slice(table, extremes(times)[1])
        else:
            order, plain = np.argsort(times, kind="stable"), takeable(table)
            for start in range(0, len(order), SLICE):
                places = order[start : start + SLICE]
                yield _Slice(restored(plain.take(pa.array(places)), table.schema), int(times[places[-1]]))
        return
    reached = None
    for rows in _pieces(_tables(data, side)):
        rows = rows_with_time(rows, name) if drops else rows
        if not rows.num_rows:
            continue
        earliest, latest = extremes(times_of(rows))
        if reached is not None and earliest < reached - lateness:
            raise DataError(
                f"{side}: the time column {name!r} goes back from {reached} to {earliest} (in its own ticks), by more "
                "than the lateness; sort the input by time, raise `lateness`, or give a table"
            )
        reached = latest if reached is None else max(reached, latest)
        yield _Slice(rows, reached)


def _tables(data: Any, side: Side) -> Iterator[pa.Table]:
    if isinstance(data, pa.RecordBatchReader):
        for batch in data:
            yield pa.Table.from_batches([batch])
    else:
        yield as_table(data, side)


def _pieces(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        for start in range(0, table.num_rows, SLICE):
            yield table.slice(start, SLICE)
