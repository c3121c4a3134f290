"""Columns of any other type: they stay in the Arrow batches they came in."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ..arrays import Rows
from ..arrow.tables import restored, takeable, takeable_type
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
        present = rows[rows >= 0]
        if not len(present):
            fields = [pa.field(field.name, takeable_type(field.type)) for field in schema]
            nulls = [pa.nulls(len(rows), field.type) for field in fields]
            return restored(pa.Table.from_arrays(nulls, schema=pa.schema(fields)), schema)
        absent = rows < 0
        starts = self._starts.view
        batch = np.searchsorted(starts, rows, side="right") - 1
        batch[absent] = batch[~absent][0]
        used, inverse = np.unique(batch, return_inverse=True)
        places = rows - starts[batch]
        tables = [self._tables[i].select(columns) for i in used]
        if len(used) == 1:
            table = tables[0]
        else:
            # Rows of each batch first, then their order: Arrow would join whole batches to take from several at once.
            order = np.argsort(inverse, kind="stable")
            cuts = np.searchsorted(inverse[order], np.arange(len(used) + 1))
            table = pa.concat_tables(
                part.take(pa.array(np.where(absent[mine], 0, places[mine])))
                for part, mine in zip(tables, (order[a:b] for a, b in pairwise(cuts)), strict=True)
            )
            places = np.empty(len(rows), np.int64)
            places[order] = np.arange(len(rows))
        indices = pa.array(places, mask=absent) if absent.any() else pa.array(places)
        return restored(table.take(indices), schema)
