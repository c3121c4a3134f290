"""BI-Sort's steps in C++ (`bisort.cpp`): one subwindow, one thread."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import ArgumentError
from ..columns import Pairs
from .build import load


class CppBiSort:
    """BI-Sort's steps in C++ (`bisort.cpp`), built by the system's compiler; one subwindow, one thread."""

    def __init__(self, capacity: int) -> None:
        """Raises RuntimeError where it cannot be built."""
        loaded, self.compiler = load("bisort.cpp")
        number, address = ctypes.c_int64, ctypes.c_void_p
        for name in ("partition", "pad"):
            getattr(loaded, f"bisort_{name}").restype = number
        self._sort, self._merge, self._probe = loaded.bisort_sort, loaded.bisort_merge, loaded.bisort_probe
        self._sort.argtypes, self._sort.restype = [address, number, number, address, address], None
        self._merge.argtypes, self._merge.restype = [address, number, address, number, address, address], number
        self._probe.argtypes = [address, address, number, address, number, address, address, address, number, address]
        self._probe.restype = number
        partition, pad = loaded.bisort_partition(), loaded.bisort_pad()
        self.capacity, self._pad = capacity, pad
        # The offset keeps stores to the one from looking like loads from the other to the CPU (same low 12 bits).
        self._main = [_aligned(capacity + pad, np.uint64), _aligned(capacity + pad, np.uint64, offset=2048)]
        self._index = _aligned(-(-capacity // partition) + pad, np.uint32)
        for array in (*self._main, self._index):
            array.fill(0)  # so that no page is touched for the first time while the clock runs
        self._batch = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._out = np.empty(1 << 16, np.int32), np.empty(1 << 16, np.int32)
        self.clear()

    def clear(self) -> None:
        self.count = self._index_size = 0
        self._main[0][: self._pad] = ~np.uint64(0)

    def insert(self, keys: Array) -> None:
        """Keys are int32; their places are consecutive, the first key ever inserted is at place 0."""
        self.merge(self.sort(keys))

    def sort(self, keys: Array) -> Array:
        """The first step of `insert`: the words of the keys, in a buffer that the next call overwrites."""
        if self.count + len(keys) > self.capacity:
            raise ArgumentError(f"keys: {len(keys):,} more than {self.count:,} exceed the capacity {self.capacity:,}")
        return self._sorted(keys, self.count)

    def merge(self, words: Array) -> None:
        """The second step of `insert`: main array and index with the words in it."""
        main, out = self._main
        self._index_size = self._merge(
            main.ctypes.data, self.count, words.ctypes.data, len(words), out.ctypes.data, self._index.ctypes.data
        )
        self.count += len(words)
        self._main.reverse()

    def probe(self, low: Array, high: Array) -> Pairs:
        """(i, place) for each key from low[i] to high[i], which are int32; in buffers that the next call overwrites."""
        ranges, high = self._sorted(low, 0), np.ascontiguousarray(high, np.int32)
        state = np.array([0, -1, 0])
        found = 0
        while True:
            numbers, places = self._out
            found += self._probe(
                self._main[0].ctypes.data, self._index.ctypes.data, self._index_size, ranges.ctypes.data, len(ranges),
                high.ctypes.data, numbers[found:].ctypes.data, places[found:].ctypes.data, len(places) - found,
                state.ctypes.data,
            )  # fmt: skip
            if state[0] == len(ranges):
                return numbers[:found], places[:found]
            self._out = np.resize(numbers, 2 * len(numbers)), np.resize(places, 2 * len(places))

    def _sorted(self, keys: Array, first: int) -> Array:
        keys = np.ascontiguousarray(keys, np.int32)
        if len(self._batch[0]) < len(keys):
            self._batch = _aligned(len(keys), np.uint64), _aligned(len(keys), np.uint64)
        words, scratch = self._batch
        self._sort(keys.ctypes.data, len(keys), first, words.ctypes.data, scratch.ctypes.data)
        return words[: len(keys)]


def _aligned(size: int, dtype: Any, offset: int = 0) -> Array:
    """An empty array that begins `offset` bytes behind a page's start."""
    nbytes = size * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + 4096 + offset, np.uint8)
    start = -memory.ctypes.data % 4096 + offset
    return memory[start : start + nbytes].view(dtype)
