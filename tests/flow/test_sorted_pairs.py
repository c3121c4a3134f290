"""Pairs are sorted by timestamp, left row and right row, whatever the numbers are; a missing partner comes last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import INT64_MIN
from streamjoin.flow.sorted_pairs import MISSING, in_order

ROWS = st.one_of(st.integers(0, 5), st.integers(0, 2**40), st.just(MISSING))
KEYS = st.one_of(st.integers(-3, 3), st.integers(INT64_MIN, MISSING - 1))


def check(pairs: list[tuple[int, int, int]]) -> None:
    key, left, right = (np.array([pair[k] for pair in pairs], np.int64) for k in range(3))
    found = in_order(key, left.copy(), right.copy())
    assert list(zip(*(rows.tolist() for rows in found), strict=True)) == [pair[1:] for pair in sorted(pairs)]


@given(st.lists(st.tuples(KEYS, ROWS, ROWS), max_size=100))
def test_any_numbers(pairs: list[tuple[int, int, int]]) -> None:
    check(pairs)


@pytest.mark.parametrize("spread", [10, 2**20, 2**36, 2**61])
@pytest.mark.parametrize("rows", [3, 2**9, 2**25, 2**40])
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_many_pairs(spread: int, rows: int, missing: float) -> None:
    """In one word, by two sorts, and where nothing fits."""
    rng = np.random.default_rng(spread + rows)
    count = 500
    right = np.where(rng.random(count) < missing, MISSING, rng.integers(0, rows, count) + 10**12)
    columns = rng.integers(-spread, spread, count), rng.integers(0, rows, count) + 7, right
    check(list(zip(*(column.tolist() for column in columns), strict=True)))
