"""The meaning of the join, in the plainest Python: the judge of every test.

Nothing here is fast or clever. A tuple is named by its side and its position. The position is its row number in its own
stream, in the order of arrival, and late rows count too. Timestamps are ints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from .errors import ArgumentError
from .side import Side
from .window import CountWindow, TimeWindow, Window, check_windows

Row: TypeAlias = Mapping[str, Any]
How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
Match: TypeAlias = Literal["all", "latest", "nearest"]


class Tuple(NamedTuple):
    """One tuple of the join. Without a time column, its time is its place in the order of pushing."""

    time: int
    side: Side  # "left" sorts before "right": the merged order's rule for ties
    position: int


def join_pairs(
    left: Sequence[Row],
    right: Sequence[Row],
    matches: Callable[[Row, Row], bool],
    window: tuple[Window, Window],
    time: tuple[str, str] | None = None,
    arrivals: Sequence[tuple[Side, int]] | None = None,
    lateness: int = 0,
) -> list[tuple[int, int]]:
    """The positions (l, r) of all pairs in the join, by result timestamp, then l, then r.

    A pair is in the join iff the predicate is true for it, and the left tuple sees the right one in the right window or
    the right tuple sees the left one in the left window. `arrivals` are the pushes in order, as (side, number of rows);
    the default is the whole left stream, then the whole right stream.
    """
    merged = merged_order(left, right, time, arrivals, lateness)
    check_windows(window, has_time=time is not None)
    left_window, right_window = window

    inside = set()
    for place, (_, side, position) in enumerate(merged):
        if side == "left":
            inside |= {(position, r) for r in seen(merged, place, "right", right_window)}
        else:
            inside |= {(l, position) for l in seen(merged, place, "left", left_window)}

    time_of = {(side, position): t for t, side, position in merged}
    results = [(max(time_of["left", l], time_of["right", r]), l, r) for l, r in inside if matches(left[l], right[r])]
    return [(l, r) for _, l, r in sorted(results)]


def seen(merged: Sequence[Tuple], place: int, other: Side, window: Window) -> set[int]:
    """The positions of the other stream's tuples that the tuple at `place` sees in that stream's window."""
    if isinstance(window, CountWindow):
        before = [position for _, side, position in merged[:place] if side == other]
        return set(before[-window.rows :])
    now, size = merged[place].time, tick_size(window)
    return {position for t, side, position in merged if side == other and now >= t and now - t < size}


def merged_order(
    left: Sequence[Row],
    right: Sequence[Row],
    time: tuple[str, str] | None,
    arrivals: Sequence[tuple[Side, int]] | None,
    lateness: int,
) -> list[Tuple]:
    """All tuples that are not late: by timestamp, left before right, then the order within the stream.

    Without a time column: in the order of pushing.
    """
    if arrivals is None:
        arrivals = [("left", len(left)), ("right", len(right))]
    for name, rows in (("left", left), ("right", right)):
        if (pushed := sum(count for side, count in arrivals if side == name)) != len(rows):
            raise ValueError(f"arrivals push {pushed} {name} rows, but there are {len(rows)}")
    if time is None:
        return pushing_order(arrivals)

    def of(side: Side, timestamps: list[int]) -> list[Tuple]:
        late = late_rows(pushes(side, timestamps, arrivals), lateness)
        return [Tuple(t, side, position) for position, t in enumerate(timestamps) if position not in late]

    lefts, rights = of("left", [row[time[0]] for row in left]), of("right", [row[time[1]] for row in right])
    return sorted(lefts + rights)


def pushing_order(arrivals: Sequence[tuple[Side, int]]) -> list[Tuple]:
    """All tuples in the order of pushing; a tuple's place in it serves as its time."""
    sides = [side for side, count in arrivals for _ in range(count)]
    return [Tuple(place, side, sides[:place].count(side)) for place, side in enumerate(sides)]


def pushes(side: Side, timestamps: Sequence[int], arrivals: Sequence[tuple[Side, int]]) -> list[Sequence[int]]:
    """One stream's timestamps, cut into its batches."""
    batches, start = [], 0
    for pushed, count in arrivals:
        if pushed == side:
            batches.append(timestamps[start : start + count])
            start += count
    return batches


