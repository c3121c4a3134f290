"""One micro-batch on one worker.

Law: the later of two tuples finds the pair. It probes where the earlier one is stored. Within a micro-batch, right
tuples find left ones, unless the merged order counts: then it says which is later. One worker stores each tuple; where
tuples are routed by ranges or blocks, several may store it, and one of them answers. So each pair is found exactly
once, however the tuples are shared out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MAX, Integers, Rows
from ..arrow.fields import taken
from ..arrow.times import Times
from ..errors import StateError
from ..flow.front import AsFound
from ..flow.order import MergedOrder
from ..predicate.recheck import Recheck
from ..predicate.slots import SlotValues
from ..side import SIDES, Side, other
from ..store import Batch, PairSink, Probing
from ..store.hashing import hash_keys
from .arrivals import Arrivals, arrivals
from .closest import Candidates
from .closing import Closing
from .identity import identities, places_of
from .messages import ChunkMessage, RowRole, from_bytes, to_bytes
from .plain import Plain
from .questions import Questions
from .range_keys import NOTES, RangeKeys, own_points
from .sealed_values import SealedState
from .segments import Cache
from .side_segments import ARRIVED, SideSegments
from .spec import JoinSpec
from .stored_states import loaded
from .worker_state import WorkerState

WAITING = Plain()
"""How tuples that are not ready lie in the state store: all their timestamps, and the rows that are here."""


class Step:
    """`kept` is the worker's state, which the step changes; `found` are the rows that the micro-batch brings.

    After the step, `questions` has what only several workers together can say of rows whose windows have closed.
    """

    def __init__(self, spec: JoinSpec, number: int, state: SealedState, cache: Cache, kept: WorkerState) -> None:
        self._spec, self._number, self._state, self._cache, self._kept = spec, number, state, cache, kept
        self._progress = spec.progress(kept.furthest)
        self._splitters: dict[int, Integers] = {}
        self._sides: dict[Side, SideSegments] = {}
        self._decide = Recheck(
            spec.lowered, lambda side, rows, names: taken(self._sides[side].take, spec.schemas[side], rows, names)
        )
        self._decide.long_text = kept.long_text
        self._identities: dict[Side, Integers] = {}
        self._probing: dict[Side, Batch] = {}
        """The rows of this micro-batch that take part and can match something."""
        self._storing: dict[Side, Batch] = {}
        """Those that some worker stores: the same, or all where rows may be reported alone."""
        self.found: dict[Side, Arrivals] = {}
        self.questions = Questions(spec)
        self._candidates = Candidates(spec, state, kept.held["left"], self.questions)
        self.unmatched = 0
        """How many results have no partner."""
        self.waiting: dict[Side, pa.Table] = {}
        """The rows that wait until order lets them take part."""

    def run(self, messages: Sequence[ChunkMessage]) -> Iterator[pa.Table]:
        spec, kept = self._spec, self._kept
        for side in SIDES:
            mine = [message for message in messages if message.side == side]
            self.found[side] = arrivals(spec, side, mine, self._progress, self._number)
        for message in messages:
            latest = kept.furthest[message.side]
            kept.furthest[message.side] = message.latest if latest is None else max(latest, message.latest)
        kept.furthest = spec.reached(kept.furthest)
        self._progress.furthest = dict(kept.furthest)
        generation = 0
        if spec.routing == "range":
            generation, self._splitters = NOTES.load(_agreed([message.note for message in messages]))
        for side in SIDES:
            self._sides[side] = SideSegments(spec, side, self._state, self._cache, kept.held[side], generation)
        yield from self._join_in_order() if spec.options.needs_order else self._join_as_found()
        for stored in self._sides.values():
            stored.merge_small_segments()
            stored.save()

    # -- which tuples take part ------------------------------------------------------------------------------------

    def _join_as_found(self) -> Iterator[pa.Table]:
        front = AsFound(self._spec.options.windows, self._progress)
        for side, arrived in self.found.items():
            slots = self._arrive(side)
            rows = np.arange(ARRIVED, ARRIVED + len(arrived.times))
            everything = SlotValues(slots.columns, None)
            self._take_part(side, front.step(side, rows, Times.of(arrived.times), everything).batches[side])
        self._expect()
        for side in SIDES:  # a left tuple finds right ones of earlier batches; a right one also this batch's left ones
            yield from self._probe(side)
            self._sides[side].store(self._share(side))
        for side in SIDES:
            yield from self._let_go(side, front.floor(side))

    def _join_in_order(self) -> Iterator[pa.Table]:
        order = self._kept.order = self._kept.order or MergedOrder(self._spec.options.windows)
        bound = np.iinfo(np.int64).max if self._spec.bounded else self._progress.watermark
        ranks: dict[Side, Integers] = {}
        ready: dict[Side, Integers] = {}
        for side in SIDES:
            arrived = self.found[side] = self._with_waiting(side, self.found[side])
            sequence = np.argsort(arrived.all_times, kind="stable")
            ranks[side] = np.empty(len(sequence), np.int64)
            ranks[side][sequence] = np.arange(len(sequence))
            times = arrived.all_times[sequence]
            count = 0 if bound is None else len(times) if self._spec.bounded else int(np.searchsorted(times, bound))
            ready[side] = times[:count]
            self._wait(side, arrived, ranks[side], times[count:], count)
        positions, ranges = order.place(ready["left"], ready["right"])
        for side, arrived in self.found.items():
            slots = self._arrive(side)
            rank = ranks[side][arrived.position]
            rows = np.flatnonzero(rank < len(ready[side]))
            rows = rows[np.argsort(rank[rows], kind="stable")]
            at = rank[rows]
            low, high = ranges[side]
            columns = [slot[rows] for slot in slots.columns]
            self._take_part(side, Batch(rows + ARRIVED, positions[side][at], low[at], high[at], columns))
        self._expect()
        for side in SIDES:
            self._sides[side].store(self._share(side))
        for side in SIDES:
            yield from self._probe(side)
        for side in SIDES:
            yield from self._let_go(side, order.release(side, bound))

    def _arrive(self, side: Side) -> SlotValues:
        """Read the rows that have arrived."""
        arrived = self.found[side]
        slots = self._spec.slots(side, arrived.table)
        self._decide.long_text[side] |= slots.long_text
        home = None if arrived.role is None else arrived.role == RowRole.ANSWERED
        self._sides[side].arrive(arrived.table, slots.live, home)
        return slots

    def _take_part(self, side: Side, everything: Batch) -> None:
        """These rows of the side take part now, in the order of their coordinates: live ones probe."""
        live = self._sides[side].live
        probing = everything if live is None else everything.take(np.flatnonzero(live[everything.row - ARRIVED]))
        self._probing[side] = probing
        self._sides[side].take_part(everything, self.found[side].times)
        self._storing[side] = everything if self._spec.reports_alone(side) else probing

    def _with_waiting(self, side: Side, new: Arrivals) -> Arrivals:
        """The tuples that have waited, then the new ones."""
        body = self._state.get(_waiting(side))
        if body is None:
            return new
        all_times, position, table, role = loaded(body, WAITING, tuple)
        if role is not None:
            role = np.concatenate([role, np.empty(0, np.int8) if new.role is None else new.role])
        every_time = np.concatenate([all_times, new.all_times])
        every_position = np.concatenate([position, new.position + len(all_times)])
        return Arrivals(
            pa.concat_tables([from_bytes(table), new.table]).combine_chunks(),
            every_time[every_position],
            every_time,
            every_position,
            role,
            new.late,
            new.late_rows,
        )

    def _wait(self, side: Side, arrived: Arrivals, ranks: Integers, times: Integers, ready: int) -> None:
        """Keep the tuples that are not ready."""
        if not len(times):
            self._state.remove(_waiting(side))
            return
        rank = ranks[arrived.position]
        rows = np.flatnonzero(rank >= ready)
        role = None if arrived.role is None else arrived.role[rows]
        self.waiting[side] = arrived.table.take(pa.array(rows))
        kept = times, rank[rows] - ready, to_bytes(self.waiting[side]), role
        self._state.put(_waiting(side), WAITING.dump(kept))

    # -- sharing out and probing -----------------------------------------------------------------------------------

    def _share(self, side: Side) -> Batch:
        """The tuples that this worker stores, of those that take part now.

        Where every worker has all tuples, a tuple's values decide which worker stores it, never its position: if Spark
        computes a part of the batch again for one worker, that worker may see the tuples in another order.
        """
        spec, batch, found = self._spec, self._storing[side], self.found[side]
        places = batch.row - ARRIVED
        if found.role is not None:
            stored = found.role[places] != RowRole.PROBING
            batch = batch if stored.all() else batch.take(np.flatnonzero(stored))
        elif spec.routing == "broadcast" and len(spec.workers) > 1:
            batch = batch.take(np.flatnonzero(self._owner(side, batch) == self._number))
        if spec.reports_alone(side) and not spec.options.needs_order:
            return self._without_ties(side, batch)
        return batch

    def _owner(self, side: Side, batch: Batch) -> Integers:
        """The places of the workers that store rows. Rows that are alike in what the condition reads share one."""
        if self._spec.reports_alone(side):
            return places_of(self._identity(side), len(self._spec.workers))[batch.row - ARRIVED]
        bits = [slot.view(f"i{slot.itemsize}") if slot.dtype.kind == "f" else slot for slot in batch.slots]
        words = hash_keys([self.found[side].times[batch.row - ARRIVED], *bits])
        return places_of(words.view(np.int64)[None], len(self._spec.workers))

    def _without_ties(self, side: Side, batch: Batch) -> Batch:
        """Rows of the same time in an order that depends on their values: so bits that are kept for the rows of a
        segment also suit the segment as another attempt at the batch has stored it."""
        if np.all(batch.coordinate[1:] > batch.coordinate[:-1]):
            return batch
        first = self._identity(side)[0][batch.row - ARRIVED]
        return batch.take(np.lexsort((first, batch.coordinate)))

    def _identity(self, side: Side) -> Integers:
        """The identities of the rows that have arrived, from their times and values."""
        if side not in self._identities:
            found = self.found[side]
            self._identities[side] = identities(self._spec, side, found.table, found.times)
        return self._identities[side]

    def _expect(self) -> None:
        for side, batch in self._probing.items():
            for window in self._sides[other(side)].windows.values():
                window.expect(batch)

    def _probe(self, side: Side) -> Iterator[pa.Table]:
        sink = PairSink(self._decide, left_probes=side == "left")
        for generation, window in self._sides[other(side)].windows.items():
            for piece in self._answered(side, self._probing[side], generation).parts():
                for _ in window.probe(Probing(piece), sink):
                    if sink.is_full:
                        yield from self._tables(side, *sink.take())
        yield from self._tables(side, *sink.take())

    def _answered(self, side: Side, batch: Batch, generation: int) -> Batch:
        """The tuples that probe here what was stored under a generation.

        These are all intervals, and the points that the generation's splitters assign to this worker.
        """
        spec = self._spec
        if spec.routing != "range" or len(self._sides[other(side)].windows) == 1 == len(self._splitters):
            return batch
        keys = RangeKeys.of(spec)
        if side != keys.point:
            return batch
        mine = own_points(keys.points(batch.slots), self._splitters, generation, self._number)
        return batch.take(np.flatnonzero(mine) if mine is not None else np.empty(0, np.int64))

    # -- results ---------------------------------------------------------------------------------------------------

    def _tables(self, probing: Side, left: list[Rows], right: list[Rows]) -> Iterator[pa.Table]:
        """The columns of found pairs, put together segment by segment of the stored side."""
        if not left:
            return
        rows: dict[Side, Rows] = {"left": np.concatenate(left), "right": np.concatenate(right)}
        stored = other(probing)
        if self._spec.options.match != "all":
            self._candidates.offer(self._sides, rows["left"], rows["right"])
            return
        self._sides[probing].meet_arrived(rows[probing])
        for number, chosen in self._sides[stored].by_segment(rows[stored]):
            of_probing, of_stored = rows[probing][chosen], rows[stored][chosen]
            self._sides[stored].meet_of_segment(number, of_stored)
            if not self._spec.gives_pairs:
                continue
            size = self._sides[stored].rows_of_a_blob(number, self._sides[probing].arrived)
            for start in range(0, len(of_stored), size):
                piece = slice(start, start + size)
                yield from self._joined(probing, of_probing[piece], number, of_stored[piece])

    def _joined(self, probing: Side, of_probing: Rows, number: int, of_stored: Rows) -> Iterator[pa.Table]:
        """Some pairs as a table, or as several tables if their texts are too long for one."""
        stored = other(probing)
        try:
            taken = {
                probing: self._sides[probing].take_arrived(of_probing),
                stored: self._sides[stored].take_of_segment(number, of_stored),
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

    # -- rows whose windows close ----------------------------------------------------------------------------------

    def _let_go(self, side: Side, floor: int | None) -> Iterator[pa.Table]:
        """No future tuple meets one of this side below the floor. Report those of them that are reported alone."""
        spec, stored, kept = self._spec, self._sides[side], self._kept.held[side]
        if spec.options.match != "all" and side == "left":
            yield from self._candidates.close(stored, INT64_MAX if spec.bounded else floor)
            self.unmatched += self._candidates.unmatched
        elif spec.reports_alone(side):
            closing = Closing(spec, side, self._state, kept, self.questions)
            yield from closing.close(stored, self._probing[side], INT64_MAX if spec.bounded else floor)
            self.unmatched += closing.unmatched
        stored.expire(floor)


def _agreed(notes: Sequence[bytes | None]) -> bytes:
    """What all routers say alike: otherwise rows would be lost."""
    found = {bytes(note or b"") for note in notes}
    if len(found) > 1:
        raise StateError(
            "routing: range: a part of the micro-batch was computed again, its rows came in other partitions, and the "
            "splitters differ; start the query again from its checkpoint"
        )
    return found.pop()


def _waiting(side: Side) -> str:
    return f"waiting-{side}"
