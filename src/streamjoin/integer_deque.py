"""Integers in one array that grows at its end and shrinks at both ends, at constant cost per element."""

from __future__ import annotations

import numpy as np

from .arrays import Integers


class IntegerDeque:
    """`view` is the current content, without a copy; it is valid until the next change."""

    def __init__(self) -> None:
        self._buffer: Integers = np.empty(64, np.int64)
        self._begin = self._end = 0

    def __getstate__(self) -> Integers:
        return self.view.copy()

    def __setstate__(self, content: Integers) -> None:
        self._buffer, self._begin, self._end = content, 0, len(content)

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def view(self) -> Integers:
        return self._buffer[self._begin : self._end]

    def append(self, values: Integers | int) -> None:
        count = 1 if isinstance(values, int) else len(values)
        if self._end + count > len(self._buffer):
            kept = self.view
            self._buffer = np.empty(max(2 * (len(kept) + count), 64), np.int64)
            self._buffer[: len(kept)] = kept
            self._begin, self._end = 0, len(kept)
        self._buffer[self._end : self._end + count] = values
        self._end += count

    def drop_front(self, count: int) -> None:
        self._begin += min(count, len(self))

    def drop_back(self, count: int) -> None:
        self._end -= min(count, len(self))
