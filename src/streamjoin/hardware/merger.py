"""Mergers and the network of them (FPGA paper, sections IV-B and IV-C).

Invariant: every result that a merger takes leaves it once. A merger whose `full` flag is up takes nothing (the second
rule of section IV-D), so its queue cannot overflow.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .design import MergerKind
from .fifo import ResultFifo


class _Merger(wiring.Component):
    def __init__(self, shape: Any, buffer: int) -> None:
        self._shape, self._buffer = shape, buffer
        super().__init__({
            "inputs": In(stream.Signature(shape)).array(2),
            "output": Out(stream.Signature(shape)),
            "full": Out(1),
            "busy": Out(1),
            "overflow": Out(1),
        })  # fmt: skip

    def _queue(self, m: Module, slack: int) -> ResultFifo:
        m.submodules.results = fifo = ResultFifo(self._shape, self._buffer, slack)
        wiring.connect(m, fifo.output, wiring.flipped(self.output))
        m.d.comb += [self.full.eq(fifo.full), self.overflow.eq(fifo.overflow)]
        return fifo


class Merger(_Merger):
    """Figure 6: STATE1 reads both inputs, STATE2 passes on the first, STATE3 the second. Two results take three
    clocks."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fifo = self._queue(m, slack=1)
        held = [Signal(self._shape, name=f"held{i}") for i in range(2)]
        valid = Signal(2)
        with m.FSM():
            with m.State("STATE1"), m.If(~self.full):
                for i, port in enumerate(self.inputs):
                    m.d.comb += port.ready.eq(1)
                    m.d.sync += [held[i].eq(port.payload), valid[i].eq(port.valid)]
                m.next = "STATE2"
            for i, (state, after) in enumerate((("STATE2", "STATE3"), ("STATE3", "STATE1"))):
                with m.State(state):
                    m.d.comb += [fifo.input.payload.eq(held[i]), fifo.input.valid.eq(valid[i])]
                    m.d.sync += valid[i].eq(0)
                    m.next = after
        m.d.comb += self.busy.eq(valid.any() | ~fifo.empty)
        return m


class FullRateMerger(_Merger):
    """One result per clock, from the input that has one; if both have one, they take turns."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fifo = self._queue(m, slack=0)
        first, second = self.inputs
        turn, chosen = Signal(), Signal()
        m.d.comb += [
            chosen.eq(Mux(first.valid & second.valid, turn, second.valid)),
            fifo.input.valid.eq((first.valid | second.valid) & ~self.full),
            fifo.input.payload.eq(Mux(chosen, second.payload.as_value(), first.payload.as_value())),
            first.ready.eq(~chosen & ~self.full),
            second.ready.eq(chosen & ~self.full),
            self.busy.eq(~fifo.empty),
        ]
        with m.If(fifo.input.valid):
            m.d.sync += turn.eq(~chosen)
        return m


class MergingNetwork(wiring.Component):
    """A binary tree of mergers over any number of inputs. It is perfect for a power of two (Figure 7); otherwise some
    branches are one merger shorter. A single input passes through."""

    def __init__(self, shape: Any, inputs: int, buffer: int, kind: MergerKind = "paper") -> None:
        self._shape, self._buffer, self._kind = shape, buffer, kind
        super().__init__({
            "inputs": In(stream.Signature(shape)).array(inputs),
            "output": Out(stream.Signature(shape)),
            "full": Out(1),
            "busy": Out(1),
            "overflow": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        mergers: list[_Merger] = []

        def tree(ports: list[Any]) -> Any:
            if len(ports) == 1:
                return wiring.flipped(ports[0])
            merger = (Merger if self._kind == "paper" else FullRateMerger)(self._shape, self._buffer)
            mergers.append(merger)
            m.submodules[f"merger{len(mergers)}"] = merger
            half = (len(ports) + 1) // 2
            for port, branch in zip(merger.inputs, (ports[:half], ports[half:]), strict=True):
                wiring.connect(m, tree(branch), port)
            return merger.output

        wiring.connect(m, tree(list(self.inputs)), wiring.flipped(self.output))
        for flag in ("full", "busy", "overflow"):
            m.d.comb += getattr(self, flag).eq(Cat(getattr(merger, flag) for merger in mergers).any())
        return m
