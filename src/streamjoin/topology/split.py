"""SplitJoin (as PanJoin, section II, describes it): storing and probing are split, and no node talks to another.

Every node gets every block and compares it with its share of the other window; of the block's tuples, each node stores
every n-th one, in turn. All nodes take the blocks in the same order, so a pair is compared once: by the node that
stores the tuple of the earlier block, when the later block comes.
"""

from __future__ import annotations

from typing import ClassVar

from ..side import Side, other
from .driver import STAR, NodeTopology
from .node import Block, Kind, LocalWindow, Message, Node, Port, Send


class SplitNode:
    """Node `number` of so many."""

    def __init__(self, number: int, nodes: int, windows: dict[Side, LocalWindow]) -> None:
        self._number, self._nodes = number, nodes
        self.windows = windows

    def receive(self, port: Port, message: Message, send: Send) -> None:
        if message.kind is Kind.EXPIRY:
            assert message.side is not None
            window = self.windows[message.side]
            window.drop(window.below(window.head, message.floor))
            return
        assert message.block is not None
        self.meet(message.block)

    def meet(self, block: Block) -> None:
        """Compare a block with what is stored here, and store what is this node's of it."""
        window = self.windows[other(block.side)]
        window.probe(block, window.head, window.tail)
        own = block.share(self._number, self._nodes)
        if len(own):
            self.windows[block.side].insert(own)


class SplitJoin(NodeTopology):
    """Nodes that all hear the driver and nobody else."""

    name: ClassVar[str] = "splitjoin"
    ports: ClassVar[tuple[Port, ...]] = STAR

    def _node(self, number: int) -> Node:
        return SplitNode(number, self._workers, self._windows(number))
