"""BI-Sort: finds like a plain set, moves a word only a few times, merges in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.store import bi_sort
from streamjoin.store.bi_sort import BiSort
from streamjoin.store.run_probe import probe_run
from streamjoin.store.sorting import merge_words, sort_words, split_merge
from streamjoin.store.words import AT_ONCE, NEXT, STOPPED, new_state

from .words import LAST_KEY, PLACE_BITS, batches, check, key_range, numbered, ranges


@given(batches(), ranges(), st.sets(st.integers(0, 7)))
def test_finds_like_a_plain_set(batches_: list[list[int]], ranges_: list[tuple[int, int]], sealed: set[int]) -> None:
    index = BiSort(max(sum(map(len, batches_)), 1), PLACE_BITS)
    words: list[int] = []
    for number, batch in enumerate(batches_):
        new = numbered(batch, len(words))
        index.insert(new)
        words += new.tolist()
        if number in sealed:
            index.seal()
    check(index, words, ranges_)
    index.seal()
    assert index.figures()["runs"] <= 1
    check(index, words, ranges_)


def test_few_ranges_in_many_words_and_many_in_few() -> None:
    """Walking along the samples one by one, in strides, and skipping ahead find the same."""
    rng = np.random.default_rng(0)
    keys = [int(key) for key in rng.integers(0, 5000, 1000)]
    index = BiSort(1000, PLACE_BITS)
    words = numbered(keys, 0)
    index.insert(words)
    for count in (1, 3, 12, 40, 500):
        asked = sorted(int(key) for key in rng.integers(0, 5200, count))
        check(index, words.tolist(), [key_range(key, key + 7) for key in asked])
    check(index, words.tolist(), [(0, 2**64 - 1), key_range(LAST_KEY, LAST_KEY)])


@pytest.mark.parametrize("room", [AT_ONCE, 37, 4096])
def test_words_whose_rest_lies_outside_are_passed_over(room: int) -> None:
    """A rest of 4 bits above places of 10: it must lie between those of the range's ends, whatever stands before it."""
    rng = np.random.default_rng(0)
    words = np.unique(rng.integers(0, 1 << 18, 900).astype(np.uint64))
    index = BiSort(len(words), PLACE_BITS)
    index.insert(words)
    low = np.sort(rng.integers(0, 1 << 18, 60).astype(np.uint64)) >> np.uint64(10) << np.uint64(10)
    high = low + rng.integers(0, 1 << 16, 60).astype(np.uint64)
    mask, rest = np.uint64(1023), np.uint64(15 << 10)
    run = index._runs[0]
    outputs, state = np.empty((2, room), np.int32), new_state()
    found: list[tuple[int, int]] = []
    while state[NEXT] < len(low):
        count = probe_run(run.words, run.count, run.samples, low, high, mask, rest, outputs[0], outputs[1], state)
        found += zip(outputs[0, :count].tolist(), outputs[1, :count].tolist(), strict=True)
        if not state[STOPPED]:
            break
    expected = [
        (i, int(word & mask))
        for i in range(len(low))
        for word in words[(words >= low[i]) & (words <= high[i])]
        if low[i] & rest <= word & rest <= high[i] & rest
    ]
    assert expected
    assert found == expected


def test_few_runs_and_few_moves() -> None:
    """A word is moved a few times, however many batches a subwindow takes; the paper's way would be 32 times here."""
    index = BiSort(64 * 1000, 22)
    for start in range(0, 64_000, 1000):
        places = np.arange(start, start + 1000, dtype=np.uint64)
        index.insert(((places - np.uint64(start)) << np.uint64(22)) | places)
        assert index.figures()["runs"] <= 4
    assert index.figures()["moved"] < 10 * 64_000


def test_large_merges_run_in_pieces_and_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bi_sort, "PIECE", 10)
    pieces: list[int] = []

    def backwards(tasks: list) -> None:
        pieces.append(len(tasks))
        for task in reversed(tasks):
            task()

    rng = np.random.default_rng(0)
    index = BiSort(1000, PLACE_BITS, backwards)
    words: list[int] = []
    for _ in range(20):
        new = numbered([int(key) for key in rng.integers(0, 30, 50)], len(words))
        index.insert(new)
        words += new.tolist()
    assert max(pieces) > 4
    check(index, words, [key_range(key, key) for key in range(31)])


def test_arrays_are_used_again() -> None:
    spare: list = []
    for _ in range(3):
        index = BiSort(100, PLACE_BITS, spare=spare)
        words: list[int] = []
        for _ in range(4):
            new = numbered([3, 1, 2] * 8, len(words))
            index.insert(new)
            words += new.tolist()
        check(index, words, [key_range(1, 2)])
        index.seal()
        index.release()
        assert spare


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
