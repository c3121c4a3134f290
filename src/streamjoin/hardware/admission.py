"""Admission control (FPGA paper, section IV-D): which tuples enter, and when the cores pause.

Invariant: tuples enter one at a time, in the order of arrival. Of two that arrive together, the left one enters first.
A tuple enters only when every core has fetched all candidates of the tuple before. No core fetches a pair unless its
queue has room for the result.

Rule 1 of the paper: while any full flag is up, no tuple enters and all cores pause. Rule 2, that a full merger takes
nothing, is in the mergers. `scope="core"` is the paper's future work: a core pauses only for its own queue, and the
others finish their scan. A tuple that arrives while a flag is up is dropped ("discard", as in the paper), or waits at
the input ("lossless").
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .design import Admission, Scope


class AdmissionController(wiring.Component):
    """`held`: a right tuple waits, because it arrived together with the left tuple that enters now. `discard`: the
    tuples at the inputs are dropped in this clock."""

    def __init__(self, cores: int, mode: Admission, scope: Scope) -> None:
        self._mode, self._scope = mode, scope
        super().__init__({
            "left_valid": In(1),
            "left_ready": Out(1),
            "right_valid": In(1),
            "right_ready": Out(1),
            "ready": In(cores),
            "full": In(cores),
            "network_full": In(1),
            "move_left": Out(1),
            "move_right": Out(1),
            "held": Out(1),
            "suspend": Out(cores),
            "suspended": Out(1),
            "discard": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        all_ready, may_enter = Signal(), Signal()
        if self._scope == "all":
            m.d.sync += self.suspended.eq(self.full.any() | self.network_full)
            m.d.comb += self.suspend.eq(self.suspended.replicate(len(self.suspend)))
            m.d.comb += all_ready.eq(self.ready[0])  # the cores are in lock step
        else:
            m.d.sync += [self.suspended.eq(self.full.any()), self.suspend.eq(self.full)]
            m.d.comb += all_ready.eq(self.ready.all())
        waits = self._scope == "all" or self._mode == "discard"
        m.d.comb += may_enter.eq(all_ready & ~self.suspended if waits else all_ready)

        with m.If(may_enter):
            with m.If(self.held):
                m.d.comb += self.move_right.eq(1)
                m.d.sync += self.held.eq(0)
            with m.Else():
                m.d.comb += [
                    Cat(self.left_ready, self.right_ready).eq(0b11),
                    self.move_left.eq(self.left_valid),
                    self.move_right.eq(self.right_valid & ~self.left_valid),
                ]
                m.d.sync += self.held.eq(self.left_valid & self.right_valid)
        if self._mode == "discard":
            with m.If(self.suspended):
                m.d.comb += [Cat(self.left_ready, self.right_ready).eq(0b11), self.discard.eq(1)]
        return m
