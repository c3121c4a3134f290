"""Kang's three-step procedure (handshake join, section 2.2), a batch at a time on one core.

For each arriving tuple: scan the other window, insert into its own, invalidate what expired. The engine calls
`expire` after each step; here a batch is inserted first and then probes, which finds the same pairs, because each
tuple's [low, high) already says whom it may meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..predicate.expr import Side, other
from ..store import Batch, Chain, Index, PairSink
from ..store.batch import Decide, Rows


class ThreeStep:
    """`make_index[side](capacity)` opens a subwindow for that side; `decide` settles what kernels leave open."""

    def __init__(self, make_index: Mapping[Side, Callable[[int], Index]], decide: Decide) -> None:
        self._chains: dict[Side, Chain] = {side: Chain(make) for side, make in make_index.items()}
        self._sink = PairSink(decide)
        self.comparisons = 0

    def step(self, batches: Mapping[Side, Batch]) -> tuple[Rows, Rows]:
        for side, batch in batches.items():
            self._chains[side].insert(batch)
        found: dict[Side, list[Rows]] = {"left": [], "right": []}
        for side, batch in batches.items():
            if len(batch):
                self._sink.left_probes = side == "left"
                self.comparisons += self._chains[other(side)].probe(batch, self._sink)
                probing, stored = self._sink.take()
                found[side].append(probing)
                found[other(side)].append(stored)
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *found["left"]]), np.concatenate([empty, *found["right"]])

    def expire(self, side: Side, floor: int) -> None:
        self._chains[side].expire(floor)

    def occupancy(self, side: Side) -> int:
        return self._chains[side].count

    def first_row(self, side: Side) -> int | None:
        return self._chains[side].first_row

    def workers(self) -> list[dict[str, Any]]:
        return [
            {
                "worker": 0,
                "comparisons": self.comparisons,
                "left_window": self.occupancy("left"),
                "right_window": self.occupancy("right"),
                "bytes": sum(chain.nbytes for chain in self._chains.values()),
            }
        ]
