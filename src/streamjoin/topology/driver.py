"""Joins made of nodes: the driver that cuts batches into blocks, feeds them in, and gathers the pairs.

What the papers leave to "the driver" (handshake join, section 4.4; low-latency handshake join, section 4.2.4): it knows
the windows, decides on homes, and says what has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from ..parallel.ports import Port
from ..parallel.threads import Threads
from ..side import SIDES, Side, other
from ..store import Batch
from ..tasks import do_all
from .node import Block, Kind, LocalWindow, Message, Node, Visited
from .node_window import Ledger, StoredWindow
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting, Unmet

WAVE = 128
"""Blocks that are on their way at once."""
SMALLEST_BLOCK, LARGEST_BLOCK, PER_NODE = 64, 1 << 13, 2
"""A batch is cut into a few blocks for each node, so that homes and segments are even. Small blocks cost messages and
gain nothing: all nodes but handshake join's have a block at once, because a node hands it on before it compares."""
SMALL = 1 << 20
"""Comparisons that take less time than waking the nodes' threads: the driver then runs the nodes itself."""
VISITS = 8
"""After so many visits of blocks the driver says what has expired. Saying it less often costs a few comparisons with
expired tuples, which is cheaper."""
CHAIN: tuple[Port, ...] = ("left", "right")
STAR: tuple[Port, ...] = ("driver",)


def block_size(tuples: int, workers: int) -> int:
    return min(max(-(-tuples // (PER_NODE * workers)), SMALLEST_BLOCK), LARGEST_BLOCK)


class NodeTopology:
    """A base of topologies whose nodes run on one thread each. A subclass adds `name`, `ports` and `_node`.

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
        self._make_window, self._decide = setting.make_window, setting.decide
        self._ledger = Ledger()
        self._threads = Threads(self._workers, self.ports)
        self._stored: list[dict[Side, StoredWindow]] = [
            {side: self._local(number, side) for side in SIDES} for number in range(self._workers)
        ]
        self._all_windows = [window for windows in self._stored for window in windows.values()]
        self._next: dict[Side, tuple[int, int]] = dict.fromkeys(SIDES, (0, 0))
        self._floor: dict[Side, int] = {}
        self._visited = 0
        self._nodes = [self._node(number) for number in range(self._workers)]
        self._visits = [node for node in self._nodes if isinstance(node, Visited)]
        self._threads.drive(self._nodes)

    def _node(self, number: int) -> Node:
        raise NotImplementedError

    def _local(self, number: int, side: Side, index: str = "") -> StoredWindow:
        report = partial(self._threads.report, number)
        window = self._make_window(side, index)
        return StoredWindow(window, side, self._ledger, self._decide, report, self._threads.checkpoint)

    def _windows(self, number: int) -> dict[Side, LocalWindow]:
        return dict(self._stored[number])

    # -- what a topology does --------------------------------------------------------------------------------------

    @property
    def comparisons(self) -> int:
        return sum(window.comparisons for window in self._all_windows)

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        do_all(chores)
        comparisons = sum(len(batch) * self.occupancy(other(side)) for side, batch in batches.items())
        if len(batches) == len(SIDES):
            comparisons += len(batches["left"]) * len(batches["right"])
        self._threads.alone = comparisons <= SMALL
        self._visited = self._visited + 1 if self._threads.alone and self._visits else 0
        telling = self._visited % VISITS == 0
        for side in self._floor if telling else ():
            self._ledger.forget(side, self.first_row(side))
        for side, batch in batches.items():
            self._ledger.add(side, batch)
        if telling:  # from here on nodes may work, and they read the ledger
            self._feed_expiries()
        blocks = self._blocks(batches)
        if self._visited:
            yield from self._run()
            for number, node in enumerate(self._visits):
                with self._threads.at_work(number):
                    for block in blocks:
                        node.meet(block)
            yield from self._run()
            return
        for start in range(0, max(len(blocks), 1), WAVE):
            for block in blocks[start : start + WAVE]:
                self._feed(block.side, Message(Kind.ARRIVAL, block))
            yield from self._run()

    def _run(self) -> Iterator[Pairs]:
        for left, right in self._threads.run():
            yield [left], [right]

    def _blocks(self, batches: Mapping[Side, Batch]) -> list[Block]:
        """Both sides cut into blocks, in the order of the stream as far as blocks allow."""
        blocks: list[Block] = []
        for side, batch in batches.items():
            parts = batch.parts_of(block_size(len(batch), self._workers))
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
                self._threads.feed(node, "driver", message)
        elif side == "left":
            self._threads.feed(0, "left", message)
        else:
            self._threads.feed(self._workers - 1, "right", message)

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
                "busy_s": self._threads.busy[number],
                "comparisons": sum(window.comparisons for window in windows.values()),
                **{f"{side}_window": windows[side].at_least(floors.get(side)) for side in SIDES},
                "bytes": sum(window.window.nbytes for window in windows.values()),
            }
            for number, windows in enumerate(self._stored)
        ]

    def close(self) -> None:
        self._threads.close()
        self._threads.drive([])
        for window in self._all_windows:
            window.clear()
