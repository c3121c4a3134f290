"""The contestants: the product's indexes, and BI-Sort in C++."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np

from ...arrays import Array
from ...compile.cache import compiled
from ...store.bi_sort import BiSort
from ...store.rap_table import RapTable
from ...store.sorting import sort_words
from ...store.wib_tree import WibTree
from ...store.words import DONE, NEXT, PLACE_BITS, WordIndex, new_state, place_bits_of
from ..cpp.bi_sort import CppBiSort
from .trial import uniform_keys

OUT = 1 << 16
INDEXES = ("BI-Sort", "RaP-Table", "WiB+-Tree")
CPP = "C++ BI-Sort"


@compiled
def _pack(keys, first, bits):  # type: ignore[no-untyped-def]
    """The words of int32 keys at consecutive places."""
    words = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):
        key = np.uint64(np.int64(keys[i]) + np.int64(0x80000000))
        words[i] = (key << np.uint64(bits)) | np.uint64(first + i)
    return words


@compiled
def _unpack(packed, high, bits):  # type: ignore[no-untyped-def]
    """Turn sorted words (low key, number of the range) into ranges of words; `packed` is overwritten."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    ends = np.empty(len(packed), np.uint64)
    for i in range(len(packed)):
        number = packed[i] & mask
        packed[i] ^= number
        key = np.uint64(np.int64(high[number]) + np.int64(0x80000000))
        ends[i] = (key << np.uint64(bits)) | mask
    return packed, ends


class SubwindowContestant(Protocol):
    name: str

    def insert(self, keys: Array) -> None: ...

    def probe(self, low: Array, high: Array) -> int: ...

    def seal(self) -> None: ...


class Indexed:
    """One of the package's indexes, with the work of its callers: making words, sorting, emptying outputs."""

    def __init__(self, name: str, index: WordIndex, bits: int) -> None:
        self.name, self.index, self._bits = name, index, bits
        self._out = np.empty(OUT, np.int32), np.empty(OUT, np.int32)

    def insert(self, keys: Array) -> None:
        self.index.insert(sort_words(_pack(keys, self.index.count, self._bits), self._bits))

    def probe(self, low: Array, high: Array) -> int:
        starts, ends = _unpack(sort_words(_pack(low, 0, self._bits), self._bits), high, self._bits)
        state = new_state()
        found = 0
        while state[NEXT] != DONE:
            found += self.index.probe(starts, ends, *self._out, state)
        return found

    def seal(self) -> None:
        self.index.seal()


@cache
def cpp_of(capacity: int) -> CppBiSort:
    return CppBiSort(capacity)


class CppContestant:
    """BI-Sort in C++. It is always one sorted array, so `seal` does nothing."""

    name = CPP

    def __init__(self, capacity: int) -> None:
        self._cpp = cpp_of(capacity)
        self._cpp.clear()
        self.compiler = self._cpp.compiler

    def insert(self, keys: Array) -> None:
        self._cpp.insert(keys)

    def probe(self, low: Array, high: Array) -> int:
        return len(self._cpp.probe(low, high)[0])

    def seal(self) -> None:
        pass


def make(name: str, size: int, partitions: int | None = None) -> SubwindowContestant:
    """An empty subwindow; RuntimeError if C++ cannot be built. A RaP-Table gets its splitters from a predecessor."""
    bits = max(PLACE_BITS, place_bits_of(size))
    if name == CPP:
        return CppContestant(size)
    if name == "RaP-Table":
        before = Indexed(name, RapTable(size, bits, partitions=partitions), bits)
        for part in np.array_split(uniform_keys(np.random.default_rng(1), size), 8):
            before.insert(part)
        assert isinstance(before.index, RapTable)
        before.seal()
        return Indexed(name, RapTable(size, bits, before.index, partitions), bits)
    if name == "WiB+-Tree":
        return Indexed(name, WibTree(size, bits, None if partitions is None else max(size // partitions, 2)), bits)
    return Indexed(name, BiSort(size, bits), bits)
