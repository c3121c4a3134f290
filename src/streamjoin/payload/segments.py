"""Segments: memory for a fixed number of rows each, which compiled code finds by address."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ..arrays import Array, Integers
from .gather import SEGMENT

BLOCK_SEGMENTS, SPARE_SEGMENTS = 16, 32
LINE = 64


class Segments:
    """Arrays of one segment each, and a table of their addresses for compiled code."""

    def __init__(self) -> None:
        self.first = 0
        self._arrays: deque[Array | None] = deque()
        self._spare: list[Array] = []
        self._places: deque[int] = deque()
        self._addresses: Integers | None = None

    def of(self, segment: int, make: Callable[[], Array | None]) -> Array | None:
        """The array of a segment, made if there is none; None may stand for an array that is not needed."""
        while self.end <= segment:
            self.append(make())
        return self._arrays[segment - self.first]

    def address(self, segment: int) -> int:
        """Where the array of a segment lies in memory."""
        return self._places[segment - self.first]

    def append(self, array: Array | None) -> None:
        self._arrays.append(array)
        self._places.append(0 if array is None else address_of(array))
        self._addresses = None

    @property
    def end(self) -> int:
        """The first segment that is not there yet."""
        return self.first + len(self._arrays)

    def put(self, segment: int, array: Array) -> None:
        self._arrays[segment - self.first] = array
        self._places[segment - self.first] = address_of(array)
        self._addresses = None

    def release(self, segment: int) -> None:
        while self._arrays and self.first < segment:
            gone = self._arrays.popleft()
            self._places.popleft()
            if gone is not None and len(self._spare) < SPARE_SEGMENTS:
                self._spare.append(gone)
            self.first += 1
            self._addresses = None
        self.first = max(self.first, segment)

    def fresh(self, size: int) -> Array:
        """An array of `size` bytes, the same at each call: one that was released, since fresh memory is slow, or, once
        there are many, one of a block that is large enough for the system's huge pages. It begins at a cache line if
        the size is a whole number of them."""
        if not self._spare:
            count = BLOCK_SEGMENTS if len(self._arrays) >= BLOCK_SEGMENTS else 1
            block = np.empty(count * size + LINE, np.uint8)
            block = block[-address_of(block) % LINE :]
            self._spare = [block[k * size : (k + 1) * size] for k in range(count)]
        return self._spare.pop()

    @property
    def addresses(self) -> Integers:
        """Where each array lies in memory; 0 for None, and 0 behind the last, so that there is always one to read."""
        if self._addresses is None:
            self._addresses = np.array([*self._places, 0], np.int64)
        return self._addresses


def address_of(array: Array) -> int:
    """Where an array without gaps lies in memory: this takes a fifth of the time of `array.ctypes.data`."""
    address: int = pa.py_buffer(array).address
    return address


def pieces(row: int, count: int) -> list[tuple[int, int, int, int]]:
    """`count` rows from `row` on, cut at segments: (segment, offset in it, offset in the rows, length)."""
    pieces, done = [], 0
    while done < count:
        segment, offset = divmod(row + done, SEGMENT)
        length = min(SEGMENT - offset, count - done)
        pieces.append((segment, offset, done, length))
        done += length
    return pieces
