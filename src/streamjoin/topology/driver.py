"""Joins made of nodes: the driver that cuts batches into blocks, feeds them in, and gathers the pairs.

What the papers leave to "the driver" (handshake join, section 4.4; low-latency handshake join, section 4.2.4): it knows
the windows, decides on homes, and says what has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..parallel.threads import Port, Threads
from ..side import SIDES, Side, other
from ..store import Batch, SideWindow
from ..store.batch import Decide
from . import Pairs, Unmet
from .handshake import Board, HandshakeNode
from .low_latency import LowLatencyNode
from .node import Block, Kind, LocalWindow, Message, Node, Visited
from .node_window import Ledger, StoredWindow
from .split import SplitNode

WAVE = 128
"""Blocks that are on their way at once."""
SMALLEST_BLOCK, LARGEST_BLOCK, PER_NODE = 64, 1 << 13, 2
"""A batch is cut into a few blocks for each node, so that homes and segments are even. Small ones only cost messages:
all nodes but handshake join's have a block at once, since it is handed on before it is looked at."""
CHAIN: tuple[Port, ...] = ("left", "right")
STAR: tuple[Port, ...] = ("driver",)

MakeWindow = Callable[[Side, str], SideWindow]
"""Opens a node's window of one side, with the user's index or a given one."""


def block_size(tuples: int, workers: int) -> int:
    return min(max(-(-tuples // (PER_NODE * workers)), SMALLEST_BLOCK), LARGEST_BLOCK)


SMALL = 1 << 20
"""Comparisons that take less time than waking the nodes' threads: the driver then runs the nodes itself."""


VISITS = 8
"""Visits of blocks between two tellings of what has expired: a few tuples are looked at in vain, which costs less."""


class OverNodes:
    """A topology whose nodes run on `workers` threads. Its protocols bring any two tuples together once."""

    meets_once = True

    def __init__(self, workers: int, ports: tuple[Port, ...], make_window: MakeWindow, decide: Decide) -> None:
        self._workers, self._ports = workers, ports
        self._make_window, self._decide = make_window, decide
        self._ledger = Ledger()
        self._threads = Threads(workers, ports)
        self._stored: list[dict[Side, StoredWindow]] = [
            {side: self._local(number, side) for side in SIDES} for number in range(workers)
        ]
        self._all_windows = [window for windows in self._stored for window in windows.values()]
        self._next: dict[Side, tuple[int, int]] = dict.fromkeys(SIDES, (0, 0))
        self._floor: dict[Side, int] = {}
        self._visited = 0
        self._nodes = [self._node(number) for number in range(workers)]
        self._visits = [node for node in self._nodes if isinstance(node, Visited)]
        self._threads.drive(self._nodes)

    def _node(self, number: int) -> Node:
        raise NotImplementedError

    def _local(self, number: int, side: Side, index: str = "") -> StoredWindow:
        def report(left: Any, right: Any) -> None:
            self._threads.report(number, left, right)

        return StoredWindow(self._make_window(side, index), side, self._ledger, self._decide, report)

    def _windows(self, number: int) -> dict[Side, LocalWindow]:
        return dict(self._stored[number])

    # -- what a topology does --------------------------------------------------------------------------------------

    @property
    def comparisons(self) -> int:
        return sum(window.comparisons for window in self._all_windows)

    def step(self, batches: Mapping[Side, Batch], chores: Sequence[Callable[[], None]] = ()) -> Iterator[Pairs]:
        for chore in chores:
            chore()
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
        if telling:  # from here on nodes may be at work, and read the ledger
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
        if self._ports == STAR:
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
        """Told to the nodes with the next tuples, or the next but a few."""
        self._floor[side] = floor

    def occupancy(self, side: Side) -> int:
        return sum(windows[side].count for windows in self._stored)

    def first_row(self, side: Side) -> int | None:
        rows = [windows[side].window.first_row for windows in self._stored]
        return min((row for row in rows if row is not None), default=None)

    def indexes(self) -> dict[Side, dict[str, Any]]:
        return {side: self._stored[0][side].window.figures() for side in SIDES}

    def workers(self) -> list[dict[str, Any]]:
        return [
            {
                "worker": number,
                "busy_s": self._threads.busy[number],
                "comparisons": sum(window.comparisons for window in windows.values()),
                **{f"{side}_window": windows[side].count for side in SIDES},
                "bytes": sum(window.window.nbytes for window in windows.values()),
            }
            for number, windows in enumerate(self._stored)
        ]

    def close(self) -> None:
        self._threads.close()


class LowLatencyHandshakeJoin(OverNodes):
    """Nodes of `low_latency` in a chain."""

    def __init__(self, workers: int, make_window: MakeWindow, decide: Decide) -> None:
        super().__init__(workers, CHAIN, make_window, decide)

    def _node(self, number: int) -> Node:
        in_flight = self._local(number, "right", "scan")
        self._all_windows.append(in_flight)
        return LowLatencyNode(number, self._workers, self._windows(number), in_flight)


class SplitJoin(OverNodes):
    """Nodes of `split`, each on its own."""

    def __init__(self, workers: int, make_window: MakeWindow, decide: Decide) -> None:
        super().__init__(workers, STAR, make_window, decide)

    def _node(self, number: int) -> Node:
        return SplitNode(number, self._workers, self._windows(number))


class HandshakeJoin(OverNodes):
    """Nodes of `handshake` in a chain. Pairs are found when they meet, which may be much later: see `unmet`."""

    def __init__(self, workers: int, make_window: MakeWindow, decide: Decide) -> None:
        self._board = Board(workers)
        self._chain: list[HandshakeNode] = []
        super().__init__(workers, CHAIN, make_window, decide)

    def _node(self, number: int) -> Node:
        self._chain.append(HandshakeNode(number, self._workers, self._windows(number), self._board))
        return self._chain[-1]

    def _new_block(self, side: Side, batch: Batch) -> Block:
        block = super()._new_block(side, batch)
        place = int(np.argmin(batch.coordinate))
        block.earliest = int(batch.coordinate[place]), int(batch.row[place])
        return block

    def unmet(self) -> list[Unmet]:
        """Tuples of R have met all of S but those further right, tuples of S all of R but those further left: one bound
        for each border between two nodes that still has some of R to its left and some of S to its right."""
        of_left = accumulate((node.earliest("left") for node in self._chain), _earlier)
        of_right = accumulate((node.earliest("right") for node in reversed(self._chain)), _earlier)
        borders = zip(list(of_left)[:-1], list(of_right)[-2::-1], strict=True)
        return [{"left": l, "right": r} for l, r in borders if l is not None and r is not None]

    def finish(self) -> Iterator[Pairs]:
        """Let everything flow through, so that all meet."""
        self._board.draining = True
        self._threads.alone = False
        self._threads.feed(0, "left", Message(Kind.TICK))
        yield from self._run()


def _earlier(one: tuple[int, int] | None, another: tuple[int, int] | None) -> tuple[int, int] | None:
    return min((found for found in (one, another) if found is not None), default=None)
