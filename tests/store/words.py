"""What the tests of the word indexes share: words, the plain model of a set of them, and a probe to its end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from hypothesis import strategies as st

from streamjoin.arrays import Words
from streamjoin.store.words import AT_ONCE, COMPARED, DONE, NEXT, PLACE_BITS, WordIndex, new_state

CAPACITIES = (AT_ONCE, AT_ONCE + 1, AT_ONCE + 7, 65_536)
LAST_KEY = 2 ** (64 - PLACE_BITS) - 1


def numbered(keys: list[int], start: int) -> Words:
    """The words of keys that came in this order to the places from `start` on, as a sorted batch."""
    return np.sort(np.array([key << PLACE_BITS | start + i for i, key in enumerate(keys)], np.uint64))


def key_range(low: int, high: int, place_bits: int = PLACE_BITS) -> tuple[int, int]:
    return low << place_bits, high << place_bits | (1 << place_bits) - 1


def probe_all(
    index: WordIndex, ranges: list[tuple[int, int]], capacity: int, place_bits: int = PLACE_BITS
) -> tuple[list[tuple[int, int]], int]:
    """All (number of range, place) that a probe finds, and its comparisons; `ranges` must be sorted."""
    low = np.array([range_[0] for range_ in ranges], np.uint64)
    high = np.array([range_[1] for range_ in ranges], np.uint64)
    out_range, out_place = np.full(capacity, -1, np.int32), np.full(capacity, -1, np.int32)
    state = new_state()
    found: list[tuple[int, int]] = []
    while state[NEXT] != DONE:
        count = index.probe(low, high, out_range, out_place, state)
        assert state[NEXT] == DONE or count > capacity - AT_ONCE, "the probe stopped before the outputs were full"
        found += zip(out_range[:count].tolist(), out_place[:count].tolist(), strict=True)
    return found, int(state[COMPARED])


def check(index: WordIndex, words: list[int], ranges: list[tuple[int, int]], place_bits: int = PLACE_BITS) -> None:
    """The index finds each of the words in each range exactly once, whatever the outputs' capacity."""
    words, ranges = sorted(words), sorted(ranges)
    mask = (1 << place_bits) - 1
    expected = sorted(
        (i, word & mask)
        for i, (low, high) in enumerate(ranges)
        for word in words[bisect_left(words, low) : bisect_right(words, high)]
    )
    assert index.count == len(words)
    comparisons = set()
    for capacity in CAPACITIES:
        found, compared = probe_all(index, ranges, capacity, place_bits)
        assert sorted(found) == expected
        comparisons.add(compared)
    assert len(comparisons) == 1


def keys() -> st.SearchStrategy[int]:
    """Keys that are equal, neighbours, far from each other, or extreme."""
    return st.one_of(
        st.integers(0, 4),
        st.integers(0, 300),
        st.integers(0, LAST_KEY),
        st.sampled_from([0, 1, LAST_KEY - 1, LAST_KEY]),
    )


def batches(most: int = 40) -> st.SearchStrategy[list[list[int]]]:
    """The keys of batches, among them runs that increase from one to the next, and long repetitions."""
    any_batch = st.lists(keys(), max_size=most)
    run = st.builds(lambda start, step, n: [start + step * i for i in range(n)], st.integers(0, 500),
                    st.integers(0, 3), st.integers(0, most))  # fmt: skip
    return st.lists(st.one_of(any_batch, run), max_size=8)


def ranges() -> st.SearchStrategy[list[tuple[int, int]]]:
    """Ranges of words: of keys, of anything, overlapping, empty, and everything."""
    of_keys = st.builds(lambda low, width: key_range(low, min(low + width, LAST_KEY)), keys(), st.integers(0, 50))
    anything = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
    return st.lists(st.one_of(of_keys, anything, st.just((0, 2**64 - 1))), max_size=12)
