"""What every algorithm is: two windows, `step` and `expire`.

A topology owns both sides' windows. Time, order, lateness and payload lie before and behind it, so an algorithm is one
file. What it needs of the rest of the house it says itself, in the class attributes of `Topology`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from ..arrays import Rows
from ..parallel.crew import Crew
from ..side import Side
from ..store import Batch, SideWindow
from ..store.batch import Decide
from ..tasks import Walk

Pairs = tuple[list[Rows], list[Rows]]
"""Rows of the left and of the right, piece by piece: the n-th row of one belongs to the n-th row of the other."""

Unmet = dict[Side, tuple[int, int]]
"""The coordinate and row of a tuple of each side."""

MakeWindow = Callable[[Side, str], SideWindow]
"""Opens a window of one side with an index of this name; an empty name stands for the user's choice."""

Chores = Sequence[Callable[[], Walk]]
"""Work in stages that somebody should do sooner or later."""

Floors = Mapping[Side, int | None]
"""Coordinates of each side; None where nothing can be said."""
NO_FLOORS: Floors = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Setting:
    """What an algorithm is opened with. `decide` settles candidates that kernels leave open; `crew` are threads that
    the algorithm may use and does not own."""

    workers: int
    make_window: MakeWindow
    decide: Decide
    crew: Crew


class Topology(Protocol):
    """Runs the join of two windows."""

    name: ClassVar[str]
    """What users call it."""
    one_core: ClassVar[bool]
    """It uses one core, whatever the number of workers."""
    needs_order: ClassVar[bool]
    """It must get the tuples in the merged order."""
    finds_late: ClassVar[bool]
    """It may find a pair later than it could: see `unmet`."""

    def __init__(self, setting: Setting) -> None: ...

    @property
    def meets_once(self) -> bool:
        """It brings two tuples together once, in whatever order they come. So both sides of the next step may come at
        once even where each is in the other's range."""

    @property
    def comparisons(self) -> int:
        """Pairs of tuples that were looked at so far."""

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        """Take new tuples of one or both sides; give all pairs they make, a bounded number at a time.

        A tuple meets the other side's tuples whose coordinate lies in its [low, high), those of the same step
        included. The ranges are such that of two tuples at most one finds the other (or see `meets_once`). Nothing else
        may happen to the topology until the iterator is used up. A worker that has time does the `chores`. Tuples below
        their side's floor, if it has one, are met by no tuple of a later step, so they need not be stored for any.
        """

    def finish(self) -> Iterator[Pairs]:
        """Both streams have ended; give the pairs that have not been found yet."""

    def unmet(self) -> list[Unmet]:
        """Lower bounds of the pairs that may still be found among the tuples taken so far: both tuples of such a pair
        are at least as late as those of one of these bounds. Empty unless the algorithm `finds_late`."""

    def expire(self, side: Side, floor: int) -> None:
        """No future tuple will meet a tuple of this side below the floor."""

    def occupancy(self, side: Side, floor: int | None = None) -> int:
        """Tuples that are stored of one side: all of them, or those at or above a coordinate."""

    def first_row(self, side: Side) -> int | None:
        """The smallest row number stored of one side."""

    def indexes(self) -> dict[Side, dict[str, Any]]:
        """Which index holds each side's window, on which keys, and why."""

    def workers(self, floors: Floors = NO_FLOORS) -> list[dict[str, Any]]:
        """Figures for each worker. Of its windows, tuples below their side's floor do not count."""

    def close(self) -> None:
        """Let threads and tuples go; only figures may be asked for afterwards."""
