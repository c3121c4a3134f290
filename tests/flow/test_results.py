"""Pairs on their way to the reader: which rows have met a partner, and which rows are still needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import Rows
from streamjoin.flow.front import Step
from streamjoin.flow.results import NONE, OpenTuples, Results
from streamjoin.side import Side
from streamjoin.store.batch import Batch

ROWS = st.lists(st.integers(0, 19), max_size=30)


@given(ROWS, ROWS, st.booleans(), st.integers(0, 21))
def test_meeting(first: list[int], second: list[int], tell: bool, bound: int) -> None:
    opened = OpenTuples()
    opened.add(np.arange(20) * 2, np.arange(100, 120))
    met: set[int] = set()
    for rows in (first, second):
        given_rows = np.array(rows, np.int64) + 100
        if tell:
            new = opened.meet_new(given_rows).tolist()
            assert len(new) == len(set(new))
            assert set(new) == set(given_rows.tolist()) - met
        else:
            opened.meet(given_rows)
        met |= set(given_rows.tolist())
    closed = opened.close_below(2 * bound)
    below = set(range(100, 100 + min(bound, 20)))
    assert [set(rows.tolist()) for rows in closed] == [below & met, below - met]
    rest = opened.close_below(None)
    assert [set(rows.tolist()) for rows in rest] == [met - below, set(range(100, 120)) - below - met]


def test_rows_that_were_forgotten_make_room() -> None:
    opened = OpenTuples()
    opened.add(np.arange(5), np.arange(5))
    opened.meet(np.array([4, 4, 1]))
    assert [rows.tolist() for rows in opened.close_below(3)] == [[1], [0, 2]]
    opened.forget(3)
    opened.add(np.arange(5, 5000), np.arange(5, 5000))
    opened.meet(np.array([4999, 5]))
    met, lonely = opened.close_below(None)
    assert met.tolist() == [4, 5, 4999]
    assert len(lonely) == 4994


def step(left: int, right: int) -> Step:
    rows = {"left": np.arange(left), "right": np.arange(right)}
    none: dict[str, Batch] = {}
    return Step(none, {side: (r, r) for side, r in rows.items()})  # type: ignore[arg-type]


def times(side: Side, rows: Rows) -> Rows:
    """The rows of a step come at the times 0, 1, 2 and so on."""
    return rows


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_what_is_ready_and_what_is_needed(how: str) -> None:
    results = Results(how, "none", finds_late=False)
    results.begin(step(6, 6), times)
    results.add(np.array([3, 3, 4]), np.array([2, 5, 2]), times)
    results.add(np.array([3]), np.array([4]), times)
    results.add(np.empty(0, np.int64), np.empty(0, np.int64), times)
    results.end(times)
    pairs = [] if how in ("semi", "anti") else [(3, 2), (3, 5), (4, 2), (3, 4)]
    pairs += [(3, NONE), (4, NONE)] if how == "semi" else []
    assert found(results) == pairs
    opens = {"left": how not in ("inner", "right"), "right": how in ("right", "full")}
    assert results.first_row("left") == (0 if opens["left"] else 3)
    assert results.first_row("right") == (0 if opens["right"] else None if how in ("semi", "anti") else 2)
    results.expire("left", 4, times)
    results.expire("right", 4, times)
    lonely = [(row, NONE) for row in (0, 1, 2)] if how in ("left", "full", "anti") else []
    lonely += [(NONE, row) for row in (0, 1, 3)] if how in ("right", "full") else []
    assert found(results) == pairs + lonely
    assert len(results) == len(pairs + lonely)
    results.clear()
    assert found(results) == []
    assert results.first_row("left") == (4 if opens["left"] else None)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_closest_partners_are_held_until_they_are_known(how: str) -> None:
    results = Results(how, "none", finds_late=False, match="nearest")
    results.begin(step(6, 6), times)
    results.add(np.array([3, 3, 4, 1]), np.array([2, 5, 2, 5]), times)
    results.end(times)
    assert found(results) == []
    assert (results.first_row("left"), results.first_row("right")) == (0, 2)
    results.decide(4, times)
    assert found(results) == [(3, 2)]
    results.expire("left", 3, times)
    lonely = [] if how == "inner" else [(0, NONE), (2, NONE)]
    assert sorted(found(results)) == sorted([(1, 5), *lonely, (3, 2)])
    results.clear()
    assert (results.first_row("left"), results.first_row("right")) == (4, 2)
    results.close(times)
    assert found(results) == [(4, 2)] + [(5, NONE)] * (how == "left")
    results.clear()
    assert results.first_row("left") is None


def found(results: Results) -> list[tuple[int, int]]:
    left, right = results.ready()
    assert [len(piece) for piece in left] == [len(piece) for piece in right]
    rows = [[int(row) for piece in pieces for row in piece] for pieces in (left, right)]
    return list(zip(*rows, strict=True))
