"""Handshake join in lock step (Teubner and Mueller, section 4.1), to compare the asynchronous one with.

An arriving block pushes its whole stream on: every node that is full hands its oldest block to the next one, all at the
same moment, and what leaves the last node has expired. A block is compared with the other stream's segment at each node
that it enters. Since nothing is ever between two nodes, no acknowledgements are needed; but all nodes must move at
once, which is easy in a circuit and would make threads wait for each other. So this variant runs on one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..side import SIDES, Side, other
from ..topology.node import Block, LocalWindow, inserted


class LockStepJoin:
    """`nodes` have a window of each side, of `segment` tuples: windows of `len(nodes) * segment` in all."""

    def __init__(self, nodes: Sequence[dict[Side, LocalWindow]], segment: int) -> None:
        self._nodes, self._segment = nodes, segment
        self._blocks: list[dict[Side, deque[tuple[Block, int]]]] = [{side: deque() for side in SIDES} for _ in nodes]
        self.moves = 0
        """Blocks that went from one node to the next."""

    def push(self, block: Block) -> None:
        """A block arrives: R at the left end, S at the right one."""
        moving: Block | None = block
        for number in self._way(block.side):
            if moving is None:
                return
            self._enter(number, moving)
            window = self._nodes[number][block.side]
            full = window.tail - window.head > self._segment
            moving = self._leave(number, block.side) if full else None

    def drain(self) -> None:
        """The streams have ended: let R flow to its end, so that all who have not met do."""
        for number in reversed(range(len(self._nodes) - 1)):
            while self._blocks[number]["left"]:
                block = self._leave(number, "left")
                for further in range(number + 1, len(self._nodes)):
                    self._enter(further, block)
                    if further < len(self._nodes) - 1:  # it is empty but for this one
                        block = self._leave(further, "left")

    def _way(self, side: Side) -> Sequence[int]:
        numbers = range(len(self._nodes))
        return numbers if side == "left" else numbers[::-1]

    def _enter(self, number: int, block: Block) -> None:
        met = self._nodes[number][other(block.side)]
        met.probe(block, met.head, met.tail)
        end = inserted(self._nodes[number][block.side], block)[1]
        self._blocks[number][block.side].append((block, end))
        self.moves += 1

    def _leave(self, number: int, side: Side) -> Block:
        block, end = self._blocks[number][side].popleft()
        self._nodes[number][side].drop(end)
        return block
