"""What the papers' parallel joins are made of: nodes that react to messages, and know nothing of what carries them.

A node is a step function: `receive` takes one message, says what its own windows are to compare and to store, and sends
messages. The same nodes run in the product (`topology.carrier`) and under a simulator that chooses every interleaving
(`lab.schedules`). Both guarantee one thing, and a node may rely on nothing else: messages from one node to another
arrive in the order in which they were sent, each once.

Law: every pair of tuples that can be in each other's windows is *compared* exactly once, somewhere. Whether it *is* in
the window is decided where it is found, from what the tuples say themselves. So a node may drop an expired tuple late;
it must only not drop one early.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal, Protocol, runtime_checkable

from ..side import Side

Port = Literal["left", "right", "driver"]
"""Where messages come from: the neighbour on one side (at the ends of a chain, the driver), or the driver."""


class Kind(Enum):
    """What a message says."""

    ARRIVAL = auto()
    ACKNOWLEDGEMENT = auto()
    EXPEDITION_END = auto()
    EXPIRY = auto()
    TICK = auto()


@dataclass(slots=True, eq=False)
class Block:
    """Some tuples of one side that travel together: the papers' tuple, many at a time. `number` counts a side's
    blocks, `first` its tuples; `home` is the node that stores the block, where it is stored as a whole."""

    side: Side
    number: int
    first: int
    batch: Any
    """A `Batch`; the simulator uses something simpler."""
    home: int = -1
    earliest: tuple[int, int] = (0, 0)
    """Coordinate and row of the earliest tuple; only handshake join sets it."""

    def __len__(self) -> int:
        return len(self.batch)

    def share(self, number: int, of: int) -> Block:
        """The tuples that are a node's where all nodes store in turn."""
        return Block(self.side, self.number, self.first, self.batch.every((number - self.first) % of, of))


@dataclass(slots=True, eq=False)
class Message:
    """An expiry says that no tuple to come meets one of a side below a coordinate."""

    kind: Kind
    block: Block | None = None
    side: Side | None = None
    floor: int = 0


Send = Callable[[Port, Message], None]
"""Hands a message on at once, before the node goes on with what it is doing."""


class LocalWindow(Protocol):
    """A node's window of one side: blocks in the order of insertion, each at places that count on.

    Places [head, tail) are there. What lies below `head` is gone.
    """

    head: int
    tail: int

    def insert(self, block: Block) -> None: ...

    def probe(self, block: Block, start: int, stop: int) -> None:
        """Report the pairs of a block of the other side with what lies at places [start, stop)."""

    def drop(self, head: int) -> None:
        """Let go of everything below a place."""

    def below(self, head: int, floor: int) -> int:
        """How far from `head` on nothing lies at or above a coordinate."""


class Receiver(Protocol):
    """Takes messages."""

    def receive(self, port: Port, message: Message, send: Send) -> None:
        """Take one message and do all it calls for."""


class Node(Receiver, Protocol):
    """One core's part of a join. `windows` are its own."""

    windows: dict[Side, LocalWindow]


@runtime_checkable
class Visited(Protocol):
    """A node that a block can visit, instead of coming as a message.

    While no message is on its way, a block may visit all nodes one after another. It then meets the same tuples as it
    would as a message, and leaves the nodes in the same state.
    """

    def meet(self, block: Block) -> None: ...


def inserted(window: LocalWindow, block: Block) -> tuple[int, int]:
    """Insert a block; the places it got."""
    start = window.tail
    window.insert(block)
    return start, window.tail
