"""One core's segment of one stream's window.

Invariant: a segment holds the last `lanes * rows` tuples that entered it. `shift` takes `entering` in at the clock
edge, and what was `leaving` is then the neighbour's newest. One clock after `row` was shown, `candidates` are that
row's tuples, one for each lane; rows 0 .. rows-1 together show every tuple once, in no particular order.
"""

from __future__ import annotations

from typing import Any

from amaranth import Array, Cat, Module, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out


class _Segment(wiring.Component):
    def __init__(self, layout: data.StructLayout, rows: int, lanes: int) -> None:
        self._layout, self._rows, self._lanes = layout, rows, lanes
        super().__init__({
            "entering": In(layout),
            "shift": In(1),
            "row": In(range(max(rows, 2))),
            "newest": Out(layout),
            "leaving": Out(layout),
            "candidates": Out(data.ArrayLayout(layout, lanes)),
        })  # fmt: skip


class RegisterSegment(_Segment):
    """A shift register, as both papers build it: every tuple moves at every shift."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        slots = [Signal(self._layout, name=f"slot{i}") for i in range(self._rows * self._lanes)]
        with m.If(self.shift):
            for slot, before in zip(slots, [self.entering, *slots], strict=False):
                m.d.sync += slot.eq(before)
        m.d.comb += [self.newest.eq(slots[0]), self.leaving.eq(slots[-1])]
        for lane in range(self._lanes):
            own = Array(Value.cast(slot) for slot in slots[lane :: self._lanes])
            m.d.sync += Cat(self.candidates[lane]).eq(own[self.row])
        return m


class RamSegment(_Segment):
    """Block RAM, one bank per lane: tuples stay in place and a pointer moves, so thousands of tuples cost no logic
    (future work of the FPGA paper, section VI). All banks are read at once, so `lanes` comparators share the scan.
    After a tuple has entered, only the other stream's segment is scanned. The read ports of its own segment are then
    free to fetch the tuple that leaves next."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        bank, place = Signal(range(max(self._lanes, 2))), Signal(range(self._rows))
        """Where the oldest tuple is, and so where the next one goes."""
        filled, fetch, fetched = Signal(), Signal(), Signal()
        """`filled`: the pointer has passed every place. Until then, places beyond it hold data from before a reset."""
        reads = []
        for lane in range(self._lanes):
            m.submodules[f"bank{lane}"] = ram = memory.Memory(
                shape=len(Cat(self.entering)), depth=self._rows, init=[]
            )  # fmt: skip
            write, read = ram.write_port(), ram.read_port()
            m.d.comb += [
                write.addr.eq(place),
                write.data.eq(self.entering),
                write.en.eq(self.shift & (bank == lane)),
                read.addr.eq(self.row),
                Cat(self.candidates[lane]).eq(read.data),
            ]
            present = Signal(name=f"present{lane}")
            m.d.sync += present.eq(filled | (self.row < place) | ((self.row == place) & (lane < bank)))
            m.d.comb += self.candidates[lane].valid.eq(data.View(self._layout, read.data).valid & present)
            with m.If(fetch):
                m.d.comb += read.addr.eq(place)
            reads.append(read.data)
        m.d.sync += [fetch.eq(self.shift), fetched.eq(fetch)]
        with m.If(fetched):
            m.d.sync += Cat(self.leaving).eq(Array(reads)[bank])
            m.d.sync += self.leaving.valid.eq(data.View(self._layout, Array(reads)[bank]).valid & filled)
        with m.If(self.shift):
            m.d.sync += self.newest.eq(self.entering)
            with m.If(bank == self._lanes - 1):
                m.d.sync += [bank.eq(0), place.eq(place + 1)]
                with m.If(place == self._rows - 1):
                    m.d.sync += [place.eq(0), filled.eq(1)]
            with m.Else():
                m.d.sync += bank.eq(bank + 1)
        return m
