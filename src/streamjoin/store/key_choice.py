"""Choosing the key space of a side from samples of both streams, at the border of two subwindows.

Every candidate is tried on the samples: how many ranges does a probing tuple ask for, and what share of the stored
tuples lies in them? The cheapest wins. So a two-dimensional band finds its better column, or cells over both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Words
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered, Test
from ..predicate.render import render
from ..side import Side, other
from .batch import Batch, concatenated
from .costs import costs
from .grid import Grid, GridKeys, are_regular
from .key_arithmetic import Reduction, lowered_by
from .keyspace import HASH_BITS, KEY_BITS, REST_BITS, KeySpace
from .ranges import Ranges

STORED_SAMPLE, PROBING_SAMPLE = 1024, 256
KEPT = 32
"""A batch of more times as many tuples as a sample has is not kept for a sample, but some of its tuples are."""
MOST_RECENT = 256
"""Small batches that are remembered for a sample."""
MOST_CELL_BITS = 20
PATIENCE = 1.3
"""By what factor a key space may become worse before others are tried, and by what factor these must be better."""
REVIEW = 1 << 15
"""Tuples that are stored between two looks at whether the current key space still serves well."""
_EMPTY: dict[str, Any] = {"widest": {}, "narrowest": {}, "exact": True}


class KeyChooser:
    """Watches samples of both streams, and chooses the key space of one stored side."""

    def __init__(self, lowered: Lowered, stored: Side) -> None:
        self.lowered, self._stored = lowered, stored
        mine = stored == "right"
        self._equalities = tuple((pair[mine], pair[not mine]) for pair in lowered.hash_slots)
        self._keys = lowered.range_keys[stored]
        self._stored_sample: dict[int, Array] = {}
        self._probing_sample: Batch | None = None
        self._recent: dict[str, deque[Batch]] = {role: deque(maxlen=MOST_RECENT) for role in ("stored", "probing")}
        self._current: KeySpace | None = None
        self._adopted: dict[Any, KeySpace] = {}
        self._aliases = ("l", "r")
        self._cost_when_chosen, self._window_when_chosen = 0.0, 0
        self._chosen_knowing = False
        self._unseen = 0
        """Tuples that have been stored since the last choice."""
        self.probing = 0
        """Tuples of the last batch that probed."""
        self.changes = 0
        self.cost = 0.0
        """What a probing tuple is likely to cost in the window, in nanoseconds, once a space was chosen."""
        self.candidates: float | None = None
        """How many candidates a probing tuple is likely to find in the window; None while nothing is known."""

    @property
    def usable(self) -> bool:
        return bool(self._equalities or self._keys)

    @property
    def text(self) -> str | None:
        """The keys in use; None before any was chosen."""
        return None if self._current is None else self._current.why

    @property
    def is_informed(self) -> bool:
        """Whether both sides have been seen."""
        return bool(self._recent["stored"] and self._recent["probing"])

    def observe_stored(self, batch: Batch) -> None:
        self._unseen += len(batch)
        self._observe("stored", batch, STORED_SAMPLE)

    def observe_probing(self, batch: Batch) -> None:
        self.probing = len(batch)
        self._observe("probing", batch, PROBING_SAMPLE)

    def _observe(self, role: str, batch: Batch, wanted: int) -> None:
        """Remember the youngest batches, enough for a sample."""
        count = len(batch)
        if count:
            recent = self._recent[role]
            if count >= wanted:
                recent.clear()
            recent.append(batch if count <= KEPT * wanted else _some(batch, wanted))

    def _sample(self) -> None:
        """Put the samples together."""
        stored = _youngest(self._recent["stored"], STORED_SAMPLE)
        probing = _youngest(self._recent["probing"], PROBING_SAMPLE)
        if stored:
            self._stored_sample = {
                k: np.concatenate([batch.slots[k] for batch in stored]) for k in self.lowered.kept[self._stored]
            }
        if probing:
            self._probing_sample = concatenated(probing)

    def adopt(self, space: KeySpace) -> KeySpace:
        """The space to use instead of one that was chosen elsewhere. All spaces of one shape become one, so that their
        subwindows are probed together. It stays in use until another one is much better."""
        if space.shape not in self._adopted:
            fresh = replace(space, widest=dict(space.widest), narrowest=dict(space.narrowest))
            self._adopted[space.shape] = fresh
        shared = self._adopted[space.shape]
        shared.include(space)
        self._current = shared
        return shared

    def space(self, window: int) -> KeySpace:
        """The key space for the next subwindow of a window that has `window` tuples. To choose takes as long as to
        search for thousands of tuples, so a small subwindow gets the space of the one before, if its keys fit in."""
        is_recent = self._chosen_knowing and self._unseen < REVIEW and window <= 2 * self._window_when_chosen
        if self._current is not None and is_recent and self._fits_newest(self._current):
            return self._current
        return self.choose(window)

    def _fits_newest(self, space: KeySpace) -> bool:
        """Whether the space has room for all keys of the newest batch."""
        slots = self._recent["stored"][-1].slots
        pairs = (space.cells, space.cell_reduction), (space.suffix, space.reduction)
        return all(
            key is None or (slots[key.key].min() >= reduction.base and slots[key.key].max() <= reduction.last)
            for key, reduction in pairs
        )

    def choose(self, window: int) -> KeySpace:
        """The best key space for a window that has `window` tuples.

        The current one stays in use while it serves well: subwindows that share a key space also share the
        work of computing a batch's ranges.
        """
        self._sample()
        self._unseen = 0
        current = self._current
        best: KeySpace | None = None
        best_cost = np.inf
        if current is not None and self._covers(current):
            cost, self.candidates = self._cost(current, window)
            self.cost = cost
            known = self._chosen_knowing and window <= 2 * self._window_when_chosen
            if known and cost <= PATIENCE * max(self._cost_when_chosen, costs().range_):
                return current
            best, best_cost = current, cost / PATIENCE  # others must be better by this factor
        for space in self._candidates():
            cost, candidates = self._cost(space, window)
            if cost < best_cost:
                best, best_cost, self.candidates, self.cost = space, cost, candidates, cost
        assert best is not None
        self.changes += current is not None and best is not current
        self._current = best
        self._cost_when_chosen = best_cost * PATIENCE if best is current else best_cost
        self._window_when_chosen = window
        self._chosen_knowing = self.is_informed
        return best

    def _covers(self, space: KeySpace) -> bool:
        """Whether the space has room for the keys of the current sample."""
        for key, reduction in ((space.cells, space.cell_reduction), (space.suffix, space.reduction)):
            if key is not None and self._stored_sample:
                values = self._stored_sample[key.key].astype(np.int64)
                outside = (values < reduction.base) | (values > min(reduction.last, INT64_MAX))
                if outside.mean() > 0.01:
                    return False
                if key.width is not None and key.key in space.limit:
                    distance = space.distance(key, self._stored_sample)
                    if (distance > space.limit_of(key)).mean() > 0.02:
                        return False
        return True

    def _candidates(self) -> Iterator[KeySpace]:
        if self._equalities:
            point = self._point()
            if point is not None:
                yield self._space(suffix=point, why=f"equality of {self._text(point)}")
                return
            for key in self._keys[:4]:
                yield self._space(hashed=self._equalities, suffix=key, why=f"equality, then {self._text(key)}")
            if not self._keys:
                yield KeySpace(hashed=self._equalities, why="equality")
            return
        for key in self._keys:
            yield self._space(suffix=key, why=self._text(key))
        if self._probing_sample is None:
            return
        bounded = [key for key in self._keys if key.bounded]
        for cells in bounded:
            for key in bounded:
                if cells is not key and len(cells.intervals) == 1:
                    for wider in (-1, 0, 1, 2):
                        text = f"cells of {self._text(cells)}, then {self._text(key)}"
                        yield self._space(cells=cells, suffix=key, wider=wider, why=text)

    def _point(self) -> RangeKey | None:
        """The key of a single equality of 32 bits: the value itself, which may decide alone."""
        if len(self._equalities) != 1 or self._keys:
            return None
        own, probing = self._equalities[0]
        slot = self.lowered.slots[self._stored][own]
        if slot.dtype != "int32":
            return None
        lowered = self.lowered
        alone = len(lowered.tests) == 1 and isinstance(lowered.tests[0], Test) and lowered.others == "True"
        decides = alone and not lowered.recheck and not lowered.recheck_long_text
        return RangeKey(own, ((probing, probing),), exact=True, decides=decides, expr=slot.expr)

    def _space(
        self,
        *,
        hashed: tuple[tuple[int, int], ...] = (),
        cells: RangeKey | None = None,
        suffix: RangeKey,
        wider: int = 0,
        why: str,
    ) -> KeySpace:
        slots, probing = self.lowered.slots[self._stored], self.lowered.slots[other(self._stored)]
        space = KeySpace(hashed=hashed, cells=cells, suffix=suffix, why=why)
        for key in space.keys:
            domain = slots[key.key].encoding.domain
            if domain in ("f32", "f64"):
                space.float_bits[key.key] = 32 if domain == "f32" else 64
            if key.width is not None and self._stored_sample:
                distance = space.distance(key, self._stored_sample)
                finite = distance[np.isfinite(distance)]
                usual, large = np.quantile(finite, [0.9, 0.99]) if len(finite) else (0.0, 0.0)
                space.limit[key.key] = max(8 * float(usual), float(large), float(np.finfo(np.float32).tiny))
                space.widest[key.key] = float(finite[finite <= space.limit_of(key)].max(initial=0))
            for bound in (b for interval in key.intervals for b in interval if b is not None):
                valid = probing[bound].validity
                if valid is not None and not probing[bound].required:
                    space.validity[bound] = valid
        left = KEY_BITS - (HASH_BITS if hashed else 0)
        if cells is not None:
            space.cell_reduction, space.rest_bits = self._cells(space, cells, wider)
            left -= space.cell_reduction.bits
        space.reduction = self._reduction(suffix, left)
        space.widest = {}
        return space

    def _values(self, key: RangeKey) -> Array:
        return self._stored_sample.get(key.key, np.empty(0, np.int64)).astype(np.int64)

    def _reduction(self, key: RangeKey, bits: int) -> Reduction:
        if self.lowered.slots[self._stored][key.key].dtype == "int32" and bits >= 32:
            return Reduction(-(2**31), 0, 32)
        base, span = _room(self._values(key))
        return Reduction(base, max(span.bit_length() - bits, 0), bits)

    def _cells(self, space: KeySpace, key: RangeKey, wider: int) -> tuple[Reduction, int]:
        """Cells 2**wider times as wide as the usual band, and how many bits say where in its cell a tuple lies."""
        assert self._probing_sample is not None
        low_slot, high_slot = key.intervals[0]
        assert low_slot is not None
        assert high_slot is not None
        low, high = self._probing_sample.slots[low_slot], self._probing_sample.slots[high_slot]
        if key.width is not None:
            low = lowered_by(low, space.widest.get(key.key, 0), space.float_bits.get(key.key))
        width = float(np.median(high.astype(np.float64) - low.astype(np.float64))) if len(low) else 1.0
        shift = min(max(int(np.ceil(np.log2(max(width, 1)))) + wider, 0), 63)  # 64 bits cannot be shifted further
        base, span = _room(self._values(key))
        bits = min(max((span >> shift).bit_length(), 1), MOST_CELL_BITS)
        shift = max(shift, span.bit_length() - bits)
        rest = min(shift, REST_BITS)
        return Reduction(base, shift - rest, bits + rest), rest

    def _cost(self, space: KeySpace, window: int) -> tuple[float, float | None]:
        """What a probing tuple would cost, and how many candidates it would find."""
        if not self._stored_sample or self._probing_sample is None:
            return (1.0 if space.suffix is None or space.suffix.bounded else 2.0), None
        slots = self._stored_sample
        count = len(next(iter(slots.values())))
        space = replace(space, **{name: copy(value) for name, value in _EMPTY.items()})
        words, regular = space.words(slots, 0, count)
        words.sort()
        scanned = 0.0 if regular is None else float(1 - regular.mean()) * window
        ranges = space.ranges(self._probing_sample)
        probes = max(len(self._probing_sample), 1)
        hits = np.searchsorted(words, ranges.high, side="right") - np.searchsorted(words, ranges.low)
        seen = float(hits.sum()) / probes / max(count, 1) * window
        candidates = seen * self._share_within(space, words, ranges, hits)
        known = costs().of_window(window)
        cost = len(ranges.low) / probes * known.range_ + seen * known.passed + candidates * known.candidate
        return cost + scanned * known.irregular, candidates

    def equal_candidates(self, window: int) -> float:
        """How many tuples of the window a probing tuple is likely to find by its equalities alone."""
        self._sample()
        _, candidates = self._cost(KeySpace(hashed=self._equalities, why="equality"), window)
        return 0.0 if candidates is None else candidates

    def grid_candidates(self, keys: GridKeys, tuples: int) -> float:
        """How many candidates a probing tuple is likely to find in a grid of so many tuples: as a grid of the sample
        with as many cells says. Infinitely many, if the keys do not hold for all tuples."""
        self._sample()
        probing, count = self._probing_sample, len(next(iter(self._stored_sample.values()), ()))
        if probing is None or not len(probing) or not count:
            return 1.0
        grid = Grid(keys, self._stored_sample, 0, count, probing, cells_for=tuples)
        grid.grouping()
        if not are_regular(keys, self._stored_sample, 0, count) or not grid.serves(probing):
            return np.inf
        return grid.candidates(probing).count / len(probing) / count * tuples

    @staticmethod
    def _share_within(space: KeySpace, words: Words, ranges: Ranges, hits: Array) -> float:
        """What share of the words in the ranges also lies between the rests of their ends."""
        total = int(hits.sum())
        if not space.rest_bits or not total:
            return 1.0
        number = np.repeat(np.arange(len(hits)), hits)
        place = np.arange(total) - np.repeat(np.cumsum(hits) - hits, hits) + np.searchsorted(words, ranges.low)[number]
        rest = words[place] & space.rest_mask
        inside = (rest >= ranges.low[number] & space.rest_mask) & (rest <= ranges.high[number] & space.rest_mask)
        return float(inside.mean())

    def first_key(self, aliases: tuple[str, str]) -> str:
        """The key to sort by if nothing is known of the data; empty if there is none."""
        self._aliases = aliases
        return self.choose(0).why if self.usable else ""

    def _text(self, key: RangeKey) -> str:
        return "key" if key.expr is None else render(key.expr, self._aliases)


def _some(batch: Batch, wanted: int) -> Batch:
    """Tuples from all over a batch, about as many as wanted if it has more."""
    count = len(batch)
    return batch if count <= wanted else batch.take(np.arange(0, count, -(-count // wanted)))


def _youngest(batches: deque[Batch], wanted: int) -> list[Batch]:
    """Enough of the youngest batches, or of the tuples of one."""
    found: list[Batch] = []
    count = 0
    for batch in reversed(batches):
        if count < wanted:
            found.insert(0, _some(batch, wanted))
            count += len(batch)
    return found


def _room(values: Array) -> tuple[int, int]:
    """A base below all values and the length of a span from there, with room for drift at both ends."""
    if not len(values):
        return INT64_MIN, 2**64 - 1
    low, high = int(values.min()), int(values.max())
    slack = 4 * (high - low + 1)
    base = max(low - slack, INT64_MIN)
    return base, min(high + slack, INT64_MAX) - base
