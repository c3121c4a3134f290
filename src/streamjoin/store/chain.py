"""The chain of subwindows (PanJoin, section III-A): insert into the newest only, expire the oldest as a whole.

Invariant: every tuple at or above the floor is in exactly one subwindow. Tuples below the floor may linger in a
subwindow that also holds younger ones; the probing tuple's [low, high) keeps them out of results. A sealed subwindow
gets no more tuples.
"""

from __future__ import annotations

from collections.abc import Callable

from ..tasks import Walk
from .batch import Batch
from .index import Index

SMALLEST, LARGE, LARGEST = 1 << 11, 1 << 21, 1 << 22
"""Tuples of a subwindow. To search one beyond `LARGE` costs more than to search two, until there are very many."""
SMALLEST_SCANNED, LARGEST_SCANNED = 1 << 14, 1 << 18
"""The same where the CPU scans all tuples. A scan skips expired tuples, and one call for many costs less than two
calls."""
MOST_SUBWINDOWS = 16
PER_WINDOW = 3
"""Subwindows per window: fewer are faster to probe, more release expired tuples sooner."""


MOST_ROWS = 1 << 15
"""Rows from the first tuple of a subwindow to the next, from which on it is not filled further if all have expired."""


def spans_many(newest: Index, batch: Batch) -> bool:
    """Whether a subwindow would keep the columns of too many rows."""
    return int(batch.row[-1]) - newest.first_row > MOST_ROWS


def is_over(newest: Index, batch: Batch, floor: int | None) -> bool:
    """Whether a subwindow should get no more tuples, since no tuple to come meets one below the floor."""
    return floor is not None and newest.highest < floor and spans_many(newest, batch)


MakeIndex = Callable[[int, int, Index | None], Index]
"""Opens a subwindow: its capacity, the tuples of the whole window, the subwindow before it."""


class Chain:
    """One side's window. `scanned`: the next subwindows will be scanned. `by_device`: a device does that, for which the
    size of a subwindow does not matter."""

    def __init__(self, make_index: MakeIndex, scanned: bool = False, by_device: bool = False) -> None:
        self._make_index = make_index
        self.scanned, self._by_device = scanned, by_device
        self.subwindows: list[Index] = []
        self.created = 0

    def inserting(self, batch: Batch, floor: int | None = None) -> Walk:
        """Fill the newest subwindow, and create further ones, each a fixed share of the window.

        If no tuple to come meets one below the `floor`, a subwindow that lies below it gets no more tuples once it
        spans many rows: it would keep their columns.
        """
        start, count = 0, len(batch)
        while start < count:
            newest = self.subwindows[-1] if self.subwindows else None
            if newest is None or newest.room <= 0 or is_over(newest, batch, floor):
                if newest is not None:
                    yield from newest.sealing()
                newest = self._create(count - start)
            stop = start + newest.room
            yield from newest.inserting(batch if start == 0 and stop >= count else batch.slice(start, stop))
            start = stop

    def _create(self, waiting: int) -> Index:
        window = self.count
        smallest, largest = (SMALLEST_SCANNED, LARGEST_SCANNED) if self.scanned else (SMALLEST, LARGEST)
        wanted = max(min(max(window // PER_WINDOW, waiting), LARGE), window // MOST_SUBWINDOWS, smallest)
        capacity = min(wanted, LARGEST if self._by_device else largest)
        newest = self._make_index(capacity, window + waiting, self.subwindows[-1] if self.subwindows else None)
        self.subwindows.append(newest)
        self.created += 1
        return newest

    def preparing(self) -> Walk:
        for subwindow in self.subwindows:
            yield from subwindow.preparing()

    def expire(self, floor: int) -> int:
        """Release every subwindow that lies wholly below the floor; returns how many they are."""
        gone = [s for s in self.subwindows if s.highest < floor]
        if not gone:
            return 0
        self.subwindows = [s for s in self.subwindows if s.highest >= floor]
        for subwindow in gone:
            subwindow.release()
        return len(gone)

    @property
    def count(self) -> int:
        return sum([subwindow.tuples for subwindow in self.subwindows])

    @property
    def nbytes(self) -> int:
        return sum(subwindow.nbytes for subwindow in self.subwindows)

    @property
    def first_row(self) -> int | None:
        return min((subwindow.first_row for subwindow in self.subwindows), default=None)
