"""The subwindow without an index: every probing tuple is compared with every stored one.

It serves every predicate. A probing tuple looks only at the places where tuples of its window can lie (`store.reach`).
So a short window costs little however many tuples are stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..tasks import RunAll
from .batch import Batch, PairSink, Probing
from .index import Index, IndexKind, Opening
from .scan_kernel import BLOCK
from .subwindow import Subwindow


class ScanIndex(Subwindow):
    """Probes with the predicate's compiled scan."""

    name = "scan"
    divisible = True

    @property
    def newest(self) -> ScanIndex:
        """Few tuples may meet it as it is (`store.few`)."""
        return self

    def probe_few(self, batch: Batch, sink: PairSink) -> Iterator[int]:
        """The same as `probe` with a batch of at most `FEW_PROBES`."""
        reach = self.reach.slice(self.coordinate, 0, self.count, batch.low, batch.high)
        return self.scan_reached(batch, sink, reach) if reach[2] < reach[3] else iter(())

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
