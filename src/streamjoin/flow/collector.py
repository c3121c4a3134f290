"""Collecting (PanJoin, section III-A, step 1): several pushes become one batch.

A batch is run when it has grown to the largest size, when its oldest tuple has waited long enough, or when results are
asked for. So batches are as small as the reader is quick, and large under load.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from ..side import SIDES, Side
from ..store.batch import concatenated
from . import front
from .front import Step, joined


class Collector:
    """Merges steps. With `in_order` the front has put the tuples in order: both sides of a step join at once, and a
    step stays below the largest size. With `meets_once` the topology allows both sides at once. Otherwise the left's
    tuples join first, then the right's (see `Front`)."""

    def __init__(self, in_order: bool, meets_once: bool) -> None:
        self._in_order, self._meets_once = in_order, meets_once
        self._steps: list[Step] = []
        self.rows = 0
        self.since = self.began = 0.0
        """When the oldest tuples came here, and when the call began that brought them."""

    def add(self, step: Step, began: float) -> None:
        if not self._steps:
            self.since, self.began = time.perf_counter(), began
        self._steps.append(step)
        self.rows += step.rows

    def take(self) -> list[Step]:
        """What was collected, as few steps as possible."""
        steps, self._steps, self.rows = self._steps, [], 0
        if len(steps) < 2:
            return steps
        if self._in_order:
            return [_merged(group, SIDES) for group in _groups(steps)]
        if self._meets_once:
            return [_merged(steps, SIDES)]
        return [merged for side in SIDES if (merged := _merged(steps, (side,))).seen]


def _groups(steps: list[Step]) -> Iterator[list[Step]]:
    """Neighbours, as many as fit into a step."""
    group: list[Step] = []
    rows = 0
    for step in steps:
        if group and rows + step.rows > front.LARGEST_STEP:
            yield group
            group, rows = [], 0
        group.append(step)
        rows += step.rows
    yield group


def _merged(steps: list[Step], sides: Iterable[Side]) -> Step:
    merged = Step({}, {})
    for side in sides:
        mine = [step for step in steps if side in step.seen]
        if mine:
            merged.batches[side] = concatenated([step.batches[side] for step in mine])
            merged.seen[side] = joined([step.seen[side] for step in mine])
    return merged
