"""The subwindow without an index: a scan of its columns, with the largest and smallest coordinate of each block.

Serves every predicate. Blocks that no probing tuple's window touches are skipped, so a tuple that lingers beyond
its window costs nothing until its subwindow goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..predicate.kernels import BLOCK
from .batch import Array, Batch, PairSink


class Columns:
    """The stored tuples of a subwindow, column by column, and each block's range of coordinates."""

    def __init__(self, capacity: int, dtypes: Sequence[str]) -> None:
        self.slots = [np.empty(capacity, dtype) for dtype in dtypes]
        self.coordinate = np.empty(capacity, np.int64)
        self.row = np.empty(capacity, np.int64)
        blocks = -(-capacity // BLOCK)
        self.block_low = np.full(blocks, np.iinfo(np.int64).max)
        self.block_high = np.full(blocks, np.iinfo(np.int64).min)
        self.count = 0
        self.highest = np.iinfo(np.int64).min
        self.first_row = np.iinfo(np.int64).max

    def append(self, batch: Batch) -> tuple[int, int]:
        """Add tuples; returns the places they took."""
        start, end = self.count, self.count + len(batch)
        for stored, new in zip(self.slots, batch.slots, strict=True):
            stored[start:end] = new
        self.coordinate[start:end] = batch.coordinate
        self.row[start:end] = batch.row
        self.count = end
        for block in range(start // BLOCK, -(-end // BLOCK)):
            part = self.coordinate[max(block * BLOCK, start) : min((block + 1) * BLOCK, end)]
            self.block_low[block] = min(self.block_low[block], part.min())
            self.block_high[block] = max(self.block_high[block], part.max())
        self.highest = max(self.highest, int(batch.coordinate.max()))
        self.first_row = min(self.first_row, int(batch.row.min()))
        return start, end

    @property
    def nbytes(self) -> int:
        arrays: list[Array] = [*self.slots, self.coordinate, self.row, self.block_low, self.block_high]
        return sum(array.nbytes for array in arrays)


class ScanIndex:
    """`kernel` is the predicate's compiled scan for this stored side (see `predicate.kernels`)."""

    def __init__(self, capacity: int, dtypes: Sequence[str], kernel: Callable[..., Any]) -> None:
        self._columns = Columns(capacity, dtypes)
        self._kernel = kernel

    @property
    def count(self) -> int:
        return self._columns.count

    @property
    def room(self) -> int:
        return len(self._columns.coordinate) - self._columns.count

    @property
    def highest(self) -> int:
        return self._columns.highest

    @property
    def first_row(self) -> int:
        return self._columns.first_row

    @property
    def nbytes(self) -> int:
        return self._columns.nbytes

    def insert(self, batch: Batch) -> None:
        self._columns.append(batch)

    def seal(self) -> None:
        """A scan has nothing to build."""

    def probe(self, batch: Batch, sink: PairSink) -> int:
        stored = self._columns
        state = np.zeros(2, np.int64)
        while True:
            count = self._kernel(
                *stored.slots, stored.coordinate, stored.block_low, stored.block_high, stored.count,
                *batch.slots, batch.low, batch.high, len(batch),
                sink.probe_places, sink.stored_places, state,
            )  # fmt: skip
            sink.drain(count, batch.row, stored.row)
            if state[0] < 0:
                return int(state[1])
