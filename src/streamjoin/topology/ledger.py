"""The driver's ledger: who is in whose window, for pairs that nodes have found."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Mask, Rows
from ..compile.cache import compiled
from ..compile.generic import extremes
from ..side import SIDES, Side
from ..store import Batch


class Ledger:
    """Every tuple's coordinate and the [low, high) of coordinates that it meets, by side and row.

    A pair is in the window iff one of the two meets the other: with time windows both do, where order counts only the
    later one. Rows may come in any order.
    """

    def __init__(self) -> None:
        self._base: dict[Side, int] = dict.fromkeys(SIDES, 0)
        """The row at place 0; rows [first, end) are known."""
        self._first: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self._end: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self._known: dict[Side, Any] = {side: np.empty((3, 1024), np.int64) for side in SIDES}

    def add(self, side: Side, batch: Batch) -> None:
        if not len(batch):
            return
        lowest, highest = extremes(batch.row)
        if self._first[side] == self._end[side]:  # nothing is known: begin where the batch does
            self._base[side] = self._first[side] = self._end[side] = lowest
        first, end = min(self._first[side], lowest), max(self._end[side], highest + 1)
        if first < self._base[side] or end - self._base[side] > self._known[side].shape[1]:
            self._move(side, first, end)
        _note(self._known[side], self._base[side], batch.row, batch.coordinate, batch.low, batch.high)
        self._first[side], self._end[side] = first, end

    def _move(self, side: Side, base: int, end: int) -> None:
        """Give place 0 to another row, so that all rows up to `end` have a place. The same memory is used again where
        it has room for twice as many, because fresh memory is slow. `base` may go back: a row that waited long may come
        after younger ones have gone."""
        known, first, count = self._known[side], self._first[side], self._end[side] - self._first[side]
        fits = 2 * (end - base) <= known.shape[1] and base >= self._base[side]
        moved = known if fits else np.empty((3, 4 * (end - base)), np.int64)
        for before, after in zip(known, moved, strict=True):
            after[first - base : first - base + count] = before[first - self._base[side] :][:count]
        self._known[side], self._base[side] = moved, base

    def forget(self, side: Side, row: int | None) -> None:
        """Rows below this one are not stored any more (None: no row is)."""
        self._first[side] = self._end[side] if row is None else min(max(row, self._first[side]), self._end[side])

    def at_least(self, side: Side, rows: Rows, coordinate: int) -> int:
        """How many of some rows lie at or above a coordinate."""
        return int(np.count_nonzero(self._known[side][0, rows - self._base[side]] >= coordinate))

    def within(self, left: Rows, right: Rows) -> Mask | None:
        """Which of some pairs are in the window; None: all."""
        keep = _within(left, right, *(self._base[side] for side in SIDES), *(self._known[side] for side in SIDES))
        return None if keep.all() else keep


@compiled
def _note(known, base, row, coordinate, low, high):  # type: ignore[no-untyped-def]
    for k in range(len(row)):
        place = row[k] - base
        known[0, place], known[1, place], known[2, place] = coordinate[k], low[k], high[k]


@compiled
def _within(left, right, first_left, first_right, of_left, of_right):  # type: ignore[no-untyped-def]
    keep = np.empty(len(left), np.bool_)
    for k in range(len(left)):
        l, r = left[k] - first_left, right[k] - first_right
        sees = (of_left[0, l] >= of_right[1, r]) & (of_left[0, l] < of_right[2, r])
        seen = (of_right[0, r] >= of_left[1, l]) & (of_right[0, r] < of_left[2, l])
        keep[k] = sees | seen
    return keep
