"""A subwindow's tuples, column by column: what every index stores, whatever it adds to find them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..predicate.kernels import BLOCK
from .batch import Array, Batch, PairSink


class Subwindow:
    """Up to `capacity` tuples, and the range of coordinates of each block of them.

    `kernel` is the predicate's compiled probe for this stored side (see `predicate.kernels`).
    """

    def __init__(self, capacity: int, dtypes: Sequence[str], kernel: Callable[..., Any]) -> None:
        self._kernel = kernel
        self.slots = [np.empty(capacity, dtype) for dtype in dtypes]
        self.coordinate = np.empty(capacity, np.int64)
        self.row = np.empty(capacity, np.int64)
        blocks = -(-capacity // BLOCK)
        self.block_low = np.full(blocks, np.iinfo(np.int64).max)
        self.block_high = np.full(blocks, np.iinfo(np.int64).min)
        self.count = 0
        self.highest = np.iinfo(np.int64).min
        self.first_row = np.iinfo(np.int64).max

    @property
    def room(self) -> int:
        return len(self.coordinate) - self.count

    @property
    def nbytes(self) -> int:
        arrays: list[Array] = [*self.slots, self.coordinate, self.row, self.block_low, self.block_high]
        return sum(array.nbytes for array in arrays)

    def insert(self, batch: Batch) -> None:
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

    def seal(self) -> None:
        """Nothing to build: the tuples can be found at every moment."""

    def _run(self, batch: Batch, sink: PairSink, own: Sequence[Any], of_probes: Sequence[Any], state: Array) -> int:
        """Call the kernel until it is through, draining its output in between; returns its comparisons.

        `own` are the index's arrays, `of_probes` what it computed for the probing tuples. The kernel keeps in `state`
        where to go on (-1: through) and how many comparisons it made.
        """
        while True:
            found = self._kernel(
                *self.slots, self.coordinate, *own,
                *batch.slots, *of_probes, batch.low, batch.high, len(batch),
                sink.probe_places, sink.stored_places, state,
            )  # fmt: skip
            sink.drain(found, batch.row, self.row)
            if state[0] < 0:
                return int(state[1])
