"""The probing engine (PanJoin, section IV, Fig. 7 and 9): boundary generators, partitioners and probers.

Every probing tuple has two bounds, and the answer to a bound is how many tuples of the main array are smaller. An
upper bound is turned into the smallest value above it, as the paper turns x = v into x in [v, v+) (section III-F1), so
lower and upper bounds are answered alike, and the record <idstart, idend> is a half-open interval of the main array.

The bounds of a sorted batch ascend, the lower ones and the upper ones. A prober gets both in one ascending order, so a
partition that bounds of both kinds fall into is read once. The batch is cut into pieces that the probers take as they
become free, which divides the work by the partitions there are to probe (section III-G3).

Invariant: the target partition of a bound is the last one whose first tuple is smaller than the bound, or the first
one. So the answer lies within it or right behind it. Only target partitions are read.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .memory import write_port
from .shape import BiSortShape, signals


class BoundaryGenerator(wiring.Component):
    """The lower bounds of one copy of the batch, and the upper bounds of the other.

    Invariant: a bound outside of what keys can be becomes the smallest key, which nothing is smaller than, or the value
    behind the largest key, which everything is smaller than. So nothing wraps around, and a band that lies wholly
    outside is empty. There are two copies because upper bounds may lag far behind lower ones in the common order.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "offset": In(range(shape.batch)),
            "band": In(shape.band),
            "tuples": In(stream.Signature(shape.word)).array(2),
            "bounds": Out(stream.Signature(shape.bound)).array(2),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = self._shape.key_width
        smallest, behind = -(1 << (width - 1)), 1 << (width - 1)
        below, above = self.band.below, self.band.above
        for kind, (tuples, bounds) in enumerate(zip(self.tuples, self.bounds, strict=True)):
            number = Signal(range(self._shape.batch), name=f"number{kind}")
            exact = Signal(signed(width + 3), name=f"exact{kind}")
            m.d.comb += [
                exact.eq(tuples.p.key + above + 1 if kind else tuples.p.key - below),
                tuples.ready.eq(~bounds.valid | bounds.ready),
            ]
            with m.If(tuples.ready):
                m.d.sync += [
                    bounds.valid.eq(tuples.valid),
                    bounds.p.key.eq(Mux(exact < smallest, smallest, Mux(exact > behind, behind, exact))),
                    bounds.p.record.eq(Cat(kind, number)),
                ]
            with m.If(self.go):
                m.d.sync += number.eq(self.offset)
            with m.Elif(tuples.valid & tuples.ready):
                m.d.sync += number.eq(number + 1)
        return m


