"""The closest partner of each left row: pairs come in any order, and rows are decided early, but not too early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.arrays import INT64_MAX, INT64_MIN
from streamjoin.flow import closest
from streamjoin.flow.closest import NONE, ClosestPartners, last_rivals

Pairs = list[tuple[int, int]]
ENDS = [INT64_MIN + 1, INT64_MIN + 2, -1, 0, 1, INT64_MAX - 2, INT64_MAX - 1]
TIMES = st.lists(st.one_of(st.integers(-4, 4), st.sampled_from(ENDS)), min_size=9, max_size=9)
PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=40, unique=True)
BASE = 100


def judged(pairs: Pairs, left: list[int], right: list[int], match: str) -> dict[int, int]:
    """The partner of each left row, NONE if it has none."""
    found = {}
    for l, now in enumerate(left):
        partners = [(right[r], r) for own, r in pairs if own == l and (match == "nearest" or right[r] <= now)]
        partners.sort(key=lambda partner: (abs(partner[0] - now), partner[0], -partner[1]))
        found[l] = partners[0][1] if partners else NONE
    return found


@pytest.mark.parametrize("match", ["latest", "nearest"])
@pytest.mark.parametrize("is_compiled", [True, False])
@given(TIMES, TIMES, PAIRS, st.integers(1, 20))
def test_any_order_of_pairs(
    match: str, is_compiled: bool, left: list[int], right: list[int], pairs: Pairs, size: int
) -> None:  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        if not is_compiled:
            patch.setattr(closest, "keep_closest", closest._keep_in_numpy)
        partners = ClosestPartners(match)
        partners.forget(BASE)
        partners.add(np.array(left), BASE + np.arange(9), np.array(left))
        for start in range(0, len(pairs), size):
            rows = np.array(pairs[start : start + size])
            partners.offer(BASE + rows[:, 0], rows[:, 1].copy(), np.array(right)[rows[:, 1]])
    wanted = judged(pairs, left, right, match)
    assert partners.first_partner() == min((row for row in wanted.values() if row != NONE), default=INT64_MAX)
    assert given_out(partners.close_below(None)) == wanted
    assert partners.first() is None
    assert partners.first_partner() == INT64_MAX


@pytest.mark.parametrize("match", ["latest", "nearest"])
@given(TIMES, TIMES, PAIRS, st.lists(st.integers(-6, 6), max_size=4))
def test_rows_are_decided_as_soon_as_no_partner_to_come_can_be_closer(
    match: str, left: list[int], right: list[int], pairs: Pairs, steps: list[int]
) -> None:  # fmt: skip
    """Partners come by time. What is given out is right, and what is not might still get a closer partner."""
    partners, given = ClosestPartners(match), dict[int, int]()
    partners.add(np.arange(9), np.arange(9), np.array(left))
    last = INT64_MIN
    for time in [*sorted(steps), None]:
        new = [(l, r) for l, r in pairs if last <= right[r] and (time is None or right[r] < time)]
        if new:
            rows = np.array(new)
            partners.offer(rows[:, 0].copy(), rows[:, 1].copy(), np.array(right)[rows[:, 1]])
        if time is None:
            given |= given_out(partners.close_below(None))
            break
        out = given_out(partners.decide_below(time))
        assert not out.keys() & given.keys()
        given |= out
        before = [(l, r) for l, r in pairs if right[r] < time]
        for l in set(range(9)) - given.keys():  # the last row of the right stream comes as close as it still can
            assert judged([*before, (l, 9)], left, [*right, max(time, left[l])], match)[l] == 9
        known = [row for l, row in judged(before, left, right, match).items() if l not in given and row != NONE]
        assert partners.first_partner() == min(known, default=INT64_MAX)
        undecided = [l for l in range(9) if l not in given]
        assert partners.first() == ((undecided[0], undecided[0]) if undecided else None)
        last = time
    assert given == judged(pairs, left, right, match)


def given_out(found: Any) -> dict[int, int]:
    rows, partners = found
    assert len(set(rows.tolist())) == len(rows)
    first = BASE if len(rows) and rows.min() >= BASE else 0
    return dict(zip((rows - first).tolist(), partners.tolist(), strict=True))


def test_the_last_rival() -> None:
    times, partners = np.array([5, 5, 5, INT64_MAX - 1]), np.array([5, 3, 8, INT64_MIN + 1])
    assert last_rivals(times, partners).tolist() == [5, 6, 8, INT64_MAX - 1]


def test_rows_that_were_forgotten_may_still_be_due() -> None:
    """A row that has got two partners is due twice. It may be forgotten after the first time."""
    partners = ClosestPartners("nearest")
    rows = np.arange(4)
    partners.add(rows, rows, 10 * rows)
    partners.offer(np.array([0]), np.array([0]), np.array([9]))
    partners.offer(np.array([0]), np.array([1]), np.array([4]))
    assert given_out(partners.decide_below(6)) == {0: 1}
    assert given_out(partners.close_below(2)) == {1: NONE}
    assert partners.first_row() == 2
    partners.forget(2)
    assert given_out(partners.decide_below(50)) == {}
    partners.add(np.arange(4, 3000), np.arange(4, 3000), np.arange(40, 3036))
    partners.offer(np.array([2999]), np.array([7]), np.array([3035]))
    assert partners.first() == (2, 2)
    assert given_out(partners.close_below(None))[2999] == 7


def test_partners_that_come_closer_and_closer_leave_nothing_behind() -> None:
    """The left stream is ahead: each of many steps brings all of its rows a closer partner."""
    partners, rows = ClosestPartners("nearest"), np.arange(100)
    partners.add(rows, rows, 1000 + rows)
    for time in range(0, 1000, 5):
        partners.offer(rows, np.full(100, time), np.full(100, time))
        assert given_out(partners.decide_below(time + 5)) == {}
        assert len(partners._due) == len(rows)
    assert given_out(partners.decide_below(1106)) == dict.fromkeys(range(51), 995)
    assert len(partners._due) == 49
    assert given_out(partners.decide_below(1300)) == dict.fromkeys(range(51, 100), 995)
