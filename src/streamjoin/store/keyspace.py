"""A key space: how the slots of a tuple become the key bits of a word, and a probing tuple a few ranges of words.

    word = [prefix | suffix | rest | place]          42 bits of key, 22 bits of place

The suffix is a range key, reduced to the bits there are in a way that keeps its order. A prefix may stand in front of
it. This is the hash of the equality keys (`l.symbol = r.symbol AND l.price BETWEEN ...`), or the cell of a second range
key: a band in two dimensions then asks for a few short ranges instead of a long one. So neither condition degrades to a
scan. With cells, the rest of the cell's key follows the suffix. It says where in its cell a tuple lies, so that most
candidates beside the band are skipped without a look at the tuple.

Invariant: if a regular stored tuple matches a regular probing one, its word lies in one of the probing tuple's ranges,
which are disjoint, and its rest lies between the rests of the range's ends. Everything else (collisions, lost low bits)
only adds candidates. `predicate.keys` says which tuples are irregular.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Mask, Words
from ..predicate.keys import RangeKey
from .batch import Batch
from .hashing import hash_keys
from .key_arithmetic import NO_BITS, Reduction, extent, floats, integer_distance, lowered_by
from .ranges import Ranges, expanded, in_order, simple
from .words import PLACE_BITS

KEY_BITS = 64 - PLACE_BITS
REST_BITS = 8
"""Bits that say where in its cell a tuple lies."""
HASH_BITS = 20
"""Bits of the hash if a range key follows it."""


@dataclass(eq=False)
class KeySpace:
    """`hashed` are the equality slots (own, probing) in the prefix; `cells` a range key there instead.

    `widest` and `narrowest` are the largest and the smallest distance so far between a stored tuple's key and its width
    slot. Tuples with a distance above `limit` are irregular; else one of them would widen the ranges of all probes.
    """

    hashed: tuple[tuple[int, int], ...] = ()
    cells: RangeKey | None = None
    cell_reduction: Reduction = NO_BITS
    """Reduces to the bits of the cell, followed by those of the rest."""
    rest_bits: int = 0
    suffix: RangeKey | None = None
    reduction: Reduction = NO_BITS
    float_bits: dict[int, int] = field(default_factory=dict)
    """The stored slots that hold the ordered bits of floats, and how many bits these have."""
    validity: dict[int, int] = field(default_factory=dict)
    """For each probing slot that may be NULL, the slot that says where it is not."""
    widest: dict[int, float] = field(default_factory=dict)
    narrowest: dict[int, float] = field(default_factory=dict)
    limit: dict[int, float] = field(default_factory=dict)
    exact: bool = True
    """Whether words have kept every bit of the keys so far."""
    why: str = ""

    @property
    def prefix_bits(self) -> int:
        if self.cells is not None:
            return self.cell_reduction.bits - self.rest_bits
        return (HASH_BITS if self.suffix is not None else KEY_BITS) if self.hashed else 0

    @property
    def rest_mask(self) -> np.uint64:
        """The bits of a word that hold the rest."""
        return np.uint64(((1 << self.rest_bits) - 1) << PLACE_BITS)

    @property
    def decides(self) -> bool:
        """Whether a word in a range is a match, without looking at the tuple."""
        key = self.suffix
        if self.prefix_bits or not self.exact or self.reduction.shift or key is None or not key.decides:
            return False
        if key.width is None:
            return True
        same = self.widest.get(key.key) == self.narrowest.get(key.key) != 0
        return same and key.key not in self.float_bits and self.widest[key.key] < 2.0**52

    @property
    def shape(self) -> tuple[Any, ...]:
        """Where keys lie in words. Words of two spaces of the same shape can be probed with the same ranges."""
        limits = tuple(sorted(self.limit.items()))
        return self.hashed, self.cells, self.cell_reduction, self.rest_bits, self.suffix, self.reduction, limits

    @property
    def state(self) -> tuple[Any, ...]:
        """What ranges depend on: they are no longer right once stored tuples have changed it."""
        return self, self.exact, *self.widest.values()

    def include(self, other: KeySpace) -> None:
        """Note what is known of the words of another space of the same shape."""
        for key, most in other.widest.items():
            self.widest[key] = max(self.widest.get(key, 0), most)
        for key, least in other.narrowest.items():
            self.narrowest[key] = min(self.narrowest.get(key, np.inf), least)
        self.exact = self.exact and other.exact

    @property
    def keys(self) -> list[RangeKey]:
        return [key for key in (self.cells, self.suffix) if key is not None]

    # -- stored tuples ---------------------------------------------------------------------------------------------

    def words(self, slots: dict[int, Array], start: int, stop: int) -> tuple[Words, Mask | None]:
        """The words of the tuples at these places, in that order, and which tuples are regular (None: all)."""
        cut = {number: np.ascontiguousarray(slot[start:stop]) for number, slot in slots.items()}
        words = np.arange(start, stop, dtype=np.uint64)
        shift = 64 - self.prefix_bits
        if self.hashed:
            words |= hash_keys([cut[own] for own, _ in self.hashed]) >> np.uint64(shift) << np.uint64(shift)
        if self.cells is not None:
            cells, was_cut = self.cell_reduction(cut[self.cells.key])
            self.exact = self.exact and not was_cut
            words |= cells >> np.uint64(self.rest_bits) << np.uint64(shift)
            words |= cells << np.uint64(PLACE_BITS) & self.rest_mask
        if self.suffix is not None:
            reduced, was_cut = self.reduction(cut[self.suffix.key])
            self.exact = self.exact and not was_cut
            words |= reduced << np.uint64(shift - self.reduction.bits)
        regular: Mask | None = None
        for key in self.keys:
            masks = [] if key.regular[0] is None else [cut[key.regular[0]]]
            if key.width is not None:
                distance = self.distance(key, cut)
                limit = self.limit_of(key)
                least, most, fit = extent(distance, limit)
                self.widest[key.key] = max(self.widest.get(key.key, 0), most)
                self.narrowest[key.key] = min(self.narrowest.get(key.key, np.inf), least)
                if not fit:
                    masks.append(distance <= limit)
            for mask in masks:
                if not mask.all():
                    regular = mask if regular is None else regular & mask
        return words, regular

    def limit_of(self, key: RangeKey) -> float:
        """The largest distance of a regular tuple. It can be subtracted from any bound without an overflow."""
        return min(self.limit.get(key.key, np.inf), 2.0**62 if key.key not in self.float_bits else 1e300)

    def distance(self, key: RangeKey, slots: dict[int, Array]) -> Array:
        """How far the width slot lies above the key, rounded up; infinity if that is no finite number."""
        assert key.width is not None
        low, high = slots[key.key], slots[key.width]
        bits = self.float_bits.get(key.key)
        if bits is None:
            return integer_distance(low, high)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.nextafter(floats(high, bits) - floats(low, bits), np.inf)
        return np.where(np.isfinite(distance), distance, np.inf)

    # -- probing tuples --------------------------------------------------------------------------------------------

    def ranges(self, batch: Batch) -> Ranges:
        """What the batch's tuples ask for."""
        slots = batch.slots
        if self.is_simple:
            low, high = self._bounds(self.suffix, 0, slots)  # type: ignore[arg-type]
            reduction = self.reduction
            shape = (reduction.base, reduction.shift, (1 << reduction.bits) - 1, 64 - reduction.bits)
            return Ranges(*simple(low, high, self.exact, min(reduction.last, INT64_MAX), *shape))
        count = len(batch)
        regular: Mask | None = None
        for key in self.keys:
            mask = None if key.regular[1] is None else slots[key.regular[1]]
            if mask is not None and not mask.all():
                regular = mask if regular is None else regular & mask
        takes_part = np.ones(count, np.bool_) if regular is None else regular.copy()
        if self.hashed:
            first = hash_keys([slots[probing] for _, probing in self.hashed]) >> np.uint64(64 - self.prefix_bits)
            last = first
        elif self.cells is not None:
            low, high, asks = self._interval(self.cells, 0, slots, self.cell_reduction)
            takes_part &= asks
            first, last = low, high
        else:
            first = last = np.zeros(count, np.uint64)
        if self.suffix is None:
            whole = np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.ones(count, np.bool_)
            each = [whole]
        else:
            each = [self._interval(self.suffix, k, slots, self.reduction) for k in range(len(self.suffix.intervals))]
        lows, highs, asked = (np.stack(columns) for columns in zip(*each, strict=True))
        bits = self.prefix_bits, self.reduction.bits, self.rest_bits
        low, high, owner = expanded(first, last, lows, highs, asked, takes_part, *bits)
        low, high, owner = in_order(low, high, owner)
        if regular is None:
            return Ranges(low, high, owner)
        return Ranges(low, high, owner, batch.take(np.flatnonzero(regular)), batch.take(np.flatnonzero(~regular)))

    @cached_property
    def is_simple(self) -> bool:
        """Whether every probing tuple has at most one range, from two bounds that are always there."""
        key = self.suffix
        if key is None or self.prefix_bits or len(key.intervals) > 1 or key.regular[1] is not None:
            return False
        return all(bound is not None and bound not in self.validity for bound in key.intervals[0])

    def plain_bounds(self, slots: list[Array]) -> tuple[Array, Array, int]:
        """The two bounds of a simple range, and what must still be subtracted from the lower one."""
        key = self.suffix
        assert key is not None
        if key.width is None or key.key in self.float_bits:
            low, high = self._bounds(key, 0, slots)
            assert low is not None
            assert high is not None
            return low, high, 0
        low_slot, high_slot = key.intervals[0]
        assert low_slot is not None
        assert high_slot is not None
        return slots[low_slot], slots[high_slot], int(self.widest.get(key.key, 0))

    def _bounds(self, key: RangeKey, number: int, slots: list[Array]) -> tuple[Array | None, Array | None]:
        """One interval's bounds for every probing tuple."""
        low_slot, high_slot = key.intervals[number]
        low = None if low_slot is None else slots[low_slot]
        high = None if high_slot is None else slots[high_slot]
        if low is not None and key.width is not None:
            low = lowered_by(low, self.widest.get(key.key, 0), self.float_bits.get(key.key))
        return low, high

    def _interval(
        self, key: RangeKey, number: int, slots: list[Array], reduction: Reduction
    ) -> tuple[Words, Words, Mask]:
        """One interval's bounds for every probing tuple, reduced, and where it is not empty."""
        low, high = self._bounds(key, number, slots)
        count = len(slots[0])
        asks = np.ones(count, np.bool_)
        if low is not None and high is not None:
            asks &= low <= high
        for number_ in key.intervals[number]:
            valid = None if number_ is None else self.validity.get(number_)
            if valid is not None:
                asks &= slots[valid]
        if self.exact:  # no stored key was cut off, so a range beyond the ends holds none
            if low is not None and reduction.last < INT64_MAX:
                asks &= low <= reduction.last
            if high is not None and reduction.base > INT64_MIN:
                asks &= high >= reduction.base
        top = np.uint64((1 << reduction.bits) - 1)
        return (
            np.zeros(count, np.uint64) if low is None else reduction(low)[0],
            np.full(count, top) if high is None else reduction(high)[0],
            asks,
        )
