"""Cuts the merge of main array and batch into pieces of equal length, one per merger.

The first `d` tuples of the merged array are the first tuples of the main array and the first tuples of the batch. Draw
the merge as a path that goes right for a tuple of the main array and down for a tuple of the batch. The path crosses
the diagonal `d` in one place, and a binary search finds it with two reads per step. (PanJoin balances the pieces,
section III-G3, and does not say how.)
"""

from __future__ import annotations

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .shape import BiSortShape, signals


class Splitter(wiring.Component):
    """Finds how many of the first `diagonal` merged tuples come from the main array.

    Invariant: that number lies in low .. high. The tuple at `middle` of the main array is among them if it does not
    come after its counterpart on the diagonal, tuple diagonal - 1 - middle of the batch.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "diagonal": In(shape.place),
            "size": In(shape.place),
            "count": In(shape.place),
            "ask_a": Out(stream.Signature(shape.place)),
            "ask_b": Out(stream.Signature(shape.place)),
            "a": In(stream.Signature(shape.word)),
            "b": In(stream.Signature(shape.word)),
            "low": Out(shape.place),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        low, (high, middle) = self.low, signals(shape.place, "high", "middle")
        waiting = Signal(2)
        m.d.comb += [
            middle.eq((low + high) >> 1),
            self.ask_a.payload.eq(middle),
            self.ask_b.payload.eq(self.diagonal - 1 - middle),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += waiting.eq(0)
                with m.If(self.go):
                    m.d.sync += [
                        low.eq(Mux(self.diagonal > self.count, self.diagonal - self.count, 0)),
                        high.eq(Mux(self.diagonal < self.size, self.diagonal, self.size)),
                    ]
                    m.next = "ASK"
            with m.State("ASK"):
                with m.If(low == high):
                    m.next = "IDLE"
                with m.Else():
                    asked = Signal(2)
                    for i, ask in enumerate((self.ask_a, self.ask_b)):
                        m.d.comb += [ask.valid.eq(~waiting[i]), asked[i].eq(waiting[i] | ask.ready)]
                    m.d.sync += waiting.eq(asked)
                    with m.If(asked.all()):
                        m.next = "COMPARE"
            with m.State("COMPARE"), m.If(self.a.valid & self.b.valid):
                m.d.comb += [self.a.ready.eq(1), self.b.ready.eq(1)]
                with m.If(self.a.p.key <= self.b.p.key):
                    m.d.sync += low.eq(middle + 1)
                with m.Else():
                    m.d.sync += high.eq(middle)
                m.d.sync += waiting.eq(0)
                m.next = "ASK"
        return m
