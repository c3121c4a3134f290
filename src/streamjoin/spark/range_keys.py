"""Keys of routing by ranges: a band says that a number of one stream, the *point*, lies in an interval of the other.

Workers divide the range of the points among them, at *splitters*. A point has one worker. An interval has all workers
that it touches, usually one or two. So a point and an interval around it always meet on the point's worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers, Mask
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import SIDES, Side, other
from .spec import JoinSpec

SAMPLE = 1024
"""About how many keys stand for a chunk."""


def range_key(lowered: Lowered) -> tuple[Side, RangeKey] | None:
    """The side whose tuples are points, and their key, which every tuple must have; a bounded key if there is one."""
    found = [
        (side, key)
        for side in SIDES
        for key in lowered.range_keys[side]
        if key.width is None and key.regular == (None, None)
    ]
    return min(found, key=lambda choice: not choice[1].bounded, default=None)


class RangeKeys:
    """Reads a side's points or intervals from its slots. `point` is the side that has the points."""

    def __init__(self, spec: JoinSpec) -> None:
        assert spec.range_key is not None
        self._spec = spec
        self.point, self.key = spec.range_key

    def points(self, slots: Sequence[Any]) -> Integers:
        return np.asarray(slots[self.key.key], np.int64)

    def intervals(self, slots: Sequence[Any]) -> list[tuple[Integers, Integers, Mask]]:
        """The lower ends, the upper ends, and which intervals are not empty; for each interval of the key."""
        found = []
        known = self._spec.lowered.slots[other(self.point)]
        for low_slot, high_slot in self.key.intervals:
            count = len(slots[0])
            low = np.full(count, INT64_MIN) if low_slot is None else np.asarray(slots[low_slot], np.int64)
            high = np.full(count, INT64_MAX) if high_slot is None else np.asarray(slots[high_slot], np.int64)
            asks = low <= high
            for bound in (low_slot, high_slot):
                validity = None if bound is None or known[bound].required else known[bound].validity
                if validity is not None:
                    asks &= slots[validity]
            found.append((low, high, asks))
        return found

    def touched(self, side: Side, slots: Sequence[Any], splitters: Integers) -> list[Mask]:
        """For each worker, which tuples it gets."""
        workers = range(len(splitters) + 1)
        if side == self.point:
            owner = owners(self.points(slots), splitters)
            return [owner == worker for worker in workers]
        masks = [np.zeros(len(slots[0]), np.bool_) for _ in workers]
        for low, high, asks in self.intervals(slots):
            first, last = owners(low, splitters), owners(high, splitters)
            for worker, mask in enumerate(masks):
                mask |= asks & (first <= worker) & (worker <= last)
        return masks

    def sample(self, side: Side, slots: Sequence[Any]) -> Integers:
        """Keys that stand for a chunk, in ascending order: points, or the intervals' lower ends, else their upper."""
        if side == self.point:
            keys = self.points(slots)
        else:
            low, high, asks = self.intervals(slots)[0]
            keys = (low if self.key.intervals[0][0] is not None else high)[asks]
        keys = np.sort(keys)
        return keys[:: -(-len(keys) // SAMPLE)] if len(keys) else keys


def owners(points: Integers, splitters: Integers) -> Integers:
    """Each point's worker: worker w has the points from splitter w - 1 on, below splitter w."""
    return np.searchsorted(splitters, points, side="right")


def own_points(points: Integers, splitters: Mapping[int, Integers], generation: int, worker: int) -> Mask | None:
    """Which points probe on this worker what was stored under a generation; None if the generation has ended."""
    if generation not in splitters:
        return None
    return owners(points, splitters[generation]) == worker
