"""The benchmark measures what it says: every contestant finds the oracle's pairs, in all its rounds."""

from __future__ import annotations

import numpy as np
import pytest

from streamjoin.bench import baselines, scan
from streamjoin.bench.baselines import Cpp, numpy_join
from streamjoin.side import SIDES, Side


@pytest.fixture(scope="module")
def cpp() -> Cpp | None:
    try:
        return Cpp()
    except RuntimeError:
        return None


def expected(stored: Side, columns: scan.Columns, probes: scan.Columns) -> set[tuple[int, int]]:
    (x, y), (a, b) = (columns, probes) if stored == "left" else (probes, columns)
    exact = y.astype(float)
    return {
        (i, j) if stored == "left" else (j, i)
        for i in range(len(a))
        for j in range(len(x))
        if abs(int(x[j]) - int(a[i])) <= 10 and abs(exact[j] - float(b[i])) <= 10
    }


def dense(rng: np.random.Generator, count: int) -> scan.Columns:
    """Values so close together that many pairs match."""
    numbers, reals = scan.tuples(rng, count)
    return numbers % 50, np.float32(reals % 50)


@pytest.mark.parametrize("probes", [1, 3, 4, 21])
def test_contestants_find_the_same_pairs(probes: int, cpp: Cpp | None) -> None:
    rng = np.random.default_rng(probes)
    columns: dict[Side, scan.Columns] = {side: dense(rng, 1_500) for side in SIDES}
    fresh = dense(rng, probes)
    for name, stored, run in scan.contestants(columns, cpp):
        found = scan._as_set(run(fresh))
        assert found == expected(stored, columns[stored], fresh), (name, stored)
        assert found


def test_rounds_are_counted_and_compared(cpp: Cpp | None) -> None:
    series = scan.measure(3_000, 8, 2, 1, cpp)
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
    scan._check(found)
    with pytest.raises(AssertionError, match="C\\+\\+"):
        scan._check(found | {("C++", "left"): wrong})


def test_end_to_end_fills_the_window() -> None:
    result = scan.end_to_end(2_000, 64, 3, 5)
    assert len(result.rates) == 3
    assert result.tuples_per_second > 0


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler found"):
        Cpp()


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "COMPILERS", ("false",))
    with pytest.raises(RuntimeError, match="cannot build"):
        Cpp()


def test_numpy_obeys_the_window() -> None:
    columns = (np.zeros(5, np.int32), np.zeros(5, np.float32))
    probes = (np.zeros(1, np.int32), np.zeros(1, np.float32))
    for stored in SIDES:
        _, places = numpy_join(stored, columns, np.arange(5), probes, np.array([1]), np.array([3]))
        assert places.tolist() == [1, 2]
