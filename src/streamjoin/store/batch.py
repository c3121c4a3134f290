"""What goes into a store and what comes out: batches of tuples reduced to slots, and pairs of row numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]


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

    def _select(self, which: Any) -> Batch:
        slots = [slot[which] for slot in self.slots]
        return Batch(self.row[which], self.coordinate[which], self.low[which], self.high[which], slots)


Decide = Callable[[Rows, Rows], npt.NDArray[np.bool_] | None]
"""Which of some candidate pairs (rows of the left, rows of the right) match; None: all."""


class PairSink:
    """Collects pairs of row numbers from kernels that write places into fixed buffers.

    Invariant: a kernel stops before the buffer overflows and goes on where it stopped, so nothing is lost or doubled.
    Candidates that a kernel could not decide are decided when the buffer is drained, so they never pile up.
    """

    def __init__(self, decide: Decide = lambda left, right: None, capacity: int = 1 << 16) -> None:
        self._decide = decide
        self.left_probes = False
        self.probe_places = np.empty(capacity, np.int32)
        self.stored_places = np.empty(capacity, np.int32)
        self._probing: list[Rows] = []
        self._stored: list[Rows] = []

    def drain(self, count: int, probing: Rows, stored: Rows) -> None:
        """Turn the first `count` buffered places into row numbers."""
        if not count:
            return
        probing, stored = probing[self.probe_places[:count]], stored[self.stored_places[:count]]
        keep = self._decide(probing, stored) if self.left_probes else self._decide(stored, probing)
        if keep is not None:
            probing, stored = probing[keep], stored[keep]
        self._probing.append(probing)
        self._stored.append(stored)

    def take(self) -> tuple[Rows, Rows]:
        """All pairs so far: (probing rows, stored rows)."""
        empty = np.empty(0, np.int64)
        pairs = (np.concatenate([empty, *self._probing]), np.concatenate([empty, *self._stored]))
        self._probing, self._stored = [], []
        return pairs
