"""Where in a subwindow the tuples lie that a probing tuple may meet: the window as a band on coordinates.

Tuples come nearly in the order of their coordinates. Two bounds make a search possible whatever the order is: `upper`,
the highest coordinate up to a place, and `lower`, the lowest one from a place on. Both ascend, and the tuples with
coordinates in [low, high) lie between the first place where `upper` reaches `low` and the first one where `lower`
reaches `high`. Where tuples are in order, both bounds are the coordinates themselves.
"""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, Integers
from ..compile.cache import compiled
from .integer_column import IntegerColumn

Reached = tuple[Integers, Integers, int, int, int]
"""What `Reach.slice` finds."""


class Reach:
    """Bounds of a column of up to `capacity` coordinates."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._bounds: tuple[Integers, Integers] | None = None
        """Upper and lower; None while tuples are in order."""

    @property
    def is_in_order(self) -> bool:
        """Whether all coordinates so far have come in order."""
        return self._bounds is None

    @property
    def nbytes(self) -> int:
        return 0 if self._bounds is None else sum(bound.nbytes for bound in self._bounds)

    def append(self, column: IntegerColumn, start: int, stop: int, in_order: bool) -> None:
        """The coordinates at places [start, stop) are new. `in_order`: they ascend, and none is below an older one."""
        array = column.array
        if array is None:
            return
        if self._bounds is None:
            if in_order:
                return
            self._bounds = np.empty(self._capacity, np.int64), np.empty(self._capacity, np.int64)
            start = 0
        _extend(array, start, stop, *self._bounds)

    def at_least(self, column: IntegerColumn, count: int, value: int) -> int:
        """How many of the first `count` coordinates are at least this value. Needs no machine code."""
        if column.array is None:
            return min(max(column.first + count - value, 0), count)
        bounds = (column.array, column.array) if self._bounds is None else self._bounds
        first, last = (int(bound[:count].searchsorted(value)) for bound in bounds)  # below, none is; beyond, all are
        return int(np.count_nonzero(column.array[first:last] >= value)) + count - last

    def slice(
        self, column: IntegerColumn, start: int, stop: int, low: Integers, high: Integers
    ) -> tuple[Integers, Integers, int, int, int]:
        """For each probing tuple: from where to where in [start, stop) the tuples lie that it may meet, counted from
        the first place that any of them reaches; also that place, the one behind the last, and how many tuples all of
        them reach together."""
        first, last = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
        if column.array is None:
            return first, last, *_slice_of_count(column.first, start, stop, low, high, first, last)
        upper, lower = (column.array, column.array) if self._bounds is None else self._bounds
        return first, last, *_slice(upper, lower, start, stop, low, high, first, last)


def meeting(low: Integers, high: Integers, coordinate: Integers) -> tuple[Integers, Integers]:
    """For each coordinate: from where to where the windows [low, high) lie that hold it. Both bounds must ascend."""
    first, last = np.empty(len(coordinate), np.int64), np.empty(len(coordinate), np.int64)
    beyond = coordinate + 1
    find(high, low, 0, len(low), beyond, beyond, first, last)
    return first, last


@compiled
def _extend(array, start, stop, upper, lower):  # type: ignore[no-untyped-def]
    highest = array[0] if start == 0 else upper[start - 1]
    for place in range(start, stop):
        highest = max(highest, array[place])
        upper[place] = highest
    lowest = np.int64(INT64_MAX)
    for place in range(stop - 1, -1, -1):
        if place < start and lower[place] <= lowest:
            break
        if place >= start:
            lowest = min(lowest, array[place])
        lower[place] = lowest


@compiled
def find(upper, lower, start, stop, low, high, first, last):  # type: ignore[no-untyped-def]
    """Neighbours ask for neighbouring places, so each search begins where the one before ended. All may ask for the
    same: tuples that were pushed together can have one window."""
    begin, end = start, start
    others = 0
    for i in range(len(low)):
        others += (low[i] != low[0]) | (high[i] != high[0])
    if others == 0 and len(low):
        begin = reaching(upper, begin, start, stop, low[0])
        first[:], last[:] = begin, max(begin, reaching(lower, begin, start, stop, high[0]))
        return
    for i in range(len(low)):
        begin = reaching(upper, begin, start, stop, low[i])
        end = reaching(lower, end, start, stop, high[i])
        first[i], last[i] = begin, max(begin, end)


@compiled
def _count_up(base, start, stop, low, high, first, last):  # type: ignore[no-untyped-def]
    """The same where the coordinate at each place is base + place."""
    lowest, beyond = base + start, base + stop
    for i in range(len(low)):
        first[i] = min(max(low[i], lowest), beyond) - base
        last[i] = max(min(max(high[i], lowest), beyond) - base, first[i])


@compiled
def _slice(upper, lower, start, stop, low, high, first, last):  # type: ignore[no-untyped-def]
    find(upper, lower, start, stop, low, high, first, last)
    return _counted_from_first(first, last)


@compiled
def _slice_of_count(base, start, stop, low, high, first, last):  # type: ignore[no-untyped-def]
    _count_up(base, start, stop, low, high, first, last)
    return _counted_from_first(first, last)


@compiled
def _counted_from_first(first, last):  # type: ignore[no-untyped-def]
    begin, end, total = first[0], last[0], np.int64(0)
    for i in range(len(first)):
        begin, end = min(begin, first[i]), max(end, last[i])
        total += last[i] - first[i]
    for i in range(len(first)):
        first[i] -= begin
        last[i] -= begin
    return begin, end, total


@compiled
def reaching(bound, near, start, stop, value):  # type: ignore[no-untyped-def]
    """The first place in [start, stop) where an ascending bound is at least the value; `stop` if there is none."""
    step = 1
    if near < stop and bound[near] < value:
        below, above = near, near + 1
        while above < stop and bound[above] < value:
            below = above
            step *= 2
            above += step
        above = min(above, stop)
    else:
        below, above = near - 1, near
        while below >= start and bound[below] >= value:
            above = below
            step *= 2
            below -= step
        below = max(below, start - 1)
    while above - below > 1:
        middle = (below + above) // 2
        if bound[middle] < value:
            below = middle
        else:
            above = middle
    return above
