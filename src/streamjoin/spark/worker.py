"""A worker: its share of both windows, and one step per micro-batch (PanJoin, section III-A, step 4).

A step is a function of the state and the messages: it may be repeated, by another process on another machine, with the
same result. Of the state store it knows three things (`held.Truth`), of Spark nothing.

Law: a pair is found by the later of its two tuples, which probes where the earlier one is stored (within a micro-batch,
right tuples find left ones; where the merged order counts, it decides). Every tuple is stored by one worker, or, routed
by ranges, by several of which one answers. So every pair is found exactly once, however tuples are shared out.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Rows
from ..errors import StateError
from ..flow.front import Arrival, AsFound
from ..flow.order import MergedOrder
from ..flow.progress import Progress
from ..predicate.recheck import Recheck
from ..predicate.slots import SlotValues
from ..side import SIDES, Side, other
from ..store import Batch, PairSink, Probing
from ..store.hashing import hash_keys
from .arrivals import Arrivals, arrivals
from .held import ARRIVED, HeldSide, Remembered, Truth
from .messages import Message, Part, from_bytes, to_bytes
from .ranges import Keys, own_points
from .segments import Cache
from .spec import JoinSpec

MEMORY = "memory"


@dataclass(slots=True)
class Memory:
    """What a worker remembers from one micro-batch to the next, beside its segments' rows."""

    terms: dict[str, str]
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))
    long_text: dict[Side, bool] = field(default_factory=lambda: dict.fromkeys(SIDES, False))
    held: dict[Side, Remembered] = field(default_factory=lambda: {side: Remembered() for side in SIDES})
    order: MergedOrder | None = None


class Worker:
    """`number` is this worker's among all of them."""

    def __init__(self, spec: JoinSpec, number: int, truth: Truth) -> None:
        self._spec, self._number, self._truth = spec, number, truth
        self._cache = Cache(spec.identity, str(number), spec.cache_directory)
        self.late: dict[Side, pa.Table] = {}
        self.figures: dict[str, Any] = {}
        """Late rows that this worker answers for, and figures for whoever watches: after the step."""

    def step(self, messages: Sequence[Message]) -> Iterator[pa.Table]:
        """Join what a micro-batch brings with the windows, and move these on; gives tables of results as they are
        found. The step is done when all have been taken."""
        started = time.perf_counter()
        waited = 0.0
        body = self._truth.get(MEMORY)
        memory: Memory = Memory(self._spec.terms) if body is None else pickle.loads(body)
        _check_terms(memory.terms, self._spec.terms)
        step = _Step(self._spec, self._number, self._truth, self._cache, memory)
        out = 0
        for table in step.run(messages):
            out += table.num_rows
            given = time.perf_counter()
            yield table
            waited += time.perf_counter() - given
        self._truth.put(MEMORY, pickle.dumps(memory))
        self._cache.keep_only(place.file for side in SIDES for place in memory.held[side].segments)
        self.late = {side: step.found[side].late for side in SIDES}
        seconds = time.perf_counter() - started - waited
        self.figures = {**self._counts(messages, step, memory), "out": out, "seconds": seconds}

    def _counts(self, messages: Sequence[Message], step: _Step, memory: Memory) -> dict[str, int]:
        first = self._number == 0  # everybody hears of all rows; one counts them
        return {
            **{f"{side}_in": sum(m.rows for m in messages if m.side == side) if first else 0 for side in SIDES},
            **{f"{side}_late": step.found[side].late_rows for side in SIDES},
            **{f"{side}_window": memory.held[side].rows for side in SIDES},
        }


def _check_terms(before: dict[str, str], now: dict[str, str]) -> None:
    for term, value in before.items():
        if now.get(term) != value:
            raise StateError(
                f"{term}: the checkpoint belongs to a join with {value}, and the query now has {now.get(term)}; "
                "give the same again, or begin with a new checkpoint location"
            )


