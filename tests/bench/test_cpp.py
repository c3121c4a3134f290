"""The C++ baselines: BI-Sort finds what a comparison of all pairs finds, and a missing compiler is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamjoin.arrays import Array
from streamjoin.bench.cpp import build
from streamjoin.bench.cpp.band_join import CppBandJoin
from streamjoin.bench.cpp.bi_sort import CppBiSort
from streamjoin.errors import ArgumentError

pytestmark = pytest.mark.bench
ENDS = np.array([-(2**31), 2**31 - 1], np.int32)
BASELINES = [CppBandJoin, lambda: CppBiSort(10)]


@pytest.fixture(scope="module")
def built() -> CppBiSort:
    try:
        return CppBiSort(20_000)
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture
def cpp(built: CppBiSort) -> CppBiSort:
    built.clear()
    return built


def ranges_of(keys: Array, low: Array, high: Array) -> list[tuple[int, int]]:
    hits = (keys >= low[:, None]) & (keys <= high[:, None])
    return sorted(zip(*(places.tolist() for places in np.nonzero(hits)), strict=True))


@pytest.mark.parametrize("spread", [0, 40, 5_000, 2**31 - 1])
def test_bisort_finds_all_in_the_ranges(cpp: CppBiSort, spread: int) -> None:
    rng = np.random.default_rng(spread)

    def some(count: int) -> Array:
        return rng.integers(-spread, spread, count, endpoint=True).astype(np.int32)

    inserted = np.empty(0, np.int32)
    for count in (0, 1, 7, 8, 100, 2, 700, 16, 500):
        keys = np.concatenate([some(count), ENDS]) if count == 100 else some(count)
        cpp.insert(keys)
        inserted = np.concatenate([inserted, keys])
        for probes in (0, 1, 63, 64, 65, 150):
            low = np.concatenate([some(probes), ENDS[: probes % 3], ENDS[1:]])
            reach = rng.integers(-2, max(spread // 100, 3), len(low))
            high = np.clip(low + reach, *ENDS.tolist()).astype(np.int32)
            numbers, places = cpp.probe(low, high)
            assert numbers.dtype == places.dtype == np.int32
            found = sorted(zip(numbers.tolist(), places.tolist(), strict=True))
            assert found == ranges_of(inserted, low, high)


def test_bisort_outputs_grow(cpp: CppBiSort) -> None:
    keys = np.arange(1_500, dtype=np.int32)[::-1].copy()
    cpp.insert(keys[:700])
    cpp.insert(keys[700:])
    low = np.arange(200, dtype=np.int32)
    high = np.full(200, 2_000, np.int32)
    numbers, places = cpp.probe(low, high)
    assert len(numbers) == sum(1_500 - i for i in range(200)) > 1 << 16
    assert sorted(zip(numbers.tolist(), places.tolist(), strict=True)) == ranges_of(keys, low, high)


def test_bisort_at_a_larger_size(cpp: CppBiSort) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(-(10**6), 10**6, 20_000).astype(np.int32)
    for part in np.split(keys, [12_000, 12_500, 19_000]):
        cpp.insert(part)
    order = np.argsort(keys)
    for probes in (5, 2_000):  # steps on the index that are long, and short
        low = rng.integers(-(10**6), 10**6, probes).astype(np.int32)
        numbers, places = cpp.probe(low, low + np.int32(300))
        start, end = np.searchsorted(keys[order], low), np.searchsorted(keys[order], low + 300, side="right")
        expected = [(i, int(place)) for i in range(probes) for place in order[start[i] : end[i]]]
        assert sorted(zip(numbers.tolist(), places.tolist(), strict=True)) == sorted(expected)
    with pytest.raises(ArgumentError, match="exceed the capacity 20,000"):
        cpp.insert(keys[:1])


@pytest.mark.parametrize("baseline", BASELINES, ids=["band join", "bi-sort"])
@pytest.mark.parametrize(
    ("compiler", "message"), [("no-such-compiler", "no C\\+\\+ compiler found"), ("false", "cannot build")]
)
def test_without_a_working_compiler(
    baseline: Callable[[], Any], compiler: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "COMPILERS", (compiler,))
    with pytest.raises(RuntimeError, match=message):
        baseline()
