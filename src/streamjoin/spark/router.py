"""Routing by ranges of a key: a tuple goes only to the workers whose ranges it touches (see `range_keys`).

The splitters follow the data with RaP-Table's adjustment (PanJoin, Algorithm 1). What was stored under old splitters
stays where it is. A *generation* is a set of splitters. It lives until all that was stored under it has expired. An
interval probes wherever any living generation would have sent it. A stored interval answers, on each worker, only the
points that its own generation would have sent there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MIN, Integers, Mask, Words
from ..flow.front import AsFound
from ..side import SIDES, Side
from ..store.rap_table import adjusted_splitters, sampled_splitters
from .identity import identities, places_of
from .keyed_state import KeyedState
from .messages import POSITION, ROLE, ChunkMessage, RowRole, from_bytes, to_view
from .plain import Plain
from .range_keys import NOTES, RangeKeys, owners
from .sealed_values import SealedState
from .spec import JoinSpec
from .stored_states import loaded

NAME = "router"
"""The name of the router's state among the values of its `KeyedState`."""
FINE = 16
"""Partitions of the histogram per worker."""
UNEVEN = 1.2
"""A worker may get so many times the mean before the splitters are adjusted."""
BETTER, MOST_GENERATIONS = 0.8, 8
"""A new generation must bring the largest share down to this part of it: one frequent key cannot be divided. So many
generations may live at once: each costs a look at every tuple."""
ENOUGH = 4096
"""Fewer tuples say nothing about balance."""
ADJUSTMENTS = 8
"""Algorithm 1 takes keys to be uniform within a partition; where they have moved far, it is run again."""


@dataclass(slots=True)
class Generation:
    """`latest` is the latest timestamp that was stored under it, for each side."""

    number: int
    splitters: Integers
    latest: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, INT64_MIN))


@dataclass(slots=True)
class Histogram:
    """The three histograms of RaP-Table: for each fine partition the number of keys, the lowest and the highest key."""

    upper: Words
    count: Integers
    low: Words
    high: Words

    @classmethod
    def over(cls, upper: Words) -> Histogram:
        return cls(upper, np.zeros(len(upper), np.int64), upper.copy(), np.zeros(len(upper), np.uint64))

    def add(self, keys: Words, weight: int) -> None:
        at = np.searchsorted(self.upper, keys, side="left")
        np.add.at(self.count, at, weight)
        np.minimum.at(self.low, at, keys)
        np.maximum.at(self.high, at, keys)

    def adjusted(self) -> Words:
        return adjusted_splitters(self.count, np.minimum(self.low, self.high), self.high, len(self.upper))


@dataclass(slots=True)
class RouterState:
    """What a router keeps from one micro-batch to the next. It is the same on every router: all hear of all partitions.

    It lies in the state store, so the names of its fields are part of the state's format.
    """

    generations: list[Generation] = field(default_factory=list)
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))
    upper: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    """The fine splitters of the last generation."""


STATES = Plain({"router": RouterState, "generation": Generation})


