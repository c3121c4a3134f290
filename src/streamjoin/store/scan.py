"""The subwindow without an index: every probing tuple is compared with every stored one.

It serves every predicate. A scan skips the blocks that no probing tuple's window touches, so an expired tuple costs
next to nothing until its subwindow expires.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN
from .batch import Batch, PairSink, Probing
from .index import Index, IndexKind, Opening
from .scan_kernel import BLOCK
from .subwindow import StoredSide, Subwindow, block_ranges


class ScanIndex(Subwindow):
    """Probes with the predicate's compiled scan."""

    name = "scan"
    divisible = True

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
        """Compare with all tuples, or with the blocks of one part."""
        blocks = -(-self.count // BLOCK)
        mine = probing.part(blocks)
        ends = self._blocks if mine.stop - mine.start == blocks else (self._blocks[0][mine], self._blocks[1][mine])
        start, stop = mine.start * BLOCK, min(mine.stop * BLOCK, self.count)
        return self.scan(probing.mine(probing.batch), sink, start, stop, ends)


def _open(opening: Opening) -> Index:
    return ScanIndex(opening.capacity, opening.stored)


KIND = IndexKind(ScanIndex.name, "nothing", _open, ": every stored tuple in the window is tested", scanned=True)
