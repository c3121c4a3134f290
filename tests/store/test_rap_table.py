"""RaP-Table: its splitters adjust as the paper says."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import Words
from streamjoin.store.rap_table import RapTable, adjusted_splitters, even_splitters, sampled_splitters
from streamjoin.store.words import COMPARED, LANES, new_state

from .words import PLACE_BITS, check, key_range, numbered


def filled(
    batches_: list[list[int]], predecessor: RapTable | None, partitions: int | None
) -> tuple[RapTable, list[int]]:
    capacity = max(sum(map(len, batches_)), 1)
    table = RapTable(capacity, PLACE_BITS, predecessor, partitions)
    words: list[int] = []
    for batch in batches_:
        new = numbered(batch, len(words))
        table.insert(new)
        words += new.tolist()
    return table, words


@given(
    st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6), min_size=1, max_size=9), st.integers(1, 20)
)
def test_the_adjustment_is_exact(parts: list[list[int]], partitions: int) -> None:
    """Against Algorithm 1 in fractions."""
    values = sorted(value for part in parts for value in part)
    count, low, high = [], [], []
    for part in parts:
        here, values = values[: len(part)], values[len(part) :]
        count.append(len(here))
        low.append(here[0])
        high.append(here[-1])
    total, expected = sum(count), []
    for j in range(1, partitions):
        balance, before, i = Fraction(total * j, partitions), 0, 0
        while before + count[i] < balance:
            before += count[i]
            i += 1
        expected.append(low[i] + math.floor((balance - before) / count[i] * (high[i] - low[i])))
    splitters = adjusted_splitters(np.array(count), np.array(low, np.uint64), np.array(high, np.uint64), partitions)
    assert splitters.tolist() == [*expected, 2**64 - 1]
    assert (splitters[:-1] <= splitters[1:]).all()


def test_the_adjustment_is_exact_for_the_largest_tables() -> None:
    splitters = adjusted_splitters(
        np.array([2**31 - 1]), np.zeros(1, np.uint64), np.array([2**64 - 1], np.uint64), 65_536
    )
    assert splitters.tolist() == [(2**64 - 1) * j // 65_536 for j in range(1, 65_537)]


def test_splitters_are_even_at_first() -> None:
    assert even_splitters(4).tolist() == [2**62 - 1, 2**63 - 1, 3 * 2**62 - 1, 2**64 - 1]


def test_empty_partitions_give_no_splitters() -> None:
    count = np.array([0, 4, 0, 4, 0])
    low, high = np.array([9, 10, 9, 30, 9], np.uint64), np.array([0, 14, 0, 34, 0], np.uint64)
    assert adjusted_splitters(count, low, high, 4).tolist() == [12, 14, 32, 2**64 - 1]


def histograms(words: Words, splitters: Words) -> tuple[np.ndarray, Words, Words]:
    partition = np.searchsorted(splitters, words)
    count = np.bincount(partition, minlength=len(splitters))
    low, high = np.full(len(splitters), 2**64 - 1, np.uint64), np.zeros(len(splitters), np.uint64)
    np.minimum.at(low, partition, words)
    np.maximum.at(high, partition, words)
    return count, low, high


@pytest.mark.parametrize(("repeated", "zeros"), [(1, 0), (50, 0), (1, 20_000)])
@pytest.mark.parametrize(("partitions", "bound"), [(16, 8), (64, 6), (256, 4), (1024, 4), (65_536, 2)])
def test_the_worst_case_takes_no_more_adjustments_than_the_paper_says(
    partitions: int, bound: int, repeated: int, zeros: int
) -> None:
    """Fig. 4: all words are in one partition, each key is 1 / P of the next; the low ones stay together for long."""
    assert bound == math.ceil(math.log(2**32, partitions))
    keys = sorted({(2**32 - 1) // partitions**k for k in range(33)})
    places = {key: repeated + (zeros if key == 0 else 0) for key in keys}
    words = np.array([key << 32 | place for key in keys for place in range(places[key])], np.uint64)
    splitters, adjustments = even_splitters(partitions), 0
    splitters[:-1] = words[-1]
    together = [len(keys)]
    while together[-1] > 1:
        splitters = adjusted_splitters(*histograms(words, splitters), partitions)
        lowest = words[words <= splitters[np.searchsorted(splitters, words[0])]]
        together.append(len(np.unique(lowest >> np.uint64(32))))
        assert together[-1] < together[-2]
        adjustments += 1
    assert adjustments <= bound
    if zeros:
        assert together == list(range(bound + 1, 0, -1)), "it is the worst case"


def error(words: Words, splitters: Words) -> float:
    count = histograms(words, splitters)[0]
    equal = len(words) / len(splitters)
    return float(np.abs(count - equal).mean() / equal)


def uniform(random: np.random.Generator, n: int) -> np.ndarray:
    return random.integers(0, 2**32, n)


def multimodal(random: np.random.Generator, n: int) -> np.ndarray:
    centres = np.array([0.1, 0.35, 0.36, 0.8])[random.integers(0, 4, n)] * 2**32
    return np.clip(random.normal(centres, 2**22), 0, 2**32 - 1).astype(np.int64)


def rank_size(random: np.random.Generator, n: int) -> np.ndarray:
    """99% of the keys are in 0.01% of the range."""
    return np.minimum(2**32 / 1e6 * random.pareto(1, n), 2**32 - 1).astype(np.int64)


@pytest.mark.parametrize("partitions", [256, 1024])
@pytest.mark.parametrize("distribution", [uniform, multimodal, rank_size])
def test_common_distributions_need_at_most_three_adjustments(distribution: Any, partitions: int) -> None:
    """Section V-A1, with new words for each subwindow."""
    random = np.random.default_rng(5)
    n = 200_000
    splitters = even_splitters(partitions)
    errors = []
    for _ in range(6):
        keys = distribution(random, n).astype(np.uint64)
        words = np.sort(keys << np.uint64(32) | random.permutation(n).astype(np.uint64))
        errors.append(error(words, splitters))
        splitters = adjusted_splitters(*histograms(words, splitters), partitions)
    assert errors[3] <= errors[0] + 0.03, "uniform words are even at first but for chance"
    assert max(errors[3:]) < 0.15


def test_a_table_without_a_predecessor_learns_from_its_first_words() -> None:
    random = np.random.default_rng(2)
    table = RapTable(20_000, 20)
    for start in range(0, 20_000, 1000):
        keys = random.integers(0, 2**32, 1000, dtype=np.uint64)
        table.insert(np.sort(keys << np.uint64(20) | np.arange(start, start + 1000, dtype=np.uint64)))
    figures = table.figures()
    assert figures["error"] < 0.3
    assert figures["adjustments"] == 0
    assert table.histogram().counts.max() < 5 * 64


def test_a_table_learns_from_words_that_come_one_by_one() -> None:
    random = np.random.default_rng(2)
    table = RapTable(6000, 20, partitions=20)
    for place, key in enumerate(random.integers(0, 2**32, 6000).tolist()):
        table.insert(np.array([key << 20 | place], np.uint64))
    assert table.count == 6000
    assert table.figures()["error"] < 0.2


def test_a_predecessor_of_few_words_is_not_relied_on() -> None:
    first, _ = filled([[5, 2**40]], None, 16)
    second, _ = filled([list(range(1000, 2000))], first, 16)
    assert second.figures()["error"] < 0.05
    assert second.figures()["adjustments"] == 0
    assert second.drift() == 0.0


def test_sampled_splitters_interpolate() -> None:
    assert sampled_splitters(np.array([0, 100], np.uint64), 4).tolist() == [25, 50, 75, 2**64 - 1]
    assert sampled_splitters(np.array([0, 10, 20, 30, 40], np.uint64), 2).tolist() == [20, 2**64 - 1]


def one_key(n: int, key: int, place_bits: int) -> Words:
    return np.arange(n, dtype=np.uint64) | np.uint64(key << place_bits)


def test_ranges_beside_a_single_key_compare_nothing() -> None:
    table = RapTable(5001, 13, partitions=16)
    table.insert(np.array([9 << 13 | 5000], np.uint64))
    table.insert(one_key(5000, 7, 13))
    words = [*one_key(5000, 7, 13).tolist(), 9 << 13 | 5000]
    check(table, words, [key_range(k, k, 13) for k in range(12)], 13)
    out = np.empty(65_536, np.int32)
    for _ in range(2):
        state = new_state()
        low, high = np.array([key_range(k, k, 13) for k in (3, 6, 10)], np.uint64).T.copy()
        assert table.probe(low, high, out, out.copy(), state) == 0
        assert state[COMPARED] == 0
        table.seal()


def test_a_frequent_key_is_spread_over_partitions_by_its_places() -> None:
    first = RapTable(4096, 12, partitions=16)
    first.insert(one_key(4096, 7, 12))
    second = RapTable(4096, 12, first, partitions=16)
    for start in range(0, 4096, 512):
        second.insert(one_key(4096, 7, 12)[start : start + 512])
    assert second.figures()["error"] < 0.01
    assert second.figures()["adjustments"] == 1
    assert second.figures()["reserved_entries"] == 0
    check(second, one_key(4096, 7, 12).tolist(), [key_range(7, 7, 12), key_range(6, 6, 12)], 12)


def test_drift_is_the_share_of_words_beyond_the_predecessor() -> None:
    first = RapTable(100, 10)
    assert first.drift() == 0.0
    first.insert(numbered(list(range(1000, 1100)), 0))
    second = RapTable(100, 10, first)
    assert second.drift() == 0.0
    second.insert(numbered([1001, 1050, 1098], 0))
    assert second.drift() == 0.0
    second.insert(numbered([3, 1100, 5000], 3))
    assert second.drift() == 0.5
    second.seal()
    assert second.figures()["drift"] == 0.5


def test_sealing_frees_the_reserved_entries() -> None:
    table, words = filled([[k * 1000 for k in range(1000)]], None, None)
    before = table.figures()
    size = table.nbytes
    table.seal()
    assert table.nbytes < size
    assert table.nbytes <= 8 * (len(words) + LANES) + 33 * table.partitions
    assert table.figures() == before


@pytest.mark.parametrize(("capacity", "partitions"), [(1, 4), (256, 4), (6400, 100), (2**30, 65_536)])
def test_partitions_are_small_enough_to_scan(capacity: int, partitions: int) -> None:
    assert RapTable(capacity, 30).partitions == partitions
