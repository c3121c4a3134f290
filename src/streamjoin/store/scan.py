"""The subwindow without an index: every probing tuple is compared with every stored one.

It serves every predicate. A probing tuple looks only at the places where tuples of its window can lie (`store.reach`).
So a short window costs little however many tuples are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, Integers
from ..compile.background import is_rehearsing
from ..payload.segments import address_of
from ..tasks import Job, Walk
from .batch import Batch, PairSink, Probing
from .index import Index, IndexKind, Opening
from .scan_kernel import BLOCK, PADDING, scan_source
from .subwindow import FEW_STORED, GROUP, LONG_REACH, Subwindow

_NONE: Integers = np.empty(0, np.int64)
LEAST_PIECE = 32
"""Probing tuples of a part, at least."""
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
        batch = probing.batch
        if not self.count or not len(batch):
            return []
        if self._grid(probing, 0, self.count) is not None and not is_rehearsing():
            return None
        if probing.same:
            return self._jobs_of_same(probing, parts, left_probes)
        first, last, begin, end, reached = self._reached(probing, batch, 0, self.count)
        if begin >= end:
            return []
        count = end - begin
        if FEW_STORED * count < len(batch) and not is_rehearsing():
            return None
        group = GROUP if reached < LONG_REACH * len(batch) else 0
        spans = max(min(parts, count // (2 * BLOCK)), 1) if by_stored or count > SPANNED else 1
        return [self._job(batch, begin, end, (first, last), group, spans, parts, left_probes)]

    def _jobs_of_same(self, probing: Probing, parts: int, left_probes: bool) -> list[Job]:
        """The same where all tuples of the batch look at the same stored ones. Where these are few, it is they that
        look at the batch."""
        batch = probing.batch
        _, _, begin, end, _ = self.reach.slice(self.coordinate, 0, self.count, batch.low[:1], batch.high[:1])
        count = end - begin
        if count <= 0:
            return []
        if FEW_STORED * count < len(batch) and self.reach.is_in_order:
            return [self._turned_job(probing, begin, end, parts, left_probes)]
        spans = max(min(parts, count // (2 * BLOCK)), 1) if count > SPANNED else 1
        return [self._job(batch, begin, end, (_NONE, _NONE), 0, spans, parts, left_probes)]

    def _job(
        self, batch: Batch, begin: int, end: int, reach: tuple[Integers, Integers], group: int, spans: int, parts: int,
        left_probes: bool,
    ) -> Job:  # fmt: skip
        stored, slots = self.stored, self._tested(begin, end + PADDING)
        limit = len(slots[0]) if slots else end + PADDING - begin
        first_row, rows = self.row.parts
        known = (
            rows, self.coordinate.slice(begin, end), *reach, batch.low, batch.high, batch.row, *slots,
            *stored.tested_of_probes(batch),
        )  # fmt: skip
        sizes = spans, _pieces(parts, spans, len(batch)), len(batch), begin, end - begin, limit, group
        return _job(stored.entry(scan_source, "scan_part"), sizes, stored.at_once, first_row, left_probes, known)

    def _turned_job(self, probing: Probing, begin: int, end: int, parts: int, left_probes: bool) -> Job:
        batch, stored, probes = probing.batch, self.stored, len(probing.batch)
        places: Integers = probing.once("places", lambda: np.arange(probes))
        low, high = np.zeros(end - begin, np.int64), np.full(end - begin, probes)
        known = (
            batch.row, places, _NONE, _NONE, low, high, self.row.slice(begin, end), *stored.tested_of_probes(batch),
            *self._tested(begin, end),
        )  # fmt: skip
        sizes = 1, _pieces(parts, 1, end - begin), end - begin, 0, probes, probes, 0
        return _job(stored.turned_entry(), sizes, stored.at_once, 0, not left_probes, known)

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        if self.stored.grid_keys is not None:
            yield [lambda: self._grid(probing, 0, self.count)]


def _pieces(parts: int, spans: int, probes: int) -> int:
    """Into how many pieces the probing tuples of a job are cut, so that it has about so many parts."""
    return max(min(-(-parts // spans), probes // LEAST_PIECE), 1)


def _job(
    entry: Any, sizes: Sequence[int], at_once: int, first_row: int, left_probes: bool, known: Sequence[Array]
) -> Job:
    """The job of a scan: see `scan_kernel.SCAN_WORDS`. `known`: the arrays, in the order of their addresses there."""
    kept = [np.ascontiguousarray(array) for array in known]
    where = [address_of(array) if len(array) else 0 for array in kept]
    block: Integers = np.array(
        [*sizes, at_once // 8, where[0], len(kept[0]), first_row, *where[1:7], left_probes, *where[7:]], np.int64
    )
    return Job(entry, block, sizes[0] * sizes[1], kept)


def _open(opening: Opening) -> Index:
    return ScanIndex(opening.capacity, opening.stored)


KIND = IndexKind(ScanIndex.name, "nothing", _open, ": every stored tuple in the window is tested", scanned=True)
