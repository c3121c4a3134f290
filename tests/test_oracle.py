"""The oracle against results worked out by hand, and against a second account of the same meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamjoin.errors import ArgumentError
from streamjoin.oracle import join_pairs, join_rows, late_rows
from streamjoin.side import Side
from streamjoin.window import CountWindow, TimeWindow, Window

TS = ("ts", "ts")


def at(*timestamps: int) -> list[dict[str, Any]]:
    """Rows with these timestamps, whose key `k` is their position."""
    return [{"ts": ts, "k": position} for position, ts in enumerate(timestamps)]


def always(l: Any, r: Any) -> bool:
    return True


def time_windows(left: int, right: int) -> tuple[Window, Window]:
    return TimeWindow(left), TimeWindow(right)


def count_windows(left: int, right: int) -> tuple[Window, Window]:
    return CountWindow(left), CountWindow(right)


# --- Time windows ------------------------------------------------------------------------------------


def test_a_window_excludes_its_own_length() -> None:
    left, right = at(10), at(5, 6, 10, 14, 15)
    assert join_pairs(left, right, always, time_windows(5, 5), TS) == [(0, 1), (0, 2), (0, 3)]


def test_each_side_has_its_own_length() -> None:
    # A left tuple stays for 3, so 10 meets 12 but not 13; a right one for 6, so 10 meets 5 but not 4.
    left, right = at(10), at(4, 5, 12, 13)
    assert join_pairs(left, right, always, time_windows(3, 6), TS) == [(0, 1), (0, 2)]


def test_equal_timestamps_always_qualify() -> None:
    assert join_pairs(at(7, 7), at(7), always, time_windows(1, 1), TS) == [(0, 0), (1, 0)]


def test_the_predicate_decides_and_null_is_not_true() -> None:
    left: list[dict[str, Any]] = [{"ts": 1, "x": 1}, {"ts": 1, "x": None}, {"ts": 1, "x": 3}]

    def greater(l: Any, r: Any) -> Any:
        return None if l["x"] is None else l["x"] > r["x"]

    assert join_pairs(left, [{"ts": 1, "x": 2}], greater, time_windows(1, 1), TS) == [(2, 0)]


def test_results_come_by_result_timestamp_then_positions() -> None:
    # The result timestamps are 5, 4 and 5, 4.
    assert join_pairs(at(5, 4), at(3, 4), always, time_windows(9, 9), TS) == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_time_columns_may_differ_in_name() -> None:
    assert join_pairs([{"a": 1}], [{"b": 1}], always, time_windows(1, 1), ("a", "b")) == [(0, 0)]


# --- Count windows -----------------------------------------------------------------------------------


def test_count_windows_over_time() -> None:
    # Merged: r0(1) r1(2) l0(3) r2(4) l1(5). l0 sees r1; r2 sees l0; l1 sees r2.
    assert join_pairs(at(3, 5), at(1, 2, 4), always, count_windows(1, 1), TS) == [(0, 1), (0, 2), (1, 2)]


def test_count_windows_of_different_sizes() -> None:
    # l0 sees both r0 and r1; r2 sees the last left, l0; l1 sees r1 and r2.
    pairs = join_pairs(at(3, 5), at(1, 2, 4), always, count_windows(1, 2), TS)
    assert pairs == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]


def test_count_windows_take_left_before_right_on_ties() -> None:
    # Merged: l0 l1 r0 r1, all at 7. r0 and r1 both see the last left, l1; no left sees any right.
    assert join_pairs(at(7, 7), at(7, 7), always, count_windows(1, 1), TS) == [(1, 0), (1, 1)]


def test_count_windows_do_not_depend_on_the_order_of_arrival() -> None:
    arrivals: list[tuple[Side, int]] = [("right", 3), ("left", 2)]
    expected = join_pairs(at(3, 5), at(1, 2, 4), always, count_windows(1, 1), TS)
    assert join_pairs(at(3, 5), at(1, 2, 4), always, count_windows(1, 1), TS, arrivals) == expected


def test_count_windows_count_what_the_predicate_refuses() -> None:
    pairs = join_pairs(at(3), at(1, 2), lambda l, r: r["k"] == 0, count_windows(1, 1), TS)
    assert pairs == []


def test_count_windows_without_time_follow_the_pushes() -> None:
    rows: list[dict[str, Any]] = [{}, {}, {}]
    # By default l0 l1 l2 r0 r1 r2: every right tuple sees the last two left ones.
    pairs = join_pairs(rows, rows, always, count_windows(2, 9))
    assert pairs == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]
    # Pushed as r0 l0 l1 r1 r2 l2.
    arrivals: list[tuple[Side, int]] = [("right", 1), ("left", 2), ("right", 2), ("left", 1)]
    pairs = join_pairs(rows, rows, always, count_windows(1, 1), None, arrivals)
    assert pairs == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 2)]


# --- Mixed windows -----------------------------------------------------------------------------------


def test_left_by_time_right_by_count() -> None:
    # r0(0) r1(1) l0(10) r2(12) r3(13). l0 sees one right before it; left tuples stay for 3.
    pairs = join_pairs(at(10), at(0, 1, 12, 13), always, (TimeWindow(3), CountWindow(1)), TS)
    assert pairs == [(0, 1), (0, 2)]


def test_left_by_count_right_by_time() -> None:
    # l0(0) l1(1) r0(10) l2(12) l3(13), the mirror image.
    pairs = join_pairs(at(0, 1, 12, 13), at(10), always, (CountWindow(1), TimeWindow(3)), TS)
    assert pairs == [(1, 0), (2, 0)]


def test_on_ties_a_time_window_holds_also_what_comes_later_in_the_merged_order() -> None:
    # Merged: l0 l1 r0, at 7. Left's count window shows r0 only l1, but right's time window shows r0 to l0.
    assert join_pairs(at(7, 7), at(7), always, (CountWindow(1), TimeWindow(1)), TS) == [(0, 0), (1, 0)]
    # The other way round right's count window shows l0 nothing, and left's time window shows r0 both.
    assert join_pairs(at(7, 7), at(7), always, (TimeWindow(1), CountWindow(1)), TS) == [(0, 0), (1, 0)]


# --- Late tuples -------------------------------------------------------------------------------------


def test_late_is_more_than_lateness_behind_earlier_batches() -> None:
    assert late_rows([[10], [7, 6]], 3) == {2}
    assert late_rows([[10], [9]], 0) == {1}
    assert late_rows([[10], [10]], 0) == set()


def test_order_inside_one_batch_never_makes_a_tuple_late() -> None:
    assert late_rows([[10, 1, 20, 2]], 0) == set()
    assert late_rows([[5], [20, 5]], 0) == set()


def test_late_rows_with_nothing_before_and_empty_batches() -> None:
    assert late_rows([], 0) == set()
    assert late_rows([[], [-5], [], [-6]], 0) == {1}


def test_late_tuples_take_no_part_and_keep_their_positions() -> None:
    left, right = at(10, 1, 11), at(12)
    arrivals: list[tuple[Side, int]] = [("left", 1), ("left", 2), ("right", 1)]
    assert join_pairs(left, right, always, time_windows(99, 99), TS, arrivals) == [(0, 0), (2, 0)]
    assert join_pairs(left, right, always, time_windows(99, 99), TS, arrivals, 9) == [(0, 0), (1, 0), (2, 0)]
    assert join_rows(left, right, always, time_windows(1, 1), TS, arrivals, how="anti") == [
        (0, None),
        (2, None),
    ]


def test_count_windows_do_not_count_late_tuples() -> None:
    # r2(8) comes after r1(9). Counted, it would push r0(5) out of the last two before l0(10).
    left, right = at(10), at(5, 9, 8)
    assert join_pairs(left, right, always, count_windows(1, 2), TS) == [(0, 1), (0, 2)]
    arrivals: list[tuple[Side, int]] = [("right", 2), ("right", 1), ("left", 1)]
    assert join_pairs(left, right, always, count_windows(1, 2), TS, arrivals) == [(0, 0), (0, 1)]
    assert join_pairs(left, right, always, count_windows(1, 2), TS, arrivals, 1) == [(0, 1), (0, 2)]


def test_lateness_is_of_each_stream_alone() -> None:
    arrivals: list[tuple[Side, int]] = [("left", 1), ("right", 1)]
    assert join_pairs(at(100), at(99), always, time_windows(9, 9), TS, arrivals) == [(0, 0)]


# --- how ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("inner", [(1, 0), (1, 1)]),
        ("left", [(0, None), (1, 0), (1, 1)]),
        ("right", [(1, 0), (1, 1), (None, 2)]),
        ("full", [(0, None), (1, 0), (1, 1), (None, 2)]),
        ("semi", [(1, None)]),
        ("anti", [(0, None)]),
    ],
)
def test_how(how: Any, rows: list[tuple[int | None, int | None]]) -> None:
    assert join_rows(at(1, 10), at(10, 11, 30), always, time_windows(5, 5), TS, how=how) == rows


# --- match -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "rights", "rows"),
    [
        ("latest", (7, 9, 11), [(0, 1), (1, None)]),
        ("nearest", (7, 9, 12), [(0, 1), (1, None)]),
        ("latest", (11, 12), [(0, None), (1, None)]),  # younger ones are none
        ("nearest", (11, 12), [(0, 0), (1, None)]),
        ("latest", (10, 10, 9), [(0, 1), (1, None)]),  # of equal ones, the last in order
        ("latest", (9, 8, 9), [(0, 2), (1, None)]),
        ("nearest", (11, 9, 9), [(0, 2), (1, None)]),  # in a tie, the earlier before the later
        ("nearest", (12, 11, 11), [(0, 2), (1, None)]),
        ("latest", (5, 25), [(0, None), (1, None)]),  # outside of the window
        ("nearest", (26, 34), [(0, None), (1, 0)]),
    ],
)
def test_match(match: Any, rights: tuple[int, ...], rows: list[tuple[int | None, int | None]]) -> None:
    left, right, window = at(10, 30), at(*rights), time_windows(5, 5)
    assert join_rows(left, right, always, window, TS, how="left", match=match) == rows
    pairs = [row for row in rows if row[1] is not None]
    assert join_rows(left, right, always, window, TS, how="inner", match=match) == pairs


def test_the_closest_partner_meets_the_predicate_and_is_in_time() -> None:
    left, right, window = at(10), at(9, 8, 7), time_windows(5, 5)
    assert join_rows(left, right, lambda l, r: r["k"] != 0, window, TS, match="latest") == [(0, 1)]
    arrivals: list[tuple[Side, int]] = [("right", 1), ("right", 2), ("left", 1)]
    assert join_rows(at(10), at(8, 9, 7), always, window, TS, arrivals, match="nearest") == [(0, 1)]
    assert join_rows(at(7), at(8, 9, 7), always, window, TS, arrivals, match="nearest") == [(0, 0)]  # the third is late


def test_rows_with_the_closest_partner_come_by_the_left_timestamp() -> None:
    rows = join_rows(at(5, 4, 4), at(8), always, time_windows(9, 9), TS, how="left", match="nearest")
    assert rows == [(1, 0), (2, 0), (0, 0)]


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="how: got 'outer'"):
        join_rows([], [], always, time_windows(1, 1), TS, how="outer")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="match: got 'last'"):
        join_rows([], [], always, time_windows(1, 1), TS, match="last")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="needs a time column"):
        join_rows([], [], always, count_windows(1, 1), match="latest")
    with pytest.raises(ArgumentError, match="how='left'"):
        join_rows([], [], always, time_windows(1, 1), TS, how="full", match="nearest")
    with pytest.raises(ArgumentError, match="no time column"):
        join_pairs([], [], always, time_windows(1, 1))
    with pytest.raises(ValueError, match="2 left rows, but there are 1"):
        join_pairs(at(1), [], always, time_windows(1, 1), TS, [("left", 2)])
    with pytest.raises(ValueError, match="counts in ticks"):
        join_pairs(at(1), [], always, (TimeWindow("1 s"), TimeWindow("1 s")), TS)


# --- A second account: Kang's three steps ------------------------------------------------------------


def three_steps(order: list[tuple[int, Side, int]], window: tuple[Window, Window]) -> list[tuple[int, int]]:
    """Tuple by tuple in the merged order: expire from the other window, probe it, insert into the own one.

    One thing must be added to Kang's steps. Where right's window is one of time, equal timestamps qualify,
    yet the left tuple comes first and cannot probe for the right one; so an arriving right tuple also
    meets the left ones of its own instant that left's count window has dropped already.
    """
    sizes = {"left": window[0], "right": window[1]}
    windows: dict[str, list[tuple[int, int]]] = {"left": [], "right": []}
    instant: list[tuple[int, int]] = []  # all left tuples of the latest left timestamp
    pairs = []
    for now, side, position in order:
        other = "right" if side == "left" else "left"
        if isinstance(size := sizes[other], TimeWindow):
            windows[other] = [(t, p) for t, p in windows[other] if now - t < size.amount]
        met = list(windows[other])
        if side == "right" and isinstance(sizes["right"], TimeWindow):
            met += [(t, p) for t, p in instant if t == now and (t, p) not in met]
        pairs += [(position, p) if side == "left" else (p, position) for _, p in met]
        windows[side].append((now, position))
        if isinstance(size := sizes[side], CountWindow):
            windows[side] = windows[side][-size.rows :]
        if side == "left":
            instant = [(t, p) for t, p in instant if t == now] + [(now, position)]
    return pairs


timestamps = st.lists(st.integers(0, 12), max_size=10)
any_window = st.one_of(st.builds(TimeWindow, st.integers(1, 8)), st.builds(CountWindow, st.integers(1, 4)))


@given(timestamps, timestamps, st.tuples(any_window, any_window))
@example([7, 7], [7], (CountWindow(1), TimeWindow(1)))
def test_three_steps_over_time(lefts: list[int], rights: list[int], window: tuple[Window, Window]) -> None:
    order: list[tuple[int, Side, int]] = [(t, "left", p) for p, t in enumerate(lefts)]
    order += [(t, "right", p) for p, t in enumerate(rights)]
    pairs = three_steps(sorted(order, key=lambda one: (one[0], one[1] == "right", one[2])), window)
    assert len(set(pairs)) == len(pairs)
    expected = sorted(pairs, key=lambda pair: (max(lefts[pair[0]], rights[pair[1]]), pair))
    assert join_pairs(at(*lefts), at(*rights), always, window, TS) == expected


@given(st.lists(st.sampled_from(["left", "right"]), max_size=20), st.integers(1, 4), st.integers(1, 4))
def test_three_steps_without_time(sides: list[Side], left: int, right: int) -> None:
    order: list[tuple[int, Side, int]] = []
    for place, side in enumerate(sides):
        order.append((place, side, sides[:place].count(side)))
    rows: dict[str, list[dict[str, Any]]] = {side: [{}] * sides.count(side) for side in ("left", "right")}
    pairs = join_pairs(
        rows["left"], rows["right"], always, count_windows(left, right), None, [(side, 1) for side in sides]
    )
    # The later tuple of a pair is the one that finds it; three steps over single pushes keep the same order.
    place_of = {(side, position): place for place, side, position in order}
    expected = three_steps(order, count_windows(left, right))
    assert pairs == sorted(expected, key=lambda p: (max(place_of["left", p[0]], place_of["right", p[1]]), p))


@given(timestamps, timestamps, st.integers(1, 8), st.integers(1, 8), st.integers(0, 5), st.data())
def test_pushes_only_decide_what_is_late(
    lefts: list[int], rights: list[int], left: int, right: int, lateness: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(lefts)))
    arrivals: list[tuple[Side, int]] = [("left", cut), ("right", len(rights)), ("left", len(lefts) - cut)]
    late = late_rows([lefts[:cut], lefts[cut:]], lateness)
    window = time_windows(left, right)
    everything = join_pairs(at(*lefts), at(*rights), always, window, TS)
    some = join_pairs(at(*lefts), at(*rights), always, window, TS, arrivals, lateness)
    assert some == [(l, r) for l, r in everything if l not in late]


@given(timestamps, timestamps, st.tuples(any_window, any_window))
def test_how_fits_together(lefts: list[int], rights: list[int], window: tuple[Window, Window]) -> None:
    def odd(l: Any, r: Any) -> bool:
        return (l["k"] + r["k"]) % 3 == 1

    def rows(how: Any) -> set[tuple[int | None, int | None]]:
        found = join_rows(at(*lefts), at(*rights), odd, window, TS, how=how)
        assert len(set(found)) == len(found)
        return set(found)

    assert rows("full") == rows("left") | rows("right")
    assert rows("left") - rows("inner") == rows("anti")
    assert rows("semi") == {(l, None) for l, _ in rows("inner")}
    assert rows("semi") | rows("anti") == {(l, None) for l in range(len(lefts))}
    assert not rows("semi") & rows("anti")


@given(timestamps, timestamps, st.tuples(any_window, any_window))
def test_no_partner_is_closer(lefts: list[int], rights: list[int], window: tuple[Window, Window]) -> None:
    """One account: the distance to the closest one. The other: nobody comes between."""
    pairs = join_pairs(at(*lefts), at(*rights), always, window, TS)
    latest, nearest = (
        dict(join_rows(at(*lefts), at(*rights), always, window, TS, match=match)) for match in ("latest", "nearest")
    )
    assert nearest.keys() == {l for l, _ in pairs}
    assert latest.keys() == {l for l, r in pairs if rights[r] <= lefts[l]}
    for l, r in pairs:
        if rights[r] <= lefts[l]:
            assert (rights[r], r) <= (rights[latest[l]], latest[l])
        assert abs(rights[r] - lefts[l]) >= abs(rights[nearest[l]] - lefts[l])
