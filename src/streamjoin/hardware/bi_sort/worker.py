"""A BI-Sort worker node (PanJoin, section IV, Fig. 7): insertion engine, probing engine and index over one memory.

Invariant: between commands the current main array holds `size` tuples in ascending order, and the index the keys of
every partition's first tuple. Commands are carried out one after the other. A batch lies in memory, sorted, before its
command is given; the manager node sorts it (section III-E) and the system's input puts it there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .insertion import InsertionEngine
from .memory import read_port, write_port
from .probing_engine import ProbingEngine
from .shape import BiSortShape


class Operation(IntEnum):
    INSERT = 0
    PROBE = 1
    CLEAR = 2


class BiSortWorker(wiring.Component):
    """Takes commands and answers each when it is done.

    `INSERT` merges the `count` tuples of the batch into the main array, `PROBE` writes a record <idstart, idend> for
    each of them, `CLEAR` forgets the subwindow, which is how it expires (section III-G1). A command that does not fit
    the batch or the subwindow is refused and changes nothing. `bank` of the answer is the main array in use.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self.shape = shape
        super().__init__({
            "command": In(stream.Signature(command(shape))),
            "answer": Out(stream.Signature(answer(shape))),
            "busy": Out(1),
            "splitting": Out(1),
            "read": Out(read_port(shape)).array(shape.read_ports),
            "write": Out(write_port(shape)).array(shape.write_ports),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape, given = self.shape, self.command
        m.submodules.insertion = insertion = InsertionEngine(shape)
        m.submodules.probing = probing = ProbingEngine(shape)
        m.submodules.index = index = Memory(shape=signed(shape.key_width), depth=shape.partitions, init=[])
        size = Signal(shape.place)
        bank = Signal()
        held = Signal(command(shape))
        bases = Mux(bank, shape.subwindow, 0), Mux(bank, 0, shape.subwindow)
        too_many = (held.count > shape.batch) | (
            (held.operation == Operation.INSERT) & (size + held.count > shape.subwindow)
        )
        m.d.comb += [
            insertion.source.eq(bases[0]),
            insertion.target.eq(bases[1]),
            insertion.size.eq(size),
            insertion.count.eq(held.count),
            probing.source.eq(bases[0]),
            probing.size.eq(size),
            probing.count.eq(held.count),
            probing.band.eq(held.band),
            self.splitting.eq(insertion.splitting),
            self.answer.p.size.eq(size),
            self.answer.p.bank.eq(bank),
        ]
        self._memory(m, insertion, probing, index)
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") & ~fsm.ongoing("ANSWER"))
            with m.State("IDLE"):
                m.d.comb += given.ready.eq(1)
                with m.If(given.valid):
                    m.d.sync += [held.eq(given.payload), self.answer.p.refused.eq(0)]
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "ANSWER"
                with m.If(held.operation == Operation.CLEAR):
                    m.d.sync += size.eq(0)
                with m.Elif(too_many):
                    m.d.sync += self.answer.p.refused.eq(1)
                with m.Else():
                    m.next = "START"
            with m.State("START"):
                m.d.comb += insertion.go.eq(held.operation == Operation.INSERT)
                m.d.comb += probing.go.eq(held.operation == Operation.PROBE)
                m.next = "WORK"
            with m.State("WORK"), m.If(insertion.idle & probing.idle):
                with m.If(held.operation == Operation.INSERT):
                    m.d.sync += [size.eq(size + held.count), bank.eq(~bank)]
                m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.answer.valid.eq(1)
                with m.If(self.answer.ready):
                    m.next = "IDLE"
        return m

    def _memory(self, m: Module, insertion: InsertionEngine, probing: ProbingEngine, index: Memory) -> None:
        """Connects the engines with the external memory and the index."""
        for ours, theirs in (
            (self.read, list(insertion.read) + list(probing.read)),
            (self.write, list(insertion.write) + list(probing.write)),
        ):
            for outer, inner in zip(ours, theirs, strict=True):
                wiring.connect(m, inner, wiring.flipped(outer))
        sampled = index.write_port()
        m.d.comb += [
            sampled.en.eq(insertion.index.valid),
            sampled.addr.eq(insertion.index.p.partition),
            sampled.data.eq(insertion.index.p.key),
        ]
        for address, key in zip(probing.index_address, probing.index_key, strict=True):
            looked_up = index.read_port()
            m.d.comb += [looked_up.addr.eq(address), key.eq(looked_up.data)]


def command(shape: BiSortShape) -> data.StructLayout:
    return data.StructLayout({"operation": Operation, "count": shape.place, "band": shape.band})


def answer(shape: BiSortShape) -> data.StructLayout:
    return data.StructLayout({"size": shape.place, "bank": 1, "refused": 1})
