"""Before the join: when a tuple takes part, where it lies, and whom it may meet.

Two fronts. `AsFound` serves time windows: a tuple takes part at once, its coordinate is its timestamp. `InOrder`
serves whatever depends on order (count windows, sorted results): a tuple takes part once it is ready, its
coordinate is its position in the merged order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import INT64_MIN, Array, Rows
from ..arrow.times import Times
from ..predicate.slots import SlotValues
from ..side import SIDES, Side, other
from ..store.batch import Batch
from ..window import CountWindow, TimeWindow
from .order import MergedOrder, reach
from .progress import Progress
from .runs import RunBuffer

LARGEST_STEP = 1 << 17
"""Tuples that are let through at once where order matters: sorted results are held until their step has been joined."""


@dataclass(slots=True)
class Step:
    """What a front lets through: per side the live tuples to join, and every tuple's (coordinate, row)."""

    batches: dict[Side, Batch]
    seen: dict[Side, tuple[Rows, Rows]]

    @property
    def rows(self) -> int:
        count = 0
        for _, rows in self.seen.values():
            count += len(rows)
        return count


def joined(seen: list[tuple[Rows, Rows]]) -> tuple[Rows, Rows]:
    """Several pieces of (coordinates, rows) as one."""
    if len(seen) == 1:
        return seen[0]
    return np.concatenate([piece[0] for piece in seen]), np.concatenate([piece[1] for piece in seen])


class Front(Protocol):
    """`together`: of two tuples only the later one finds the other, so both sides of several steps may be merged into
    one step. Otherwise each finds the other, and the sides must join one after the other."""

    together: bool

    def push(self, side: Side, row: Rows, times: Times | None, slots: SlotValues) -> list[Step]:
        """Take in tuples that are not late; what becomes ready, if anything. Without a time column, `times` is None and
        rows are numbered from 0. Where order matters, the tuples of one timestamp are in one
        step, and all of a step precede those of the next."""

    def ready(self) -> list[Step]:
        """What has become ready because a stream has come further."""

    def finish(self) -> list[Step]:
        """Both streams have ended: everything else becomes ready."""

    def floor(self, side: Side) -> int | None:
        """No future tuple meets one of this side below this coordinate; None: nothing can be said yet."""

    def next_time(self, side: Side) -> int | None:
        """No tuple of this side that has yet to take part is earlier; None: nothing can be said yet."""

    def first_row(self, side: Side) -> int | None:
        """The smallest row number that still waits here."""

    def waiting(self, side: Side) -> int:
        """How many tuples wait here."""


class AsFound:
    """Time windows on both sides; pairs are found when the later of the two arrives."""

    together = False

    def __init__(self, windows: dict[Side, TimeWindow | CountWindow], progress: Progress) -> None:
        self._size = {side: window.amount for side, window in windows.items() if isinstance(window, TimeWindow)}
        self._progress = progress

    def push(self, side: Side, row: Rows, times: Times | None, slots: SlotValues) -> list[Step]:
        assert times is not None
        return [self.step(side, row, times, slots)]

    def step(self, side: Side, row: Rows, times: Times, slots: SlotValues) -> Step:
        time = times.ticks
        if not times.is_ascending:
            order = np.argsort(time, kind="stable")  # neighbours in time share blocks, which a probe can then skip
            time, row, slots = time[order], row[order], slots.where(order)
        low, high = reach(time, 1 - self._size[other(side)], self._size[side])
        return _one_sided(side, Batch(row, time, low, high, slots.columns), slots.live)

    def ready(self) -> list[Step]:
        return []

    def finish(self) -> list[Step]:
        return []

    def floor(self, side: Side) -> int | None:
        horizon = self._progress.horizon(other(side))
        return None if horizon is None else max(horizon - self._size[side] + 1, INT64_MIN)

    def next_time(self, side: Side) -> int | None:
        return self._progress.horizon(side)

    def first_row(self, side: Side) -> int | None:
        return None

    def waiting(self, side: Side) -> int:
        return 0


