"""BI-Sort: skips words by their rest, moves a word only a few times, merges in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from streamjoin.store import word_jobs
from streamjoin.store.bi_sort import BiSort
from streamjoin.store.run_probe import probe_run
from streamjoin.store.words import AT_ONCE, NEXT, STOPPED, new_state

from .words import PLACE_BITS, check, key_range, numbered


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
    monkeypatch.setattr(word_jobs, "MERGED", 20)
    pieces: list[int] = []

    def backwards(tasks: list) -> None:
        for job in tasks:
            pieces.append(job.parts)
            for part in reversed(range(job.parts)):
                job.entry(job.block.ctypes.data, part, 0)

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
