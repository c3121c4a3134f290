"""The Linked List Adaptive Table: entries that suffice, partitions that go on, and what sealing makes of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.store.compacted import Compacted
from streamjoin.store.llat import LAST_WORD, Llat, append, width_of
from streamjoin.store.partition_scan import Output, rebound
from streamjoin.store.words import LANES, new_state


def table_for(capacity: int, partitions: int) -> Llat:
    return Llat(2 * partitions, width_of(capacity, partitions), partitions)


def add(table: Llat, partition: int, word: int) -> None:
    append(table.entries, partition, np.uint64(word))


@given(st.integers(1, 12), st.data())
def test_two_entries_per_partition_always_suffice(partitions: int, data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 200))
    chosen = data.draw(st.lists(st.integers(0, partitions - 1), max_size=capacity))
    table = table_for(capacity, partitions)
    model: list[list[int]] = [[] for _ in range(partitions)]
    for word, partition in enumerate(chosen):
        add(table, partition, word)
        model[partition].append(word)
    assert table.used <= len(table) == 2 * partitions
    firsts = np.arange(partitions)
    assert table.sizes(firsts).tolist() == [len(words) for words in model]
    offsets, words = table.compact(firsts, len(chosen))
    parts = [words[begin:end].tolist() for begin, end in pairwise(offsets)]
    assert parts == model


def test_entries_are_a_quarter_wider_than_equal_partitions() -> None:
    assert width_of(1000, 10) == 125
    assert width_of(1001, 10) == 126
    assert width_of(1, 10) == 1


def test_a_skewed_partition_goes_on_in_the_reserved_entries() -> None:
    table = table_for(16, 4)
    for word in range(16):
        add(table, 1, word)
    assert table.entries.width == 5
    assert table.entries.head.tolist() == [0, 5, 0, 0, 5, 5, 1, 0]
    assert table.entries.following.tolist() == [-1, 4, -1, -1, 5, 6, -1, -1]
    assert table.used == 7


def test_compacting_removes_the_overhead() -> None:
    table = table_for(100_000, 1000)
    for word in range(3000):
        add(table, word % 1000, word)
    offsets, words = table.compact(np.arange(1000), 3000)
    assert words.nbytes == (3000 + LANES) * 8 < table.nbytes
    assert len(offsets) == 1001


def test_growing_keeps_the_words() -> None:
    table = Llat(2, 2, 1)
    for word in range(4):
        add(table, 0, word)
    table.grow()
    for word in range(4, 8):
        add(table, 0, word)
    assert len(table) == 4
    assert table.compact(np.arange(1), 8)[1][:8].tolist() == list(range(8))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_the_rebounding_search_is_a_binary_search(splitters: list[int], words: list[int]) -> None:
    table = np.array([*sorted(splitters), LAST_WORD], np.uint64)
    start = 0
    for word in sorted(words):
        start = rebound(table, start, np.uint64(word))
        assert start == np.searchsorted(table, np.uint64(word))


@pytest.mark.parametrize(("low", "high", "compared"), [(0, 9, 0), (3, 5, 0), (2, 4, 3), (6, 7, 0), (8, 9, 0)])
def test_only_partitions_that_a_range_cuts_are_compared(low: int, high: int, compared: int) -> None:
    lowest, highest, upper = (np.array(pair, np.uint64) for pair in ([3, 8], [5, 8], [5, 2**64 - 1]))
    words = np.array([5, 3, 4, 8] + LANES * [4], np.uint64)
    table = Compacted(lowest, highest, upper, np.array([0, 3, 4]), words)
    out = Output(np.empty(8, np.int32), np.empty(8, np.int32))
    state = new_state()
    found = table.probe(np.uint64(15), np.array([low], np.uint64), np.array([high], np.uint64), out, state)
    assert sorted(out.place[:found].tolist()) == [word for word in (3, 4, 5, 8) if low <= word <= high]
    assert state.tolist()[:2] == [-1, compared]
