"""A node's windows over the store: any index, found pairs checked against the windows that the user asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Rows
from ..compile.cache import compiled
from ..compile.generic import extremes
from ..side import SIDES, Side
from ..store import Batch, PairSink, Probing, SideWindow
from ..store.batch import Decide
from .node import Block

Report = Callable[[Rows, Rows], None]
"""Takes pairs of rows: left ones, right ones."""


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

    def within(self, left: Rows, right: Rows) -> tuple[Rows, Rows]:
        """Those of some pairs that are in the window."""
        keep = _within(left - self._base["left"], right - self._base["right"], *(self._known[s] for s in SIDES))
        return (left, right) if keep.all() else (left[keep], right[keep])


@compiled
def _note(known, base, row, coordinate, low, high):  # type: ignore[no-untyped-def]
    for k in range(len(row)):
        place = row[k] - base
        known[0, place], known[1, place], known[2, place] = coordinate[k], low[k], high[k]


@compiled
def _within(left, right, of_left, of_right):  # type: ignore[no-untyped-def]
    keep = np.empty(len(left), np.bool_)
    for k in range(len(left)):
        l, r = left[k], right[k]
        sees = (of_left[0, l] >= of_right[1, r]) & (of_left[0, l] < of_right[2, r])
        seen = (of_right[0, r] >= of_left[1, l]) & (of_right[0, r] < of_left[2, l])
        keep[k] = sees | seen
    return keep


class StoredWindow:
    """A `LocalWindow`. Its store uses a tuple's place as the coordinate, so every index can leave out the places that a
    block must not see."""

    def __init__(
        self,
        window: SideWindow,
        side: Side,
        ledger: Ledger,
        decide: Decide,
        report: Report,
        checkpoint: Callable[[], None],
    ) -> None:
        self._window, self._side = window, side
        self._ledger, self._decide, self._report = ledger, decide, report
        self._checkpoint = checkpoint
        self._blocks: deque[tuple[int, int, int]] = deque()
        """Each block's lowest and highest coordinate, and where it ends. The first one begins at `head`."""
        self.head = self.tail = 0
        self.comparisons = 0

    def insert(self, block: Block) -> None:
        batch: Batch = block.batch
        places = np.arange(self.tail, self.tail + len(batch))
        self._window.insert(Batch(batch.row, places, places, places, batch.slots))
        self.tail += len(batch)
        self._blocks.append((*extremes(batch.coordinate), self.tail))

    def probe(self, block: Block, start: int, stop: int) -> None:
        batch: Batch = block.batch
        if stop <= start:
            return
        low, high = np.empty(len(batch), np.int64), np.empty(len(batch), np.int64)
        low.fill(start)
        high.fill(stop)
        asking = Batch(batch.row, batch.coordinate, low, high, batch.slots)
        self._window.expect(asking)
        self._window.prepare()
        sink = PairSink(self._decide, left_probes=block.side == "left")
        for compared in self._window.probe(Probing(asking), sink):
            self.comparisons += compared
            if sink.is_full:
                self._hand_on(sink)
            self._checkpoint()
        self._hand_on(sink)

    def _hand_on(self, sink: PairSink) -> None:
        for left, right in zip(*sink.take(), strict=True):
            left, right = self._ledger.within(left, right)
            if len(left):
                self._report(left, right)

    def drop(self, head: int) -> None:
        if head > self.head:
            self.head = head
            self._window.expire(head)
            while self._blocks and self._blocks[0][-1] <= head:
                self._blocks.popleft()

    def below(self, head: int, floor: int) -> int:
        for _, highest, end in self._blocks:
            if highest >= floor:
                break
            head = max(head, end)
        return head

    def clear(self) -> None:
        """Let all tuples go."""
        self.head = self.tail
        self._blocks.clear()
        self._window.clear()

    def at_least(self, floor: int | None) -> int:
        """How many tuples lie at or above a coordinate; None: all. The ledger knows those of blocks that lie on both
        sides of it."""
        if floor is None:
            return self.tail - self.head
        count, start = 0, self.head
        for lowest, highest, end in list(self._blocks):  # the node may be at work
            if lowest >= floor:
                count += end - start
            elif highest >= floor:
                count += self._ledger.at_least(self._side, self._window.rows(start, end), floor)
            start = end
        return count

    @property
    def window(self) -> SideWindow:
        return self._window
