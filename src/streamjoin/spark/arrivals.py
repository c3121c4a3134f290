"""What one micro-batch brings a worker of one side: its messages put together, late rows apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Integers
from ..flow.progress import Progress
from ..side import Side
from .messages import PART, PLACE, Message, Part, from_bytes, times_of
from .spec import JoinSpec


@dataclass(slots=True)
class Arrivals:
    """The rows that are not late, in an order that does not depend on how messages arrived.

    `times` are the rows' timestamps. `everybody` are the timestamps of all rows of the side, on whichever worker they
    are, and `place` says which of them each row is; both are only there where the merged order counts. `part` says
    which rows this worker keeps and answers for; None: all of them, or a share, as the routing has it. `late` are late
    rows that this worker answers for.
    """

    table: pa.Table
    times: Integers
    everybody: Integers
    place: Integers
    part: npt.NDArray[np.int8] | None
    late: pa.Table
    late_rows: int


def arrivals(spec: JoinSpec, side: Side, messages: Sequence[Message], progress: Progress, number: int) -> Arrivals:
    """Put a side's messages together. `number` is this worker's among the workers."""
    messages = sorted(messages, key=lambda message: message.place)
    own = spec.schemas[side]
    tables: list[pa.Table] = []
    places: list[Integers] = []
    everybody: list[Integers] = []
    start = 0
    for message in messages:
        table = None if message.body is None else from_bytes(message.body)
        if table is not None:
            tables.append(table)
            if PLACE in table.column_names:
                places.append(start + table.column(PLACE).to_numpy().astype(np.int64))
            else:
                places.append(np.arange(start, start + table.num_rows))
        if spec.options.needs_order:
            if message.times is not None:
                everybody.append(times_of(message.times))
            else:
                assert table is not None
                everybody.append(spec.times(side, table))
        start += message.rows
    if tables:
        table = pa.concat_tables(tables).combine_chunks()
        place = np.concatenate(places)
    else:
        table, place = own.empty_table(), np.empty(0, np.int64)
    part = table.column(PART).to_numpy() if PART in table.column_names else None
    rows = table.select(own.names)
    found = Arrivals(
        rows, spec.times(side, rows), np.concatenate([np.empty(0, np.int64), *everybody]), place, part,
        own.empty_table(), 0,
    )  # fmt: skip
    return _without_late(spec, side, found, progress, number)


def _without_late(spec: JoinSpec, side: Side, found: Arrivals, progress: Progress, number: int) -> Arrivals:
    on_time = progress.on_time(side, found.times)
    if spec.options.needs_order:
        everybody_on_time = progress.on_time(side, found.everybody)
        if everybody_on_time is not None:
            rank = np.cumsum(everybody_on_time) - 1
            found.everybody = found.everybody[everybody_on_time]
            found.place = rank[found.place]
    if on_time is None:
        return found
    mine = ~on_time
    if spec.routing == "broadcast":  # everybody has them: the first one answers
        mine &= number == 0
    elif found.part is not None:
        mine &= found.part == Part.ANSWERED
    kept = np.flatnonzero(on_time)
    return Arrivals(
        found.table.take(pa.array(kept)), found.times[kept], found.everybody, found.place[kept],
        None if found.part is None else found.part[kept],
        found.table.take(pa.array(np.flatnonzero(mine))), int(np.count_nonzero(mine)),
    )  # fmt: skip
