"""The hash index: for predicates with at least one equality.

All subwindows of a window share one `HashTable`, and each is a range of its numbers. The compiled probe walks along a
chain and tests the whole predicate on each tuple, so equal hashes, further conditions and the window are decided in one
place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

from ..tasks import Job, Walk
from .batch import Batch, PairSink, Probing
from .hash_table import HashTable
from .index import Index, IndexKind, Opening
from .key_choice import KeyChooser
from .stored_side import StoredSide
from .subwindow import Subwindow


class HashIndex(Subwindow):
    """Tuples [start, stop) of the window's hash table."""

    name = "hash"

    def __init__(self, capacity: int, stored: StoredSide) -> None:
        super().__init__(capacity, stored, keeps_slots=False)
        self._table = stored.shared(HashTable)
        self._start = self._table.open()

    @property
    def table(self) -> HashTable:
        return self._table

    @property
    def start(self) -> int:
        return self._start

    @property
    def stop(self) -> int:
        return self._start + self.count

    @property
    def room(self) -> int:
        """There is none once the table has tuples behind this range."""
        return super().room if self.stop == self._table.end else 0

    @property
    def nbytes(self) -> int:
        own = self.coordinate.nbytes + self.reach.nbytes + self.row.nbytes
        return own + self._table.nbytes * self.count // max(self._table.end - self._table.first, 1)

    def insert(self, batch: Batch) -> None:
        super().insert(batch)
        self._table.insert(batch)

    def inserting(self, batch: Batch) -> Walk:
        super().insert(batch)
        yield from self._table.inserting(batch)

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        if not probing.knows(self._table):
            yield from self._table.hashing(probing, workers)

    def release(self) -> None:
        self._table.release(self._start)

    def as_batch(self) -> Batch:
        return self._table.batch(self._start, self.stop)

    def __getstate__(self) -> dict[str, Any]:
        """The tuples travel as a batch: the table belongs to a window."""
        return {**super().__getstate__(), "_table": None, "_start": self.as_batch()}

    def attach(self, stored: StoredSide, keys: KeyChooser) -> None:
        super().attach(stored, keys)
        tuples = self.__dict__.get("_start")
        if tuples is None:  # the state of an older version, which kept its slots itself
            tuples, self.slots = super().as_batch(), {}
        elif not isinstance(tuples, Batch):
            tuples = self.as_batch()
        self._table = stored.shared(HashTable)
        self._start = self._table.open()
        self._table.insert(tuples)

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        return iter(())

    @property
    def group(self) -> Hashable:
        return self._table

    def probe_group(self, group: Sequence[Self], probing: Probing, sink: PairSink) -> Iterator[int]:
        """Neighbours are probed in one call."""
        batch = probing.mine(probing.batch)
        for start, stop in self._numbers(group, probing):
            yield from self._table.probe(batch, start, stop, sink)

    def group_jobs(self, group: Sequence[Self], probing: Probing, parts: int, left_probes: bool) -> list[Job]:
        return [
            self._table.job(probing, start, stop, parts, left_probes) for start, stop in self._numbers(group, probing)
        ]

    @property
    def beside_group(self) -> bool:
        return False

    def _numbers(self, group: Sequence[Self], probing: Probing) -> list[tuple[int, int]]:
        """The tuples that the batch reaches, by their numbers: those of neighbours as one range."""
        earliest, _, _, latest = probing.bounds
        found: list[tuple[int, int]] = []
        for subwindow in group:
            coordinate = subwindow.coordinate
            if coordinate.highest < earliest or coordinate.lowest >= latest or not subwindow.count:
                continue
            start = subwindow.start
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, subwindow.stop))
        return found


def _open(opening: Opening) -> Index:
    return HashIndex(opening.capacity, opening.stored)


KIND = IndexKind(HashIndex.name, "equality", _open, ", on the equality; the rest is tested along its chains")