class Router:
    """Cuts the chunks that it gets, and tells every worker about them."""

    def __init__(self, spec: JoinSpec, state: KeyedState) -> None:
        self._spec, self._state = spec, SealedState(state)
        self._keys = RangeKeys.of(spec)

    def step(self, messages: Sequence[ChunkMessage]) -> Iterator[tuple[int, ChunkMessage]]:
        body = self._state.get(NAME)
        kept: RouterState = RouterState() if body is None else loaded(body, STATES, RouterState)
        messages = sorted(messages, key=lambda message: (message.side, *message.order))
        living = self._living(kept)
        self._follow(kept, living, messages)
        current = living[-1]
        for message in messages:
            current.latest[message.side] = max(current.latest[message.side], message.latest)
            furthest = kept.furthest[message.side]
            kept.furthest[message.side] = message.latest if furthest is None else max(furthest, message.latest)
        kept.furthest = self._spec.reached(kept.furthest)
        note = NOTES.dump((current.number, {g.number: g.splitters for g in living}))
        for message in messages:
            if message.body is not None:
                yield from self._cut(message, living, note)
        kept.generations = living
        self._state.put(NAME, STATES.dump(kept))

    def _living(self, kept: RouterState) -> list[Generation]:
        """The generations under which something is stored that a future tuple may meet, and always the last one."""
        if self._spec.options.needs_order:
            return list(kept.generations)
        floor_of = floors(self._spec, kept.furthest)

        def lives(generation: Generation) -> bool:
            return any(floor is None or generation.latest[side] >= floor for side, floor in floor_of.items())

        return [g for g in kept.generations[:-1] if lives(g)] + kept.generations[-1:]

    def _cut(
        self, message: ChunkMessage, living: Sequence[Generation], note: bytes
    ) -> Iterator[tuple[int, ChunkMessage]]:
        side = message.side
        assert message.body is not None
        table = from_bytes(message.body)
        slots = self._spec.slots(side, table)
        stored = self._keys.touched(side, slots.columns, living[-1].splitters)
        sent = [mask.copy() for mask in stored]
        for generation in living[:-1]:
            for mask, touched in zip(sent, self._keys.touched(side, slots.columns, generation.splitters), strict=True):
                mask |= touched
        yield from cut(self._spec, message, table, slots.live, stored, sent, note)

    def _follow(self, kept: RouterState, living: list[Generation], messages: Sequence[ChunkMessage]) -> None:
        """Begin a new generation if this batch's keys would fall unevenly. The first batch begins the first one."""
        samples = [(sample_of(message), message.rows) for message in messages]
        samples = [(keys, max(rows // len(keys), 1)) for keys, rows in samples if len(keys)]
        workers = len(self._spec.workers)
        if not living:
            keys = np.concatenate([np.empty(0, np.int64), *(keys for keys, _ in samples)])
            kept.upper = _quantiles(_words(keys), FINE * workers)
            living.append(Generation(0, _coarse(kept.upper)))
        if workers == 1 or self._spec.options.needs_order:
            return
        load = _load(samples, living[-1].splitters)
        if load.sum() < ENOUGH or _is_even(load):
            return
        upper, splitters = kept.upper, living[-1].splitters
        for _ in range(ADJUSTMENTS):
            histogram = Histogram.over(upper)
            for keys, weight in samples:
                histogram.add(_words(keys), weight)
            upper = histogram.adjusted()
            splitters = _coarse(upper)
            if _is_even(_load(samples, splitters)):
                break
        if len(living) < MOST_GENERATIONS and _load(samples, splitters).max() < BETTER * load.max():
            kept.upper = upper
            living.append(Generation(living[-1].number + 1, splitters))


def floors(spec: JoinSpec, furthest: Mapping[Side, int | None]) -> dict[Side, int | None]:
    """In time windows: no future row meets one of a side below its floor."""
    front = AsFound(spec.options.windows, spec.progress(furthest))
    return {side: front.floor(side) for side in SIDES}


def cut(
    spec: JoinSpec, message: ChunkMessage, table: pa.Table, live: Mask | None,
    stored: Sequence[Mask], sent: Sequence[Mask], note: bytes | None = None,
) -> Iterator[tuple[int, ChunkMessage]]:  # fmt: skip
    """A chunk's messages to all workers, given which of its rows each one stores, and which it gets at all. The first
    of those that store a row answers for it."""
    side = message.side
    if live is not None:
        for mask in (*stored, *sent):
            mask &= live
    nowhere = np.flatnonzero(~np.logical_or.reduce(stored))
    times = spec.times(side, table)[nowhere]
    chosen = places_of(identities(spec, side, table.take(pa.array(nowhere)), times), len(stored))
    for worker, mask in enumerate(stored):  # rows that match nothing: any worker will do, their values choose it
        mask[nowhere[chosen == worker]] = True
        sent[worker][mask] = True
    answered = np.zeros(table.num_rows, np.bool_)
    for worker, number in enumerate(spec.workers):
        rows = np.flatnonzero(sent[worker])
        storing = np.where(answered[rows], RowRole.STORED, RowRole.ANSWERED)
        role = np.where(stored[worker][rows], storing, RowRole.PROBING)
        answered |= stored[worker]
        yield number, ChunkMessage(
            side, message.partition, message.chunk, message.rows, message.latest, message.times,
            _body(spec, table, rows, role), note,
        )  # fmt: skip


def _body(spec: JoinSpec, table: pa.Table, rows: Integers, role: Integers) -> memoryview | None:
    if not len(rows):
        return None
    cut = table.take(pa.array(rows)).append_column(ROLE, pa.array(role.astype(np.int8)))
    if spec.options.needs_order:
        cut = cut.append_column(POSITION, pa.array(rows.astype(np.int32)))
    return to_view(cut)


def _load(samples: Sequence[tuple[Integers, int]], splitters: Integers) -> Integers:
    """How many tuples each worker would get."""
    load = np.zeros(len(splitters) + 1, np.int64)
    for keys, weight in samples:
        load += weight * np.bincount(owners(keys, splitters), minlength=len(load))
    return load


def _is_even(load: Integers) -> bool:
    return bool(load.max() <= UNEVEN * load.mean())


def _coarse(upper: Words) -> Integers:
    """The splitters between workers, from the fine ones."""
    return _signed(np.minimum(upper[FINE - 1 : -1 : FINE], np.uint64(2**64 - 2)) + np.uint64(1))


def sample_of(message: ChunkMessage) -> Integers:
    """The sample of keys that a message brings (see `pack`)."""
    return np.frombuffer(message.note or b"", np.int64)


def _words(keys: Integers) -> Words:
    """Signed integers as unsigned ones in the same order."""
    return keys.view(np.uint64) ^ np.uint64(1 << 63)


def _signed(words: Words) -> Integers:
    return (words ^ np.uint64(1 << 63)).view(np.int64)


def _quantiles(words: Words, parts: int) -> Words:
    """The upper ends of parts with equally many words."""
    padded = words if len(words) > 1 else np.concatenate([words, words, np.zeros(2, np.uint64)])[:2]
    return sampled_splitters(np.sort(padded), parts)
