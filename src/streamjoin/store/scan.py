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
from ..compile.entries import address_of_entry
from ..payload.segments import address_of
from ..tasks import Job, Walk
from .batch import Batch, PairSink, Probing
from .grid_probe import GridProbe, grid_of, preparing
from .index import Index, IndexKind, Opening
from .scan_kernel import BLOCK, PADDING, scan_source
from .stored_side import FEW_STORED
from .subwindow import GROUP, LONG_REACH, Subwindow

_NONE: Integers = np.empty(0, np.int64)
LEAST_PIECE = 32
"""Probing tuples of a part, at least."""
SPANNED = 1 << 15
"""Stored tuples that are cut into spans: a span stays in the cache while all probing tuples pass over it."""


class ScanIndex(Subwindow):
    """Probes with the predicate's compiled scan."""

    name = "scan"
    divisible = True
    _addresses: list[tuple[int, int]] | None = None

    @property
    def newest(self) -> ScanIndex:
        """Few tuples may meet it as it is (`store.few`)."""
        return self

    @property
    def scanned(self) -> ScanIndex | None:
        return self

    def forget_below(self, coordinate: int) -> None:
        """Let go of the tuples below a coordinate but for the last one, if they come first and are the most, to have
        room for others. Nobody may know the places of the rest, which moves to the front."""
        place = min(self.count - self.at_least(coordinate), self.count - 1)
        if self.reach.is_in_order and 2 * place > self.count:
            for slot in self.slots.values():
                slot[: self.count - place] = slot[place : self.count]
            self.coordinate.forget(place)
            self.row.forget(place)
            self.count -= place

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
        if not self.count or not probing.count:
            return []
        grid = self._grid_of(probing)
        if grid is not None:
            job = grid.job(self, parts, left_probes)
            if not is_rehearsing():
                return [job]
            address_of_entry(job.entry)
        if probing.same is not None and self.coordinate.array is not None:
            return self._jobs_of_same(probing, parts, left_probes)
        batch = probing.batch
        first, last, begin, end, reached = self.reached_of(probing, batch, 0, self.count)
        if begin >= end:
            return []
        count = end - begin
        if FEW_STORED * count < len(batch) and not is_rehearsing():
            return None
        group = GROUP if reached < LONG_REACH * len(batch) else 0
        spans = max(min(parts, count // (2 * BLOCK)), 1) if by_stored or count > SPANNED else 1
        stored, slots = self.stored, self.tested(begin, end + PADDING)
        limit = len(slots[0]) if slots else end + PADDING - begin
        first_row, rows = self.row.parts
        known = (
            rows, self.coordinate.slice(begin, end), first, last, batch.low, batch.high, batch.row, *slots,
            *stored.tested_of_probes(batch),
        )  # fmt: skip
        sizes = spans, _pieces(parts, spans, len(batch)), len(batch), begin, count, limit, group
        return [_job(stored.entry(scan_source, "scan_part"), sizes, stored.at_once, first_row, left_probes, known)]

    def _jobs_of_same(self, probing: Probing, parts: int, left_probes: bool) -> list[Job]:
        """The same where all tuples of the batch look at the same places. Where these are few, it is the tuples there
        that look at the batch."""
        begin, end = self._places(probing)
        count, probes = end - begin, probing.count
        if count <= 0:
            return []
        if FEW_STORED * count < probes:
            return [self._turned_job(probing, begin, end, parts, left_probes)]
        row, *tested = self._of_probes(probing)
        spans = max(min(parts, count // (2 * BLOCK)), 1) if count > SPANNED else 1
        pieces, (first_row, rows) = _pieces(parts, spans, probes), self.row.parts
        coordinates, *slots = self._where()
        block: Integers = np.array([
            spans, pieces, probes, begin, count, count + PADDING, 0, self.stored.at_once // 8,
            address_of(rows) if len(rows) else 0, len(rows), first_row, coordinates[0] + 8 * begin, 0, 0, 0, 0,
            row[1], left_probes, *[address + begin * width for address, width in slots],
            *[address for _, address in tested],
        ], np.int64)  # fmt: skip
        return [Job(self.stored.entry(scan_source, "scan_part"), block, spans * pieces, (self, rows, row, tested))]

    def _places(self, probing: Probing) -> tuple[int, int]:
        """From where to where the places lie that all tuples of the batch look at."""
        low, high = probing.same or (0, 0)
        first, count = self.coordinate.first, self.count
        if self.coordinate.highest - first == count - 1:
            return min(max(low - first, 0), count), min(max(high - first, 0), count)
        begin, end = self.coordinate.slice(0, count).searchsorted((low, high)).tolist()
        return begin, end

    def _of_probes(self, probing: Probing) -> list[tuple[Array, int]]:
        """The rows and the tested slots of the probing tuples, and where they lie."""

        def found() -> list[tuple[Array, int]]:
            batch = probing.tuples
            columns = [np.ascontiguousarray(column) for column in (batch.row, *self.stored.tested_of_probes(batch))]
            return [(column, address_of(column)) for column in columns]

        known: list[tuple[Array, int]] = probing.once_for_tuples(ScanIndex, found)
        return known

    def _turned_job(self, probing: Probing, begin: int, end: int, parts: int, left_probes: bool) -> Job:
        probes, count = probing.count, end - begin
        places: Integers = probing.once_for_tuples(np.arange, lambda: np.arange(probes))
        (row, _), *tested = self._of_probes(probing)
        known = (
            row, places, _NONE, _NONE, _NONE, _NONE, self.row.slice(begin, end), *[column for column, _ in tested],
            *self.tested(begin, end),
        )  # fmt: skip
        sizes = 1, _pieces(parts, 1, count), count, 0, probes, probes, 0
        return _job(self.stored.turned_entry(), sizes, self.stored.at_once, 0, not left_probes, known)

    def _where(self) -> list[tuple[int, int]]:
        """Where the coordinates and then the tested slots lie, and how wide they are. They stay there."""
        if self._addresses is None:
            columns = [self.coordinate.slice(0, self.capacity), *self.stored.tested(self.slots)]
            self._addresses = [(address_of(column), column.itemsize) for column in columns]
        return self._addresses

    def __getstate__(self) -> dict[str, Any]:
        """Addresses belong to a process."""
        return {**super().__getstate__(), "_addresses": None}

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        if self.stored.grid_keys is not None:
            yield from preparing(self, probing, 0, self.count, workers)

    def _grid_of(self, probing: Probing) -> GridProbe | None:
        if self.stored.grid_keys is None:
            return None
        return grid_of(self, probing, probing.batch, 0, self.count)


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
