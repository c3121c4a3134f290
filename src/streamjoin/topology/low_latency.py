"""Low-latency handshake join (Roy, Teubner, Gemulla: sections 4 and 6, Figures 12 to 14, Table 1).

R (the left stream) travels from the leftmost node to the rightmost, S (the right stream) the other way; nobody waits
in line. Each block rests at its *home*, and rushes on to the end of the chain. Before the home it is *fresh*, behind
it *stored*: a copy exists. Table 1 says who compares r and s, so that each pair is compared exactly once:

    r fresh, s fresh      they meet on the way: s waits in IWS at the node it left until the next one has it
    r fresh, s stored     r finds the copy of s at its home, which lies ahead of r
    r stored, s fresh     they meet on the way; at r's home, s passes over r, which is still on its expedition
    r stored, s stored    r finds the copy of s; s passes over r
    s entered when r was already there, or r when s was: whoever comes later finds the copy

So r looks at all of W_S and IWS, and s looks only at those of W_R whose expedition has *ended*: the copies which s
cannot have met on the way. (The printed Figure 14 says "non-expedited" for these and marks stored ones "as expedited";
with "expedited" read as "on expedition", it agrees with Table 1.) Only fresh blocks of S need to wait in IWS.

When r reaches the right end, an *expedition end* joins the flow of S there. It must separate what the rightmost node
has taken of S from what it has not; Figure 13 (line 12) puts it into that node's receive queue, where S tuples may
already wait that have not met r and then pass over it at its home. So here the rightmost node takes it at once.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from ..side import Side, other
from ..store import ScanIndex
from .driver import CHAIN, NodeTopology
from .node import Block, Kind, LocalWindow, Message, Node, Port, Send, inserted


class LowLatencyNode:
    """Node `number` of a chain of `nodes` (core k of Figure 12).

    Invariant: places [head, ended) of W_R hold blocks whose expedition has ended, [ended, tail) those still on it.
    `lacking` names a mechanism to leave out ("flag", "waiting", "stored/fresh"): tests show what then goes wrong.
    """

    def __init__(
        self, number: int, nodes: int, windows: dict[Side, LocalWindow], in_flight: LocalWindow, lacking: str = ""
    ) -> None:
        self._number, self._last = number, nodes - 1
        self.windows = windows
        self._in_flight = in_flight  # IWS: blocks of S that the next node may not have yet
        self._waiting: deque[tuple[int, int]] = deque()  # their numbers, and where each ends in IWS
        self._ended = 0
        self._lacking = lacking

    def receive(self, port: Port, message: Message, send: Send) -> None:
        if message.kind is Kind.EXPIRY:
            self._expire(message, send)
        elif port == "left":
            self._from_left(message, send)
        else:
            self._from_right(message, send)

    def meet(self, block: Block) -> None:
        """The same for a block that visits all nodes, one after another, while nothing is on its way: it finds all
        copies at their homes, and its expedition has ended when it is stored."""
        stored = self.windows[other(block.side)]
        stored.probe(block, stored.head, stored.tail)
        if self._number == block.home:
            self.windows[block.side].insert(block)
            if block.side == "left":
                self._ended += len(block)

    def _from_left(self, message: Message, send: Send) -> None:
        """Figure 13."""
        block = message.block
        assert block is not None
        if message.kind is Kind.ACKNOWLEDGEMENT:
            if self._waiting and self._waiting[0][0] == block.number:
                self._in_flight.drop(self._waiting.popleft()[1])
            return
        if self._number < self._last:
            send("right", message)
        stored = self.windows["right"]
        stored.probe(block, stored.head, stored.tail)
        if self._lacking != "stored/fresh" or self._number <= block.home:
            self._in_flight.probe(block, self._in_flight.head, self._in_flight.tail)
        if self._number == block.home:
            self.windows["left"].insert(block)
        if self._number == self._last:
            self._end_expedition(Message(Kind.EXPEDITION_END, block), send)

    def _from_right(self, message: Message, send: Send) -> None:
        """Figure 14."""
        block = message.block
        assert block is not None
        if message.kind is Kind.EXPEDITION_END:
            self._end_expedition(message, send)
            return
        if self._number > 0:
            send("left", message)
        stored = self.windows["left"]
        stored.probe(block, stored.head, stored.tail if self._lacking == "flag" else self._ended)
        if self._number > block.home and self._lacking != "waiting":
            self._waiting.append((block.number, inserted(self._in_flight, block)[1]))
        if self._number == block.home:
            self.windows["right"].insert(block)
        if self._number < self._last:
            send("right", Message(Kind.ACKNOWLEDGEMENT, block))

    def _end_expedition(self, message: Message, send: Send) -> None:
        block: Block | None = message.block
        assert block is not None
        if block.home == self._number:  # blocks end their expeditions in the order in which they were stored
            self._ended += len(block)
        else:
            send("left", message)

    def _expire(self, message: Message, send: Send) -> None:
        """Expiries of S come from the left, those of R from the right (section 4.2.4)."""
        assert message.side is not None
        window = self.windows[message.side]
        end = self._ended if message.side == "left" else window.tail
        window.drop(min(window.below(window.head, message.floor), end))
        if message.side == "right" and self._number < self._last:
            send("right", message)
        if message.side == "left" and self._number > 0:
            send("left", message)


class LowLatencyHandshakeJoin(NodeTopology):
    """Nodes in a chain, each with a third window for blocks of S on their way (IWS)."""

    name: ClassVar[str] = "low-latency-handshake"
    ports: ClassVar[tuple[Port, ...]] = CHAIN

    def _node(self, number: int) -> Node:
        in_flight = self._local(number, "right", ScanIndex.name)
        self._all_windows.append(in_flight)
        return LowLatencyNode(number, self._workers, self._windows(number), in_flight)
