"""The merged order of two streams, and the windows as ranges of positions in it.

Tuples are taken in the order (timestamp, left before right, arrival within the stream) once they are *ready*: once
both streams have moved past their timestamp, less the lateness (ScaleJoin, Definition 2, with `<` so that ties are
complete). Each tuple then has a position in its own stream, and the window of the other stream that it meets is a
range [low, high) of that stream's positions. The law: whoever comes later in the merged order has the earlier one
in its range if the window says so, and never the other way round, so each pair is found exactly once whatever the
batches were.
"""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array
from ..compile.cache import compiled_with
from ..integer_deque import IntegerDeque
from ..side import Side, other
from ..window import CountWindow, TimeWindow


def shift(times: Array, by: int) -> Array:
    """times + by, stopping at the ends of 64 bits."""
    if by >= 0:
        return np.where(times > INT64_MAX - by, INT64_MAX, times + np.int64(by)) if by <= INT64_MAX else times
    return np.where(times < INT64_MIN - by, INT64_MIN, times + np.int64(by))


def reach(times: Array, back: int, ahead: int) -> tuple[Array, Array]:
    """times + back and times + ahead, stopping at the ends of 64 bits; `back` is not positive, `ahead` not negative."""
    low, high = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    _reach(times, max(back, INT64_MIN), min(ahead, INT64_MAX), low, high)
    return low, high


def _reach_in_numpy(times: Array, back: int, ahead: int, low: Array, high: Array) -> None:
    low[:], high[:] = shift(times, back), shift(times, ahead)


@compiled_with(_reach_in_numpy)
def _reach(times, back, ahead, low, high):  # type: ignore[no-untyped-def]
    for k in range(len(times)):
        low[k] = INT64_MIN if times[k] < INT64_MIN - back else times[k] + back
        high[k] = INT64_MAX if times[k] > INT64_MAX - ahead else times[k] + ahead


class History:
    """Timestamps by position of a stream with a time window, for positions that still matter."""

    def __init__(self) -> None:
        self._times = IntegerDeque()
        self._first = 0

    def append(self, times: Array) -> None:
        self._times.append(times)

    def after(self, times: Array) -> Array:
        """For each time: the first position whose timestamp is later."""
        return self._first + self._times.view.searchsorted(times, side="right")

    def forget(self, position: int) -> None:
        """Positions below this one will not be asked for again."""
        gone = min(max(position - self._first, 0), len(self._times))
        self._first += gone
        self._times.drop_front(gone)


class MergedOrder:
    """Gives ready tuples their positions and their windows. Windows are in ticks or rows."""

    def __init__(self, windows: dict[Side, TimeWindow | CountWindow]) -> None:
        self.windows = windows
        self.total: dict[Side, int] = {"left": 0, "right": 0}
        self.history: dict[Side, History] = {"left": History(), "right": History()}

    def place(self, left: Array, right: Array) -> tuple[dict[Side, Array], dict[Side, tuple[Array, Array]]]:
        """Positions of newly ready tuples (timestamps, sorted) and the range of the other side each one meets."""
        times: dict[Side, Array] = {"left": left, "right": right}
        positions: dict[Side, Array] = {}
        for side, t in times.items():
            positions[side] = np.arange(self.total[side], self.total[side] + len(t))
            if isinstance(self.windows[side], TimeWindow):
                self.history[side].append(t)
        earlier: dict[Side, Array] = {
            "left": self.total["right"] + right.searchsorted(left, side="left"),
            "right": self.total["left"] + left.searchsorted(right, side="right"),
        }
        ranges: dict[Side, tuple[Array, Array]] = {}
        for side, t in times.items():
            met = other(side)
            window = self.windows[met]
            if isinstance(window, CountWindow):
                low = earlier[side] - window.rows
                if side == "right" and isinstance(self.windows["right"], TimeWindow):
                    # Equal timestamps qualify by the right's time window, whatever the left's row count says.
                    low = np.minimum(low, self.total["left"] + left.searchsorted(right, side="left"))
            else:
                low = self.history[met].after(shift(t, -window.amount))
            ranges[side] = (low, earlier[side])
        for side, t in times.items():
            self.total[side] += len(t)
        return positions, ranges

    def arrive(self, side: Side, count: int) -> tuple[Array, Array]:
        """The ranges for streams without timestamps: the order is the order of pushing. None of their tuples is late,
        so each one's position is its row number."""
        self.total[side] += count
        met = other(side)
        window, before = self.windows[met], self.total[met]
        assert isinstance(window, CountWindow)
        low, high = np.empty(count, np.int64), np.empty(count, np.int64)
        low.fill(before - window.rows)
        high.fill(before)
        return low, high

    def release(self, side: Side, next_time: int | None) -> int:
        """Forget the positions that no future tuple of the other side, not before `next_time`, can meet. Returns the
        first position that is left."""
        window = self.windows[side]
        if isinstance(window, CountWindow):  # it has no history
            return max(self.total[side] - window.rows, 0)
        if next_time is None:
            floor = 0
        else:
            floor = int(self.history[side].after(np.array([max(next_time - window.amount, INT64_MIN)]))[0])
        self.history[side].forget(floor)
        return floor


class PushOrder:
    """The order of pushing, as timestamps for streams that have none: how many tuples of both came before."""

    def __init__(self) -> None:
        self._total = 0
        self._starts: dict[Side, IntegerDeque] = {"left": IntegerDeque(), "right": IntegerDeque()}
        self._offsets: dict[Side, IntegerDeque] = {"left": IntegerDeque(), "right": IntegerDeque()}
        self._new: dict[Side, list[tuple[int, int]]] = {"left": [], "right": []}
        """The first row and the offset of pushes that nobody has asked for yet."""

    def push(self, side: Side, first_row: int, count: int) -> None:
        self._new[side].append((first_row, self._total - first_row))
        self._total += count

    def _settle(self, side: Side) -> None:
        new = self._new[side]
        if new:
            starts, offsets = np.array(new, np.int64).T
            self._starts[side].append(starts)
            self._offsets[side].append(offsets)
            new.clear()

    def of(self, side: Side, rows: Array) -> Array:
        self._settle(side)
        push = np.searchsorted(self._starts[side].view, rows, side="right") - 1
        return rows + self._offsets[side].view[push]

    def forget(self, side: Side, row: int) -> None:
        """Rows below this one will not be asked for again."""
        self._settle(side)
        gone = max(int(np.searchsorted(self._starts[side].view, row, side="right")) - 1, 0)
        self._starts[side].drop_front(gone)
        self._offsets[side].drop_front(gone)
