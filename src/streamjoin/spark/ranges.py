"""Routing by ranges of a key: a tuple goes only to the workers whose ranges it touches.

A band says that a number of one stream, the *point*, lies in an interval that the other stream gives. Workers divide
the points' range among them. A point has one worker; an interval has all workers that it touches, usually one or two,
and is stored by each of them. So a point and an interval that holds it always meet, on the point's worker and nowhere
else.

The splitters follow the data with RaP-Table's adjustment (PanJoin, Algorithm 1). What was stored under old splitters
stays where it is: a *generation* is a set of splitters and lives until all that was stored under it has expired. An
interval probes wherever it would have gone under any living generation; a stored interval answers, on each worker, only
the points that its own generation would have sent there.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Integers, Mask
from ..flow.front import AsFound
from ..flow.progress import Progress
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import SIDES, Side, other
from ..store.rap_table import adjusted_splitters, sampled_splitters
from .messages import PART, PLACE, Message, Part, from_bytes, to_view
from .spec import JoinSpec

FINE = 16
"""Partitions of the histogram per worker."""
SAMPLE = 1024
UNEVEN = 1.2
"""How much more than the mean a worker may get before the splitters are adjusted."""
BETTER, MOST_GENERATIONS = 0.8, 8
"""How much the largest share must shrink to be worth a new generation (one frequent key cannot be divided), and how
many may live at once: each costs a look at every tuple."""
ENOUGH = 4096
"""So many tuples say something about balance."""
ADJUSTMENTS = 8
"""Algorithm 1 takes keys to be uniform inside of a partition, so where they have moved far it is run again."""
_LOWEST = -(2**63)


def range_key(lowered: Lowered) -> tuple[Side, RangeKey] | None:
    """The side whose tuples are points, and the key: one that is there for every tuple and bounded if possible."""
    found = [
        (side, key)
        for side in SIDES
        for key in lowered.range_keys[side]
        if key.width is None and key.regular == (None, None)
    ]
    return min(found, key=lambda choice: not choice[1].bounded, default=None)


class Keys:
    """Reads a side's points or intervals from its slots."""

    def __init__(self, spec: JoinSpec) -> None:
        assert spec.range_key is not None
        self._spec = spec
        self.point, self.key = spec.range_key

    def points(self, slots: Sequence[Any]) -> Integers:
        return np.asarray(slots[self.key.key], np.int64)

    def intervals(self, slots: Sequence[Any]) -> list[tuple[Integers, Integers, Mask]]:
        """For each interval its ends and where it is not empty."""
        found = []
        known = self._spec.lowered.slots[other(self.point)]
        for low_slot, high_slot in self.key.intervals:
            count = len(slots[0])
            low = np.full(count, _LOWEST) if low_slot is None else np.asarray(slots[low_slot], np.int64)
            high = np.full(count, 2**63 - 1) if high_slot is None else np.asarray(slots[high_slot], np.int64)
            asks = low <= high
            for bound in (low_slot, high_slot):
                validity = None if bound is None or known[bound].required else known[bound].validity
                if validity is not None:
                    asks &= slots[validity]
            found.append((low, high, asks))
        return found

    def touched(self, side: Side, slots: Sequence[Any], splitters: Integers) -> list[Mask]:
        """For each worker, which tuples it gets."""
        workers = range(len(splitters) + 1)
        if side == self.point:
            owner = owners(self.points(slots), splitters)
            return [owner == worker for worker in workers]
        masks = [np.zeros(len(slots[0]), np.bool_) for _ in workers]
        for low, high, asks in self.intervals(slots):
            first, last = owners(low, splitters), owners(high, splitters)
            for worker, mask in enumerate(masks):
                mask |= asks & (first <= worker) & (worker <= last)
        return masks

    def sample(self, side: Side, slots: Sequence[Any]) -> Integers:
        """Keys that stand for a chunk, in ascending order: of points; of intervals those ends that there are."""
        if side == self.point:
            keys = self.points(slots)
        else:
            low, high, asks = self.intervals(slots)[0]
            keys = (low if self.key.intervals[0][0] is not None else high)[asks]
        keys = np.sort(keys)
        return keys[:: -(-len(keys) // SAMPLE)] if len(keys) else keys


def owners(points: Integers, splitters: Integers) -> Integers:
    """Worker w has the points from splitter w - 1 on, below splitter w."""
    return np.searchsorted(splitters, points, side="right")


@dataclass(slots=True)
class Generation:
    """`latest`: the latest timestamp that was stored under it."""

    number: int
    splitters: Integers
    latest: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, _LOWEST))


