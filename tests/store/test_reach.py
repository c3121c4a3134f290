"""Where tuples lie that a probing tuple may meet, in whatever order they came."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import INT64_MAX, INT64_MIN
from streamjoin.store.integer_column import IntegerColumn
from streamjoin.store.reach import Reach, meeting

COORDINATES = st.one_of(st.integers(-20, 20), st.sampled_from([INT64_MIN + 1, INT64_MAX - 1]))
BATCHES = st.lists(st.lists(COORDINATES, min_size=1, max_size=8), max_size=6)
WINDOWS = st.lists(
    st.tuples(st.one_of(COORDINATES, st.just(INT64_MIN)), st.one_of(COORDINATES, st.just(INT64_MAX))), min_size=1
)


def filled(batches: list[list[int]], explicit: bool) -> tuple[IntegerColumn, Reach, int]:
    column, reach, count = IntegerColumn(64, explicit), Reach(64), 0
    for batch in batches:
        in_order = column.append(np.array(batch, np.int64))
        reach.append(column, count, count + len(batch), in_order)
        count += len(batch)
    return column, reach, count


@given(BATCHES, WINDOWS, st.booleans(), st.booleans(), st.data())
def test_no_tuple_of_the_window_is_missed(
    batches: list[list[int]], windows: list[tuple[int, int]], in_order: bool, explicit: bool, data: st.DataObject
) -> None:
    if in_order:
        ascending = iter(sorted(value for batch in batches for value in batch))
        batches = [[next(ascending) for _ in batch] for batch in batches]
    column, reach, count = filled(batches, explicit)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    low, high = (np.array(bounds, np.int64) for bounds in zip(*windows, strict=True))
    first, last, base, behind, total = reach.slice(column, start, stop, low, high)
    assert total == sum(last - first)
    assert (min(first), max(last)) == (0, behind - base)
    values = [value for batch in batches for value in batch]
    for window, begin, end in zip(windows, first + base, last + base, strict=True):
        inside = [k for k in range(start, stop) if window[0] <= values[k] < window[1]]
        assert start <= begin <= end <= stop
        assert all(begin <= k < end for k in inside)
        if in_order:
            assert list(range(begin, end)) == inside or (not inside and begin == end)


def test_tuples_that_count_up_need_no_array() -> None:
    column, reach, count = filled([list(range(5, 25)), list(range(25, 45))], explicit=False)
    assert column.array is None
    low, high = np.array([INT64_MIN, 10, 44, 50]), np.array([9, 12, INT64_MAX, 60])
    first, last, base, behind, total = reach.slice(column, 3, count, low, high)
    assert (base, behind, total) == (3, 40, 4)
    assert (first + base).tolist() == [3, 5, 39, 40]
    assert (last + base).tolist() == [4, 7, 40, 40]
    assert reach.nbytes == 0


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 9))), st.lists(st.integers(-25, 25), min_size=1))
def test_whose_windows_hold_a_coordinate(windows: list[tuple[int, int]], coordinates: list[int]) -> None:
    lows = sorted(low for low, _ in windows)
    highs = sorted(low + size for low, size in windows)
    first, last = meeting(*(np.array(values, np.int64) for values in (lows, highs, coordinates)))
    for coordinate, begin, end in zip(coordinates, first, last, strict=True):
        holding = [k for k, (low, high) in enumerate(zip(lows, highs, strict=True)) if low <= coordinate < high]
        assert list(range(begin, end)) == holding
