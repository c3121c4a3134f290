"""The subwindow without an index: every probing tuple is compared with every stored one.

It serves every predicate. A probing tuple looks only at the places where tuples of its window can lie (`store.reach`).
So a short window costs little however many tuples are stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import Integers
from ..compile.background import is_rehearsing
from ..compile.entries import address_of_entry
from ..payload.segments import address_of
from ..tasks import Job, Walk
from .batch import Batch, PairSink, Probing
from .grid_probe import grid_of
from .index import Index, IndexKind, Opening
from .scan_kernel import BLOCK, PADDING, scan_source
from .stored_side import FEW_STORED
from .subwindow import GROUP, LONG_REACH, Subwindow

SPANNED = 1 << 15
"""Stored tuples that are cut into spans: a span stays in the cache while all probing tuples pass over it."""


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

    def scan_jobs(self, probing: Probing, parts: int, left_probes: bool, by_stored: bool) -> list[Job] | None:
        """A part scans a span of the stored tuples with some of the probing ones."""
        batch, stored = probing.batch, self.stored
        if not self.count or not len(batch):
            return []
        grid = grid_of(self, probing, batch, 0, self.count)
        if grid is not None:
            job = grid.job(self, parts, left_probes)
            if not is_rehearsing():
                return [job]
            address_of_entry(job.entry)
        first, last, begin, end, reached = self.reached_of(probing, batch, 0, self.count)
        if begin >= end:
            return []
        count = end - begin
        if FEW_STORED * count < len(batch) and not is_rehearsing():
            return None
        spans = max(min(parts, count // (2 * BLOCK)), 1) if by_stored or count > SPANNED else 1
        pieces = max(min(-(-parts // spans), len(batch) // 32), 1)
        slots = self.tested(begin, end + PADDING)
        limit = len(slots[0]) if slots else end + PADDING - begin
        first_row, rows = self.row.parts
        coordinates = self.coordinate.slice(begin, end)
        known = (
            rows, coordinates, first, last, batch.low, batch.high, batch.row, *slots, *stored.tested_of_probes(batch)
        )  # fmt: skip
        kept = [np.ascontiguousarray(array) for array in known]
        where = [address_of(array) if len(array) else 0 for array in kept]
        block: Integers = np.array([
            spans, pieces, len(batch), begin, count, limit, GROUP if reached < LONG_REACH * len(batch) else 0,
            stored.at_once // 8, where[0], len(rows), first_row, *where[1:7], left_probes, *where[7:],
        ], np.int64)  # fmt: skip
        return [Job(stored.entry(scan_source, "scan_part"), block, spans * pieces, kept)]

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        yield [lambda: grid_of(self, probing, probing.batch, 0, self.count)]


def _open(opening: Opening) -> Index:
    return ScanIndex(opening.capacity, opening.stored)


KIND = IndexKind(ScanIndex.name, "nothing", _open, ": every stored tuple in the window is tested", scanned=True)