class InOrder:
    """Tuples wait until they are ready, then join by position."""

    together = True

    def __init__(self, windows: dict[Side, TimeWindow | CountWindow], progress: Progress) -> None:
        self._progress = progress
        self._waiting: dict[Side, RunBuffer] = {side: RunBuffer() for side in SIDES}
        self._order = MergedOrder(windows)
        self._next_time: int | None = None

    def push(self, side: Side, row: Rows, times: Times | None, slots: SlotValues) -> list[Step]:
        live, count = slots.live, len(row)
        if times is None:
            low, high = self._order.arrive(side, count)
            whole = Batch(row, row, low, high, slots.columns)
            if count <= LARGEST_STEP:
                return [_one_sided(side, whole, live)]
            pieces = [slice(start, start + LARGEST_STEP) for start in range(0, count, LARGEST_STEP)]
            return [
                _one_sided(side, whole.slice(piece.start, piece.stop), None if live is None else live[piece])
                for piece in pieces
            ]
        live = np.ones(count, np.bool_) if live is None else live
        self._waiting[side].push([times.ticks, row, live, *slots.columns])
        return self.ready()

    def ready(self) -> list[Step]:
        bound = self._progress.watermark
        if bound is None or bound == self._next_time:
            return []
        self._next_time = bound
        return self._release({s: self._waiting[s].pop_below(bound) for s in SIDES})

    def finish(self) -> list[Step]:
        return self._release({side: self._waiting[side].pop_all() for side in SIDES})

    def _release(self, ready: dict[Side, list[Array] | None]) -> list[Step]:
        none = np.empty(0, np.int64)
        times = {side: none if columns is None else columns[0] for side, columns in ready.items()}
        position, ranges = self._order.place(times["left"], times["right"])
        columns: dict[Side, list[Array]] = {}
        for side, found in ready.items():
            if found is not None:
                _, row, live, *slots = found
                columns[side] = [row, live, position[side], *ranges[side], *slots]
        if len(times["left"]) + len(times["right"]) <= LARGEST_STEP:
            return [_step(columns)]
        return [
            _step({side: [column[cuts[side]] for column in own] for side, own in columns.items()})
            for cuts in _cuts(times)
        ]

    def floor(self, side: Side) -> int | None:
        return self._order.release(side, self._next_time)

    def next_time(self, side: Side) -> int | None:
        return self._next_time

    def first_row(self, side: Side) -> int | None:
        return self._waiting[side].smallest(1)

    def waiting(self, side: Side) -> int:
        return len(self._waiting[side])


def _one_sided(side: Side, batch: Batch, live: npt.NDArray[np.bool_] | None) -> Step:
    return Step({side: batch if live is None else _live(batch, live)}, {side: (batch.coordinate, batch.row)})


def _step(columns: dict[Side, list[Array]]) -> Step:
    """A step of each side's columns: row, live, position, low, high, slots."""
    step = Step({}, {})
    for side, (row, live, position, low, high, *slots) in columns.items():
        step.batches[side] = _live(Batch(row, position, low, high, slots), live)
        step.seen[side] = (position, row)
    return step


def _cuts(times: dict[Side, Array]) -> list[dict[Side, slice]]:
    """Where to cut both sides' sorted timestamps into steps, never between equal ones."""
    merged = np.sort(np.concatenate(list(times.values())))
    bounds = np.unique(merged[LARGEST_STEP::LARGEST_STEP])
    bounds = bounds[bounds > merged[:1]]
    places = {side: [0, *np.searchsorted(t, bounds), len(t)] for side, t in times.items()}
    return [{side: slice(*places[side][k : k + 2]) for side in times} for k in range(len(bounds) + 1)]


def _live(batch: Batch, live: npt.NDArray[np.bool_]) -> Batch:
    return batch if np.count_nonzero(live) == len(live) else batch.take(np.flatnonzero(live))
