"""Columns of any other type: they stay in the Arrow batches they came in."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MAX, Rows
from ..arrow.tables import restored, takeable, takeable_type
from ..compile.cache import compiled
from ..integer_deque import IntegerDeque

SMALL_BATCH, MERGED_BATCHES, MERGED_ROWS = 64, 64, 4096
"""Batches of under 64 rows are merged, 64 at a time, into batches of some thousand rows: the overhead of an Arrow
batch would outweigh them. Larger batches are kept as they came."""


class KeptBatches:
    """Columns of any type, kept as the Arrow batches they came in; whole batches are dropped from the front."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._tables: deque[pa.Table] = deque()
        self._starts = IntegerDeque()
        self._small = 0
        self.end = 0

    def append(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._tables.append(takeable(table))
        self._starts.append(self.end)
        self.end += table.num_rows
        self._small = self._small + 1 if table.num_rows < SMALL_BATCH else 0
        if self._small == MERGED_BATCHES:
            self._merge_small()

    def _merge_small(self) -> None:
        """The newest small batches as one contiguous batch, together with merged ones that are no larger."""
        count = self._small
        rows = sum(self._tables[-k].num_rows for k in range(1, count + 1))
        while count < len(self._tables) and self._tables[-count - 1].num_rows <= min(rows, MERGED_ROWS):
            count += 1
            rows += self._tables[-count].num_rows
        self._small = 0
        try:
            merged = pa.concat_tables([self._tables[-k] for k in range(count, 0, -1)]).combine_chunks()
        except pa.ArrowException:  # dictionaries that do not fit into one: they stay apart
            return
        for _ in range(count):
            self._tables.pop()
        self._tables.append(merged)
        self._starts.drop_back(count)
        self._starts.append(self.end - rows)

    def release(self, floor: int) -> None:
        """Forget the batches that lie wholly below row number `floor`."""
        gone = int(np.searchsorted(self._starts.view, floor, side="right")) - 1
        gone = len(self._tables) if floor >= self.end else max(gone, 0)
        for _ in range(gone):
            self._tables.popleft()
        self._starts.drop_front(gone)
        self._small = min(self._small, len(self._tables))

    def take(self, rows: Rows, columns: list[str]) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        starts = self._starts.view
        batch, counts = np.empty(len(rows), np.int32), np.zeros(len(starts) + 1, np.int64)
        _find_batches(rows, starts, batch, counts)
        used = np.flatnonzero(counts[:-1])
        if not len(used):
            fields = [pa.field(field.name, takeable_type(field.type)) for field in schema]
            nulls = [pa.nulls(len(rows), field.type) for field in fields]
            return restored(pa.Table.from_arrays(nulls, schema=pa.schema(fields)), schema)
        # Rows of each batch first, then their order: Arrow would join whole batches to take from several at once.
        ends = np.cumsum(counts)
        places, order = np.empty(ends[-1] - counts[-1], np.int64), np.empty(len(rows), np.int64)
        _group(rows, starts, batch, ends - counts, places, order)
        tables = [self._tables[i].select(columns) for i in used]
        if len(used) == 1:
            table, order = tables[0], rows - starts[used[0]]
        else:
            cuts = [(ends[i] - counts[i], ends[i]) for i in used]
            table = pa.concat_tables(
                part.take(pa.array(places[first:last])) for part, (first, last) in zip(tables, cuts, strict=True)
            )
        indices = pa.array(order, mask=rows < 0) if counts[-1] else pa.array(order)
        return restored(table.take(indices), schema)


@compiled
def _find_batches(rows, starts, batch, counts):  # type: ignore[no-untyped-def]
    """The number of each row's batch, and how many rows each has; rows that are not there count last."""
    last = len(starts)
    found, first, end = last, 0, 0
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            batch[i] = last
            counts[last] += 1
            continue
        if row < first or row >= end:
            found = np.searchsorted(starts, row, side="right") - 1
            first = starts[found]
            end = starts[found + 1] if found + 1 < last else INT64_MAX
        batch[i] = found
        counts[found] += 1


@compiled
def _group(rows, starts, batch, free, places, order):  # type: ignore[no-untyped-def]
    """Put the places of rows within their batches batch by batch; `order` says where each row's went."""
    last = len(starts)
    for i in range(len(rows)):
        mine = batch[i]
        if mine == last:
            order[i] = 0
            continue
        at = free[mine]
        free[mine] = at + 1
        places[at] = rows[i] - starts[mine]
        order[i] = at
