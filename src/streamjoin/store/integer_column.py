"""One integer per tuple of a subwindow (its row, its coordinate). No array is kept while they simply count up."""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers, Places
from ..compile.cache import compiled
from ..compile.generic import extremes


class IntegerColumn:
    """Invariant: either `array` holds the integers, or the one at each place is `first + place`.

    `explicit`: always keep the array, because every probe will read it.
    """

    def __init__(self, capacity: int, explicit: bool = False) -> None:
        self._capacity = capacity
        self._count = 0
        self.first = 0
        self.array: Integers | None = np.empty(capacity, np.int64) if explicit else None
        self.lowest, self.highest = INT64_MAX, INT64_MIN

    @property
    def nbytes(self) -> int:
        return 0 if self.array is None else self.array.nbytes

    def append(self, values: Integers) -> bool:
        """Put integers behind the others; returns whether they ascend, and none is below one that was there."""
        count = len(values)
        if not count:
            return True
        start, before = self._count, self.highest
        array = _NONE if self.array is None else self.array
        begins, lowest, highest, counts_up, ascends = _put(values, array, start)
        if not start:
            self.first = begins
        if self.array is None and (not counts_up or begins != self.first + start):
            self.array = np.empty(self._capacity, np.int64)
            self.array[:start] = np.arange(self.first, self.first + start)
            self.array[start : start + count] = values
        self._count = start + count
        if lowest < self.lowest:
            self.lowest = lowest
        if highest > before:
            self.highest = highest
        return ascends and begins >= before

    def extended(self, count: int, lowest: int, highest: int) -> None:
        """Compiled code has put integers behind the others, which are not empty. Where there is no array, they count
        up."""
        self._count += count
        self.lowest = min(self.lowest, lowest)
        self.highest = max(self.highest, highest)

    def forget(self, count: int) -> None:
        """Let go of the first ones, but not of all. From then on there is an array."""
        left = self._count - count
        kept, self._count = self.slice(count, self._count), left
        if self.array is None:
            self.array = np.empty(self._capacity, np.int64)
        self.array[:left] = kept
        self.lowest, self.highest = extremes(self.array[:left])

    def slice(self, start: int, stop: int) -> Integers:
        if self.array is None:
            return np.arange(self.first + start, self.first + stop)
        return self.array[start:stop]

    @property
    def address(self) -> int:
        """Where the array lies in memory; 0 where they count up."""
        return 0 if self.array is None else self.array.ctypes.data

    @property
    def parts(self) -> tuple[int, Integers]:
        """For compiled code: the first integer, and the array, which is empty where they count up."""
        return self.first, _NONE if self.array is None else self.array

    def take(self, places: Places) -> Integers:
        return taken(*self.parts, places)


_NONE: Integers = np.empty(0, np.int64)


@compiled
def taken(first, array, places):  # type: ignore[no-untyped-def]
    """array[places], or first + places where the array is empty."""
    out = np.empty(len(places), np.int64)
    counts_up = len(array) == 0
    for i in range(len(places)):
        out[i] = first + places[i] if counts_up else array[places[i]]
    return out


@compiled
def paired(places, count, probing_rows, base, first, rows, out):  # type: ignore[no-untyped-def]
    """Write the row numbers at pairs of places: probing_rows[place], and rows[base + place], or first + base + place
    where that array is empty."""
    probing, stored = out[0], out[1]
    for i in range(count):
        probing[i] = probing_rows[np.uint32(places[0, i])]
    if len(rows) == 0:
        for i in range(count):
            stored[i] = first + base + places[1, i]
    else:
        for i in range(count):
            stored[i] = rows[base + np.uint32(places[1, i])]


@compiled
def _put(values, array, start):  # type: ignore[no-untyped-def]
    """Copy the values into the array, unless it is empty, from a place on. Returns the first value, the smallest, the
    largest, whether each is one more than the one before, and whether none is less."""
    lowest = highest = values[0]
    counts_up = ascends = True
    for i in range(1, len(values)):
        counts_up &= values[i] - values[i - 1] == 1
        ascends &= values[i] >= values[i - 1]
        lowest = min(lowest, values[i])
        highest = max(highest, values[i])
    if len(array):
        for i in range(len(values)):
            array[start + i] = values[i]
    return values[0], lowest, highest, counts_up, ascends
