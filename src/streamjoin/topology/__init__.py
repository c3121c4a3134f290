"""How cores share the work: one file per algorithm of the papers.

A topology owns both sides' windows. Its whole interface is `step` and `expire`; everything about time, order,
lateness and payload lies before and behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..arrays import Rows
from ..side import Side, other
from ..store import SideWindow
from ..store.batch import Batch, PairSink

Pairs = tuple[list[Rows], list[Rows]]
"""Rows of the left and of the right, piece by piece: the n-th row of one belongs to the n-th row of the other."""

Unmet = dict[Side, tuple[int, int]]
"""The coordinate and row of a tuple of each side."""


class Topology(Protocol):
    """Runs the join of two windows.

    `meets_once`: two tuples meet once in whatever order they come, so both sides of a step may come at once even where
    each is in the other's range.
    """

    meets_once: bool

    @property
    def comparisons(self) -> int:
        """Pairs of tuples that were looked at so far."""

    def step(self, batches: Mapping[Side, Batch], chores: Sequence[Callable[[], None]] = ()) -> Iterator[Pairs]:
        """Take new tuples of one or both sides; gives all pairs they make, a bounded number at a time.

        A tuple meets the other side's tuples whose coordinate lies in its [low, high), those of the same step
        included. The ranges are such that of two tuples at most one finds the other (or see `meets_once`). Nothing else
        may happen to the topology until the iterator is used up. `chores` are done on the way, by a worker that has
        time.
        """

    def finish(self) -> Iterator[Pairs]:
        """Both streams have ended; gives the pairs that have not been found yet."""

    def unmet(self) -> list[Unmet]:
        """What pairs may still be found among the tuples that were taken already: of each such pair both tuples are at
        least as late as those of one of these bounds. Only handshake join finds pairs later than it could."""

    def expire(self, side: Side, floor: int) -> None:
        """No future tuple will meet a tuple of this side below the floor."""

    def occupancy(self, side: Side) -> int:
        """Tuples that are stored of one side."""

    def first_row(self, side: Side) -> int | None:
        """The smallest row number stored of one side."""

    def indexes(self) -> dict[Side, dict[str, Any]]:
        """Which index holds each side's window, on which keys, and why."""

    def workers(self) -> list[dict[str, Any]]:
        """Figures for each worker."""

    def close(self) -> None:
        """Let threads go."""


class Part:
    """A share of a step's probing, which fills a sink."""

    def __init__(self, steps: Iterator[int], sink: PairSink) -> None:
        self._steps, self._sink = steps, sink
        self.comparisons = 0
        self.seconds = 0.0
        self.done = False

    def run(self) -> Pairs:
        """Go on until all is found, or as much as may be kept at once."""
        started = time.perf_counter()
        for compared in self._steps:
            self.comparisons += compared
            if self._sink.is_full:
                break
        else:
            self.done = True
        self.seconds += time.perf_counter() - started
        return self._sink.take()


class OverWindows:
    """What topologies have in common that keep each side's tuples in one shared window."""

    meets_once = False

    def __init__(self, windows: Mapping[Side, SideWindow]) -> None:
        self._windows = windows
        self.comparisons = 0

    def _take_in(self, batches: Mapping[Side, Batch], chores: Sequence[Callable[[], None]]) -> None:
        """Insert all batches before any of them probes: each tuple's [low, high) already says whom it may meet."""
        for chore in chores:
            chore()
        for side, batch in batches.items():
            self._windows[side].insert(batch)
            self._windows[other(side)].expect(batch)

    def finish(self) -> Iterator[Pairs]:
        yield from ()

    def unmet(self) -> list[Unmet]:
        return []

    def expire(self, side: Side, floor: int) -> None:
        self._windows[side].expire(floor)

    def occupancy(self, side: Side) -> int:
        return self._windows[side].count

    def first_row(self, side: Side) -> int | None:
        return self._windows[side].first_row

    def indexes(self) -> dict[Side, dict[str, Any]]:
        return {side: window.figures() for side, window in self._windows.items()}

    def shared_figures(self) -> dict[str, Any]:
        """Figures of the whole, whoever did the work."""
        return {
            "comparisons": self.comparisons,
            "left_window": self.occupancy("left"),
            "right_window": self.occupancy("right"),
            "bytes": sum(window.nbytes for window in self._windows.values()),
        }
