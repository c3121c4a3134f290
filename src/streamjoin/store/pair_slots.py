"""Slots for found pairs: each thread of a crew has one, and its parts put the row numbers of their pairs there.

A slot is a line of integers that compiled code reads and changes (see `tasks.SLOT_WORDS`). Its pairs lie in a block of
memory. What has been taken from it stays where it is, and further pairs go behind it, so nothing is copied.

Invariant: a part is done, or the slot holds where it goes on; then no other part uses the slot before it.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..arrays import Array, Integers, Rows
from ..compile.cache import compiled
from ..compile.intrinsics import pointer
from ..tasks import DONE, FULL, MORE, SLOT_WORDS
from .batch import BUFFER, Decide
from .pair_memory import whole_block

PAIRS = 2 * BUFFER
"""Pairs of a block of memory."""
PLACES = 1 << 14
"""Candidates that are found before they are tested."""
LEAST_ROOM = 1 << 16
"""A block with room for fewer pairs is not begun with."""
_, FOUND, COMPARED, LEFT, RIGHT, ROOM, CANDIDATES, STATE = range(8)
"""Places in a slot: how many pairs there are, comparisons so far, where the row numbers of the left and of the right
go, for how many there is room, where candidates go, and the five integers of a part's state."""


@compiled
def room_in_slot(left_probes, slot):
    """Where rows of probing and of stored tuples go, where candidates go, and the state of the part."""
    s = carray(pointer(slot), SLOT_WORDS, np.int64)
    found, room = s[FOUND], s[ROOM]
    left = carray(pointer(s[LEFT] + 8 * found), room - found, np.int64)
    right = carray(pointer(s[RIGHT] + 8 * found), room - found, np.int64)
    out = (left, right) if left_probes != 0 else (right, left)
    return out, carray(pointer(s[CANDIDATES]), (2, PLACES), np.int32), s[STATE : STATE + 5]


@compiled
def after_part(slot, found, is_done, is_full):
    """Note how many pairs were found. Says what the entry returns; a part that is done leaves no state."""
    s = carray(pointer(slot), SLOT_WORDS, np.int64)
    s[FOUND] += found
    if is_done:
        s[COMPARED] += s[STATE + 1]
        for k in range(5):
            s[STATE + k] = 0
        return DONE
    return FULL if is_full else MORE


class PairSlots:
    """Slots for so many threads."""

    def __init__(self, threads: int, decide: Decide) -> None:
        self._decide = decide
        self.words: Integers = np.zeros((threads, SLOT_WORDS), np.int64)
        self._blocks: list[Array | None] = [None] * threads
        self._used = [0] * threads
        self._candidates = np.empty((threads, 2, PLACES), np.int32)
        size = self._candidates[0].nbytes
        self.words[:, CANDIDATES] = self._candidates.ctypes.data + size * np.arange(threads)

    def make_ready(self) -> None:
        """Give each slot room for pairs."""
        for number, block in enumerate(self._blocks):
            if block is None or PAIRS - self._used[number] < LEAST_ROOM:
                block, self._used[number] = whole_block(PAIRS), 0
                self._blocks[number] = block
                self.words[number, LEFT] = block.ctypes.data
                self.words[number, RIGHT] = block.ctypes.data + block.strides[0]
                self.words[number, ROOM] = PAIRS
                self.words[number, FOUND] = 0

    def take(self) -> list[tuple[list[Rows], list[Rows]]]:
        """The pairs since the last time, all together, if there are any; and room for more."""
        left: list[Rows] = []
        right: list[Rows] = []
        for number, found in enumerate(self.words[:, FOUND].tolist()):
            used, block = self._used[number], self._blocks[number]
            if found > used and block is not None:
                pairs: tuple[Rows, Rows] = block[0, used:found], block[1, used:found]
                keep = self._decide(*pairs)
                left.append(pairs[0] if keep is None else pairs[0][keep])
                right.append(pairs[1] if keep is None else pairs[1][keep])
                self._used[number] = found
        self.make_ready()
        return [(left, right)] if left else []

    def release(self) -> None:
        """Let the memory go, once nobody reads what was taken."""
        self._blocks = [None] * len(self._blocks)

    def compared(self) -> int:
        """The comparisons since the last time."""
        compared = self.words[:, COMPARED]
        total = sum(compared.tolist())
        compared[:] = 0
        return total
