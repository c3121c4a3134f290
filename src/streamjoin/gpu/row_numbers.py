"""Which row lies at which place of an arena, in main memory.

Rows mostly count up along with places. So for each small piece of the places it is known how far the rows are ahead of
them, and only where they are not equally far, row numbers are kept one by one. Memory for the others is never touched.

Law: `ahead` of a piece is the difference between row and place for every place of the piece that was written and not
freed since. Where it is `MIXED`, `rows` has them; where it is `NOTHING`, there are none.
"""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MIN, Integers, Rows
from ..compile.cache import compiled

SHIFT = 12
"""Pieces have 2 ** SHIFT places."""
NOTHING, MIXED = INT64_MIN, INT64_MIN + 1


class RowNumbers:
    """The row numbers of so many places."""

    def __init__(self, room: int) -> None:
        self.rows: Integers = np.empty(room, np.int64)
        self.ahead: Integers = np.full((room >> SHIFT) + 1, NOTHING)
        self.shift = SHIFT

    @property
    def nbytes(self) -> int:
        return self.ahead.nbytes + 8 * int(np.count_nonzero(self.ahead == MIXED) << self.shift)

    def grow(self, room: int) -> None:
        """Keep what there is, and have room for more places."""
        longer = RowNumbers(room)
        for piece in np.flatnonzero(self.ahead == MIXED):
            some = slice(piece << self.shift, min((piece + 1) << self.shift, len(self.rows)))
            longer.rows[some] = self.rows[some]
        longer.ahead[: len(self.ahead)] = self.ahead
        self.rows, self.ahead = longer.rows, longer.ahead

    def write(self, place: int, rows: Rows) -> None:
        """These rows lie at a place and behind."""
        _written(np.ascontiguousarray(rows), place, self.rows, self.ahead, self.shift)

    def free(self, start: int, end: int) -> None:
        """Nobody asks for places [start, end) before they are written again."""
        first, last = -(-start >> self.shift), end >> self.shift
        self.ahead[first:last] = NOTHING


def row_pairs(found: Integers, probing: Rows, first: int, stored: RowNumbers, rows: tuple[Rows, Rows]) -> None:
    """Pairs of places become pairs of row numbers, which are written to `rows`. Probing tuples are counted from place
    `first`."""
    _unpacked(found, probing, first, stored.rows, stored.ahead, stored.shift, *rows)


@compiled
def _written(values, place, rows, ahead, shift):  # type: ignore[no-untyped-def]
    k = 0
    while k < len(values):
        piece = (place + k) >> shift
        end = min(((piece + 1) << shift) - place, len(values))
        before, difference = ahead[piece], values[k] - (place + k)
        other = np.int64(0)
        for n in range(k, end):
            other |= (values[n] - (place + n)) ^ difference
        if other == 0 and before in (NOTHING, difference):
            ahead[piece] = difference
        else:
            if before != NOTHING and before != MIXED:
                for n in range(piece << shift, min((piece + 1) << shift, len(rows))):
                    rows[n] = n + before
            for n in range(k, end):
                rows[place + n] = values[n]
            ahead[piece] = MIXED
        k = end


@compiled
def _unpacked(pairs, probing_rows, first, stored_rows, ahead, shift, probing, stored):  # type: ignore[no-untyped-def]
    for k in range(len(pairs)):
        pair = pairs[k]
        place = pair & 0xFFFFFFFF
        difference = ahead[place >> shift]
        probing[k] = probing_rows[first + (pair >> 32)]
        stored[k] = place + difference if difference > MIXED else stored_rows[place]
