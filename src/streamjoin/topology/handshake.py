"""Handshake join (Teubner and Mueller, sections 3 and 4, Figures 9 and 13).

Both windows lie side by side along a chain of nodes. R (the left stream) enters at the left and moves to the right, S
enters at the right and moves to the left; a pair is compared where the two meet (*immediate scan*, section 3.5). A
block moves on when its node has more than the next one (`forward_tuples`: *autonomic load balancing*, section 4.3), so
a pair may have to wait for half a window before it is found (low-latency handshake join, section 3.1).

*Two-phase forwarding* (section 4.2): a block of S that was sent on stays at its node until the next one acknowledges
it, so that it meets the blocks of R that are on their way in the opposite direction. R leaves at once: one of the two
must. Every pair is thus compared at exactly one node.

The driver says what has expired, and it is taken out at the far ends (section 4.4), where it has met everything. When
the streams have ended, it lets everything flow through (`Board.draining`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar

import numpy as np

from ..arrays import INT64_MIN
from ..side import SIDES, Side
from ..store import Batch
from .driver import CHAIN, NodeTopology
from .node import Block, Kind, LocalWindow, Message, Node, Port, Send, inserted
from .protocol import Pairs, Setting, Unmet


class Board:
    """How many tuples each node has, those on their way to it included: what neighbours look at when they decide to
    send some on. Each number is written by one node only, and may be out of date without harm.

    `passed` counts the tuples of a side that have entered the chain, and then those that have left its first node,
    its second, and so on, in the side's own direction.
    """

    def __init__(self, nodes: int) -> None:
        self.passed: dict[Side, list[int]] = {side: [0] * (nodes + 1) for side in SIDES}
        self.draining = False

    def size(self, side: Side, place: int) -> int:
        return self.passed[side][place] - self.passed[side][place + 1]


class HandshakeNode:
    """Node `number` of a chain of `nodes`. `two_phase=False` forgets blocks of S when they are sent on: tests show
    what then goes wrong."""

    def __init__(
        self, number: int, nodes: int, windows: dict[Side, LocalWindow], board: Board, two_phase: bool = True
    ) -> None:
        self._number, self._last = number, nodes - 1
        self._place: dict[Side, int] = {"left": number, "right": self._last - number}
        """How many nodes a side's blocks have passed before they come here."""
        self.windows = windows
        self._board = board
        self._two_phase = two_phase
        self._blocks: dict[Side, deque[tuple[Block, int]]] = {side: deque() for side in SIDES}
        """Blocks that were not sent on, oldest first, and where each ends in its window."""
        self._earliest: dict[Side, deque[Block]] = {side: deque() for side in SIDES}
        """Those of them that begin before all younger ones."""
        self._floor: dict[Side, int] = dict.fromkeys(SIDES, INT64_MIN)
        """No tuple to come meets one of a side below this coordinate."""
        self._forwarded: deque[tuple[Block, int]] = deque()
        """Blocks of S that were sent on and not acknowledged."""

    def receive(self, port: Port, message: Message, send: Send) -> None:
        block = message.block
        if message.kind is Kind.ARRIVAL:
            assert block is not None
            self._meet(block)
            if block.side == "right" and self._number < self._last and self._two_phase:
                send("right", Message(Kind.ACKNOWLEDGEMENT, block))
        elif message.kind is Kind.ACKNOWLEDGEMENT:
            self.windows["right"].drop(self._forwarded.popleft()[1])
        elif message.kind is Kind.EXPIRY:
            assert message.side is not None
            self._floor[message.side] = max(self._floor[message.side], message.floor)
            send("left" if port == "right" else "right", message)
        elif message.kind is Kind.TICK and self._number < self._last:
            send("right", message)
        self._forward(send)
        self._take_out()

    def _meet(self, block: Block) -> None:
        """Figure 9, lines 11 to 13 and 19 to 21."""
        window = self.windows["right" if block.side == "left" else "left"]
        window.probe(block, window.head, window.tail)
        own = self.windows[block.side]
        self._blocks[block.side].append((block, inserted(own, block)[1]))
        earliest = self._earliest[block.side]
        while earliest and earliest[-1].earliest >= block.earliest:
            earliest.pop()
        earliest.append(block)
        if self._place[block.side] == 0:
            self._board.passed[block.side][0] += len(block)

    def _pop(self, side: Side) -> tuple[Block, int]:
        """Take the oldest block, and where it ends."""
        block, end = self._blocks[side].popleft()
        if self._earliest[side][0] is block:
            self._earliest[side].popleft()
        self._board.passed[side][self._place[side] + 1] += len(block)
        return block, end

    def _forward(self, send: Send) -> None:
        """Figure 9, lines 23 to 29: send the oldest block on where the neighbour has fewer tuples.

        Expired blocks go on in any case: else they would hold up those behind them until as many tuples follow. While
        draining, everything goes on.
        """
        for side, to in _DIRECTIONS:
            blocks, place = self._blocks[side], self._place[side]
            if place == self._last:
                continue
            if blocks and self._board.size(side, place) > self._board.size(side, place + 1):
                self._send_on(side, to, send)
            expired = self._expired(side)
            while blocks and (self._board.draining or blocks[0][1] <= expired):
                self._send_on(side, to, send)

    def _send_on(self, side: Side, to: Port, send: Send) -> None:
        block, end = self._pop(side)
        send(to, Message(Kind.ARRIVAL, block))
        if side == "right" and self._two_phase:
            self._forwarded.append((block, end))
        else:
            self.windows[side].drop(end)

    def _expired(self, side: Side) -> int:
        """Below this place there are only expired tuples."""
        window = self.windows[side]
        return window.below(window.head, self._floor[side])

    def _take_out(self) -> None:
        """Remove expired blocks at the end that a side flows to: R's on the rightmost node, S's on the leftmost
        (Figures 12 and 13). There they have met everything."""
        for side in SIDES:
            if self._place[side] == self._last:
                blocks, expired = self._blocks[side], self._expired(side)
                while blocks and blocks[0][1] <= expired:
                    self.windows[side].drop(self._pop(side)[1])

    def earliest(self, side: Side) -> tuple[int, int] | None:
        """Coordinate and row of the earliest tuple of a side that is here and was not sent on."""
        return self._earliest[side][0].earliest if self._earliest[side] else None


