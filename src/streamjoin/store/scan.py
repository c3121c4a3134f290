"""The subwindow without an index: every probing tuple is compared with every stored one.

It serves every predicate. A probing tuple looks only at the places where tuples of its window can lie (`store.reach`).
So a short window costs little however many tuples are stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..tasks import RunAll
from .batch import PairSink, Probing
from .index import Index, IndexKind, Opening
from .scan_kernel import BLOCK
from .subwindow import Subwindow


class ScanIndex(Subwindow):
    """Probes with the predicate's compiled scan."""

    name = "scan"
    divisible = True

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        """Compare with all tuples, or with the blocks of one part."""
        mine = probing.part(-(-self.count // BLOCK))
        start, stop = mine.start * BLOCK, min(mine.stop * BLOCK, self.count)
        return self.scan(probing, probing.mine(probing.batch), sink, start, stop)

    def compute_ahead(self, probing: Probing, workers: int, run_all: RunAll) -> None:
        self._grid(probing, 0, self.count)


def _open(opening: Opening) -> Index:
    return ScanIndex(opening.capacity, opening.stored)


KIND = IndexKind(ScanIndex.name, "nothing", _open, ": every stored tuple in the window is tested", scanned=True)
