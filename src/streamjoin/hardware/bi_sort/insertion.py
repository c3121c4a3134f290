"""The insertion engine (PanJoin, section IV, Fig. 7 and 8): several mergers, and the indexer.

The merge of main array and batch is cut into as many pieces of the result as there are mergers, of equal length but
for the last ("BI-Sort tries to balance the size of each piece of the partially merged main array", section III-G3). The
circuit finds the cuts itself: the merge path crosses the diagonal `d` of a piece's first result at some place in the
main array, and a binary search through the merger's own two streams finds that place. All mergers search at the same
time, which takes about log2(batch) times the memory's latency, whatever the size of the main array.

Invariant: merger k writes results k * piece .. (k + 1) * piece - 1. Its inputs end where those of the next begin, so
every tuple is read once and written once, besides the few of the searches. Of equal keys, the main array's come first,
in their old order, then the batch's in theirs.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from .memory import Reader, read_port, write_port
from .shape import BiSortShape, ceil_div, signals
from .splitter import Splitter

RESULT_BUFFER = 4
"""Merged tuples that can wait for the memory before the merger must wait."""


class RunMerger(wiring.Component):
    """Fig. 8: two input streams, one output stream and a comparator; a tuple per cycle.

    Invariant: while both inputs have tuples left, the smaller of the two first tuples is passed on; at equality it is
    that of `a`. The command says how many tuples each input has. The inputs' buffers show a tuple until it is taken, so
    they replace the two registers of the paper.
    """

    def __init__(self, layout: data.StructLayout, count: Any) -> None:
        """`layout` has a key; `count` is the shape of the numbers in the command."""
        self._count = count
        super().__init__({
            "command": In(stream.Signature(data.StructLayout({"a": count, "b": count}))),
            "a": In(stream.Signature(layout)),
            "b": In(stream.Signature(layout)),
            "merged": Out(stream.Signature(layout)),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        a, b, merged = self.a, self.b, self.merged
        left_a, left_b = signals(self._count, "left_a", "left_b")
        choose_a, moved = signals(1, "choose_a", "moved")
        m.d.comb += [
            self.idle.eq((left_a == 0) & (left_b == 0)),
            self.command.ready.eq(self.idle),
            choose_a.eq((left_b == 0) | ((left_a != 0) & (a.p.key <= b.p.key))),
            merged.valid.eq(~self.idle & (a.valid | (left_a == 0)) & (b.valid | (left_b == 0))),
            merged.payload.eq(Mux(choose_a, a.payload.as_value(), b.payload.as_value())),
            moved.eq(merged.valid & merged.ready),
            a.ready.eq(moved & choose_a),
            b.ready.eq(moved & ~choose_a),
        ]
        with m.If(self.command.valid & self.idle):
            m.d.sync += [left_a.eq(self.command.p.a), left_b.eq(self.command.p.b)]
        with m.Elif(moved):
            m.d.sync += [left_a.eq(left_a - choose_a), left_b.eq(left_b - ~choose_a)]
        return m


class ResultWriter(wiring.Component):
    """Writes merged tuples to memory, and gives the indexer the key of every one that a partition begins with.

    Invariant: `left` of the piece's tuples are still to come, the next of them goes to place `place` of the new main
    array. A sample that the indexer has not taken yet holds up the next sample, but nothing else.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "start": In(shape.place),
            "base": In(shape.address),
            "count": In(shape.place),
            "words": In(stream.Signature(shape.word)),
            "port": Out(write_port(shape)),
            "sample": Out(stream.Signature(sample(shape))),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        m.submodules.buffer = buffer = fifo.SyncFIFO(width=shape.word.size, depth=RESULT_BUFFER)
        place, left = signals(shape.place, "place", "left")
        word = data.View(shape.word, buffer.r_data)
        first_of_partition, held_up, written = signals(1, "first_of_partition", "held_up", "written")
        m.d.comb += [
            buffer.w_data.eq(self.words.payload.as_value()),
            buffer.w_en.eq(self.words.valid),
            self.words.ready.eq(buffer.w_rdy),
            first_of_partition.eq(place % shape.partition_size == 0),
            held_up.eq(first_of_partition & self.sample.valid & ~self.sample.ready),
            self.port.valid.eq(buffer.r_rdy & ~held_up),
            self.port.p.address.eq(self.base + place),
            self.port.p.data.eq(word),
            written.eq(self.port.valid & self.port.ready),
            buffer.r_en.eq(written),
            self.idle.eq((left == 0) & ~self.sample.valid),
        ]
        with m.If(self.sample.ready):
            m.d.sync += self.sample.valid.eq(0)
        with m.If(written & first_of_partition):
            m.d.sync += [
                self.sample.valid.eq(1),
                self.sample.p.partition.eq(place // shape.partition_size),
                self.sample.p.key.eq(word.key),
            ]
        with m.If(self.go):
            m.d.sync += [place.eq(self.start), left.eq(self.count)]
        with m.Elif(written):
            m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
        return m


def sample(shape: BiSortShape) -> data.StructLayout:
    word = shape.word
    return data.StructLayout({"partition": range(shape.partitions), "key": word["key"].shape})


class Indexer(wiring.Component):
    """Writes the samples of all mergers into the index array, one per cycle, while the merge goes on.

    The paper's indexer works "when all the mergers finish"; taking the keys as they pass by saves reading them again.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "samples": In(stream.Signature(sample(shape))).array(shape.mergers),
            "index": Out(stream.Signature(sample(shape), always_ready=True)),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for port in reversed(self.samples):
            with m.If(port.valid):
                m.d.comb += [self.index.payload.eq(port.payload), self.index.valid.eq(1)]
                m.d.comb += [other.ready.eq(other is port) for other in self.samples]
        return m


class MergeLane(wiring.Component):
    """A merger with its streams, and the splitter that finds where they begin.

    Invariant: `from_a` and `from_b` are where this lane's inputs begin once `splitting` has fallen; the next lane's are
    where they end. Both commands come only while the lane is idle, so whatever they start takes them at once.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go_split": In(1),
            "go_merge": In(1),
            "source": In(shape.address),
            "target": In(shape.address),
            "size": In(shape.place),
            "count": In(shape.place),
            "diagonal": In(shape.place),
            "end_a": In(shape.place),
            "end_b": In(shape.place),
            "from_a": Out(shape.place),
            "from_b": Out(shape.place),
            "splitting": Out(1),
            "idle": Out(1),
            "read": Out(read_port(shape)).array(2),
            "write": Out(write_port(shape)),
            "sample": Out(stream.Signature(sample(shape))),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        m.submodules.splitter = splitter = Splitter(shape)
        m.submodules.merger = merger = RunMerger(shape.word, shape.place)
        m.submodules.writer = writer = ResultWriter(shape)
        count_a, count_b = self.end_a - self.from_a, self.end_b - self.from_b
        m.d.comb += [
            splitter.go.eq(self.go_split),
            splitter.diagonal.eq(self.diagonal),
            splitter.size.eq(self.size),
            splitter.count.eq(self.count),
            self.splitting.eq(~splitter.idle),
            self.from_a.eq(splitter.low),
            self.from_b.eq(self.diagonal - splitter.low),
            merger.command.valid.eq(self.go_merge),
            merger.command.p.a.eq(count_a),
            merger.command.p.b.eq(count_b),
            writer.go.eq(self.go_merge),
            writer.start.eq(self.diagonal),
            writer.base.eq(self.target),
            writer.count.eq(count_a + count_b),
            self.idle.eq(splitter.idle & merger.idle & writer.idle),
        ]
        inputs = (
            (splitter.ask_a, splitter.a, merger.a, self.from_a, count_a, self.source),
            (splitter.ask_b, splitter.b, merger.b, self.from_b, count_b, shape.batch_base),
        )
        for i, (ask, to_splitter, to_merger, first, count, base) in enumerate(inputs):
            m.submodules[f"reader{i}"] = reader = Reader(shape)
            wiring.connect(m, reader.port, wiring.flipped(self.read[i]))
            m.d.comb += [
                reader.command.valid.eq(ask.valid | self.go_merge),
                reader.command.p.address.eq(base + Mux(self.go_merge, first, ask.payload)),
                reader.command.p.count.eq(Mux(self.go_merge, count, 1)),
                ask.ready.eq(reader.command.ready),
                reader.words.ready.eq(to_splitter.ready | to_merger.ready),
            ]
            for user in (to_splitter, to_merger):
                m.d.comb += [user.payload.eq(reader.words.payload), user.valid.eq(reader.words.valid)]
        wiring.connect(m, merger.merged, writer.words)
        wiring.connect(m, writer.port, wiring.flipped(self.write))
        wiring.connect(m, writer.sample, wiring.flipped(self.sample))
        return m


class InsertionEngine(wiring.Component):
    """Merges `count` sorted tuples of the batch with the `size` ones of the main array at `source`, to `target`.

    `go` is given while the engine is idle. `splitting` is up as long as the cuts are searched for.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "source": In(shape.address),
            "target": In(shape.address),
            "size": In(shape.place),
            "count": In(shape.place),
            "idle": Out(1),
            "splitting": Out(1),
            "read": Out(read_port(shape)).array(2 * shape.mergers),
            "write": Out(write_port(shape)).array(shape.mergers),
            "index": Out(stream.Signature(sample(shape), always_ready=True)),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        m.submodules.indexer = indexer = Indexer(shape)
        wiring.connect(m, indexer.index, wiring.flipped(self.index))
        lanes = [MergeLane(shape) for _ in range(shape.mergers)]
        total, piece = signals(shape.place, "total", "piece")
        go_split, go_merge = signals(1, "go_split", "go_merge")
        m.d.comb += total.eq(self.size + self.count)
        m.d.sync += piece.eq(ceil_div(total, shape.mergers))
        for k, lane in enumerate(lanes):
            m.submodules[f"lane{k}"] = lane
            start = Signal(range(shape.mergers * (shape.subwindow + 1)), name=f"start{k}")
            after = lanes[k + 1] if k + 1 < len(lanes) else None
            m.d.comb += [
                start.eq(k * piece),
                lane.diagonal.eq(Mux(start < total, start, total)),
                lane.go_split.eq(go_split),
                lane.go_merge.eq(go_merge),
                lane.source.eq(self.source),
                lane.target.eq(self.target),
                lane.size.eq(self.size),
                lane.count.eq(self.count),
                lane.end_a.eq(self.size if after is None else after.from_a),
                lane.end_b.eq(self.count if after is None else after.from_b),
            ]
            wiring.connect(m, lane.write, wiring.flipped(self.write[k]))
            wiring.connect(m, lane.sample, indexer.samples[k])
            for i in range(2):
                wiring.connect(m, lane.read[i], wiring.flipped(self.read[2 * k + i]))
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                with m.If(self.go):
                    m.next = "CUT"
            with m.State("CUT"):
                m.d.comb += go_split.eq(1)
                m.next = "SPLIT"
            with m.State("SPLIT"):
                m.d.comb += self.splitting.eq(1)
                with m.If(~Cat(lane.splitting for lane in lanes).any()):
                    m.d.comb += go_merge.eq(1)
                    m.next = "MERGE"
            with m.State("MERGE"), m.If(Cat(lane.idle for lane in lanes).all()):
                m.next = "IDLE"
        return m
