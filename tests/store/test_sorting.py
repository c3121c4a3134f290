"""Sorting and merging of words, against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.store.sorting import merge_words, sort_words, split_merge


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.data())
def test_merging(a: set[int], b: set[int], data: st.DataObject) -> None:
    b -= a
    left, right = (np.sort(np.array(list(x), np.uint64)) for x in (a, b))
    out = np.empty(len(a) + len(b), np.uint64)
    merge_words(left, right, out)
    assert out.tolist() == sorted(a | b)
    count = data.draw(st.integers(0, len(out)))
    i, j = split_merge(left, right, count)
    assert i + j == count
    assert sorted([*left[:i].tolist(), *right[:j].tolist()]) == sorted(a | b)[:count]


@given(st.integers(0, 3000), st.sampled_from([1, 5, 2**11, 2**31, 2**42 - 1]), st.integers(0, 2**32 - 1))
def test_sorting(count: int, span: int, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, span, count).astype(np.uint64)
    words = (keys << np.uint64(22)) | np.arange(count, dtype=np.uint64)
    assert np.array_equal(sort_words(words.copy(), 22), np.sort(words))
