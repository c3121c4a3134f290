"""The whole handshake join (FPGA paper, Figure 3; handshake join paper, Figure 17).

Invariant: with tuples entering in the merged order, the results are the pairs of `join(..., window=cores * segment)`.
Left tuples enter at the first core, right tuples at the last. A pair has met at the latest when the windows have moved
on by their whole length; `window` bubbles at the end of the left stream ensure that.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .admission import AdmissionController
from .core import JoinCore
from .design import Design
from .merger import MergingNetwork
from .predicate import Circuit
from .tools import netlist


class HandshakeCircuit(wiring.Component):
    """Two streams in, one stream of results out. Tuples that are taken while `discarding` is up are dropped. `idle`
    says that the circuit has no work left."""

    def __init__(self, circuit: Circuit, design: Design) -> None:
        self.circuit, self.design = circuit, design
        super().__init__({
            "left": In(stream.Signature(circuit.entering("left"))),
            "right": In(stream.Signature(circuit.entering("right"))),
            "results": Out(stream.Signature(circuit.result)),
            "discarding": Out(1),
            "suspended": Out(1),
            "idle": Out(1),
            "overflow": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        d, circuit = self.design, self.circuit
        cores = [JoinCore(circuit, d.rows, d.lanes, d.core_buffer, d.ram) for _ in range(d.cores)]
        for i, core in enumerate(cores):
            m.submodules[f"core{i}"] = core
        m.submodules.admission = admission = AdmissionController(d.cores, d.admission, d.scope)
        m.submodules.network = network = MergingNetwork(
            circuit.result, d.cores * d.lanes, d.merger_buffer, d.merger
        )  # fmt: skip

        m.d.comb += [
            admission.left_valid.eq(self.left.valid),
            self.left.ready.eq(admission.left_ready),
            admission.right_valid.eq(self.right.valid),
            self.right.ready.eq(admission.right_ready),
            admission.ready.eq(Cat(core.ready for core in cores)),
            admission.full.eq(Cat(core.full for core in cores)),
            admission.network_full.eq(network.full),
            self.discarding.eq(admission.discard),
            self.suspended.eq(admission.suspended),
        ]
        for i, core in enumerate(cores):
            m.d.comb += [
                core.move_left.eq(admission.move_left),
                core.move_right.eq(admission.move_right),
                core.suspend.eq(admission.suspend[i]),
            ]
            for lane in range(d.lanes):
                wiring.connect(m, core.results[lane], network.inputs[i * d.lanes + lane])
        for one, next_ in pairwise(cores):
            m.d.comb += [next_.left_in.eq(one.left_out), one.right_in.eq(next_.right_out)]

        arrived, held = Signal(circuit.tuple_of("right")), Signal(circuit.tuple_of("right"))
        m.d.comb += [
            *self._stored(m, "left", cores[0].left_in, self.left.payload),
            *self._stored(m, "right", arrived, self.right.payload),
            cores[-1].right_in.eq(Mux(admission.held, held.as_value(), arrived.as_value())),
        ]
        with m.If(self.right.valid & self.right.ready & ~self.discarding):
            m.d.sync += held.eq(arrived)

        wiring.connect(m, network.output, wiring.flipped(self.results))
        m.d.comb += [
            self.idle.eq(~(Cat(core.busy for core in cores).any() | network.busy | admission.held)),
            self.overflow.eq(Cat(core.overflow for core in cores).any() | network.overflow),
        ]
        return m

    @cached_property
    def netlist(self) -> str:
        """The circuit for Yosys; writing it takes 10 s for 64 cores."""
        return netlist(self)

    def _stored(self, m: Module, side: Any, target: Any, entering: Any) -> list[Any]:
        """Assign the fields that the window stores of an entering tuple."""
        assignments = [
            target.valid.eq(entering.occupied & self.circuit.accepts(m, side, entering)),
            target.payload.eq(entering.payload),
        ]
        for column in self.circuit.stored[side]:
            name = self.circuit.names[column]
            assignments.append(target.values[name].eq(entering.values[name]))
            if column in self.circuit.nullable:
                assignments.append(target.known[name].eq(entering.known[name]))
        return assignments