class _Step:
    """One micro-batch."""

    def __init__(self, spec: JoinSpec, number: int, truth: Truth, cache: Cache, memory: Memory) -> None:
        self._spec, self._number, self._truth, self._cache, self._memory = spec, number, truth, cache, memory
        self._progress = Progress(spec.options.lateness)
        self._progress.furthest = dict(memory.furthest)
        self._splitters: dict[int, Integers] = {}
        self._held: dict[Side, HeldSide] = {}
        self._decide = Recheck(spec.lowered, lambda side, rows, names: self._held[side].take(rows, names))
        self._decide.long_text = memory.long_text
        self.found: dict[Side, Arrivals] = {}

    def run(self, messages: Sequence[Message]) -> Iterator[pa.Table]:
        spec, memory = self._spec, self._memory
        for side in SIDES:
            mine = [message for message in messages if message.side == side]
            self.found[side] = arrivals(spec, side, mine, self._progress, self._number)
        for message in messages:
            latest = memory.furthest[message.side]
            memory.furthest[message.side] = message.latest if latest is None else max(latest, message.latest)
        self._progress.furthest = dict(memory.furthest)
        generation = 0
        if spec.routing == "range":
            generation, self._splitters = pickle.loads(messages[0].note or b"")
        for side in SIDES:
            self._held[side] = HeldSide(spec, side, self._truth, self._cache, memory.held[side], generation)
        yield from self._join_in_order() if spec.options.needs_order else self._join_as_found()
        for held in self._held.values():
            held.merge_small_segments()

    # -- which tuples take part ------------------------------------------------------------------------------------

    def _join_as_found(self) -> Iterator[pa.Table]:
        front = AsFound(self._spec.options.windows, self._progress)
        batches: dict[Side, Batch] = {}
        for side, arrived in self.found.items():
            self._held[side].arrived = arrived.table
            rows = np.arange(ARRIVED, ARRIVED + len(arrived.times))
            slots = self._slots(side, arrived.table)
            live = np.ones(len(rows), np.bool_) if slots.live is None else slots.live
            step = front.step(side, Arrival(rows, arrived.times, live, slots.columns))
            batches[side] = step.batches[side]
        self._expect(batches)
        for side in SIDES:  # a left tuple finds the right ones of earlier batches, a right one also this batch's left
            yield from self._probe(side, batches[side])
            self._held[side].store(self._share(side, batches[side], batches[side].coordinate))
        for side in SIDES:
            self._held[side].expire(front.floor(side))

    def _join_in_order(self) -> Iterator[pa.Table]:
        order = self._memory.order = self._memory.order or MergedOrder(self._spec.options.windows)
        bound = np.iinfo(np.int64).max if self._spec.bounded else self._progress.watermark
        ranks: dict[Side, Integers] = {}
        ready: dict[Side, Integers] = {}
        for side in SIDES:
            arrived = self.found[side] = self._with_waiting(side, self.found[side])
            sequence = np.argsort(arrived.everybody, kind="stable")
            ranks[side] = np.empty(len(sequence), np.int64)
            ranks[side][sequence] = np.arange(len(sequence))
            times = arrived.everybody[sequence]
            count = 0 if bound is None else len(times) if self._spec.bounded else int(np.searchsorted(times, bound))
            ready[side] = times[:count]
            self._wait(side, arrived, ranks[side], times[count:], count)
        positions, ranges = order.place(ready["left"], ready["right"])
        batches: dict[Side, Batch] = {}
        times_of: dict[Side, Integers] = {}
        for side, arrived in self.found.items():
            self._held[side].arrived = arrived.table
            rank = ranks[side][arrived.place]
            rows = np.flatnonzero(rank < len(ready[side]))
            rows = rows[np.argsort(rank[rows], kind="stable")]
            slots = self._slots(side, arrived.table)
            if slots.live is not None:
                rows = rows[slots.live[rows]]
            at = rank[rows]
            low, high = ranges[side]
            columns = [slot[rows] for slot in slots.columns]
            batches[side] = Batch(rows + ARRIVED, positions[side][at], low[at], high[at], columns)
            times_of[side] = ready[side][at]
        self._expect(batches)
        for side in SIDES:
            self._held[side].store(self._share(side, batches[side], times_of[side]))
        for side in SIDES:
            yield from self._probe(side, batches[side])
        for side in SIDES:
            self._held[side].expire(order.floor(side, bound))

    def _with_waiting(self, side: Side, new: Arrivals) -> Arrivals:
        """What has waited, then what is new."""
        body = self._truth.get(_waiting(side))
        if body is None:
            return new
        everybody, place, table, part = pickle.loads(body)
        if part is not None:
            part = np.concatenate([part, np.empty(0, np.int8) if new.part is None else new.part])
        return Arrivals(
            pa.concat_tables([from_bytes(table), new.table]).combine_chunks(),
            new.times,
            np.concatenate([everybody, new.everybody]),
            np.concatenate([place, new.place + len(everybody)]),
            part,
            new.late,
            new.late_rows,
        )

    def _wait(self, side: Side, arrived: Arrivals, ranks: Integers, times: Integers, ready: int) -> None:
        """Keep the tuples that are not ready."""
        if not len(times):
            self._truth.remove(_waiting(side))
            return
        rank = ranks[arrived.place]
        rows = np.flatnonzero(rank >= ready)
        part = None if arrived.part is None else arrived.part[rows]
        kept = times, rank[rows] - ready, to_bytes(arrived.table.take(pa.array(rows))), part
        self._truth.put(_waiting(side), pickle.dumps(kept))

    def _slots(self, side: Side, table: pa.Table) -> SlotValues:
        slots = self._spec.slots(side, table)
        self._decide.long_text[side] |= slots.long_text
        return slots

    # -- sharing out and probing -----------------------------------------------------------------------------------

    def _share(self, side: Side, batch: Batch, times: Integers) -> Batch:
        """The tuples of a batch that this worker stores.

        Where everybody has all tuples, what they are decides, not where they stand: should a part of the batch be
        computed again for one worker only, they may come to it in another order than the others have seen.
        """
        part = self.found[side].part
        if part is not None:
            return batch.take(np.flatnonzero(part[batch.row - ARRIVED] != Part.PROBING))
        if self._spec.routing != "broadcast":
            return batch
        bits = [slot.view(f"i{slot.itemsize}") if slot.dtype.kind == "f" else slot for slot in batch.slots]
        owner = (hash_keys([times, *bits]) >> np.uint64(32)) % np.uint64(len(self._spec.workers))
        return batch.take(np.flatnonzero(owner == self._number))

    def _expect(self, batches: dict[Side, Batch]) -> None:
        for side, batch in batches.items():
            for window in self._held[other(side)].windows.values():
                window.expect(batch)

    def _probe(self, side: Side, batch: Batch) -> Iterator[pa.Table]:
        sink = PairSink(self._decide, left_probes=side == "left")
        for generation, window in self._held[other(side)].windows.items():
            for piece in self._answered(side, batch, generation).parts():
                for _ in window.probe(Probing(piece), sink):
                    if sink.is_full:
                        yield from self._tables(side, *sink.take())
        yield from self._tables(side, *sink.take())

    def _answered(self, side: Side, batch: Batch, generation: int) -> Batch:
        """The tuples that this worker answers for what was stored under a generation: all, but for points."""
        spec = self._spec
        if spec.routing != "range" or len(self._held[other(side)].windows) == 1 == len(self._splitters):
            return batch
        keys = Keys(spec)
        if side != keys.point:
            return batch
        mine = own_points(keys.points(batch.slots), self._splitters, generation, self._number)
        return batch.take(np.flatnonzero(mine) if mine is not None else np.empty(0, np.int64))

    def _tables(self, probing: Side, left: list[Rows], right: list[Rows]) -> Iterator[pa.Table]:
        """The columns of found pairs, put together segment by segment of the stored side."""
        if not left:
            return
        rows: dict[Side, Rows] = {"left": np.concatenate(left), "right": np.concatenate(right)}
        stored = other(probing)
        for number, chosen in self._held[stored].by_segment(rows[stored]):
            of_probing, of_stored = rows[probing][chosen], rows[stored][chosen]
            size = self._held[stored].rows_of_a_blob(number, self._held[probing].arrived)
            for start in range(0, len(of_stored), size):
                piece = slice(start, start + size)
                yield from self._joined(probing, of_probing[piece], number, of_stored[piece])

    def _joined(self, probing: Side, of_probing: Rows, number: int, of_stored: Rows) -> Iterator[pa.Table]:
        """Some pairs as a table; as two, where their texts are too long for one."""
        stored = other(probing)
        try:
            taken = {
                probing: self._held[probing].take_arrived(of_probing),
                stored: self._held[stored].take_of_segment(number, of_stored),
            }
        except pa.ArrowInvalid:
            if len(of_stored) < 2:
                raise
            half = len(of_stored) // 2
            yield from self._joined(probing, of_probing[:half], number, of_stored[:half])
            yield from self._joined(probing, of_probing[half:], number, of_stored[half:])
            return
        columns = [column for side in SIDES for column in taken[side].columns]
        yield pa.Table.from_arrays(columns, schema=self._spec.result)


def _waiting(side: Side) -> str:
    return f"waiting-{side}"
