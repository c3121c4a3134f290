"""The chain of subwindows (PanJoin, section III-A): insert into the newest only, expire the oldest as a whole.

Invariant: every tuple at or above the floor is in exactly one subwindow. Tuples below it may linger in a subwindow
that also holds younger ones; the probing tuple's [low, high) keeps them out of results. Sealed subwindows never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from .batch import Batch, PairSink, Probing

SMALLEST, LARGE, LARGEST = 1 << 11, 1 << 21, 1 << 22
"""Tuples of a subwindow. Beyond `LARGE` searching one costs more than searching two, until there are very many."""
SMALLEST_SCANNED = 1 << 14
"""Where all tuples are scanned, those that have expired are skipped, and one call for many costs less than two."""
MOST_SUBWINDOWS = 16
PER_WINDOW = 3
"""Subwindows per window: fewer are faster to probe, more let go of expired tuples sooner."""


class Index(Protocol):
    """One subwindow: tuples, and a structure to find them by."""

    name: str

    @property
    def tuples(self) -> int:
        """How many there are."""

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

    def prepare(self) -> None:
        """Before the next probes: index what was inserted."""

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        """Find the stored tuples that match; gives the comparisons made since, each time the sink was filled further.

        Several threads may probe at once while none inserts.
        """

    def seal(self) -> None:
        """No more tuples will be inserted."""

    def release(self) -> None:
        """All tuples have expired."""

    @property
    def nbytes(self) -> int: ...

    def figures(self) -> dict[str, Any]:
        """What is worth knowing about the structure."""


MakeIndex = Callable[[int, int, "Index | None"], Index]
"""Opens a subwindow: its capacity, the tuples of the whole window, the subwindow before it."""


class Chain:
    """One side's window."""

    def __init__(self, make_index: MakeIndex, largest: int = LARGEST, scanned: bool = False) -> None:
        self._make_index = make_index
        self._largest = largest
        self._smallest = SMALLEST_SCANNED if scanned else SMALLEST
        self.subwindows: list[Index] = []
        self.created = 0

    def insert(self, batch: Batch) -> None:
        """Fill the newest subwindow, and create further ones, each a fixed share of the window."""
        start = 0
        while start < len(batch):
            newest = self.subwindows[-1] if self.subwindows else None
            if newest is None or newest.room <= 0:
                if newest is not None:
                    newest.seal()
                newest = self._create(len(batch) - start)
            stop = start + newest.room
            newest.insert(batch if start == 0 and stop >= len(batch) else batch.slice(start, stop))
            start = stop

    def _create(self, waiting: int) -> Index:
        window = self.count
        wanted = max(min(max(window // PER_WINDOW, waiting), LARGE), window // MOST_SUBWINDOWS, self._smallest)
        capacity = min(wanted, self._largest)
        newest = self._make_index(capacity, window + waiting, self.subwindows[-1] if self.subwindows else None)
        self.subwindows.append(newest)
        self.created += 1
        return newest

    def prepare(self) -> None:
        for subwindow in self.subwindows:
            subwindow.prepare()

    def expire(self, floor: int) -> int:
        """Release every subwindow that lies wholly below the floor; returns how many those were."""
        gone = [s for s in self.subwindows if s.highest < floor]
        if gone:
            self.subwindows = [s for s in self.subwindows if s.highest >= floor]
            for subwindow in gone:
                subwindow.release()
        return len(gone)

    @property
    def count(self) -> int:
        return sum(subwindow.tuples for subwindow in self.subwindows)

    @property
    def nbytes(self) -> int:
        return sum(subwindow.nbytes for subwindow in self.subwindows)

    @property
    def first_row(self) -> int | None:
        return min((subwindow.first_row for subwindow in self.subwindows), default=None)
