"""Points and intervals: a band says that a number of one stream, the *point*, lies in an interval of the other.

Law: a point has one worker, and an interval has all workers that it touches, usually one or two. So a point and an
interval around it meet on the point's worker, and nowhere else. Where the band holds only for regular tuples (see
`predicate.keys`), an irregular interval touches everything; an irregular point keeps to the law.

Two routings follow it. For `blocks`, workers share numbers out by rule (see `blocks`). For `range`, workers divide the
range of the points among them, at *splitters* that follow the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers, Mask
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import SIDES, Side, other
from .plain import Plain
from .spec import JoinSpec

SAMPLE = 1024
"""About how many keys stand for as many rows as a chunk has."""
NOTES = Plain()
"""How a router tells workers of the generations (see `router`): the number of the last, and the splitters of all."""

PointKey = tuple[Side, RangeKey]
"""The side whose tuples are points, and their key."""


def point_keys(lowered: Lowered) -> list[PointKey]:
    """The keys that every tuple must have and that keep to the law, the most promising first."""
    found = [
        (side, key)
        for side in SIDES
        for key in lowered.range_keys[side]
        if key.width is None and key.stored_bits is not None
    ]
    return sorted(found, key=lambda choice: (not choice[1].bounded, choice[1].regular != (None, None)))


def range_key(lowered: Lowered) -> PointKey | None:
    """The key for routing by ranges, which compare all bits of it."""
    return next((choice for choice in point_keys(lowered) if choice[1].stored_bits == 64), None)


class RangeKeys:
    """Reads a side's points or intervals from its slots. `point` is the side that has the points."""

    def __init__(self, lowered: Lowered, key: PointKey) -> None:
        self._lowered = lowered
        self.point, self.key = key

    @classmethod
    def of(cls, spec: JoinSpec) -> RangeKeys:
        assert spec.range_key is not None
        return cls(spec.lowered, spec.range_key)

    def points(self, slots: Sequence[Any]) -> Integers:
        return np.asarray(slots[self.key.key], np.int64)

    def everywhere(self, slots: Sequence[Any]) -> Mask | None:
        """The irregular intervals; None: there are none."""
        regular = self.key.regular[1]
        return None if regular is None else ~slots[regular]

    def intervals(self, slots: Sequence[Any]) -> list[tuple[Integers, Integers, Mask]]:
        """The lower ends, the upper ends, and which intervals are not empty; for each interval of the key."""
        found = []
        known = self._lowered.slots[other(self.point)]
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
        everywhere = self.everywhere(slots)
        if everywhere is not None:
            for mask in masks:
                mask |= everywhere
        return masks

    def keys(self, side: Side, slots: Sequence[Any]) -> Integers:
        """Keys that stand for rows: points, or the intervals' lower ends, else their upper ones."""
        if side == self.point:
            return self.points(slots)
        low, high, asks = self.intervals(slots)[0]
        return (low if self.key.intervals[0][0] is not None else high)[asks]


def sampled(keys: Integers, samples: int) -> Integers:
    """At most so many times `SAMPLE` of the keys, evenly spread, in ascending order, whatever order they come in."""
    keys = np.sort(keys)
    return keys[:: -(-len(keys) // (SAMPLE * samples))] if len(keys) else keys


def owners(points: Integers, splitters: Integers) -> Integers:
    """Each point's worker: worker w has the points from splitter w - 1 on, below splitter w."""
    return np.searchsorted(splitters, points, side="right")


def own_points(points: Integers, splitters: Mapping[int, Integers], generation: int, worker: int) -> Mask | None:
    """Which points probe on this worker what was stored under a generation; None if the generation has ended."""
    if generation not in splitters:
        return None
    return owners(points, splitters[generation]) == worker
