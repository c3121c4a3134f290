"""The circular queue in which a join core or a merger keeps its results (FPGA paper, section IV-A).

Invariant: `full` rises while at least `slack` places are left, so results that are already on their way still find a
place. `overflow` rises, and stays up, if a result finds none; that must never happen.

The paper's queues are block RAM. These queues hold a few results and answer in the same clock, so they are built from
LUTs that serve as RAM. This makes our LUT counts higher than the paper's.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out


class ResultFifo(wiring.Component):
    """A queue with the paper's two flags. The output shows the first result before it is taken."""

    def __init__(self, shape: Any, depth: int, slack: int) -> None:
        assert depth > slack, "a queue that is always full takes nothing"
        self._depth, self._slack = depth, slack
        super().__init__({
            "input": In(stream.Signature(shape)),
            "output": Out(stream.Signature(shape)),
            "full": Out(1),
            "empty": Out(1),
            "overflow": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = len(Cat(self.input.payload))
        m.submodules.queue = queue = fifo.SyncFIFO(width=width, depth=self._depth)
        m.d.comb += [
            queue.w_data.eq(self.input.payload),
            queue.w_en.eq(self.input.valid),
            self.input.ready.eq(queue.w_rdy),
            Cat(self.output.payload).eq(queue.r_data),
            self.output.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.output.ready),
            self.full.eq(queue.level >= self._depth - self._slack),
            self.empty.eq(queue.level == 0),
        ]
        with m.If(self.input.valid & ~self.input.ready):
            m.d.sync += self.overflow.eq(1)
        return m
