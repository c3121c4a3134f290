"""A node's windows over the store, with any index. What a node does to them waits until a round.

Nodes only say what is to be compared and stored, and go on: where a window begins and ends is known at once.
Law of a round: whatever was asked since the last one, all insertions come first, then all comparisons, then all that
was dropped is let go. This is the same as one after the other in the order in which nodes asked: a comparison names the
places that it looks at, a place is given to one tuple only, and nobody asks for a place before it is given or after it
was dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

import numpy as np

from ..compile.generic import extremes
from ..side import Side
from ..store import Batch, Probing, SideWindow
from ..tasks import Walk
from .ledger import Ledger
from .node import Block
from .search import Question

MERGED = 1 << 11
"""Tuples of blocks that are dealt with as one. To copy more of them takes longer than to deal with each block alone."""
T = TypeVar("T", Block, Batch)


class Waiting:
    """What waits for the next round: the windows that something was asked of, and how much it was."""

    def __init__(self) -> None:
        self.windows: list[StoredWindow] = []
        self.inserted = 0
        """Tuples."""
        self.asked = 0
        """Blocks that are to be compared with a window."""
        self._merged: dict[tuple[Side, int, int], Probing] = {}

    def merged(self, blocks: Sequence[Block]) -> Probing:
        """The tuples of some blocks of a side, one after another. Nodes are asked by the same blocks, so it is made
        once."""
        key = blocks[0].side, blocks[0].number, blocks[-1].number
        found = self._merged.get(key)
        if found is None:
            found = self._merged[key] = Probing(_joined([block.batch for block in blocks]))
        return found

    def clear(self) -> None:
        self.windows, self.inserted, self.asked = [], 0, 0
        self._merged.clear()


class StoredWindow:
    """A `LocalWindow`. Its store uses a tuple's place as the coordinate, so every index can leave out the places that a
    block must not see."""

    def __init__(self, window: SideWindow, side: Side, number: int, ledger: Ledger, waiting: Waiting) -> None:
        self._window, self._side = window, side
        self._ledger, self._waiting = ledger, waiting
        self.number = number
        """The node's."""
        self._blocks: deque[tuple[int, int, int]] = deque()
        """Each block's lowest and highest coordinate, and where it ends. The first one begins at `head`."""
        self.head = self.tail = 0
        self._stored = 0
        """Tuples below this place are in the store, or were not put there because they had gone."""
        self._new: list[Batch] = []
        self._asked: list[tuple[int, int, Block]] = []
        self._is_waiting = False
        self.comparisons = 0

    # -- what the node does ----------------------------------------------------------------------------------------

    def insert(self, block: Block) -> None:
        self._wait()
        self._new.append(block.batch)
        self._waiting.inserted += len(block)
        self.tail += len(block)
        self._blocks.append((*extremes(block.batch.coordinate), self.tail))

    def probe(self, block: Block, start: int, stop: int) -> None:
        if stop > start:
            self._wait()
            self._asked.append((start, stop, block))
            self._waiting.asked += 1

    def drop(self, head: int) -> None:
        if head > self.head:
            self._wait()
            self.head = head
            while self._blocks and self._blocks[0][-1] <= head:
                self._blocks.popleft()

    def below(self, head: int, floor: int) -> int:
        for _, highest, end in self._blocks:
            if highest >= floor:
                break
            head = max(head, end)
        return head

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._waiting.windows.append(self)

    # -- what a round does -----------------------------------------------------------------------------------------

    def storing(self) -> list[Walk]:
        """Insert what waits. What has gone already, and nobody asks for, is left out."""
        new, self._new = self._new, []
        start, self._stored = self._stored, self.tail
        if not new or (self.head == self.tail and not self._asked):
            return []
        return [self._inserting(new, start)]

    def _inserting(self, new: Sequence[Batch], start: int) -> Walk:
        for some in _together(new):
            batch = _joined(some)
            places = np.arange(start, start + len(batch))
            yield from self._window.inserting(Batch(batch.row, places, places, places, batch.slots))
            start += len(batch)

    def questions(self) -> list[Question]:
        """What blocks ask of this window: those that came one after another and ask for the same, together."""
        found: list[Question] = []
        asked, self._asked = self._asked, []
        for (start, stop), entries in groupby(asked, key=_places):
            for blocks in _together([block for _, _, block in entries]):
                probing = self._waiting.merged(blocks).at_places(start, stop)
                weight = probing.count * (stop - start)
                found.append(Question(self._window, probing, self._side == "right", 1, weight))
        return found

    def settle(self) -> None:
        """Let go of what was dropped."""
        self._is_waiting = False
        self._window.expire(self.head)

    # -- figures ---------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Let all tuples go."""
        self.head = self._stored = self.tail
        self._new, self._asked = [], []
        self._blocks.clear()
        self._window.clear()

    def at_least(self, floor: int | None) -> int:
        """How many tuples lie at or above a coordinate; None: all. The ledger knows those of blocks that lie on both
        sides of it."""
        if floor is None:
            return self.tail - self.head
        count, start = 0, self.head
        for lowest, highest, end in self._blocks:
            if lowest >= floor:
                count += end - start
            elif highest >= floor:
                count += self._ledger.at_least(self._side, self._window.rows(start, end), floor)
            start = end
        return count

    @property
    def window(self) -> SideWindow:
        return self._window


def _joined(some: Sequence[Batch]) -> Batch:
    """Several batches as one, whose windows mean nothing: nodes say at which places it looks."""
    if len(some) == 1:
        return some[0]
    row, coordinate = (np.concatenate([getattr(batch, name) for batch in some]) for name in ("row", "coordinate"))
    slots = [np.concatenate(columns) for columns in zip(*(batch.slots for batch in some), strict=True)]
    return Batch(row, coordinate, row, row, slots)


def _places(asked: tuple[int, int, Block]) -> tuple[int, int]:
    return asked[:2]


def _together(some: Sequence[T]) -> list[list[T]]:
    """Small blocks in groups."""
    groups: list[list[T]] = []
    size = MERGED
    for one in some:
        size += len(one)
        if size > MERGED:
            groups.append([])
            size = len(one)
        groups[-1].append(one)
    return groups
