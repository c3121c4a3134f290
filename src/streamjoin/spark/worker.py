"""A worker: its share of both windows, and one step per micro-batch (PanJoin, section III-A, step 4).

A step is a function of the state and the messages: it may be repeated, by another process on another machine, with the
same result. Of the state store it knows three things (`Truth`), of Spark nothing.

Law: a pair is found by the later of its two tuples, which probes where the earlier one is stored (within a micro-batch,
right tuples find left ones; where the merged order counts, it decides). Every tuple is stored by one worker, or, routed
by ranges, by several of which one answers. So every pair is found exactly once, however tuples are shared out.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ..errors import StateError
from ..flow.front import Arrival, AsFound
from ..flow.order import MergedOrder
from ..flow.progress import Progress
from ..predicate.expr import SIDES, Side, other
from ..predicate.recheck import Recheck
from ..store import Batch, PairSink, Probing, Window
from ..store.batch import Rows
from .arrivals import Arrivals, arrivals
from .messages import Message, Part, from_bytes, to_bytes
from .ranges import Keys, own_points
from .segments import Cache, Place, Segment, new_name, packed, unpacked
from .spec import Integers, JoinSpec

ARRIVED = 1 << 60
"""Row numbers of the tuples of this micro-batch; those of segments are far below."""
GROWTH, PER_WINDOW, SMALL = 4, 3, 1 << 12
"""Small segments are merged until each is so many times as long as the next, but not beyond a third of the window."""
VERSION = 1


class Truth(Protocol):
    """Values by name, committed with the micro-batch or not at all."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, body: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


@dataclass(slots=True)
class Memory:
    """What a worker remembers from one micro-batch to the next, beside its segments' rows."""

    routing: str
    workers: tuple[int, ...]
    batches: int = 0
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))
    long_text: dict[Side, bool] = field(default_factory=lambda: dict.fromkeys(SIDES, False))
    next_row: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    segments: dict[Side, list[Place]] = field(default_factory=lambda: {side: [] for side in SIDES})
    order: MergedOrder | None = None
    version: int = VERSION


@dataclass(slots=True)
class Outcome:
    """What a step found: tables of the result, late rows by side, and figures for whoever watches."""

    results: list[pa.Table]
    late: dict[Side, pa.Table]
    figures: dict[str, Any]


MEMORY = "memory"


def _waiting(side: Side) -> str:
    return f"waiting-{side}"


class Worker:
    """`number` is this worker's among all of them."""

    def __init__(self, spec: JoinSpec, number: int, truth: Truth) -> None:
        self._spec, self._number, self._truth = spec, number, truth
        self._cache = Cache(spec.identity, str(number), spec.cache_directory)

    def step(self, messages: Sequence[Message]) -> Outcome:
        """Join what a micro-batch brings with the windows, and move these on."""
        started = time.perf_counter()
        body = self._truth.get(MEMORY)
        memory = Memory(self._spec.routing, self._spec.workers) if body is None else self._checked(pickle.loads(body))
        step = _Step(self._spec, self._number, self._truth, self._cache, memory)
        outcome = step.run(messages)
        memory.batches += 1
        self._truth.put(MEMORY, pickle.dumps(memory))
        self._cache.keep_only(place.name for side in SIDES for place in memory.segments[side])
        outcome.figures["seconds"] = time.perf_counter() - started
        return outcome

    def _checked(self, memory: Memory) -> Memory:
        """What was shared out among other workers, or in another way, would not be found again."""
        spec = self._spec
        if (memory.routing, memory.workers) != (spec.routing, spec.workers):
            raise StateError(
                f"the checkpoint belongs to a join with partitions={len(memory.workers)}, routing={memory.routing!r} "
                f"and cannot be continued with partitions={len(spec.workers)}, routing={spec.routing!r}: give the "
                "same again, or begin with a new checkpoint"
            )
        return memory