class HandshakeJoin(NodeTopology):
    """Nodes in a chain. A pair is found when its tuples meet, which may be much later than both are there."""

    name: ClassVar[str] = "handshake"
    finds_late: ClassVar[bool] = True
    ports: ClassVar[tuple[Port, ...]] = CHAIN

    def __init__(self, setting: Setting) -> None:
        self._board = Board(setting.workers)
        self._chain: list[HandshakeNode] = []
        super().__init__(setting)

    def _node(self, number: int) -> Node:
        self._chain.append(HandshakeNode(number, self._workers, self._windows(number), self._board))
        return self._chain[-1]

    def _new_block(self, side: Side, batch: Batch) -> Block:
        block = super()._new_block(side, batch)
        place = int(np.argmin(batch.coordinate))
        block.earliest = int(batch.coordinate[place]), int(batch.row[place])
        return block

    def unmet(self) -> list[Unmet]:
        """A tuple of R has met all of S but those further right, a tuple of S all of R but those further left. So
        there is one bound for each border between two nodes that has some of R to its left and some of S to its
        right."""
        of_left = accumulate((node.earliest("left") for node in self._chain), _earlier)
        of_right = accumulate((node.earliest("right") for node in reversed(self._chain)), _earlier)
        borders = zip(list(of_left)[:-1], list(of_right)[-2::-1], strict=True)
        return [{"left": l, "right": r} for l, r in borders if l is not None and r is not None]

    def finish(self) -> Iterator[Pairs]:
        """Let everything flow through, so that all meet."""
        self._board.draining = True
        self._carrier.feed(0, "left", Message(Kind.TICK))
        yield from self._delivered()
        yield from self._rounds.run()


def _earlier(one: tuple[int, int] | None, another: tuple[int, int] | None) -> tuple[int, int] | None:
    return min((found for found in (one, another) if found is not None), default=None)


_DIRECTIONS: tuple[tuple[Side, Port], ...] = (("right", "left"), ("left", "right"))
