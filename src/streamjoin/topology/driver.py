"""Joins made of nodes: the driver that cuts batches into blocks, feeds them in, and gathers the pairs.

What the papers leave to "the driver" (handshake join, section 4.4; low-latency handshake join, section 4.2.4): it knows
the windows, decides on homes, and says what has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from ..arrays import Mask, Rows
from ..side import SIDES, Side, other
from ..store import Batch
from ..tasks import do_all, together
from .carrier import Carrier
from .ledger import Ledger
from .node import Block, Kind, LocalWindow, Message, Node, Port, Visited
from .node_window import StoredWindow
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting, Unmet
from .rounds import Rounds

SMALLEST_BLOCK, LARGEST_BLOCK, PER_STEP = 64, 1 << 13, 2
"""In a chain, a batch is cut into a few blocks, so that homes and segments are even. Small blocks cost messages and
gain nothing."""
LARGEST_OF_STAR = 1 << 15
"""In a star, every node stores its share of each block, so blocks are as large as may be compared at once."""
SMALL = 1 << 20
"""Comparisons of a step that is not worth messages, if blocks can visit the nodes."""
VISITS = 8
"""After so many visits of blocks the driver says what has expired. Saying it less often costs a few comparisons with
expired tuples, which is cheaper."""
CHAIN: tuple[Port, ...] = ("left", "right")
STAR: tuple[Port, ...] = ("driver",)


def block_size(tuples: int, ports: tuple[Port, ...]) -> int:
    """How many of a batch's tuples travel together."""
    if ports == STAR:
        return LARGEST_OF_STAR
    return min(max(-(-tuples // PER_STEP), SMALLEST_BLOCK), LARGEST_BLOCK)


class NodeTopology:
    """A base of topologies that are made of nodes. A subclass adds `name`, `ports` and `_node`.

    The protocols of its nodes bring any two tuples together once.
    """

    one_core: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    finds_late: ClassVar[bool] = False
    meets_once: ClassVar[bool] = True
    ports: ClassVar[tuple[Port, ...]]
    """Where nodes get messages from: `CHAIN` or `STAR`."""

    def __init__(self, setting: Setting) -> None:
        self._workers = setting.workers
        self._make_window, self._decide, self._crew = setting.make_window, setting.decide, setting.crew
        self._ledger = Ledger()
        self._rounds = Rounds(setting.crew, self._match, self._workers)
        self._stored: list[dict[Side, StoredWindow]] = [
            {side: self._local(number, side) for side in SIDES} for number in range(self._workers)
        ]
        self._all_windows = [window for windows in self._stored for window in windows.values()]
        self._next: dict[Side, tuple[int, int]] = dict.fromkeys(SIDES, (0, 0))
        self._floor: dict[Side, int] = {}
        self._visited = 0
        self._nodes = [self._node(number) for number in range(self._workers)]
        self._can_visit = all(isinstance(node, Visited) for node in self._nodes)
        self._carrier = Carrier(self._nodes)

    def _node(self, number: int) -> Node:
        raise NotImplementedError

    def _local(self, number: int, side: Side, index: str = "") -> StoredWindow:
        return StoredWindow(self._make_window(side, index), side, number, self._ledger, self._rounds.waiting)

    def _windows(self, number: int) -> dict[Side, LocalWindow]:
        return dict(self._stored[number])

    def _match(self, left: Rows, right: Rows) -> Mask | None:
        """Which of the pairs that were found are in the window, and match."""
        keep = self._ledger.within(left, right)
        if keep is None:
            return self._decide(left, right)
        places = np.flatnonzero(keep)
        decided = self._decide(left[places], right[places]) if len(places) else None
        if decided is not None:
            keep[places] = decided
        return keep

    # -- what a topology does --------------------------------------------------------------------------------------

    @property
    def comparisons(self) -> int:
        return sum(window.comparisons for window in self._all_windows)

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        comparisons = sum(len(batch) * self.occupancy(other(side)) for side, batch in batches.items())
        if len(batches) == len(SIDES):
            comparisons += len(batches["left"]) * len(batches["right"])
        is_small = comparisons <= SMALL
        if is_small:
            do_all(chores)
        else:
            together([chore() for chore in chores], self._crew.run)
        self._visited = self._visited + 1 if is_small and self._can_visit else 0
        if self._visited % VISITS == 0:
            for side in self._floor:
                self._ledger.forget(side, self.first_row(side))
            self._feed_expiries()
        for side, batch in batches.items():
            self._ledger.add(side, batch)
        yield from self._delivered()
        blocks = self._blocks(batches)
        if self._visited:
            self._carrier.visit(blocks)
        else:
            for block in blocks:
                self._feed(block.side, Message(Kind.ARRIVAL, block))
                yield from self._delivered()  # whatever it sets in motion, before the next block comes
        yield from self._rounds.run()

    def _delivered(self) -> Iterator[Pairs]:
        """Deliver all messages, with rounds in between where too much waits for one."""
        while self._carrier.deliver(self._rounds.is_due):
            yield from self._rounds.run()

    def _blocks(self, batches: Mapping[Side, Batch]) -> list[Block]:
        """Both sides cut into blocks, in the order of the stream as far as blocks allow."""
        blocks: list[Block] = []
        for side, batch in batches.items():
            parts = batch.parts_of(block_size(len(batch), self.ports))
            blocks += [self._new_block(side, part) for part in parts if len(part)]
        return sorted(blocks, key=lambda block: int(block.batch.coordinate[-1]) + int(block.batch.high[-1]))

    def _new_block(self, side: Side, batch: Batch) -> Block:
        number, first = self._next[side]
        self._next[side] = number + 1, first + len(batch)
        return Block(side, number, first, batch, number % self._workers)

    def _feed(self, side: Side, message: Message) -> None:
        """Send a message in where tuples of this side enter: R at the left, S at the right; or to everybody."""
        if self.ports == STAR:
            for node in range(self._workers):
                self._carrier.feed(node, "driver", message)
        elif side == "left":
            self._carrier.feed(0, "left", message)
        else:
            self._carrier.feed(self._workers - 1, "right", message)

    def _feed_expiries(self) -> None:
        """Expiries of a side enter where the other side's tuples do: they come after all that may meet them."""
        for side, floor in self._floor.items():
            self._feed("right" if side == "left" else "left", Message(Kind.EXPIRY, side=side, floor=floor))
        self._floor = {}

    def finish(self) -> Iterator[Pairs]:
        yield from ()

    def unmet(self) -> list[Unmet]:
        return []

    def expire(self, side: Side, floor: int) -> None:
        """The nodes hear of it with the next tuples, or a few steps later."""
        self._floor[side] = floor

    def occupancy(self, side: Side, floor: int | None = None) -> int:
        return sum(windows[side].at_least(floor) for windows in self._stored)

    def first_row(self, side: Side) -> int | None:
        rows = [windows[side].window.first_row for windows in self._stored]
        return min((row for row in rows if row is not None), default=None)

    def indexes(self) -> dict[Side, dict[str, Any]]:
        return {side: self._stored[0][side].window.figures() for side in SIDES}

    def workers(self, floors: Floors = NO_FLOORS) -> list[dict[str, Any]]:
        return [
            {
                "worker": number,
                "busy_s": self._carrier.busy[number] + self._rounds.busy[number],
                "comparisons": sum(window.comparisons for window in windows.values()),
                **{f"{side}_window": windows[side].at_least(floors.get(side)) for side in SIDES},
                "bytes": sum(window.window.nbytes for window in windows.values()),
            }
            for number, windows in enumerate(self._stored)
        ]

    def close(self) -> None:
        """Let the tuples go. There are no threads but the crew's, which belongs to the engine."""
        self._rounds.release()
        for window in self._all_windows:
            window.clear()
