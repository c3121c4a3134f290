"""The probing engine: lanes of probing units, and the pieces of a batch that they take.

A piece is a fraction of the batch, a few for each prober; a prober takes the next one when it is free. So the work is
divided by how many partitions there are to probe (PanJoin, section III-G3), not by how many tuples probe them.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from .insertion import RunMerger
from .memory import Reader, read_port, write_port
from .probing import BoundaryGenerator, Partitioner, Prober
from .shape import BiSortShape, ceil_div, signals

AHEAD = 8
"""Bounds whose partition is known before the prober comes to them."""
FETCHES = 2
"""Partitions that are asked for ahead of time, besides the one being read."""


class ProbeLane(wiring.Component):
    """A prober with its boundary generator, its partitioner and their streams.

    Invariant: a piece is taken only while the lane is idle, and then nothing of the last one is on its way, because all
    bounds have passed through every unit. Bounds and the fetches of their partitions leave the partitioner together, so
    the prober never waits for a partition that has not been asked for.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "piece": In(stream.Signature(shape.piece)),
            "source": In(shape.address),
            "size": In(shape.place),
            "band": In(shape.band),
            "read": Out(read_port(shape)).array(3),
            "write": Out(write_port(shape)),
            "index_address": Out(range(shape.partitions)),
            "index_key": In(signed(shape.key_width)),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape, piece = self._shape, self.piece
        m.submodules.generator = generator = BoundaryGenerator(shape)
        m.submodules.merger = merger = RunMerger(shape.bound, range(shape.batch + 1))
        m.submodules.partitioner = partitioner = Partitioner(shape)
        m.submodules.prober = prober = Prober(shape)
        m.submodules.ahead = ahead = fifo.SyncFIFO(width=shape.target.size, depth=AHEAD)
        m.submodules.fetches = fetches = fifo.SyncFIFO(width=shape.burst.size, depth=FETCHES)
        readers = [Reader(shape) for _ in self.read]
        go = Signal()
        m.d.comb += [
            self.idle.eq(prober.idle),
            piece.ready.eq(prober.idle),
            go.eq(piece.valid & piece.ready),
            generator.go.eq(go),
            generator.offset.eq(piece.p.offset),
            generator.band.eq(self.band),
            merger.command.valid.eq(go),
            merger.command.p.a.eq(piece.p.count),
            merger.command.p.b.eq(piece.p.count),
            partitioner.go.eq(go),
            partitioner.size.eq(self.size),
            partitioner.source.eq(self.source),
            partitioner.index_key.eq(self.index_key),
            self.index_address.eq(partitioner.index_address),
            prober.go.eq(go),
            prober.count.eq(piece.p.count),
            prober.size.eq(self.size),
        ]
        for i, reader in enumerate(readers):
            m.submodules[f"reader{i}"] = reader
            wiring.connect(m, reader.port, wiring.flipped(self.read[i]))
        for reader, tuples in zip(readers, generator.tuples, strict=False):
            wiring.connect(m, reader.words, tuples)
            m.d.comb += [
                reader.command.valid.eq(go),
                reader.command.p.address.eq(shape.batch_base + piece.p.offset),
                reader.command.p.count.eq(piece.p.count),
            ]
        wiring.connect(m, generator.bounds[0], merger.a)
        wiring.connect(m, generator.bounds[1], merger.b)
        wiring.connect(m, merger.merged, partitioner.bounds)
        for queue, given, taken in (
            (ahead, partitioner.targets, prober.targets),
            (fetches, partitioner.fetch, readers[2].command),
        ):
            m.d.comb += [
                queue.w_data.eq(given.payload.as_value()),
                queue.w_en.eq(given.valid),
                given.ready.eq(queue.w_rdy),
                taken.payload.eq(queue.r_data),
                taken.valid.eq(queue.r_rdy),
                queue.r_en.eq(taken.ready),
            ]
        wiring.connect(m, readers[2].words, prober.tuples)
        wiring.connect(m, prober.results, wiring.flipped(self.write))
        return m


class ProbingEngine(wiring.Component):
    """Probes the `size` tuples of the main array at `source` with `count` sorted tuples of the batch.

    `go` is given while the engine is idle. Each prober has its own port to the index, which synthesis makes a copy of
    the index for each.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "source": In(shape.address),
            "size": In(shape.place),
            "count": In(range(shape.batch + 1)),
            "band": In(shape.band),
            "idle": Out(1),
            "read": Out(read_port(shape)).array(3 * shape.probers),
            "write": Out(write_port(shape)).array(shape.probers),
            "index_address": Out(range(shape.partitions)).array(shape.probers),
            "index_key": In(signed(shape.key_width)).array(shape.probers),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        lanes = [ProbeLane(shape) for _ in range(shape.probers)]
        offset, left, grain = signals(range(shape.batch + 1), "offset", "left", "grain")
        piece = Signal(shape.piece)
        handing = Signal()
        m.d.comb += [piece.offset.eq(offset), piece.count.eq(Mux(left < grain, left, grain))]
        for k, lane in enumerate(lanes):
            m.submodules[f"lane{k}"] = lane
            m.d.comb += [
                lane.source.eq(self.source),
                lane.size.eq(self.size),
                lane.band.eq(self.band),
                lane.piece.payload.eq(piece),
                lane.piece.valid.eq(handing & ~Cat(other.idle for other in lanes[:k]).any()),
                self.index_address[k].eq(lane.index_address),
                lane.index_key.eq(self.index_key[k]),
            ]
            wiring.connect(m, lane.write, wiring.flipped(self.write[k]))
            for i in range(3):
                wiring.connect(m, lane.read[i], wiring.flipped(self.read[3 * k + i]))
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [
                    offset.eq(0),
                    left.eq(self.count),
                    grain.eq(ceil_div(self.count, shape.probers * shape.turns)),
                ]
                with m.If(self.go):
                    m.next = "PROBE"
            with m.State("PROBE"):
                idle = Cat(lane.idle for lane in lanes)
                m.d.comb += handing.eq(left != 0)
                with m.If(handing & idle.any()):
                    m.d.sync += [offset.eq(offset + piece.count), left.eq(left - piece.count)]
                with m.Elif((left == 0) & idle.all()):
                    m.next = "IDLE"
        return m
