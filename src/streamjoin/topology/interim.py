"""A join in NumPy that needs no machine code, for the time until there is some. Then another topology takes over.

A tuple's candidates are the stored tuples in its window, or those with its key, whichever are fewer. They are written
out pair by pair and tested column by column. It makes some tens of million comparisons per second.

The law of the change-over: a tuple is *old* if its step began in NumPy, else *new*. When machine code is there, all old
tuples that are stored move into shared windows. Then

    old and old     are found by the old tuple that probes: in NumPy, or in the shared windows what is left of its step
    new and old     are found by the new tuple, when it probes the shared windows
    new and new     are found by the successor

so each pair is found once. That the new tuple has the old one in its [low, high) is the front's promise: the later of
two steps finds the tuples of the earlier one. A successor with shared windows takes the old tuples into its own, and
that is all. One that is made of nodes never sees them. They lie beside it, are met as soon as a new tuple comes, and
get fewer until the last one has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, Integers, Rows
from ..predicate.keys import Bounds
from ..predicate.lower import Lowered
from ..predicate.pairs import PairCondition
from ..side import SIDES, Side, other
from ..store import Batch
from ..store.batch import concatenated, lasting
from ..tasks import do_all
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting, Topology, Unmet
from .shared_windows import SharedWindows
from .three_step import ThreeStep

CANDIDATES = 1 << 18
"""Pairs that are tested at once."""
MEANWHILE = "machine code is being compiled; NumPy serves meanwhile"
FEW = 64
"""Candidates by time for each probing tuple, up to which nothing is sorted by key."""


class Interim:
    """Stands in for an algorithm until `is_ready`; then it hands on what it is asked."""

    name: ClassVar[str] = "interim"
    one_core: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    finds_late: ClassVar[bool] = False

    def __init__(
        self, algorithm: type[Topology], setting: Setting, lowered: Lowered, is_ready: Callable[[], bool]
    ) -> None:  # fmt: skip
        self._algorithm, self._setting = algorithm, setting
        self._is_ready, self._decide = is_ready, setting.decide
        self._successor: Topology | None = None
        self._old: SharedWindows | None = None
        """The windows of old tuples, once there is a successor. It may be the successor itself."""
        self._condition = PairCondition(lowered)
        self._held: dict[Side, _Held] = {side: _Held(lowered, side) for side in SIDES}
        self._compared = 0

    @property
    def meets_once(self) -> bool:
        """NumPy finds a pair twice if each of two tuples has the other in its range; the successor may not."""
        return self._successor is not None and self._successor.meets_once

    @property
    def _beside(self) -> SharedWindows | None:
        """The windows of old tuples, if they are not the successor's own."""
        return None if self._old is self._successor else self._old

    @property
    def _parts(self) -> list[Topology]:
        """Who has the tuples, once there is a successor."""
        return [part for part in (self._successor, self._beside) if part is not None]

    @property
    def comparisons(self) -> int:
        return self._compared + sum(part.comparisons for part in self._parts)

    def _takes_over(self) -> SharedWindows | None:
        """Where all old tuples are, if machine code is there: from then on there is a successor."""
        if self._old is None and self._is_ready():
            self._successor = successor = self._algorithm(self._setting)
            self._old = old = successor if isinstance(successor, SharedWindows) else ThreeStep(self._setting)
            for side in SIDES:
                for batch in self._held[side].give_up():
                    old.insert(side, batch)
        return self._old

    def retired(self) -> Topology | None:
        """The successor, if it has all tuples: then it can be asked itself. It takes the count of comparisons over."""
        if self._old is None or self._old is not self._successor:
            return None
        self._old.compared += self._compared
        self._compared = 0
        return self._old

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        self._takes_over()
        if self._successor is not None:
            if self._beside is not None:
                for side, batch in batches.items():
                    yield from self._beside.visit(side, batch)
            yield from self._successor.step(batches, chores, floors)
            return
        do_all(chores)
        for side, batch in batches.items():
            self._held[side].add(lasting(batch, floors.get(side), batches.get(other(side))))
        for side, batch in batches.items():
            yield from self._compare(side, batch)

    def _compare(self, side: Side, batch: Batch) -> Iterator[Pairs]:
        """Find the pairs of tuples that are stored already, or have those found that are left of them."""
        stored = self._held[other(side)]
        if self._old is not None:
            yield from self._old.probe(side, batch)
            return
        if not stored.count:
            return
        everything, first, last, order = stored.candidates(batch)
        ends = np.cumsum(last - first)
        begin = 0
        while begin < len(batch):
            old = self._takes_over()
            if old is not None:
                yield from old.probe(side, batch.slice(begin, len(batch)))
                return
            before = int(ends[begin - 1]) if begin else 0
            stop = max(int(np.searchsorted(ends, before + CANDIDATES, side="right")), begin + 1)
            counts = last[begin:stop] - first[begin:stop]
            total = int(counts.sum())
            if total:
                probe = np.repeat(np.arange(begin, stop), counts)
                place = np.arange(total) + np.repeat(first[begin:stop] - (np.cumsum(counts) - counts), counts)
                yield self._matches(side, batch, everything, probe, place if order is None else order[place])
                self._compared += total
            begin = stop

    def _matches(self, side: Side, batch: Batch, stored: Batch, probe: Rows, place: Rows) -> Pairs:
        if side == "left":
            keep = self._condition(batch.slots, probe, stored.slots, place)
        else:
            keep = self._condition(stored.slots, place, batch.slots, probe)
        where = stored.coordinate[place]
        keep = keep & (where >= batch.low[probe]) & (where < batch.high[probe])
        rows: dict[Side, Rows] = {side: batch.row[probe[keep]], other(side): stored.row[place[keep]]}
        decided = self._decide(rows["left"], rows["right"]) if keep.any() else None
        if decided is not None:
            rows = {which: found[decided] for which, found in rows.items()}
        return [rows["left"]], [rows["right"]]

    def finish(self) -> Iterator[Pairs]:
        if self._successor is not None:
            yield from self._successor.finish()

    def unmet(self) -> list[Unmet]:
        """Pairs with an old tuple are found at once."""
        return [] if self._successor is None else self._successor.unmet()

    def expire(self, side: Side, floor: int) -> None:
        self._held[side].expire(floor)
        for part in self._parts:
            part.expire(side, floor)
        beside = self._beside
        if beside is not None and not any(map(beside.occupancy, SIDES)):
            beside.close()  # what its index has reserved goes with the last tuple

    def occupancy(self, side: Side, floor: int | None = None) -> int:
        return self._held[side].at_least(floor) + sum(part.occupancy(side, floor) for part in self._parts)

    def first_row(self, side: Side) -> int | None:
        rows = [self._held[side].first_row, *(part.first_row(side) for part in self._parts)]
        return min((row for row in rows if row is not None), default=None)

    def indexes(self) -> dict[Side, dict[str, Any]]:
        """Which index will serve, as far as is known without any tuple, and that NumPy does until then."""
        if self._successor is not None:
            return self._successor.indexes()
        empty = {side: self._setting.make_window(side, "").figures() for side in SIDES}
        return {side: {**figures, "why": MEANWHILE} for side, figures in empty.items()}

    def workers(self, floors: Floors = NO_FLOORS) -> list[dict[str, Any]]:
        """The successor's figures, once there is one: without old tuples that lie beside it."""
        if self._successor is not None:
            return self._successor.workers(floors)
        windows = {f"{side}_window": self.occupancy(side, floors.get(side)) for side in SIDES}
        return [{"worker": 0, "busy_s": 0.0, "comparisons": self._compared, **windows, "bytes": 0}]

    def close(self) -> None:
        for part in self._parts:
            part.close()
        for held in self._held.values():
            held.give_up()


