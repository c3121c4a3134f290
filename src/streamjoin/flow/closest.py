"""As-of joins: of each left row's partners, the one that is closest in time.

`"latest"` looks at partners that are not younger than the left row, `"nearest"` at all of them. Either way the closest
one is at the smallest distance in time; of several, the earlier, then the one that came last in its stream.

Invariant: an open row knows the closest of the partners that were offered so far, in whatever order they came. It is
decided, and given out once, when its window has closed, or when no partner to come can be closer.
"""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers, Mask, Rows, Words
from ..compile.cache import compiled_with
from .meetings import smallest_row
from .runs import RunBuffer

NONE = -1
"""The row number of a partner that is not there."""
NO_ROWS: Rows = np.empty(0, np.int64)
COORDINATE, TIME, PARTNER, PARTNER_TIME = range(4)


class ClosestPartners:
    """The open rows of the left stream.

    Rows may open in any order, but none below the row given to `forget`.
    """

    def __init__(self, match: str) -> None:
        self._only_past = match == "latest"
        self._open = RunBuffer()
        """(coordinate, row) of all undecided rows, and of decided ones that nobody has asked for since."""
        self._due = RunBuffer()
        """(time, row): once all partners to come are later than this time, the row may be decided. It is asked for once
        when time has passed its own; only then each closer partner may make it due sooner."""
        self._passed = INT64_MIN
        """All partners to come have this time or a later one."""
        self._known: Integers = np.empty((4, 0), np.int64)
        """What is known of each row from `_base` on; see the numbers above."""
        self._decided: Mask = np.empty(0, np.bool_)
        self._improved: Mask = np.empty(0, np.bool_)
        """All false between two calls."""
        self._base = 0
        self.count = 0
        """How many rows are undecided."""
        self._decided_below = 0
        """Coordinates of rows that were decided before their windows closed are all lower than this one."""

    def add(self, coordinates: Rows, rows: Rows, times: Rows) -> None:
        if not len(rows):
            return
        self._make_room(int(rows.max()) + 1 - self._base)
        places = rows - self._base
        self._known[COORDINATE, places], self._known[TIME, places] = coordinates, times
        self._open.push([coordinates, rows])
        self.count += len(rows)
        self._due.push([times, rows])

    def offer(self, left: Rows, right: Rows, times: Rows) -> None:
        """Take pairs into account; `times` are those of the right rows."""
        improved = np.empty(min(len(left), len(self._decided)), np.int64)
        known = self._known
        count = keep_closest(
            left, right, times, self._base, self._only_past,
            self._decided, known[TIME], known[PARTNER], known[PARTNER_TIME], self._improved, improved,
        )  # fmt: skip
        places = improved[:count] - self._base
        self._improved[places] = False
        if not self._only_past:
            places = places[known[TIME, places] < self._passed]
            self._due.push([self._last_rivals(places), places + self._base])

    def close_below(self, coordinate: int | None) -> tuple[Rows, Rows]:
        """Close windows (all of them for None); returns the rows that are decided by this, and their partners."""
        closed = self._open.pop_all() if coordinate is None else self._open.pop_below(coordinate)
        return self._given_out(NO_ROWS if closed is None else closed[1])

    def decide_below(self, time: int) -> tuple[Rows, Rows]:
        """All partners to come have this time or a later one; returns the same."""
        self._passed = max(self._passed, time)
        due = self._due.pop_below(time)
        rows = NO_ROWS if due is None else due[1]
        return self._given_out(rows if self._only_past else self._without_rivals(np.unique(rows), time))

    def _without_rivals(self, rows: Rows, time: int) -> Rows:
        """Those of some rows whose partners no later one can beat. The others wait on; what has no partner yet waits
        for one."""
        places = rows - self._base
        places = places[places >= 0]
        places = places[~self._decided[places] & (self._known[PARTNER, places] != NONE)]
        last = self._last_rivals(places)
        waits = last >= time
        self._due.push([last[waits], places[waits] + self._base])
        return places[~waits] + self._base

    def _last_rivals(self, places: Rows) -> Integers:
        return last_rivals(self._known[TIME, places], self._known[PARTNER_TIME, places])

    def _given_out(self, rows: Rows) -> tuple[Rows, Rows]:
        places = rows - self._base
        places = places[places >= 0]  # one that was decided earlier may have been forgotten
        places = places[~self._decided[places]]
        if len(places):
            self.count -= len(places)
            self._decided[places] = True
            self._decided_below = max(self._decided_below, int(self._known[COORDINATE, places].max()) + 1)
        partners = self._known[PARTNER, places]
        self._known[PARTNER, places] = NONE
        return places + self._base, partners

    def first(self) -> tuple[int, int] | None:
        """The coordinate and the row of the undecided row that comes first."""
        self._drop_decided()
        return self._open.first()

    def first_row(self) -> int | None:
        self._drop_decided()
        return self._open.smallest(1)

    def _drop_decided(self) -> None:
        """Let go of decided rows, if the first one is decided."""
        first = self._open.first()
        if first is not None and self._decided[first[1] - self._base]:
            front = self._open.pop_below(self._decided_below)
            assert front is not None
            undecided = ~self._decided[front[1] - self._base]
            self._open.push([column[undecided] for column in front])

    def first_partner(self) -> int:
        """The smallest row number of a partner that may be given out."""
        return int(smallest_row(self._known[PARTNER]))

    def forget(self, row: int) -> None:
        """Rows below this one are closed and will not come again."""
        assert row >= self._base
        gone = row - self._base
        self._known = self._known[:, gone:].copy()
        self._decided, self._improved = self._decided[gone:].copy(), self._improved[gone:].copy()
        self._base = row

    def _make_room(self, needed: int) -> None:
        have = len(self._decided)
        if needed > have:
            known, self._known = self._known, np.full((len(self._known), 2 * needed), NONE)
            self._known[:, :have] = known
            more = np.zeros(2 * needed - have, np.bool_)
            self._decided, self._improved = np.append(self._decided, more), np.append(self._improved, more)


