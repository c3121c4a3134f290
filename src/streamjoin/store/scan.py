"""The subwindow without an index: every probing tuple is compared with every stored one.

Serves every predicate. Blocks that no probing tuple's window touches are skipped, so a tuple that lingers beyond its
window costs next to nothing until its subwindow goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..predicate.kernels import BLOCK
from .batch import Batch, PairSink, Probing
from .subwindow import INT64_MAX, INT64_MIN, StoredSide, Subwindow, block_ranges


class ScanIndex(Subwindow):
    """Probes with the predicate's compiled scan."""

    name = "scan"

    def __init__(self, capacity: int, stored: StoredSide) -> None:
        super().__init__(capacity, stored)
        blocks = -(-capacity // BLOCK)
        self._blocks = np.full(blocks, INT64_MAX), np.full(blocks, INT64_MIN)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(ends.nbytes for ends in self._blocks)

    def insert(self, batch: Batch) -> None:
        block_ranges(batch.coordinate, self.count, self.count + len(batch), *self._blocks)
        super().insert(batch)

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        return self.scan(probing.mine(probing.batch), sink, 0, self.count, self._blocks)

    def probe_part(self, probing: Probing, sink: PairSink, number: int, of: int) -> Iterator[int]:
        """Compare with one of so many parts, which have about equally many blocks."""
        blocks = -(-self.count // BLOCK)
        first, last = blocks * number // of, blocks * (number + 1) // of
        ends = self._blocks[0][first:last], self._blocks[1][first:last]
        return self.scan(probing.batch, sink, first * BLOCK, min(last * BLOCK, self.count), ends)
