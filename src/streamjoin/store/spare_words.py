"""Memory for words that is used again: fresh memory from the system takes longer to touch than words take to be sorted.

An array that nobody holds any more goes back by itself.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..arrays import Words

STEPS = 8
"""Lengths between one power of two and the next: an array is a little longer than was asked for."""
MOST_SPARE = 1 << 22
"""Words that are kept for later."""


class _Owner:
    """Arrays that look into the memory hold its owner."""

    _spare: ClassVar[dict[int, list[Words]]] = {}
    _kept: ClassVar[int] = 0

    def __init__(self, size: int) -> None:
        try:
            self._memory = _Owner._spare[size].pop()
            _Owner._kept -= size
        except (KeyError, IndexError):
            self._memory = np.empty(size, np.uint64)
        self.__array_interface__ = self._memory.__array_interface__

    def __del__(self) -> None:
        size = len(self._memory)
        if _Owner._kept + size <= MOST_SPARE:
            _Owner._spare.setdefault(size, []).append(self._memory)
            _Owner._kept += size


def spare_words(count: int) -> Words:
    """An array of so many words, with anything in it."""
    step = max((1 << max(count - 1, 1).bit_length()) // (2 * STEPS), 1)
    found: Words = np.asarray(_Owner(max(-(-count // step) * step, 1)))[:count]
    return found
