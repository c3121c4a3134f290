"""The carrier: hands nodes their messages, one after another, on the driver's thread.

Invariant: messages arrive in the order in which they were sent, whoever sent them. This is one of the schedules that
`lab.schedules` tries. What takes long, nodes leave to a round (`topology.rounds`), so a message takes microseconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from .node import Block, Message, Port, Receiver, Send


class Carrier:
    """Nodes in a row, each connected with its neighbours and with the driver."""

    def __init__(self, nodes: Sequence[Receiver]) -> None:
        self._nodes = nodes
        self._sends = [self._sender(number) for number in range(len(nodes))]
        self._on_their_way: deque[tuple[int, Port, Message]] = deque()
        self.busy = [0.0] * len(nodes)
        """Seconds that each node has taken for its messages."""

    def feed(self, node: int, port: Port, message: Message) -> None:
        """Send a node a message; what leaves the row at its ends is gone."""
        if 0 <= node < len(self._nodes):
            self._on_their_way.append((node, port, message))

    def visit(self, blocks: Sequence[Block]) -> None:
        """Blocks visit all nodes, while no message is on its way."""
        for number, node in enumerate(self._nodes):
            started = time.perf_counter()
            for block in blocks:
                node.meet(block)  # type: ignore[attr-defined]
            self.busy[number] += time.perf_counter() - started

    def deliver(self, is_due: Callable[[], bool]) -> bool:
        """Deliver messages until there are none, or something else is due; returns whether there are more."""
        on_their_way, nodes, sends, busy = self._on_their_way, self._nodes, self._sends, self.busy
        started = time.perf_counter()
        while on_their_way:
            number, port, message = on_their_way.popleft()
            nodes[number].receive(port, message, sends[number])
            ended = time.perf_counter()
            busy[number] += ended - started
            started = ended
            if is_due():
                return bool(on_their_way)
        return False

    def _sender(self, number: int) -> Send:
        feed = self.feed

        def send(to: Port, message: Message) -> None:
            if to == "left":
                feed(number - 1, "right", message)
            else:
                feed(number + 1, "left", message)

        return send
