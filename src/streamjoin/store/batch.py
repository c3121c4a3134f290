"""What goes into a store and what comes out: batches of tuples reduced to slots, and pairs of row numbers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Mask, Rows
from ..compile.generic import extremes, kept_of
from .pair_memory import PairMemory

LARGEST_PART = 1 << 15
"""The most tuples that probe together. Once sorted, they pass through a subwindow once, from end to end."""
BUFFER = 1 << 16
WORTH_TRIMMING = 256
"""Tuples of a batch from which on it is asked which of them must be stored."""
QUOTA = 1 << 20
"""Pairs that a sink keeps before it asks to be emptied."""


@dataclass(slots=True)
class Batch:
    """Live tuples of one side.

    `coordinate` says where a tuple lies (its timestamp, or its position in the merged order); [low, high) are the
    coordinates of the other side that it meets. `row` numbers it within its stream.
    """

    row: Rows
    coordinate: Rows
    low: Rows
    high: Rows
    slots: list[Array]

    def __len__(self) -> int:
        return len(self.row)

    def slice(self, start: int, stop: int) -> Batch:
        return self._select(slice(start, stop))

    def take(self, places: Rows) -> Batch:
        return self._select(places)

    def copied(self, start: int, stop: int) -> Batch:
        """A slice in memory of its own."""
        cut = slice(start, stop)
        slots = [slot[cut].copy() for slot in self.slots]
        row, coordinate, low, high = (column[cut].copy() for column in (self.row, self.coordinate, self.low, self.high))
        return Batch(row, coordinate, low, high, slots)

    def every(self, start: int, step: int) -> Batch:
        """The tuples at places start, start + step, start + 2 * step and so on."""
        return self._select(slice(start, None, step))

    def parts(self, size: int | None = None) -> list[Batch]:
        """The batch cut into pieces of at most this size."""
        return self.parts_of(LARGEST_PART if size is None else min(size, LARGEST_PART))

    def parts_of(self, size: int) -> list[Batch]:
        """The batch cut into pieces of this size, even if that is more than the usual size."""
        return [self] if len(self) <= size else [self.slice(k, k + size) for k in range(0, len(self), size)]

    def _select(self, which: Any) -> Batch:
        slots = [slot[which] for slot in self.slots]
        return Batch(self.row[which], self.coordinate[which], self.low[which], self.high[which], slots)


def concatenated(batches: list[Batch]) -> Batch:
    """Several batches as one. Slots that one of them lacks, all of them lack."""
    if len(batches) == 1:
        return batches[0]
    slots: list[Any] = [
        None if slot is None else np.concatenate([b.slots[k] for b in batches])
        for k, slot in enumerate(batches[0].slots)
    ]
    row, coordinate, low, high = (
        np.concatenate([getattr(b, name) for b in batches]) for name in ("row", "coordinate", "low", "high")
    )
    return Batch(row, coordinate, low, high, slots)


def lasting(batch: Batch, floor: int | None, probing: Batch | None) -> Batch:
    """What must be stored of a batch, if no tuple to come meets one below the floor: all from there on, and what the
    tuples of the other side can reach that probe in the same step. A batch that spans many windows is mostly left out.
    """
    if floor is None or len(batch) < WORTH_TRIMMING:
        return batch
    low, high = floor, floor
    if probing is not None and len(probing):
        low, high = extremes(probing.low)[0], extremes(probing.high)[1]
    first, last, count = kept_of(batch.coordinate, floor, low, high)
    if count == len(batch):
        return batch
    # A slice would hold on to the whole batch.
    if count == last - first and 2 * count > len(batch):
        return batch.slice(first, last)
    if count == last - first:
        return batch.copied(first, last)
    where = batch.coordinate
    return batch.take(np.flatnonzero((where >= floor) | ((where >= low) & (where < high))))


Decide = Callable[[Rows, Rows], Mask | None]
"""Which of some candidate pairs (rows of the left, rows of the right) match; None: all."""


class Probing:
    """A batch that probes a chain, and what is computed once for all subwindows and workers.

    The work can be divided in two ways. A *share* does the work of some of the batch's tuples (or of their ranges), a
    *part* looks at some of the stored tuples. Invariant: all shares together, like all parts together, do all of the
    work, each piece of it once.

    The windows of the batch's tuples begin between `earliest` and `latest_low`, and end between `earliest_high` and
    `latest`.
    """

    same: tuple[int, int] | None = None
    """The window, if all have the same one and the stored tuples lie at *places*: their coordinates ascend, and no two
    are equal."""

    def __init__(self, tuples: Batch) -> None:
        self.tuples, self.count = tuples, len(tuples)
        """Without their windows, if `same` says them."""
        self._batch = tuples
        self._share, self._shares = 0, 1
        self._part, self._parts = 0, 1
        self._known: dict[Any, Any] = {}
        self._of_tuples: dict[Any, Any] = {}
        self._bounds: tuple[int, int, int, int] | None = None

    @property
    def batch(self) -> Batch:
        tuples, same = self._batch, self.same
        if same is not None and tuples is self.tuples:
            low, high = np.full(self.count, same[0]), np.full(self.count, same[1])
            self._batch = Batch(tuples.row, tuples.coordinate, low, high, tuples.slots)
        return self._batch

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """`earliest`, `latest_low`, `earliest_high` and `latest`."""
        if self._bounds is None:
            low, high = self.batch.low, self.batch.high
            nothing = INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN
            self._bounds = (*extremes(low), *extremes(high)) if len(low) else nothing
        return self._bounds

    def at_places(self, start: int, stop: int) -> Probing:
        """The same tuples, which ask for places [start, stop). What depends on the tuples alone is still known."""
        found = Probing(self.tuples)
        found.same, found._of_tuples = (start, stop), self._of_tuples
        found._bounds = start, start, stop, stop
        return found

    def split(self, shares: int) -> list[Probing]:
        """Shares of the work. All of them know what is known already."""
        found = [copy(self) for _ in range(shares)]
        for number, probing in enumerate(found):
            probing._share, probing._shares = number, shares
        return found

    def within(self, part: int, parts: int) -> Probing:
        """The same batch against one part of the stored tuples."""
        if parts == 1:
            return self
        probing = copy(self)
        probing._part, probing._parts = part, parts
        return probing

    def knows(self, key: Any) -> bool:
        """Whether `once` has been asked for this key."""
        return key in self._known

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """What `compute` returns; it is only called if nobody has asked for this key before."""
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def once_for_tuples(self, key: Any, compute: Callable[[], Any]) -> Any:
        """The same for what does not depend on the tuples' windows."""
        if key not in self._of_tuples:
            self._of_tuples[key] = compute()
        return self._of_tuples[key]

    @property
    def is_first(self) -> bool:
        """Whether this is the first of the shares."""
        return self._share == 0

    @property
    def is_whole(self) -> bool:
        """Whether this is the only share."""
        return self._shares == 1

    @property
    def share_of_batch(self) -> int:
        """How many tuples this share has, if tuples are what is shared."""
        return self.count // self._shares

    def share(self, count: int) -> slice:
        """Which of `count` things this share has to do, where the shares divide them."""
        return slice(count * self._share // self._shares, count * (self._share + 1) // self._shares)

    def part(self, count: int) -> slice:
        """Which of `count` stored things this part has to look at, where the parts divide them."""
        return slice(count * self._part // self._parts, count * (self._part + 1) // self._parts)

    def mine(self, batch: Batch) -> Batch:
        """This share of a batch."""
        return batch if self._shares == 1 else batch._select(self.share(len(batch)))


class PairSink:
    """Collects pairs of row numbers from kernels that write places into fixed buffers.

    Invariant: a kernel stops before the buffer overflows and goes on where it stopped, so nothing is lost or doubled.
    Candidates that a kernel cannot decide are decided when the buffer is drained, so they never pile up.
    """

    _spare: ClassVar[list[tuple[Array, PairMemory]]] = []

    def __init__(self, decide: Decide = lambda left, right: None, *, left_probes: bool = True) -> None:
        self._decide = decide
        self._left_probes = left_probes
        self._kept: tuple[Array, PairMemory] | None = None
        self._probing: list[Rows] = []
        self._stored: list[Rows] = []
        self.count = 0

    def _memory(self) -> tuple[Array, PairMemory]:
        """A buffer for places, and memory for row numbers; those of sinks that are done are used again."""
        if self._kept is None:
            try:
                self._kept = PairSink._spare.pop()
            except IndexError:
                self._kept = np.empty((2, BUFFER), np.int32), PairMemory(2 * BUFFER)
        return self._kept

    @property
    def both_buffers(self) -> Array:
        """Where kernels write places of probing and of stored tuples."""
        return self._memory()[0]

    @property
    def row_buffers(self) -> Array:
        """Where kernels write row numbers of probing and of stored tuples, for `add_rows`."""
        return self._memory()[1].scratch

    @property
    def is_full(self) -> bool:
        return self.count >= QUOTA

    def add_rows(self, count: int, turned: bool = False) -> None:
        """Take in the first `count` pairs of the row buffers. `turned`: rows of stored tuples come first there."""
        if count:
            first, second = self._memory()[1].kept(count)
            self.add(*((second, first) if turned else (first, second)))

    def add(self, probing: Rows, stored: Rows) -> None:
        """Take in candidate pairs of row numbers, and decide those that kernels could not decide."""
        if not len(probing):
            return
        keep = self._decide(probing, stored) if self._left_probes else self._decide(stored, probing)
        if keep is not None:
            probing, stored = probing[keep], stored[keep]
        self._probing.append(probing)
        self._stored.append(stored)
        self.count += len(probing)

    def take(self) -> tuple[list[Rows], list[Rows]]:
        """All pairs so far, piece by piece: (left rows, right rows)."""
        pairs = (self._probing, self._stored) if self._left_probes else (self._stored, self._probing)
        self._probing, self._stored, self.count = [], [], 0
        if self._kept is not None:
            PairSink._spare.append(self._kept)
            self._kept = None
        return pairs