class _Held:
    """One side's tuples, batch by batch."""

    def __init__(self, lowered: Lowered, side: Side) -> None:
        self._batches: list[Batch] = []
        mine = side == "right"
        self._keys = [_Key(pair[mine], pair[not mine], pair[not mine]) for pair in lowered.hash_slots]
        stored, probing = lowered.slots[side], lowered.slots[other(side)]
        for key in lowered.range_keys[side]:
            for low, high in key.intervals if len(key.intervals) == 1 and key.bounded else ():
                slots = [stored[key.key], *(probing[bound] for bound in (low, high) if bound is not None)]
                if all(slot.required and slot.dtype.startswith("int") for slot in slots):
                    self._keys.append(_Key(key.key, low or 0, high or 0, key.width, key.regular))
        self.count = 0

    def add(self, batch: Batch) -> None:
        if len(batch):
            self._batches.append(batch)
            self.count += len(batch)

    def expire(self, floor: int) -> None:
        """Let go of batches below the floor, and of tuples below it where they are half of a batch."""
        kept = []
        for batch in self._batches:
            alive = batch.coordinate >= floor
            count = int(np.count_nonzero(alive))
            if count:
                kept.append(batch if 2 * count > len(batch) else batch.take(np.flatnonzero(alive)))
        self._batches, self.count = kept, sum(map(len, kept))

    def at_least(self, floor: int | None) -> int:
        """How many tuples lie at or above a coordinate; None: all."""
        if floor is None:
            return self.count
        return sum(int(np.count_nonzero(batch.coordinate >= floor)) for batch in self._batches)

    def give_up(self) -> list[Batch]:
        batches, self._batches, self.count = self._batches, [], 0
        return batches

    @property
    def first_row(self) -> int | None:
        return min((int(batch.row.min()) for batch in self._batches), default=None)

    def candidates(self, batch: Batch) -> tuple[Batch, Integers, Integers, Array | None]:
        """All tuples as one batch; for each probing tuple the range of places to look at, in the order that is given
        (None: as they are)."""
        everything = concatenated(self._batches)
        self._batches = [everything]
        coordinate, order = everything.coordinate, None
        if (coordinate[1:] < coordinate[:-1]).any():
            order = np.argsort(coordinate, kind="stable")
            coordinate = coordinate[order]
        first, last = np.searchsorted(coordinate, batch.low), np.searchsorted(coordinate, batch.high)
        last = np.maximum(first, last)
        fewest = int((last - first).sum())
        for key in self._keys if fewest > FEW * len(batch) else ():
            if not key.serves(everything, batch):
                continue
            by_key = np.argsort(everything.slots[key.stored], kind="stable")
            values = everything.slots[key.stored][by_key]
            begin = np.searchsorted(values, key.lowest(everything, batch))
            end = np.maximum(begin, np.searchsorted(values, batch.slots[key.high], side="right"))
            if (found := int((end - begin).sum())) < fewest:
                first, last, order, fewest = begin, end, by_key, found
        return everything, first, last, order


@dataclass(frozen=True, slots=True)
class _Key:
    """A slot of stored tuples that must lie between two slots of the probing tuple. With a `width`, that slot of the
    stored tuple must be at least the lower one instead. `regular` slots say of which tuples this is true."""

    stored: int
    low: int
    high: int
    width: int | None = None
    regular: Bounds = (None, None)

    def serves(self, stored: Batch, probing: Batch) -> bool:
        return all(
            slot is None or bool(batch.slots[slot].all())
            for slot, batch in zip(self.regular, (stored, probing), strict=True)
        )

    def lowest(self, stored: Batch, probing: Batch) -> Integers:
        """The lowest key that each probing tuple may meet."""
        low: Integers = probing.slots[self.low].astype(np.int64)
        if self.width is None:
            return low
        key, top = (stored.slots[slot].astype(np.int64) for slot in (self.stored, self.width))
        above = np.where(top > key, top.view(np.uint64) - key.view(np.uint64), np.uint64(0))
        bottom, widest = np.uint64(2**63), above.max(initial=0)
        over = low.view(np.uint64) - bottom  # how far each lies above the lowest number
        return (bottom + np.where(over < widest, np.uint64(0), over - widest)).view(np.int64)
