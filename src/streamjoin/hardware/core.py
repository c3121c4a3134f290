"""A join core (FPGA paper, section IV-A, Figure 4): its segments of both windows, and the immediate scan.

Invariant: whenever a tuple enters one of the core's segments, it is compared once with every tuple that is in the
other segment at that moment, before anything moves again. Since the streams move in opposite directions, two tuples
are brought into the same core once, so every pair is compared exactly once.

The paper's states: STATE1 is `ready` with nothing to do. STATE2-4 and STATE6 read the inputs and decide; they cost no
clock, because they happen in the last clock of the scan before. STATE5 is the scan for the newest left tuple, STATE7
for the newest right tuple. So a tuple takes `rows` clocks, as in Table 1 of the handshake join paper (100 clocks for
100 tuples on one core).
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .fifo import ResultFifo
from .predicate import Circuit
from .segment import RamSegment, RegisterSegment

SLACK = 2
"""Results that may still come after a full flag rises: one is being compared, and one is fetched while the flag passes
the admission controller's register."""


class JoinCore(wiring.Component):
    """`move_left` and `move_right` shift that segment at the clock edge and start the scan for the tuple that entered.
    They may come when the core is `ready`. A suspended core fetches no further pair."""

    def __init__(self, circuit: Circuit, rows: int, lanes: int, buffer: int, ram: bool) -> None:
        self._circuit, self._rows, self._lanes, self._buffer = circuit, rows, lanes, buffer
        self._segment = RamSegment if ram else RegisterSegment
        left, right = circuit.tuple_of("left"), circuit.tuple_of("right")
        super().__init__({
            "left_in": In(left),
            "left_out": Out(left),
            "right_in": In(right),
            "right_out": Out(right),
            "move_left": In(1),
            "move_right": In(1),
            "suspend": In(1),
            "ready": Out(1),
            "results": Out(stream.Signature(circuit.result)).array(lanes),
            "full": Out(1),
            "busy": Out(1),
            "overflow": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        layouts = {side: self._circuit.tuple_of(side) for side in ("left", "right")}
        m.submodules.left = left = self._segment(layouts["left"], self._rows, self._lanes)
        m.submodules.right = right = self._segment(layouts["right"], self._rows, self._lanes)
        m.d.comb += [
            left.entering.eq(self.left_in),
            left.shift.eq(self.move_left),
            self.left_out.eq(left.leaving),
            right.entering.eq(self.right_in),
            right.shift.eq(self.move_right),
            self.right_out.eq(right.leaving),
        ]

        row, last, going, fetched, of_left = Signal(left.row.shape()), Signal(), Signal(), Signal(), Signal()
        """`fetched`: candidates for the tuple in `probe` are there; `of_left`: it is a left one."""
        m.d.comb += [last.eq(row == self._rows - 1), left.row.eq(row), right.row.eq(row)]
        m.d.sync += fetched.eq(going)
        with m.FSM() as states:
            for state in ("READY", "SCAN_FOR_LEFT", "SCAN_FOR_RIGHT"):
                with m.State(state):
                    if state == "READY":
                        m.d.comb += self.ready.eq(1)
                    else:
                        m.d.comb += [going.eq(~self.suspend), self.ready.eq(going & last)]
                        with m.If(going):
                            m.d.sync += row.eq(Mux(last, 0, row + 1))
                        with m.If(self.ready):
                            m.next = "READY"
                    with m.If(self.move_left):
                        m.next = "SCAN_FOR_LEFT"
                    with m.If(self.move_right):
                        m.next = "SCAN_FOR_RIGHT"

        probe_left, probe_right = Signal(layouts["left"]), Signal(layouts["right"])
        m.d.sync += [
            of_left.eq(states.ongoing("SCAN_FOR_LEFT")),
            probe_left.eq(left.newest),
            probe_right.eq(right.newest),
        ]
        fifos = []
        for lane in range(self._lanes):
            l, r = Signal(layouts["left"], name=f"l{lane}"), Signal(layouts["right"], name=f"r{lane}")
            m.d.comb += [
                l.eq(Mux(of_left, probe_left.as_value(), left.candidates[lane].as_value())),
                r.eq(Mux(of_left, right.candidates[lane].as_value(), probe_right.as_value())),
            ]
            fifo = ResultFifo(self._circuit.result, self._buffer, SLACK)
            m.submodules[f"results{lane}"] = fifo
            m.d.comb += [
                *_result(fifo.input.payload, l, r),
                fifo.input.valid.eq(fetched & l.valid & r.valid & self._circuit.matches(m, l, r)),
            ]
            wiring.connect(m, fifo.output, wiring.flipped(self.results[lane]))
            fifos.append(fifo)
        m.d.comb += [
            self.full.eq(Cat(fifo.full for fifo in fifos).any()),
            self.overflow.eq(Cat(fifo.overflow for fifo in fifos).any()),
            self.busy.eq(~states.ongoing("READY") | fetched | ~Cat(fifo.empty for fifo in fifos).all()),
        ]
        return m


def _result(result: Any, left: Any, right: Any) -> list[Any]:
    """Every field of the result from the tuple that it belongs to."""
    assignments = []
    for side, source in (("left", left), ("right", right)):
        target = result[side]
        assignments.append(target.payload.eq(source.payload))
        for part in ("values", "known"):
            for name, _ in data.Layout.cast(target[part].shape()):
                assignments.append(target[part][name].eq(source[part][name]))
    return assignments