class Partitioner(wiring.Component):
    """Finds the target partition of each bound by a rebounding binary search in the index (Fig. 6), a step per cycle.

    Invariant: `low` is the first partition, or begins with a tuple smaller than the bound. Going forward, steps double
    as long as that holds for the partition they lead to; then they halve, and the target is less than a step away. The
    search for the next bound starts at the target of the last. The sample at low + step is at hand when both are in the
    registers.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "size": In(shape.place),
            "source": In(shape.address),
            "bounds": In(stream.Signature(shape.bound)),
            "targets": Out(stream.Signature(shape.target)),
            "fetch": Out(stream.Signature(shape.burst)),
            "index_address": Out(range(shape.partitions)),
            "index_key": In(signed(shape.key_width)),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        bits = exact_log2(shape.partition_size)
        low, next_low, partition, last = signals(range(shape.partitions), "low", "next_low", "partition", "last")
        step = Signal(range(2 * shape.partitions + 1), init=1)
        next_step = Signal.like(step)
        place = Signal(range(3 * shape.partitions + 1))
        back, smaller, found = signals(1, "back", "smaller", "found")
        first, fresh, taken = signals(1, "first", "fresh", "taken")
        rest = Signal(shape.place)
        bound, target, fetch = self.bounds, self.targets, self.fetch
        m.d.comb += [
            place.eq(low + step),
            smaller.eq(((place << bits) < self.size) & (self.index_key < bound.p.key)),
            partition.eq(Mux(smaller, place, low)),
            found.eq(bound.valid & (step == 1) & (back | ~smaller)),
            fresh.eq(first | (partition != last)),
            target.valid.eq(found & (~fresh | fetch.ready)),
            target.p.bound.eq(bound.payload),
            target.p.partition.eq(partition),
            target.p.fresh.eq(fresh),
            fetch.valid.eq(found & fresh & target.ready),
            fetch.p.address.eq(self.source + (partition << bits)),
            rest.eq(self.size - (partition << bits)),
            fetch.p.count.eq(Mux(rest < shape.partition_size, rest, shape.partition_size)),
            taken.eq(target.valid & target.ready),
            bound.ready.eq(taken),
            next_low.eq(low),
            next_step.eq(step),
            self.index_address.eq(next_low + next_step),
        ]
        m.d.sync += [low.eq(next_low), step.eq(next_step)]
        with m.If(self.go):
            m.d.comb += [next_low.eq(0), next_step.eq(1)]
            m.d.sync += [back.eq(0), first.eq(1)]
        with m.Elif(taken):
            m.d.comb += [next_low.eq(partition), next_step.eq(1)]
            m.d.sync += [back.eq(0), first.eq(0), last.eq(partition)]
        with m.Elif(bound.valid & ~found):
            m.d.comb += next_low.eq(partition)
            with m.If(smaller & ~back):
                m.d.comb += next_step.eq(step << 1)
            with m.Else():
                m.d.comb += next_step.eq(step >> 1)
                m.d.sync += back.eq(1)
        return m


class Prober(wiring.Component):
    """Fig. 9: a merge-like scan of target partitions against bounds, with one comparator; a tuple or a bound per cycle.

    Invariant: `place` is where in the main array the tuple at hand lies, and `left` is how many of the partition's are
    still to come. All tuples before it are smaller than the bound at hand, so the answer is `place` as soon as the
    tuple is not, or there is none left. What is left of a partition that no further bound needs is passed over.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "go": In(1),
            "count": In(range(shape.batch + 1)),
            "size": In(shape.place),
            "targets": In(stream.Signature(shape.target)),
            "tuples": In(stream.Signature(shape.word)),
            "results": Out(write_port(shape)),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        target, tuples, results = self.targets, self.tuples, self.results
        place, here, begin, rest = signals(shape.place, "place", "here", "begin", "rest")
        left, left_here = signals(range(shape.partition_size + 1), "left", "left_here")
        unanswered = Signal(range(2 * shape.batch + 1))
        entered, enter, inside = signals(1, "entered", "enter", "inside")
        smaller, advance, answered = signals(1, "smaller", "advance", "answered")
        m.d.comb += [
            self.idle.eq((unanswered == 0) & (left == 0)),
            begin.eq(target.p.partition * shape.partition_size),
            rest.eq(self.size - begin),
            enter.eq(target.valid & target.p.fresh & ~entered & (left == 0)),
            inside.eq(target.valid & (~target.p.fresh | entered | enter)),
            here.eq(Mux(enter, begin, place)),
            left_here.eq(Mux(enter, Mux(rest < shape.partition_size, rest, shape.partition_size), left)),
            smaller.eq(tuples.p.key < target.p.bound.key),
            advance.eq(inside & (left_here != 0) & tuples.valid & smaller),
            results.valid.eq(inside & ((left_here == 0) | (tuples.valid & ~smaller))),
            results.p.address.eq(shape.result_base + target.p.bound.record),
            results.p.data.eq(here),
            answered.eq(results.valid & results.ready),
            target.ready.eq(answered),
        ]
        with m.If(inside):
            m.d.comb += tuples.ready.eq(advance)
            m.d.sync += [place.eq(here + advance), left.eq(left_here - advance), entered.eq(~answered)]
        with m.Elif((left != 0) & (target.valid | (unanswered == 0))):
            m.d.comb += tuples.ready.eq(1)
            m.d.sync += left.eq(left - tuples.valid)
        with m.If(self.go):
            m.d.sync += unanswered.eq(2 * self.count)
        with m.Elif(answered):
            m.d.sync += unanswered.eq(unanswered - 1)
        return m
