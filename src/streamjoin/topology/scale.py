"""ScaleJoin (Gulisano et al., sections 4 and 5): a ScaleGate in front of threads that share nothing.

All tuples of both streams pass a ScaleGate, which lets them through in timestamp order as they become *ready*. Every
processing thread gets every ready tuple, compares it with its share of the other window, and stores every n-th one in
turn (Algorithm 2). So the work is even however rates and values change, and the result does not depend on how the
inputs interleave. Where the paper's threads take one tuple at a time from the gate, here the driver does, and hands
blocks of ready tuples to all of them: of each side those that are in the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..arrays import Rows
from ..parallel.gate import Gate
from ..side import SIDES, Side
from ..store import Batch
from .driver import block_size
from .node import Block
from .protocol import Setting
from .split import SplitJoin

CAPACITY = 1 << 15


class ScaleJoin(SplitJoin):
    """Nodes of `split` behind a gate. Batches come in the merged order: a tuple's coordinate says how many of its own
    stream are before it, `high` how many of the other."""

    name: ClassVar[str] = "scalejoin"
    needs_order: ClassVar[bool] = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._gate = Gate(len(SIDES), 1, CAPACITY)

    def _blocks(self, batches: Mapping[Side, Batch]) -> list[Block]:
        blocks: list[Block] = []
        size = block_size(sum(map(len, batches.values())), self.ports)
        for sources, places in self._ready({side: batch for side, batch in batches.items() if len(batch)}):
            for start in range(0, len(sources), size):
                cut = slice(start, start + size)
                for number, side in enumerate(SIDES):
                    mine = places[cut][sources[cut] == number]
                    if len(mine):
                        blocks.append(self._new_block(side, batches[side].take(mine)))
        return blocks

    def _ready(self, batches: Mapping[Side, Batch]) -> list[tuple[Rows, Rows]]:
        """All tuples through the gate: for each its side and place in the batch. The last position is a promise of both
        sides, since the front lets nothing through that anything could still precede."""
        if not batches:
            return []
        found: list[tuple[Rows, Rows]] = []
        taken = dict.fromkeys(batches, 0)
        order = {side: batch.coordinate + batch.high for side, batch in batches.items()}
        beyond = max(int(ranks[-1]) for ranks in order.values()) + 1
        while True:
            for side, batch in batches.items():
                rest = slice(taken[side], None)
                places = np.arange(len(batch))
                taken[side] += self._gate.add(SIDES.index(side), order[side][rest], places[rest])
            for number, side in enumerate(SIDES):
                if side not in batches or taken[side] == len(batches[side]):
                    self._gate.heartbeat(number, beyond)
            _, sources, places = self._gate.next_ready(0, 2 * CAPACITY)
            if len(sources):
                found.append((sources, places))
            elif all(taken[side] == len(batch) for side, batch in batches.items()):
                return found
