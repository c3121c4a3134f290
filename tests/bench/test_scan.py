"""`bench scan` measures what it says: every contestant finds the oracle's pairs, in all its rounds."""

from __future__ import annotations

import numpy as np
import pytest

from streamjoin.bench.columns import Columns
from streamjoin.bench.cpp.band_join import CppBandJoin
from streamjoin.bench.scan.contestants import contestants, numpy_join
from streamjoin.bench.scan.measure import as_set, check_pairs, end_to_end, measure
from streamjoin.bench.workloads import celljoin_tuples
from streamjoin.side import SIDES, Side

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def cpp() -> CppBandJoin | None:
    try:
        return CppBandJoin()
    except RuntimeError:
        return None


def expected(stored: Side, columns: Columns, probes: Columns) -> set[tuple[int, int]]:
    (x, y), (a, b) = (columns, probes) if stored == "left" else (probes, columns)
    exact = y.astype(float)
    return {
        (i, j) if stored == "left" else (j, i)
        for i in range(len(a))
        for j in range(len(x))
        if abs(int(x[j]) - int(a[i])) <= 10 and abs(exact[j] - float(b[i])) <= 10
    }


def dense(rng: np.random.Generator, count: int) -> Columns:
    """Values so close together that many pairs match."""
    numbers, reals = celljoin_tuples(rng, count)
    return numbers % 50, np.float32(reals % 50)


@pytest.mark.parametrize("probes", [1, 3, 4, 21])
def test_contestants_find_the_same_pairs(probes: int, cpp: CppBandJoin | None) -> None:
    rng = np.random.default_rng(probes)
    columns: dict[Side, Columns] = {side: dense(rng, 1_500) for side in SIDES}
    fresh = dense(rng, probes)
    for name, stored, run in contestants(columns, cpp):
        found = as_set(run(fresh))
        assert found == expected(stored, columns[stored], fresh), (name, stored)
        assert found


def test_rounds_are_counted_and_compared(cpp: CppBandJoin | None) -> None:
    series = measure(3_000, 8, 2, 1, cpp)
    assert len(series) == 2 * (4 + (cpp is not None))
    for entry in series:
        figures = entry.figures()
        assert len(figures["rates"]) == 2
        assert 0 < figures["min"] <= figures["median"] <= figures["best"]
        assert (figures["ratio_to_cpp"] is None) == (cpp is None)


def test_a_wrong_contestant_is_found_out() -> None:
    right = (np.array([0, 1]), np.array([5, 6]))
    wrong = (np.array([0, 1]), np.array([5, 7]))
    found = {(name, side): right for name in ("SQL", "NumPy") for side in SIDES}
    check_pairs(found)
    with pytest.raises(AssertionError, match="C\\+\\+"):
        check_pairs(found | {("C++", "left"): wrong})


def test_end_to_end_fills_the_window() -> None:
    result = end_to_end(2_000, 64, 3, 5)
    assert len(result.rates) == 3
    assert result.tuples_per_second > 0


def test_numpy_obeys_the_window() -> None:
    columns = (np.zeros(5, np.int32), np.zeros(5, np.float32))
    probes = (np.zeros(1, np.int32), np.zeros(1, np.float32))
    for stored in SIDES:
        _, places = numpy_join(stored, columns, np.arange(5), probes, np.array([1]), np.array([3]))
        assert places.tolist() == [1, 2]
