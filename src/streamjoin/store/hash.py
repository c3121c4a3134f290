"""The hash index: for predicates with at least one equality.

All subwindows of a window share one `HashTable`, and each is a range of its numbers. The compiled probe walks along a
chain and tests the whole predicate on each tuple, so equal hashes, further conditions and the window are decided in one
place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

from .batch import Batch, PairSink, Probing
from .hash_table import HashTable
from .index import Index, IndexKind, Opening
from .key_choice import KeyChooser
from .subwindow import StoredSide, Subwindow


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
        earliest, _, _, latest = probing.bounds
        start = stop = 0
        for subwindow in group:
            coordinate = subwindow.coordinate
            if coordinate.highest < earliest or coordinate.lowest >= latest:
                continue
            if subwindow.start != stop:
                if stop > start:
                    yield from self._table.probe(batch, start, stop, sink)
                start = subwindow.start
            stop = subwindow.stop
        if stop > start:
            yield from self._table.probe(batch, start, stop, sink)


def _open(opening: Opening) -> Index:
    return HashIndex(opening.capacity, opening.stored)


KIND = IndexKind(HashIndex.name, "equality", _open, ", on the equality; the rest is tested along its chains")
