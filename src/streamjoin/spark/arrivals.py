"""The rows of one side that a micro-batch brings to a worker: its messages put together, late rows set apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Integers
from ..arrow.times import Times
from ..flow.progress import Progress
from ..side import Side
from .messages import POSITION, ROLE, ChunkMessage, RowRole, from_bytes, times_of
from .spec import JoinSpec


@dataclass(slots=True)
class Arrivals:
    """The rows that are not late, in an order that does not depend on how messages arrived.

    `times` are the rows' timestamps. `all_times` are the timestamps of all rows of the side, on every worker, and
    `position` is the place of each row among them; both are filled only where the merged order counts. `role` says
    which rows this worker stores and answers for; None where the routing alone decides. `late` are the late rows that
    this worker answers for.
    """

    table: pa.Table
    times: Integers
    all_times: Integers
    position: Integers
    role: npt.NDArray[np.int8] | None
    late: pa.Table
    late_rows: int


def arrivals(spec: JoinSpec, side: Side, messages: Sequence[ChunkMessage], progress: Progress, number: int) -> Arrivals:
    """Put a side's messages together. `number` is this worker's place among the workers."""
    messages = sorted(messages, key=lambda message: message.order)
    own = spec.schemas[side]
    tables: list[pa.Table] = []
    positions: list[Integers] = []
    all_times: list[Integers] = []
    start = 0
    for message in messages:
        table = None if message.body is None else from_bytes(message.body)
        if table is not None:
            tables.append(table)
            if POSITION in table.column_names:
                positions.append(start + table.column(POSITION).to_numpy().astype(np.int64))
            else:
                positions.append(np.arange(start, start + table.num_rows))
        if spec.options.needs_order:
            if message.times is not None:
                all_times.append(times_of(message.times))
            else:
                assert table is not None
                all_times.append(spec.times(side, table))
        start += message.rows
    if tables:
        table = pa.concat_tables(tables).combine_chunks()
        position = np.concatenate(positions)
    else:
        table, position = own.empty_table(), np.empty(0, np.int64)
    role = table.column(ROLE).to_numpy() if ROLE in table.column_names else None
    if role is None and spec.has_roles(side):
        role = np.empty(0, np.int8)
    rows = table.select(own.names)
    found = Arrivals(
        rows, spec.times(side, rows), np.concatenate([np.empty(0, np.int64), *all_times]), position, role,
        own.empty_table(), 0,
    )  # fmt: skip
    return _without_late(spec, side, found, progress, number)


def _without_late(spec: JoinSpec, side: Side, found: Arrivals, progress: Progress, number: int) -> Arrivals:
    on_time = progress.on_time(side, Times.of(found.times))
    if spec.options.needs_order:
        all_on_time = progress.on_time(side, Times.of(found.all_times))
        if all_on_time is not None:
            rank = np.cumsum(all_on_time) - 1
            found.all_times = found.all_times[all_on_time]
            found.position = rank[found.position]
    if on_time is None:
        return found
    mine = ~on_time
    if spec.routing == "broadcast":  # every worker has them: the first one answers
        mine &= number == 0
    elif found.role is not None:
        mine &= found.role == RowRole.ANSWERED
    kept = np.flatnonzero(on_time)
    return Arrivals(
        found.table.take(pa.array(kept)), found.times[kept], found.all_times, found.position[kept],
        None if found.role is None else found.role[kept],
        found.table.take(pa.array(np.flatnonzero(mine))), int(np.count_nonzero(mine)),
    )  # fmt: skip
