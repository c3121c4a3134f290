"""Memory for the row numbers of found pairs, in blocks that are used again.

Memory that is fresh from the system takes longer to touch than pairs take to be found. So a block whose last array is
gone is kept for the pairs to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..arrays import Array, Integers

FEW = 1 << 9
"""Pairs whose row numbers get memory of their own, which takes less time than to look for a place in a block."""


class Block:
    """A block's owner: arrays that look into the block hold it, and when the last one lets go, the block is spare."""

    _spare: ClassVar[list[Integers]] = []
    _most: ClassVar[int] = 32

    def __init__(self, size: int) -> None:
        try:
            block = self._spare.pop()
        except IndexError:
            block = np.empty(size, np.int64)
        self._block = block if len(block) == size else np.empty(size, np.int64)
        self.__array_interface__ = self._block.__array_interface__

    def __del__(self) -> None:
        if len(self._spare) < self._most:
            self._spare.append(self._block)


def whole_block(pairs: int) -> Array:
    """Room for the row numbers of both tuples of so many pairs."""
    return np.asarray(Block(2 * pairs)).reshape(2, pairs)


class PairMemory:
    """Gives room for some pairs at a time, and fills blocks of `pairs` up one by one."""

    def __init__(self, pairs: int) -> None:
        self._pairs = pairs
        self._block: Integers = np.empty(0, np.int64)
        self._used = 0
        self._scratch: Array | None = None

    def room(self, count: int) -> Array:
        """For `count` pairs, of which a block has room."""
        if self._used + 2 * count > len(self._block):
            self._block, self._used = whole_block(self._pairs).reshape(-1), 0
        room = self._block[self._used : self._used + 2 * count]
        self._used += 2 * count
        return room.reshape(2, count)

    @property
    def scratch(self) -> Array:
        """A block to write pairs into before it is known how many they are."""
        if self._scratch is None:
            self._scratch = whole_block(self._pairs)
        return self._scratch

    def kept(self, count: int) -> Sequence[Integers]:
        """The first `count` pairs of the scratch, as two arrays. A block that is well filled is given away, few pairs
        are copied."""
        scratch = self.scratch
        if count <= FEW:
            return scratch[0, :count].copy(), scratch[1, :count].copy()
        pairs = scratch[:, :count]
        if 2 * count >= self._pairs:
            self._scratch = None
            return pairs[0], pairs[1]
        room = self.room(count)
        room[:] = pairs
        return room[0], room[1]
