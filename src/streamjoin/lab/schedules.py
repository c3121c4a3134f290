"""A deterministic simulator: it carries the nodes' messages, and somebody else decides which one arrives next.

Channels keep the order of what was sent through them; beyond that, every interleaving is possible. A schedule is the
list of choices, so that each run can be repeated (`chosen_by` with the same seed, or the same list).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..side import Side
from ..topology.node import Block, Message, Node, Port

Choose = Callable[[int], int]
"""Which of so many waiting channels delivers its next message."""


class Simulation:
    """Nodes in a row, each connected with its neighbours and with the driver."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._channels: dict[tuple[int, Port], deque[Message]] = {}
        self.delivered = 0

    def send(self, node: int, port: Port, message: Message) -> None:
        """Put a message into a node's channel; what leaves the row at its ends is gone."""
        if 0 <= node < len(self.nodes):
            self._channels.setdefault((node, port), deque()).append(message)

    def run(self, choose: Choose) -> None:
        """Deliver messages until there are none."""
        while waiting := [channel for channel, messages in self._channels.items() if messages]:
            node, port = waiting[choose(len(waiting)) if len(waiting) > 1 else 0]
            message = self._channels[node, port].popleft()
            self.delivered += 1
            self.nodes[node].receive(port, message, self._sender(node))

    def _sender(self, node: int) -> Callable[[Port, Message], None]:
        def send(to: Port, message: Message) -> None:
            if to == "left":
                self.send(node - 1, "right", message)
            else:
                self.send(node + 1, "left", message)

        return send


def chosen_by(seed: int) -> Choose:
    """Random choices that a seed repeats. Channels differ in speed, so that some messages are overtaken by many."""
    rng = random.Random(seed)
    lazy = rng.random() < 0.5

    def choose(count: int) -> int:
        return min(rng.randrange(count), rng.randrange(count)) if lazy else rng.randrange(count)

    return choose


def all_schedules(most: int | None = None) -> Iterator[Choose]:
    """Every schedule of a run, one after another: use each for a run from the beginning. Stops after `most`."""
    script: list[int] = []
    widths: list[int] = []
    tried = 0
    while most is None or tried < most:
        tried += 1
        widths.clear()

        def choose(count: int) -> int:
            place = len(widths)
            widths.append(count)
            if place == len(script):
                script.append(0)
            return script[place]

        yield choose
        del script[len(widths) :]
        while script and script[-1] == widths[len(script) - 1] - 1:
            script.pop()
        if not script:
            return
        script[-1] += 1


class Numbers(list[int]):
    """A block's tuples in a simulation; each is its own coordinate."""

    def every(self, start: int, step: int) -> Numbers:
        return Numbers(self[start::step])


class PlainWindow:
    """A `LocalWindow` in plain Python: blocks are lists of numbers, which are their coordinates too; every pair that is
    compared is counted."""

    def __init__(self, side: Side, compared: dict[tuple[int, int], int]) -> None:
        self._side, self._compared = side, compared
        self._tuples: deque[int] = deque()
        self.head = self.tail = 0

    def insert(self, block: Block) -> None:
        self._tuples.extend(block.batch)
        self.tail += len(block)

    def probe(self, block: Block, start: int, stop: int) -> None:
        stored: list[Any] = list(self._tuples)[max(start - self.head, 0) : max(stop - self.head, 0)]
        for own in stored:
            for asking in block.batch:
                pair = (own, asking) if self._side == "left" else (asking, own)
                self._compared[pair] = self._compared.get(pair, 0) + 1

    def drop(self, head: int) -> None:
        while self.head < head:
            self._tuples.popleft()
            self.head += 1

    def below(self, head: int, floor: int) -> int:
        for place, coordinate in enumerate(self._tuples, self.head):
            if coordinate >= floor:
                break
            head = max(head, place + 1)
        return head
