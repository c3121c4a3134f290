"""Collecting (PanJoin, section III-A, step 1): several pushes become one batch.

A batch is run when it has grown to the largest size, when its oldest tuple has waited long enough, or when results are
asked for. So batches are as small as the reader is quick, and large under load.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..side import SIDES, Side
from ..store.batch import concatenated
from . import front
from .front import Step, joined


class Collector:
    """Merges steps. With `in_order` the front has put the tuples in order: both sides of a step join at once, and a
    step stays below the largest size."""

    def __init__(self, in_order: bool) -> None:
        self._in_order = in_order
        self._groups: list[list[Step]] = []
        """Neighbours that become one step: where order matters, as many as fit into one, else all."""
        self._rows_of_group = self.rows = 0
        self.since = self.began = 0.0
        """When the oldest tuples came here, and when the call began that brought them."""

    def add(self, step: Step, began: float) -> None:
        rows = step.rows
        if not self._groups:
            self.since, self.began = time.perf_counter(), began
            self._groups.append([])
        elif self._in_order and self._rows_of_group + rows > front.LARGEST_STEP:
            self._groups.append([])
            self._rows_of_group = 0
        self._groups[-1].append(step)
        self._rows_of_group += rows
        self.rows += rows

    def take(self, meets_once: bool) -> list[Step]:
        """What was collected, as few steps as possible. With `meets_once` the topology allows both sides at once. Else,
        if they are not in order, the left's tuples join first, then the right's (see `Front`)."""
        groups, self._groups, self._rows_of_group, self.rows = self._groups, [], 0, 0
        if self._in_order or meets_once:
            return [_merged(group, SIDES) for group in groups]
        return [merged for group in groups for side in SIDES if (merged := _merged(group, (side,))).seen]


def _merged(steps: list[Step], sides: Iterable[Side]) -> Step:
    merged = Step({}, {})
    for side in sides:
        mine = [step for step in steps if side in step.seen]
        if len(mine) == 1:
            merged.batches[side], merged.seen[side] = mine[0].batches[side], mine[0].seen[side]
        elif mine:
            merged.batches[side] = concatenated([step.batches[side] for step in mine])
            merged.seen[side] = joined([step.seen[side] for step in mine])
    return merged
