"""The subwindow without an index: every probing tuple is compared with every stored one.

Serves every predicate. Blocks that no probing tuple's window touches are skipped, so a tuple that lingers beyond its
window costs next to nothing until its subwindow goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN
from .batch import Batch, PairSink, Probing
from .scan_kernel import BLOCK
from .subwindow import StoredSide, Subwindow, block_ranges


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

    def probe(self, probing: Probing, sink: PairSink, part: int = 0, parts: int = 1) -> Iterator[int]:
        """Compare with all tuples, or with one of some parts, which have about equally many blocks."""
        blocks = -(-self.count // BLOCK)
        first, last = blocks * part // parts, blocks * (part + 1) // parts
        ends = self._blocks if parts == 1 else (self._blocks[0][first:last], self._blocks[1][first:last])
        return self.scan(probing.mine(probing.batch), sink, first * BLOCK, min(last * BLOCK, self.count), ends)