@dataclass(slots=True)
class Histogram:
    """The three histograms of RaP-Table: of fine partitions how many keys, which the lowest, which the highest."""

    upper: npt.NDArray[np.uint64]
    count: Integers
    low: npt.NDArray[np.uint64]
    high: npt.NDArray[np.uint64]

    @classmethod
    def over(cls, upper: npt.NDArray[np.uint64]) -> Histogram:
        return cls(upper, np.zeros(len(upper), np.int64), upper.copy(), np.zeros(len(upper), np.uint64))

    def add(self, keys: npt.NDArray[np.uint64], weight: int) -> None:
        at = np.searchsorted(self.upper, keys, side="left")
        np.add.at(self.count, at, weight)
        np.minimum.at(self.low, at, keys)
        np.maximum.at(self.high, at, keys)

    def adjusted(self) -> npt.NDArray[np.uint64]:
        return adjusted_splitters(self.count, np.minimum(self.low, self.high), self.high, len(self.upper))


@dataclass(slots=True)
class RouterMemory:
    """The same on every router, since all of them hear of all chunks."""

    generations: list[Generation] = field(default_factory=list)
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))
    upper: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    """Fine splitters of the last generation."""


class Router:
    """Cuts the chunks that were sent to it, and tells every worker about them. `truth` is as for `Worker`."""

    def __init__(self, spec: JoinSpec, truth: Any) -> None:
        self._spec, self._truth = spec, truth
        self._keys = Keys(spec)

    def step(self, messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
        body = self._truth.get("router")
        memory: RouterMemory = RouterMemory() if body is None else pickle.loads(body)
        messages = sorted(messages, key=lambda message: (message.side, *message.place))
        living = self._living(memory)
        self._follow(memory, living, messages)
        current = living[-1]
        for message in messages:
            current.latest[message.side] = max(current.latest[message.side], message.latest)
            furthest = memory.furthest[message.side]
            memory.furthest[message.side] = message.latest if furthest is None else max(furthest, message.latest)
        note = pickle.dumps((current.number, {g.number: g.splitters for g in living}))
        for message in messages:
            if message.body is not None:
                yield from self._cut(message, living, note)
        memory.generations = living
        self._truth.put("router", pickle.dumps(memory))

    def _living(self, memory: RouterMemory) -> list[Generation]:
        """Generations under which something is stored that a tuple to come may meet; the last one always."""
        if self._spec.options.needs_order:
            return list(memory.generations)
        progress = Progress(self._spec.options.lateness)
        progress.furthest = memory.furthest
        front = AsFound(self._spec.options.windows, progress)
        floors = {side: front.floor(side) for side in SIDES}

        def lives(generation: Generation) -> bool:
            return any(floor is None or generation.latest[side] >= floor for side, floor in floors.items())

        return [g for g in memory.generations[:-1] if lives(g)] + memory.generations[-1:]

    def _cut(self, message: Message, living: Sequence[Generation], note: bytes) -> Iterator[tuple[int, Message]]:
        spec, side = self._spec, message.side
        assert message.body is not None
        table = from_bytes(message.body)
        slots = spec.slots(side, table)
        stored = self._keys.touched(side, slots.columns, living[-1].splitters)
        sent = [mask.copy() for mask in stored]
        for generation in living[:-1]:
            for mask, touched in zip(sent, self._keys.touched(side, slots.columns, generation.splitters), strict=True):
                mask |= touched
        if slots.live is not None:
            for mask in (*stored, *sent):
                mask &= slots.live
        nowhere = np.flatnonzero(~np.logical_or.reduce(stored))
        for worker, mask in enumerate(stored):  # rows that match nothing are only counted: they go round
            mask[nowhere[nowhere % len(stored) == worker]] = True
            sent[worker] |= mask
        answered = np.zeros(table.num_rows, np.bool_)
        for worker, number in enumerate(spec.workers):
            rows = np.flatnonzero(sent[worker])
            part = np.where(stored[worker][rows], np.where(answered[rows], Part.STORED, Part.ANSWERED), Part.PROBING)
            answered |= stored[worker]
            yield number, Message(
                side, message.partition, message.chunk, message.rows, message.latest, message.times,
                self._body(table, rows, part), note,
            )  # fmt: skip

    def _body(self, table: pa.Table, rows: Integers, part: Integers) -> memoryview | None:
        if not len(rows):
            return None
        cut = table.take(pa.array(rows)).append_column(PART, pa.array(part.astype(np.int8)))
        if self._spec.options.needs_order:
            cut = cut.append_column(PLACE, pa.array(rows.astype(np.int32)))
        return to_view(cut)

    def _follow(self, memory: RouterMemory, living: list[Generation], messages: Sequence[Message]) -> None:
        """Begin a new generation where this batch's keys would fall unevenly; the first one in any case."""
        samples = [(sample_of(message), message.rows) for message in messages]
        samples = [(keys, max(rows // len(keys), 1)) for keys, rows in samples if len(keys)]
        workers = len(self._spec.workers)
        if not living:
            keys = np.concatenate([np.empty(0, np.int64), *(keys for keys, _ in samples)])
            memory.upper = _quantiles(_words(keys), FINE * workers)
            living.append(Generation(0, _coarse(memory.upper)))
        if workers == 1 or self._spec.options.needs_order:
            return
        load = _load(samples, living[-1].splitters)
        if load.sum() < ENOUGH or _is_even(load):
            return
        upper, splitters = memory.upper, living[-1].splitters
        for _ in range(ADJUSTMENTS):
            histogram = Histogram.over(upper)
            for keys, weight in samples:
                histogram.add(_words(keys), weight)
            upper = histogram.adjusted()
            splitters = _coarse(upper)
            if _is_even(_load(samples, splitters)):
                break
        if len(living) < MOST_GENERATIONS and _load(samples, splitters).max() < BETTER * load.max():
            memory.upper = upper
            living.append(Generation(living[-1].number + 1, splitters))


def _load(samples: Sequence[tuple[Integers, int]], splitters: Integers) -> Integers:
    """How many tuples each worker would get."""
    load = np.zeros(len(splitters) + 1, np.int64)
    for keys, weight in samples:
        load += weight * np.bincount(owners(keys, splitters), minlength=len(load))
    return load


def _is_even(load: Integers) -> bool:
    return bool(load.max() <= UNEVEN * load.mean())


def _coarse(upper: npt.NDArray[np.uint64]) -> Integers:
    """The splitters between workers, of the fine ones."""
    return _signed(np.minimum(upper[FINE - 1 : -1 : FINE], np.uint64(2**64 - 2)) + np.uint64(1))


def sample_of(message: Message) -> Integers:
    """The keys that a packed chunk was sent with."""
    assert message.note is not None
    return np.frombuffer(message.note, np.int64)


def _words(keys: Integers) -> npt.NDArray[np.uint64]:
    """Integers as unsigned ones in the same order."""
    return keys.view(np.uint64) ^ np.uint64(1 << 63)


def _signed(words: npt.NDArray[np.uint64]) -> Integers:
    return (words ^ np.uint64(1 << 63)).view(np.int64)


def _quantiles(words: npt.NDArray[np.uint64], parts: int) -> npt.NDArray[np.uint64]:
    """The upper ends of so many parts."""
    padded = words if len(words) > 1 else np.concatenate([words, words, np.zeros(2, np.uint64)])[:2]
    return sampled_splitters(np.sort(padded), parts)


def own_points(points: Integers, splitters: Mapping[int, Integers], generation: int, worker: int) -> Mask | None:
    """Which points a worker answers for what was stored under a generation; None: the generation is no longer alive."""
    if generation not in splitters:
        return None
    return owners(points, splitters[generation]) == worker
