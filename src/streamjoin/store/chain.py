"""The chain of subwindows (PanJoin, section III-B): insert into the newest only, expire the oldest as a whole.

Invariant: every tuple at or above the floor is in exactly one subwindow. Tuples below it may linger in a subwindow
that also holds younger ones; the probing tuple's [low, high) keeps them out of results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .batch import Batch, PairSink

SMALLEST, LARGEST = 1 << 10, 1 << 18


class Index(Protocol):
    """One subwindow: tuples, and a structure to find them by."""

    @property
    def count(self) -> int: ...

    @property
    def room(self) -> int:
        """How many more tuples fit in."""

    @property
    def highest(self) -> int:
        """The largest coordinate."""

    @property
    def first_row(self) -> int:
        """The smallest row number."""

    def insert(self, batch: Batch) -> None:
        """Add tuples; the caller has checked that they fit."""

    def probe(self, batch: Batch, sink: PairSink) -> int:
        """Find the stored tuples that match; returns how many comparisons that took."""

    def seal(self) -> None:
        """No more tuples will be inserted."""

    @property
    def nbytes(self) -> int: ...


class Chain:
    """One side's window. `make_index(capacity)` opens a subwindow."""

    def __init__(self, make_index: Callable[[int], Index]) -> None:
        self._make_index = make_index
        self.subwindows: list[Index] = []

    def insert(self, batch: Batch) -> None:
        """Fill the newest subwindow, and open further ones a quarter of the window in size."""
        start = 0
        while start < len(batch):
            if not self.subwindows or not self.subwindows[-1].room:
                if self.subwindows:
                    self.subwindows[-1].seal()
                wanted = max(self.count // 4, len(batch) - start)
                capacity = min(max(SMALLEST, 1 << (wanted - 1).bit_length()), LARGEST)
                self.subwindows.append(self._make_index(capacity))
            newest = self.subwindows[-1]
            stop = start + newest.room
            newest.insert(batch.slice(start, stop))
            start = stop

    def probe(self, batch: Batch, sink: PairSink) -> int:
        return sum(subwindow.probe(batch, sink) for subwindow in self.subwindows)

    def expire(self, floor: int) -> None:
        """Release every subwindow that lies wholly below the floor."""
        self.subwindows = [s for s in self.subwindows if s.highest >= floor]

    @property
    def count(self) -> int:
        return sum(subwindow.count for subwindow in self.subwindows)

    @property
    def nbytes(self) -> int:
        return sum(subwindow.nbytes for subwindow in self.subwindows)

    @property
    def first_row(self) -> int | None:
        return min((subwindow.first_row for subwindow in self.subwindows), default=None)
