"""Splitting: rows with equal keys meet, as with routing by hash, and the rows of a frequent key are shared out.

Law: a key's hash chooses its *home*, the worker that stores its rows; they probe there, and nowhere else. If a home
would have much more to do than others, its most frequent keys are *split*: the worker that stores a row of such a key
follows from the row's values, and the row probes on all workers. A key that was split is remembered until all that it
has spread has expired. Till then its rows probe on all workers, wherever they are stored. So of two rows with equal
keys the later one probes where the earlier one is stored, and each row is stored on one worker.

Where the merged order says which of two rows is later, a row that came before the split may be later than one that
comes after it. There a key is split *from a time on* that no row has reached yet, and for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import INT64_MAX, INT64_MIN, Array, Integers, Mask
from ..predicate.slots import SlotValues
from ..side import SIDES, Side
from ..store.hashing import hash_keys
from .identity import identities, places_of
from .keyed_state import KeyedState
from .messages import ChunkMessage, from_bytes
from .plain import Plain
from .router import NAME, UNEVEN, cut, floors, sample_of
from .sealed_values import SealedState
from .spec import JoinSpec
from .stored_states import loaded

Hashes = npt.NDArray[np.uint64]
SHARE = 0.25
"""A key can be split if it has so large a part of a worker's fair share: less would change little."""
ENOUGH = 256
"""Fewer rows say nothing about keys."""
MOST_SPLIT = 4096
"""So many keys are remembered. (In windows of rows they are never forgotten.)"""


def key_hashes(spec: JoinSpec, side: Side, columns: Sequence[Any]) -> Hashes:
    """A hash of the predicate's equalities for each row."""
    return hash_keys([columns[pair[SIDES.index(side)]] for pair in spec.lowered.hash_slots])


def homes(hashes: Hashes, workers: int) -> Integers:
    """The places of the workers that are the homes of keys."""
    return ((hashes >> np.uint64(32)) % np.uint64(workers)).astype(np.int64)


def live_keys(spec: JoinSpec, side: Side, slots: SlotValues) -> Integers:
    """The hashes of the keys of those rows that have one."""
    hashes = key_hashes(spec, side, slots.columns)
    return (hashes if slots.live is None else hashes[slots.live]).view(np.int64)


@dataclass(slots=True)
class Spread:
    """A key's rows are shared out from the time `since` on, and the last ones were at `latest`, for each side."""

    since: int
    latest: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, INT64_MIN))


@dataclass(slots=True)
class KeyRouterState:
    """What a router keeps from one micro-batch to the next. It is the same on every router: all hear of all partitions.

    It lies in the state store, so the names of its fields are part of the state's format.
    """

    split: list[int] = field(default_factory=list)
    """The hashes of the keys whose rows are shared out now."""
    spread: dict[int, Spread] = field(default_factory=dict)
    """The keys that are split, or were and are remembered, by their hashes."""
    furthest: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(SIDES))


STATES = Plain({"keys": KeyRouterState, "spread": Spread})


class KeyRouter:
    """Cuts the chunks that it gets, and tells every worker about them."""

    def __init__(self, spec: JoinSpec, state: KeyedState) -> None:
        self._spec, self._state = spec, SealedState(state)

    def step(self, messages: Sequence[ChunkMessage]) -> Iterator[tuple[int, ChunkMessage]]:
        body = self._state.get(NAME)
        kept: KeyRouterState = KeyRouterState() if body is None else loaded(body, STATES, KeyRouterState)
        messages = sorted(messages, key=lambda message: (message.side, *message.order))
        self._forget(kept)
        self._follow(kept, messages)
        for message in messages:
            side = message.side
            for key in kept.split:
                latest = kept.spread[key].latest
                latest[side] = max(latest[side], message.latest)
            furthest = kept.furthest[side]
            kept.furthest[side] = message.latest if furthest is None else max(furthest, message.latest)
        kept.furthest = self._spec.reached(kept.furthest)
        for message in messages:
            if message.body is not None:
                yield from self._cut(message, kept)
        self._state.put(NAME, STATES.dump(kept))

    def _forget(self, kept: KeyRouterState) -> None:
        """Forget keys that are not split any more, once nothing that a future row may meet is spread."""
        if self._spec.options.needs_order:
            return
        floor_of = floors(self._spec, kept.furthest)
        kept.spread = {
            key: spread
            for key, spread in kept.spread.items()
            if key in kept.split
            or any(floor is None or spread.latest[side] >= floor for side, floor in floor_of.items())
        }

    def _follow(self, kept: KeyRouterState, messages: Sequence[ChunkMessage]) -> None:
        """Choose the keys that are split from now on."""
        samples = [sample for sample in map(sample_of, messages) if len(sample)]
        if sum(int(sample[0]) for sample in samples) < ENOUGH:
            return
        keys, which = np.unique(np.concatenate([sample[1:] for sample in samples]), return_inverse=True)
        weights = np.concatenate([np.full(len(one) - 1, one[0] / max(len(one) - 1, 1)) for one in samples])
        since = INT64_MIN
        if self._spec.options.needs_order:
            since = max(INT64_MIN if time is None else min(time, INT64_MAX - 1) + 1 for time in kept.furthest.values())
        else:
            kept.split = []
        for key in _to_split(keys, np.bincount(which, weights), len(self._spec.workers)):
            if key not in kept.split and (key in kept.spread or len(kept.spread) < MOST_SPLIT):
                kept.split.append(key)
                kept.spread.setdefault(key, Spread(since))

    def _cut(self, message: ChunkMessage, kept: KeyRouterState) -> Iterator[tuple[int, ChunkMessage]]:
        spec, side, workers = self._spec, message.side, len(self._spec.workers)
        assert message.body is not None
        table = from_bytes(message.body)
        slots = spec.slots(side, table)
        hashes = key_hashes(spec, side, slots.columns)
        home = homes(hashes, workers)
        everywhere = _are_spread(hashes, spec.times(side, table), kept)
        split = np.flatnonzero(everywhere & np.isin(hashes.view(np.int64), np.array(kept.split, np.int64)))
        if len(split):
            rows = table.take(pa.array(split))
            home[split] = places_of(identities(spec, side, rows, spec.times(side, rows)), workers)
        stored = [home == worker for worker in range(workers)]
        yield from cut(spec, message, table, slots.live, stored, [mask | everywhere for mask in stored])


def _to_split(keys: Integers, count: Array, workers: int) -> Iterator[int]:
    """The keys to split, given how many rows each has: the most frequent ones of homes that would have too many."""
    mean = count.sum() / workers
    home = homes(keys.view(np.uint64), workers)
    load = np.bincount(home, count, workers)
    large = np.flatnonzero(count > SHARE * mean)
    for at in large[np.argsort(-count[large], kind="stable")]:
        if load[home[at]] > UNEVEN * mean:
            load[home[at]] -= count[at]
            load += count[at] / workers
            yield int(keys[at])


def _are_spread(hashes: Hashes, times: Integers, kept: KeyRouterState) -> Mask:
    """Which rows probe on all workers."""
    keys = np.array(sorted(kept.spread), np.int64)
    if not len(keys):
        return np.zeros(len(hashes), np.bool_)
    since = np.array([kept.spread[key].since for key in keys.tolist()], np.int64)
    at = np.minimum(np.searchsorted(keys, hashes.view(np.int64)), len(keys) - 1)
    return (keys[at] == hashes.view(np.int64)) & (times >= since[at])
