"""The circular queue in which a join core or a merger keeps its results (FPGA paper, section IV-A).

Invariant: `full` rises while at least `slack` places are left, so that results that are already on their way when the
flag is seen still find a place. `overflow` rises, and stays, if one ever does not: it never may.

The paper's queues are block RAM. These are a few results deep and are read in the clock in which they are asked, so
they lie in LUTs that serve as RAM, which counts against us where LUTs are compared.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out


class ResultFifo(wiring.Component):
    """A queue with the paper's two flags. What comes first is seen at the output without being asked for."""

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
