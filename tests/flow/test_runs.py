"""The run buffer gives back in order what it was given in any order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import INT64_MAX, INT64_MIN
from streamjoin.flow.runs import RunBuffer, merge

KEYS = st.sampled_from([INT64_MIN, -1, 0, 1, 2, 3, 7, INT64_MAX])
PUSHES = st.lists(st.lists(KEYS, max_size=9), max_size=12)


@given(PUSHES, st.lists(KEYS, max_size=4), st.booleans())
def test_everything_comes_out_once_and_in_order(pushes: list[list[int]], bounds: list[int], in_order: bool) -> None:
    if in_order:
        keys = iter(sorted(key for push in pushes for key in push))
        pushes = [[next(keys) for _ in push] for push in pushes]
    buffer, waiting, row = RunBuffer(), list[tuple[int, int, int]](), 0
    asked = iter(bounds)
    for push in pushes:
        rows = np.arange(row, row + len(push))
        buffer.push([np.array(push, np.int64), rows, rows * 10])
        waiting = sorted(waiting + [(key, int(r), int(r) * 10) for key, r in zip(push, rows, strict=True)])
        row += len(push)
        bound = next(asked, None)
        if bound is not None:
            taken = buffer.pop_below(bound)
            expected = [line for line in waiting if line[0] < bound]
            waiting = waiting[len(expected) :]
            assert ([] if taken is None else list(zip(*map(list, taken), strict=True))) == expected
        assert len(buffer) == len(waiting)
        assert buffer.first() == (waiting[0][:2] if waiting else None)
        assert buffer.smallest(1) == (min(line[1] for line in waiting) if waiting else None)
    rest = buffer.pop_all()
    assert ([] if rest is None else list(zip(*map(list, rest), strict=True))) == waiting


def test_ties_are_broken_by_row() -> None:
    first = [np.array([1, 5, 5, 9]), np.array([3, 1, 6, 2])]
    second = [np.array([5, 5, 9]), np.array([0, 4, 1])]
    third = [np.array([0, 5]), np.array([9, 5])]
    key, row = merge([first, second, third])
    assert list(zip(key.tolist(), row.tolist(), strict=True)) == sorted(
        [(1, 3), (5, 1), (5, 6), (9, 2), (5, 0), (5, 4), (9, 1), (0, 9), (5, 5)]
    )