def last_rivals(times: Integers, partner_times: Integers) -> Integers:
    """For rows at these times, whose closest partners so far have those: the last time at which a closer one may be."""
    distance = _distance(times, partner_times)
    is_earlier = partner_times < times
    room = times.view(np.uint64) ^ np.uint64(INT64_MAX)  # INT64_MAX - time, for which 64 bits without a sign suffice
    mirrored = np.where(distance > room, INT64_MAX, times + distance.view(np.int64)) - 1  # in a tie, the earlier wins
    return np.where(is_earlier, mirrored, partner_times)


def _distance(times: Integers, others: Integers) -> Words:
    """Differences of any two times fit into 64 bits without a sign."""
    ahead = times.view(np.uint64) - others.view(np.uint64)
    return np.where(times >= others, ahead, ~ahead + np.uint64(1))


def _keep_in_numpy(
    left: Rows, right: Rows, times: Integers, base: int, only_past: bool, decided: Mask,
    own: Integers, partner: Rows, partner_time: Integers, marked: Mask, improved: Rows,
) -> int:  # fmt: skip
    places = left - base
    counts = ~decided[places] & (times <= (own[places] if only_past else INT64_MAX))
    places, right, times = places[counts], right[counts], times[counts]
    if not len(places):
        return 0
    distance = _distance(own[places], times)
    order = np.lexsort((-right, times, distance, places))
    best = order[np.flatnonzero(np.diff(places[order], prepend=-1))]
    places, right, times, distance = places[best], right[best], times[best], distance[best]
    known, known_time = partner[places], partner_time[places]
    known_distance = _distance(own[places], known_time)
    is_later = (times == known_time) & (right > known)
    wins_tie = (distance == known_distance) & ((times < known_time) | is_later)
    closer = (known == NONE) | (distance < known_distance) | wins_tie
    places = places[closer]
    partner[places], partner_time[places] = right[closer], times[closer]
    marked[places] = True
    improved[: len(places)] = places + base
    return len(places)


@compiled_with(_keep_in_numpy)
def keep_closest(  # type: ignore[no-untyped-def]
    left, right, times, base, only_past, decided, own, partner, partner_time, marked, improved
):  # fmt: skip
    """Offer pairs to what is known of left rows from row `base` on, unless they are decided. Marks the rows that have
    got a closer partner, and writes each of them once to `improved`; returns how many they are."""
    count = 0
    for i in range(len(left)):
        place, row, time = left[i] - base, right[i], times[i]
        now, known = own[place], partner_time[place]
        if decided[place] or (only_past and time > now):
            continue
        if partner[place] != NONE:
            ahead, known_ahead = np.uint64(now) - np.uint64(time), np.uint64(now) - np.uint64(known)
            distance = ahead if now >= time else ~ahead + np.uint64(1)
            known_distance = known_ahead if now >= known else ~known_ahead + np.uint64(1)
            if distance > known_distance:
                continue
            if distance == known_distance and (time > known or (time == known and row < partner[place])):
                continue
        partner[place], partner_time[place] = row, time
        if not marked[place]:
            marked[place] = True
            improved[count] = place + base
            count += 1
    return count
