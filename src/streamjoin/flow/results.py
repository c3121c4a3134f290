"""Behind the join: pairs of row numbers on their way to the reader, in the order that was asked for.

Rows that are reported without a partner (`how` other than inner) are known only when their window has closed, so
each open tuple of such a side is remembered until then. Their result timestamp is their own. So is it with rows that
are reported with their closest partner only (`match` other than all).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..arrays import INT64_MIN, Rows
from ..side import SIDES, Side
from .closest import NO_ROWS, NONE, ClosestPartners
from .front import Step
from .meetings import meet, meet_new, smallest_row
from .runs import RunBuffer
from .sorted_pairs import MISSING, in_order

Times = Callable[[Side, Rows], Rows]
"""The timestamps of rows of one side."""


class OpenTuples:
    """Tuples of one side whose window has not closed, and which of them have met a partner.

    Rows may open in any order, but none below the row given to `forget`.
    """

    def __init__(self) -> None:
        self._open = RunBuffer()
        self._met: npt.NDArray[np.bool_] = np.zeros(1024, np.bool_)
        self._base = 0

    def add(self, coordinates: Rows, rows: Rows) -> None:
        if not len(rows):
            return
        self._open.push([coordinates, rows])
        needed = int(rows.max()) + 1 - self._base
        if needed > len(self._met):
            self._met = np.concatenate([self._met, np.zeros(2 * needed - len(self._met), np.bool_)])

    def forget(self, row: int) -> None:
        """Rows below this one are closed and will not come again."""
        assert row >= self._base
        self._met = self._met[row - self._base :].copy()
        self._base = row

    def meet(self, rows: Rows) -> None:
        """Note that these rows have a partner."""
        meet(self._met, self._base, rows)

    def meet_new(self, rows: Rows) -> Rows:
        """The same; returns those that had none before, each once."""
        new = np.empty(min(len(rows), len(self._met)), np.int64)
        return new[: meet_new(self._met, self._base, rows, new)]

    def close_below(self, coordinate: int | None) -> tuple[Rows, Rows]:
        """Close windows (all of them for None); returns the rows that met a partner and those that did not."""
        closed = self._open.pop_all() if coordinate is None else self._open.pop_below(coordinate)
        if closed is None:
            none = np.empty(0, np.int64)
            return none, none
        rows = closed[1]
        met = self._met[rows - self._base]
        return rows[met], rows[~met]

    def first_row(self) -> int | None:
        return self._open.smallest(1)

    def first(self) -> tuple[int, int] | None:
        """The coordinate and the row of the open tuple that comes first."""
        return self._open.first()


class Results:
    """Pairs that wait to be polled. `finds_late`: a pair may be found later than it could, so a sorted result is held
    until no earlier one can follow. `by_time`: coordinates are timestamps."""

    def __init__(self, how: str, order: str, finds_late: bool, by_time: bool = False, match: str = "all") -> None:
        self._how = how
        self._sorted = order == "sorted"
        outer: dict[Side, bool] = {
            "left": how in ("left", "full", "semi", "anti"),
            "right": how in ("right", "full"),
        }
        self._closest = None if match == "all" else ClosestPartners(match)
        sides = SIDES if self._closest is None else ()
        self._meeting: dict[Side, OpenTuples] = {side: OpenTuples() for side in sides if outer[side]}
        self._open: dict[Side, OpenTuples | ClosestPartners] = {**self._meeting}
        """The tuples that may still be reported later."""
        if self._closest is not None:
            self._open["left"] = self._closest
        self._held = RunBuffer()  # sorted results that an unmatched row may still have to precede
        self._ready: list[tuple[Rows, Rows]] = []
        self._first_ready: tuple[list[int], list[int]] = [], []
        """The smallest row number of each side, for as many pieces of the ready ones as were asked for."""
        self.count = 0
        """How many results are ready."""
        self._of_step: list[tuple[Rows, Rows]] = []
        self._unmet: int | None = None
        self._finds_late, self._by_time = finds_late, by_time

    def __len__(self) -> int:
        return self.count

    @property
    def waits_for_windows(self) -> bool:
        """Whether some results come when windows close, or in order, or when no earlier one can follow."""
        return self._sorted or bool(self._open) or self._finds_late

    @property
    def undecided(self) -> int:
        """How many left tuples wait because a closer partner may come."""
        return 0 if self._closest is None else self._closest.count

    def begin(self, step: Step, times: Times) -> None:
        """The pairs of this step will follow."""
        for side, opened in self._meeting.items():
            if side in step.seen:
                opened.add(*step.seen[side])
        if self._closest is not None and "left" in step.seen:
            coordinates, rows = step.seen["left"]
            self._closest.add(coordinates, rows, coordinates if self._by_time else times("left", rows))

    def add(self, left: Rows, right: Rows, times: Times) -> None:
        """Take in some pairs of the step. Sorted ones are let through at its end, since later ones may precede them."""
        if self._closest is not None:
            if len(left):
                self._closest.offer(left, right, times("right", right))
            return
        if self._how == "semi" and not self._sorted:
            newly = self._meeting["left"].meet_new(left)
            self._emit(newly, np.full(len(newly), NONE))
            return
        for side, opened in self._meeting.items():
            opened.meet(left if side == "left" else right)
        if self._how in ("semi", "anti"):
            return
        if self._sorted:
            self._of_step.append((left, right))
        else:
            self._emit(left, right)

    def end(self, times: Times) -> None:
        """The step is complete."""
        pieces, self._of_step = self._of_step, []
        if pieces:
            self._offer(np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces]), times)

    def expire(self, side: Side, coordinate: int | None, times: Times) -> None:
        """The windows of this side's tuples below the coordinate have closed; None: all of them."""
        if self._closest is not None and side == "left":
            self._report(*self._closest.close_below(coordinate), times)
        if side not in self._meeting:
            return
        met, lonely = self._meeting[side].close_below(coordinate)
        if self._how == "semi":
            lonely = met if self._sorted else lonely[:0]
        missing = np.full(len(lonely), NONE)
        if side == "left":
            self._offer(lonely, missing, times)
        else:
            self._offer(missing, lonely, times)

    def decide(self, time: int, times: Times) -> None:
        """No right tuple of a pair to come is earlier, so the closest partners of some left tuples are known."""
        if self._closest is not None:
            self._report(*self._closest.decide_below(time), times)

    def _report(self, left: Rows, partners: Rows, times: Times) -> None:
        """Left tuples with their closest partners, or without one."""
        if self._how == "inner":
            found = partners != NONE
            left, partners = left[found], partners[found]
        self._offer(left, partners, times)

    def close(self, times: Times) -> None:
        """Both streams have ended."""
        for side in SIDES:
            self.expire(side, None, times)
        self.settle(times, None)

    def _offer(self, left: Rows, right: Rows, times: Times) -> None:
        if not self._sorted:
            self._emit(left, right)
        elif len(left):
            key = _times_or_lowest("left", left, times)
            if self._closest is None:
                key = np.maximum(key, _times_or_lowest("right", right, times))
            columns = [key, np.where(left < 0, MISSING, left), np.where(right < 0, MISSING, right)]
            if self._open or self._finds_late:
                self._held.push(columns)
            else:
                self._emit(*_in_order(columns))

    def settle(self, times: Times, unmet: int | None) -> None:
        """Let through the held results that nothing can precede any more: no open tuple, and no pair that is found
        later. Such pairs have the timestamp `unmet` or a later one."""
        self._unmet = unmet
        if self._sorted:
            bound = self._earliest(times)
            columns = self._held.pop_all() if bound is None else self._held.pop_below(bound)
            if columns is not None:
                self._emit(*_in_order(columns))

    def _earliest(self, times: Times) -> int | None:
        """No result has an earlier timestamp that is not ready yet and is made of tuples that have come."""
        earliest = self._unmet
        for side, opened in self._open.items():
            first = opened.first()
            if first is not None:
                time = first[0] if self._by_time else int(times(side, np.array([first[1]]))[0])
                earliest = time if earliest is None else min(earliest, time)
        return earliest

    def _emit(self, left: Rows, right: Rows) -> None:
        if len(left):
            self._ready.append((left, right))
            self.count += len(left)

    def ready(self) -> tuple[list[Rows], list[Rows]]:
        """All results that are ready, piece by piece, as row numbers of both sides; NONE where there is no partner."""
        return [left for left, _ in self._ready], [right for _, right in self._ready]

    def clear(self) -> None:
        """The results of the last `ready` have reached the reader."""
        self._ready, self.count, self._first_ready = [], 0, ([], [])

    def first_row(self, side: Side) -> int | None:
        """The smallest row number that is still needed here."""
        held = self._held.smallest(1 if side == "left" else 2)
        opened = self._open[side].first_row() if side in self._open else None
        partner = self._closest.first_partner() if self._closest is not None and side == "right" else None
        known = self._first_ready[side == "right"]
        known += [smallest_row(pair[side == "right"]) for pair in self._ready[len(known) :]]
        rows = (*known, held, opened, partner)
        return min((row for row in rows if row is not None and row != MISSING), default=None)

    def exercise(self) -> None:
        """Call what only pairs call: for a rehearsal."""
        if self._closest is not None:
            self._closest.offer(NO_ROWS, NO_ROWS, NO_ROWS)

    def forget(self, side: Side, row: int) -> None:
        """Rows below this one are no longer needed by anyone."""
        if side in self._open:
            self._open[side].forget(row)

    def watermark(self, watermark: int | None, times: Times) -> int | None:
        """An unmatched row comes with its own timestamp, which holds the promise back until its window closes."""
        earliest = None if watermark is None else self._earliest(times)
        return watermark if watermark is None or earliest is None else min(watermark, earliest)


def _times_or_lowest(side: Side, rows: Rows, times: Times) -> Rows:
    absent = rows < 0
    if not absent.any():
        return times(side, rows)
    found = np.full(len(rows), INT64_MIN)
    found[~absent] = times(side, rows[~absent])
    return found


def _in_order(columns: list[Rows]) -> tuple[Rows, Rows]:
    """By result timestamp, then left position, then right position; a missing partner comes last."""
    left, right = in_order(*columns)
    for rows in (left, right):
        rows[rows == MISSING] = NONE
    return left, right