def late_rows(timestamps_of_pushes: Sequence[Sequence[int]], lateness: int) -> set[int]:
    """The positions of tuples that are more than `lateness` behind the latest timestamp of earlier batches."""
    late: set[int] = set()
    furthest: int | None = None
    position = 0
    for batch in timestamps_of_pushes:
        for timestamp in batch:
            if furthest is not None and furthest - timestamp > lateness:
                late.add(position)
            position += 1
        if batch:
            furthest = max(batch) if furthest is None else max(furthest, *batch)
    return late


def join_rows(
    left: Sequence[Row],
    right: Sequence[Row],
    matches: Callable[[Row, Row], bool],
    window: tuple[Window, Window],
    time: tuple[str, str] | None = None,
    arrivals: Sequence[tuple[Side, int]] | None = None,
    lateness: int = 0,
    how: How = "inner",
    match: Match = "all",
) -> list[tuple[int | None, int | None]]:
    """The rows of the result, None where a side has no tuple; semi and anti give (l, None).

    With `match` "latest" or "nearest", a left tuple is paired with its closest partner only, and the row's result
    timestamp is the left tuple's. A row of one tuple has that tuple's timestamp as its result timestamp.

    Rows are ordered by result timestamp, then left position, then right position; a missing position comes last. Late
    rows are in no result, not even as unmatched rows.
    """
    if how not in get_args(How):
        raise ArgumentError(f"how: got {how!r}; give one of {', '.join(get_args(How))}")
    if match not in get_args(Match):
        raise ArgumentError(f"match: got {match!r}; give one of {', '.join(get_args(Match))}")
    if match != "all" and (time is None or how not in ("inner", "left")):
        raise ArgumentError(f"match: got {match!r}; it needs a time column and how='inner' or how='left'")
    pairs = join_pairs(left, right, matches, window, time, arrivals, lateness)
    merged = merged_order(left, right, time, arrivals, lateness)
    time_of = {(side, position): t for t, side, position in merged}
    if match != "all":
        pairs = closest_pairs(pairs, time_of, match)
    matched = {"left": {l for l, _ in pairs}, "right": {r for _, r in pairs}}

    rows: list[tuple[int | None, int | None]] = []
    if how in ("inner", "left", "right", "full"):
        rows += pairs
    for _, side, position in merged:
        is_matched = position in matched[side]
        if side == "left" and (how == "semi" if is_matched else how in ("left", "full", "anti")):
            rows.append((position, None))
        if side == "right" and not is_matched and how in ("right", "full"):
            rows.append((None, position))

    def place(row: tuple[int | None, int | None]) -> tuple[int, bool, int, bool, int]:
        l, r = row
        times = [] if l is None else [time_of["left", l]]
        times += [] if r is None or match != "all" else [time_of["right", r]]
        return max(times), l is None, l or 0, r is None, r or 0

    return sorted(rows, key=place)


def closest_pairs(
    pairs: Sequence[tuple[int, int]], time_of: Mapping[tuple[Side, int], int], match: Match
) -> list[tuple[int, int]]:
    """Of each left tuple's pairs, the one whose right tuple is closest in time: "latest" looks only at those that are
    not younger than the left one. In a tie the earlier wins, then the last in the right stream's order."""
    closest = []
    for left in {l for l, _ in pairs}:
        now = time_of["left", left]
        partners = [(time_of["right", r], r) for l, r in pairs if l == left]
        if match == "latest":
            partners = [(t, r) for t, r in partners if t <= now]
        if partners:
            _, right = min(partners, key=lambda partner: (abs(now - partner[0]), partner[0], -partner[1]))
            closest.append((left, right))
    return closest


def tick_size(window: TimeWindow) -> int:
    """The window's length in ticks; callers convert durations before."""
    if window.unit != "tick":
        raise ValueError(f"the oracle counts in ticks: give TimeWindow(<int>), not {window}")
    return window.amount