class _Step:
    """One micro-batch."""

    def __init__(self, spec: JoinSpec, number: int, truth: Truth, cache: Cache, memory: Memory) -> None:
        self._spec, self._number, self._truth, self._cache, self._memory = spec, number, truth, cache, memory
        self._progress = Progress(spec.options.lateness)
        self._progress.furthest = dict(memory.furthest)
        self._generation = 0
        self._splitters: dict[int, Integers] = {}
        self._windows: dict[Side, dict[int, Window]] = {side: {} for side in SIDES}
        self._tables: dict[Side, pa.Table] = {}
        self._segments: dict[Side, list[Segment]] = {side: [] for side in SIDES}
        self._decide = Recheck(spec.lowered, self._take)
        self._decide.long_text = memory.long_text
        self._results: list[pa.Table] = []

    def run(self, messages: Sequence[Message]) -> Outcome:
        spec, memory = self._spec, self._memory
        found = {
            side: arrivals(spec, side, [m for m in messages if m.side == side], self._progress, self._number)
            for side in SIDES
        }
        for message in messages:
            latest = memory.furthest[message.side]
            memory.furthest[message.side] = message.latest if latest is None else max(latest, message.latest)
        self._progress.furthest = dict(memory.furthest)
        if spec.routing == "range":
            self._generation, self._splitters = pickle.loads(messages[0].note or b"")
        for side in SIDES:
            self._load(side)
        if spec.options.needs_order:
            self._join_in_order(found)
        else:
            self._join_as_found(found)
        self._merge_small_segments()
        return Outcome(self._results, {side: found[side].late for side in SIDES}, self._figures(messages, found))

    # -- which tuples take part ------------------------------------------------------------------------------------

    def _join_as_found(self, found: dict[Side, Arrivals]) -> None:
        front = AsFound(self._spec.options.windows, self._progress)
        batches: dict[Side, Batch] = {}
        for side, arrived in found.items():
            self._tables[side] = arrived.table
            rows = np.arange(ARRIVED, ARRIVED + len(arrived.times))
            slots = self._slots(side, arrived.table)
            live = np.ones(len(rows), np.bool_) if slots.live is None else slots.live
            step = front.push(side, Arrival(rows, arrived.times, live, slots.columns))
            assert step is not None
            batches[side] = step.batches[side]
        for side in SIDES:
            for window in self._windows[other(side)].values():
                window.expect(batches[side])
        for side in SIDES:  # a left tuple finds the right ones of earlier batches, a right one also this batch's left
            self._probe(side, batches[side])
            self._store(side, batches[side], found[side])
        self._expire({side: front.floor(side) for side in SIDES})

    def _join_in_order(self, found: dict[Side, Arrivals]) -> None:
        memory = self._memory
        if memory.order is None:
            memory.order = MergedOrder(self._spec.options.windows)
        order = memory.order
        bound = np.iinfo(np.int64).max if self._spec.bounded else self._progress.watermark
        ranks: dict[Side, Integers] = {}
        ready: dict[Side, Integers] = {}
        for side in SIDES:
            arrived = found[side] = self._with_waiting(side, found[side])
            sequence = np.argsort(arrived.everybody, kind="stable")
            ranks[side] = np.empty(len(sequence), np.int64)
            ranks[side][sequence] = np.arange(len(sequence))
            times = arrived.everybody[sequence]
            count = 0 if bound is None else len(times) if self._spec.bounded else int(np.searchsorted(times, bound))
            ready[side] = times[:count]
            self._wait(side, arrived, ranks[side], times[count:], count)
        positions, ranges = order.place(ready["left"], ready["right"])
        batches: dict[Side, Batch] = {}
        for side, arrived in found.items():
            self._tables[side] = arrived.table
            rank = ranks[side][arrived.place]
            rows = np.flatnonzero(rank < len(ready[side]))
            rows = rows[np.argsort(rank[rows], kind="stable")]
            slots = self._slots(side, arrived.table)
            if slots.live is not None:
                rows = rows[slots.live[rows]]
            at = rank[rows]
            low, high = ranges[side]
            batches[side] = Batch(
                rows + ARRIVED, positions[side][at], low[at], high[at], [slot[rows] for slot in slots.columns]
            )
        for side in SIDES:
            for window in self._windows[other(side)].values():
                window.expect(batches[side])
        for side in SIDES:
            self._store(side, batches[side], found[side])
        for side in SIDES:
            self._probe(side, batches[side])
        floors = {side: order.floor(side, bound) for side in SIDES}
        for side in SIDES:
            order.history[side].forget(floors[side])
        self._expire(dict(floors))

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

    def _slots(self, side: Side, table: pa.Table) -> Any:
        slots = self._spec.slots(side, table)
        self._decide.long_text[side] |= slots.long_text
        return slots

    # -- probing ---------------------------------------------------------------------------------------------------

    def _probe(self, side: Side, batch: Batch) -> None:
        sink = PairSink(self._decide, left_probes=side == "left")
        for generation, window in self._windows[other(side)].items():
            for piece in self._answered(side, batch, generation).parts():
                for _ in window.probe(Probing(piece), sink):
                    if sink.is_full:
                        self._emit(other(side), *sink.take())
        self._emit(other(side), *sink.take())

    def _answered(self, side: Side, batch: Batch, generation: int) -> Batch:
        """The tuples that this worker answers for what was stored under a generation: all, but for points."""
        spec = self._spec
        if spec.routing != "range" or len(self._windows[other(side)]) == 1 == len(self._splitters):
            return batch
        keys = Keys(spec)
        if side != keys.point:
            return batch
        mine = own_points(keys.points(batch.slots), self._splitters, generation, self._number)
        return batch.take(np.flatnonzero(mine) if mine is not None else np.empty(0, np.int64))

    def _emit(self, stored: Side, left: list[Rows], right: list[Rows]) -> None:
        """Put the columns of found pairs together."""
        if not left:
            return
        rows: dict[Side, Rows] = {"left": np.concatenate(left), "right": np.concatenate(right)}
        for piece in self._by_segment(stored, rows[stored]):
            columns = [column for side in SIDES for column in self._take(side, rows[side][piece], None).columns]
            self._results.append(pa.Table.from_arrays(columns, schema=self._spec.result))

    def _by_segment(self, side: Side, rows: Rows) -> Iterator[Any]:
        firsts = [place.first for place in self._memory.segments[side]]
        if len(firsts) < 2:
            yield slice(None)
            return
        segment = np.searchsorted(firsts, rows, side="right") - 1
        for number in range(len(firsts)):
            chosen = np.flatnonzero(segment == number)
            if len(chosen):
                yield chosen

    def _take(self, side: Side, rows: Rows, names: list[str] | None) -> pa.Table:
        """Columns of some rows of one side: of this micro-batch, or of segments."""
        if not len(rows) or rows[0] >= ARRIVED:
            table = self._tables[side]
            return (table if names is None else table.select(names)).take(pa.array(rows - ARRIVED))
        pieces = []
        order = []
        for chosen in self._by_segment(side, rows):
            number = int(np.searchsorted([p.first for p in self._memory.segments[side]], rows[chosen][0], "right")) - 1
            table = self._segments[side][number].table
            table = table if names is None else table.select(names)
            pieces.append(table.take(pa.array(rows[chosen] - self._memory.segments[side][number].first)))
            order.append(chosen)
        if len(pieces) == 1:
            return pieces[0]
        places = np.argsort(np.concatenate(order), kind="stable")
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(places))

    # -- the windows -----------------------------------------------------------------------------------------------

    def _load(self, side: Side) -> None:
        """Adopt the side's segments."""
        places = self._memory.segments[side]
        self._segments[side] = [self._cache.get(p.name, lambda p=p: self._rebuild(side, p)) for p in places]  # type: ignore[misc]
        for generation in sorted({self._generation, *(place.generation for place in places)}):
            window = self._windows[side][generation] = self._new_window(side)
            mine = [s for s, p in zip(self._segments[side], places, strict=True) if p.generation == generation]
            window.adopt([subwindow for segment in mine for subwindow in segment.subwindows])

    def _new_window(self, side: Side) -> Window:
        return Window(self._spec.lowered, side, self._spec.options.index, _one_after_another)

    def _rebuild(self, side: Side, place: Place) -> Segment:
        """A segment whose file is missing, from the state store."""
        body = self._truth.get(place.name)
        if body is None:
            raise AssertionError(f"the state store has lost segment {place.name}")
        table, coordinate = unpacked(body)
        return self._build(self._new_window(side), side, table, coordinate, place.first)

    def _build(self, window: Window, side: Side, table: pa.Table, coordinate: Integers, first: int) -> Segment:
        rows = np.arange(first, first + table.num_rows)
        slots = self._spec.slots(side, table)
        return Segment(table, window.insert_sealed(Batch(rows, coordinate, coordinate, coordinate, slots.columns)))

    def _store(self, side: Side, batch: Batch, arrived: Arrivals) -> None:
        """Keep this worker's share of a batch as a new segment."""
        if not len(batch):
            return
        arrived_row = batch.row - ARRIVED
        if arrived.part is not None:
            mine = np.flatnonzero(arrived.part[arrived_row] != Part.PROBING)
        elif self._spec.routing == "broadcast":
            workers = len(self._spec.workers)
            turn = (self._number + self._memory.batches) % workers
            # Tuples of one timestamp stay together: should a part of the batch be computed again for one worker only,
            # they may come to it in another order than the others have seen.
            firsts = batch.coordinate[len(batch) * np.arange(workers) // workers]
            cuts = [*np.searchsorted(batch.coordinate, firsts), len(batch)]
            mine = np.arange(cuts[turn], cuts[turn + 1])
        else:
            mine = np.arange(len(batch))
        if not len(mine):
            return
        kept = batch.take(mine)
        first = self._memory.next_row[side]
        kept.row = np.arange(first, first + len(mine))
        table = arrived.table.take(pa.array(arrived_row[mine])).combine_chunks()
        made = self._windows[side][self._generation].insert_sealed(kept)
        self._add(side, Segment(table, made), kept.coordinate, self._generation)

    def _add(self, side: Side, segment: Segment, coordinate: Integers, generation: int) -> None:
        memory, name, rows = self._memory, new_name(), segment.table.num_rows
        self._truth.put(name, packed(segment.table, coordinate))
        self._cache.put(name, segment)
        memory.segments[side].append(Place(name, memory.next_row[side], rows, int(coordinate.max()), generation))
        memory.next_row[side] += rows
        self._segments[side].append(segment)

    def _expire(self, floors: dict[Side, int | None]) -> None:
        for side, floor in floors.items():
            if floor is None:
                continue
            places = self._memory.segments[side]
            kept = [place.highest >= floor for place in places]
            self._forget([place for place, stays in zip(places, kept, strict=True) if not stays])
            self._memory.segments[side] = [place for place, stays in zip(places, kept, strict=True) if stays]
            self._segments[side] = [s for s, stays in zip(self._segments[side], kept, strict=True) if stays]

    def _forget(self, places: Sequence[Place]) -> None:
        for place in places:
            self._truth.remove(place.name)
        self._cache.drop(place.name for place in places)

    def _merge_small_segments(self) -> None:
        """Keep segments few: the youngest ones become one, while it is not much smaller than the one before it."""
        for side in SIDES:
            places = self._memory.segments[side]
            largest = max(sum(place.rows for place in places) // PER_WINDOW, SMALL)
            start = len(places) - 1
            rows = places[start].rows if places else 0
            while start > 0 and _belongs(places[start - 1], places[-1], rows, largest):
                start -= 1
                rows += places[start].rows
            if start >= len(places) - 1:
                continue
            bodies = [self._truth.get(place.name) for place in places[start:]]
            parts = [unpacked(body) for body in bodies if body is not None]
            table = pa.concat_tables([part[0] for part in parts]).combine_chunks()
            coordinate = np.concatenate([part[1] for part in parts])
            generation = places[-1].generation
            window = self._windows[side][generation]
            merged = self._build(window, side, table, coordinate, self._memory.next_row[side])
            self._forget(places[start:])
            del places[start:], self._segments[side][start:]
            self._add(side, merged, coordinate, generation)

    def _figures(self, messages: Sequence[Message], found: dict[Side, Arrivals]) -> dict[str, Any]:
        first = self._number == 0
        memory = self._memory
        return {
            **{f"{side}_in": sum(m.rows for m in messages if m.side == side) if first else 0 for side in SIDES},
            **{f"{side}_late": found[side].late_rows for side in SIDES},
            **{f"{side}_window": sum(place.rows for place in memory.segments[side]) for side in SIDES},
            "out": sum(table.num_rows for table in self._results),
            "seconds": 0.0,
        }


def _belongs(place: Place, youngest: Place, rows: int, largest: int) -> bool:
    """Whether a segment is to be merged with the younger ones behind it, which have so many rows."""
    alike = place.generation == youngest.generation
    return alike and place.rows < GROWTH * rows and place.rows + rows <= largest


def _one_after_another(tasks: Sequence[Any]) -> None:
    for task in tasks:
        task()
