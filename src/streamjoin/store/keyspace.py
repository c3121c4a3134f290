"""A key space: how the slots of a tuple become the key bits of a word, and a probing tuple a few ranges of words.

    word = [prefix | suffix | rest | place]          42 bits of key, 22 bits of place

The suffix is a range key, mapped monotonously onto the bits there are. In front of it may stand a prefix: the hash of
the equality keys (`l.symbol = r.symbol AND l.price BETWEEN ...`), or the cell of a second range key, so that a band in
two dimensions asks for a few short ranges instead of a long one. So neither condition degrades to a scan. Behind a
cell's suffix stands the rest of the cell's key: where in its cell a tuple lies, so that most candidates beside the
band are passed over without a look at the tuple.

Invariant: if a regular stored tuple matches a regular probing one, its word lies in one of the probing tuple's ranges,
which are disjoint, and its rest between the rests of the range's ends. Everything else (collisions, lost low bits)
only adds candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import INT64_MAX, INT64_MIN, Array, Words
from ..compile.cache import compiled
from ..predicate.keys import RangeKey
from .batch import Batch
from .hash import hash_keys
from .sorting import sort_words

PLACE_BITS = 22
KEY_BITS = 64 - PLACE_BITS
REST_BITS = 8
"""Bits that say where in its cell a tuple lies."""
HASH_BITS = 20
"""Bits of the hash where a range key follows it."""
MOST_CELLS = 8
"""A band that touches more cells is taken as one range from the first to the last."""
RunAll = Callable[[Sequence[Callable[[], Any]]], Any]


@dataclass(frozen=True, slots=True)
class Reduction:
    """Integers onto [0, 2**bits), monotonously: value -> (value - base) >> shift, cut off at both ends."""

    base: int
    shift: int
    bits: int

    def __post_init__(self) -> None:
        assert 0 <= self.shift < 64
        assert 0 <= self.bits < 64

    @property
    def last(self) -> int:
        """The largest value that is not cut off."""
        return self.base + ((1 << self.bits) << self.shift) - 1

    def __call__(self, values: Array) -> tuple[Words, bool]:
        """The reduced values, and whether some were cut off."""
        return _reduced(values, self.base, self.shift, (1 << self.bits) - 1)


@compiled
def _reduced(values, base, shift, top):  # type: ignore[no-untyped-def]
    out = np.empty(len(values), np.uint64)
    start, by, most = np.uint64(np.int64(base)), np.uint64(shift), np.uint64(top)
    cut = False
    for i in range(len(values)):
        value = np.int64(values[i])
        below = value < base
        distance = np.uint64(0) if below else (np.uint64(value) - start) >> by
        above = distance > most
        out[i] = most if above else distance
        cut |= below | above
    return out, cut


@dataclass(slots=True)
class Ranges:
    """Ranges of words in ascending order of `low`; `owner` is the place of the probing tuple in its batch."""

    low: Words
    high: Words
    owner: npt.NDArray[np.int32]
    regular: Batch | None = None
    """The regular tuples where some are not."""
    irregular: Batch | None = None


@dataclass(eq=False)
class KeySpace:
    """`hashed` are the equality slots (own, probing) in the prefix; `cells` a range key there instead.

    `widest` and `narrowest` are the largest and smallest distance between a stored tuple's key and its width slot so
    far; tuples beyond `limit` are irregular, so that one of them does not spoil everybody's ranges.
    """

    hashed: tuple[tuple[int, int], ...] = ()
    cells: RangeKey | None = None
    cell_reduction: Reduction = Reduction(0, 0, 0)
    """Onto the bits of the cell, followed by those of the rest."""
    rest_bits: int = 0
    suffix: RangeKey | None = None
    reduction: Reduction = Reduction(0, 0, 0)
    float_bits: dict[int, int] = field(default_factory=dict)
    """Which stored slots are floats in integer clothes, and of how many bits."""
    validity: dict[int, int] = field(default_factory=dict)
    """For probing slots that may be NULL: the slot that says where they are not."""
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
        """What says where a key lies: words of two spaces with the same shape can be probed with the same ranges."""
        limits = tuple(sorted(self.limit.items()))
        return self.hashed, self.cells, self.cell_reduction, self.rest_bits, self.suffix, self.reduction, limits

    def include(self, other: KeySpace) -> None:
        """Take in what is known of the words of another space of the same shape."""
        for key, most in other.widest.items():
            self.widest[key] = max(self.widest.get(key, 0), most)
        for key, least in other.narrowest.items():
            self.narrowest[key] = min(self.narrowest.get(key, np.inf), least)
        self.exact = self.exact and other.exact

    @property
    def keys(self) -> list[RangeKey]:
        return [key for key in (self.cells, self.suffix) if key is not None]

    # -- stored tuples ---------------------------------------------------------------------------------------------

    def words(self, slots: dict[int, Array], start: int, stop: int) -> tuple[Words, npt.NDArray[np.bool_] | None]:
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
        regular: npt.NDArray[np.bool_] | None = None
        for key in self.keys:
            masks = [] if key.regular[0] is None else [cut[key.regular[0]]]
            if key.width is not None:
                distance = self.distance(key, cut)
                limit = self.limit_of(key)
                least, most, fit = _extent(distance, limit)
                self.widest[key.key] = max(self.widest.get(key.key, 0), most)
                self.narrowest[key.key] = min(self.narrowest.get(key.key, np.inf), least)
                if not fit:
                    masks.append(distance <= limit)
            for mask in masks:
                if not mask.all():
                    regular = mask if regular is None else regular & mask
        return words, regular

    def limit_of(self, key: RangeKey) -> float:
        """The largest distance of a regular tuple: at most what can be subtracted from a bound without an overflow."""
        return min(self.limit.get(key.key, np.inf), 2.0**62 if key.key not in self.float_bits else 1e300)

    def distance(self, key: RangeKey, slots: dict[int, Array]) -> Array:
        """How far the width slot lies above the key, rounded up; infinity where that is no finite number."""
        assert key.width is not None
        low, high = slots[key.key], slots[key.width]
        bits = self.float_bits.get(key.key)
        if bits is None:
            return _integer_distance(low, high)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.nextafter(floats(high, bits) - floats(low, bits), np.inf)
        return np.where(np.isfinite(distance), distance, np.inf)

    # -- probing tuples --------------------------------------------------------------------------------------------

    def ranges(self, batch: Batch, pieces: int = 1, run_all: RunAll | None = None) -> Ranges:
        """What the batch's tuples ask for; computed in pieces by several threads where that takes long."""
        if pieces > 1 and run_all is not None and not self.is_simple and all(k.regular[1] is None for k in self.keys):
            parts = batch.parts(-(-len(batch) // pieces))
            found: list[Ranges] = run_all([partial(self.ranges, part) for part in parts])
            merged, start = found[0], len(parts[0])
            for part, more in zip(parts[1:], found[1:], strict=True):
                merged = Ranges(*_merged(merged.low, merged.high, merged.owner, more.low, more.high, more.owner, start))
                start += len(part)
            return merged
        slots = batch.slots
        if self.is_simple:
            low, high = self._bounds(self.suffix, 0, slots)  # type: ignore[arg-type]
            reduction = self.reduction
            shape = (reduction.base, reduction.shift, (1 << reduction.bits) - 1, 64 - reduction.bits)
            packed = sort_words(_packed(low, high, self.exact, min(reduction.last, INT64_MAX), *shape), PLACE_BITS)
            starts, ends, owner = _simple(packed, high, *shape)
            return Ranges(starts, ends, owner)
        count = len(batch)
        regular: npt.NDArray[np.bool_] | None = None
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
        low, high, owner = _expanded(first, last, lows, highs, asked, takes_part, *bits)
        low, high, owner = _in_order(low, high, owner)
        if regular is None:
            return Ranges(low, high, owner)
        return Ranges(low, high, owner, batch.take(np.flatnonzero(regular)), batch.take(np.flatnonzero(~regular)))

    @property
    def is_simple(self) -> bool:
        """Whether every probing tuple has at most one range, from two bounds that are always there."""
        key = self.suffix
        if key is None or self.prefix_bits or len(key.intervals) > 1 or key.regular[1] is not None:
            return False
        return all(bound is not None and bound not in self.validity for bound in key.intervals[0])

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
    ) -> tuple[Words, Words, npt.NDArray[np.bool_]]:
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


def floats(bits: Array, width: int) -> Array:
    """The doubles whose (or whose 32-bit form's) ordered bits these are."""
    integer, real = (np.int32, np.float32) if width == 32 else (np.int64, np.float64)
    raw = np.where(bits < 0, bits ^ np.iinfo(integer).max, bits).astype(integer, copy=False)
    return raw.view(real).astype(np.float64)


def lowered_by(values: Array, distance: float, float_bits: int | None) -> Array:
    """values - distance or a little less, in the same domain."""
    if float_bits is None:
        return _integer_lowered(values, int(distance))
    if float_bits == 32:
        return _float_lowered(values, distance, np.empty(len(values), np.float32), np.int32(np.iinfo(np.int32).max))
    return _float_lowered(values, distance, np.empty(len(values), np.float64), np.int64(INT64_MAX))


@compiled
def _integer_distance(low, high):  # type: ignore[no-untyped-def]
    """high - low as a double that is not smaller; 0 where it is negative."""
    out = np.empty(len(low), np.float64)
    for i in range(len(low)):
        a, b = np.int64(low[i]), np.int64(high[i])
        distance = np.float64(np.uint64(b) - np.uint64(a))
        out[i] = 0.0 if b < a else (distance if distance < 2.0**52 else distance * (1 + 2.0**-50))
    return out


@compiled
def _extent(distance, limit):  # type: ignore[no-untyped-def]
    """The smallest distance, the largest one within the limit, and whether all are."""
    least, most, fit = np.inf, 0.0, True
    for i in range(len(distance)):
        least = min(least, distance[i])
        inside = distance[i] <= limit
        fit &= inside
        most = max(most, distance[i] if inside else 0.0)
    return least, most, fit


@compiled
def _float_lowered(bits, distance, lower, most):  # type: ignore[no-untyped-def]
    """The ordered bits of what is `distance` less than the floats with these ordered bits, rounded down. A result that
    is no number becomes the largest one, as everywhere in this order."""
    raw = np.empty(len(bits), bits.dtype)
    for i in range(len(bits)):
        raw[i] = bits[i] ^ most if bits[i] < 0 else bits[i]
    values = raw.view(lower.dtype)
    for i in range(len(bits)):
        less = np.float64(values[i]) - distance
        lower[i] = less
        lower[i] = np.nextafter(lower[i], lower.dtype.type(-np.inf)) + lower.dtype.type(0)
    found = lower.view(bits.dtype)
    for i in range(len(bits)):
        if lower[i] != lower[i]:
            raw[i] = most
        else:
            raw[i] = found[i] ^ most if found[i] < 0 else found[i]
    return raw


@compiled
def _integer_lowered(values, distance):  # type: ignore[no-untyped-def]
    out = np.empty(len(values), np.int64)
    for i in range(len(values)):
        value = np.int64(values[i])
        out[i] = np.int64(INT64_MIN) if value < np.int64(INT64_MIN) + distance else value - distance
    return out


@compiled
def _expanded(  # type: ignore[no-untyped-def]
    first, last, lows, highs, asked, regular, prefix_bits, suffix_bits, rest_bits
):  # fmt: skip
    """Every probing tuple's ranges of words: for each cell of the prefix, its intervals of the suffix, disjoint.

    `first` and `last` are prefixes, with the rest behind. Only the first and the last cell bound the rest.
    """
    intervals, count = lows.shape
    total = 0
    rest = np.uint64(rest_bits)
    rest_top = (np.uint64(1) << rest) - np.uint64(1)
    rest_mask = rest_top << np.uint64(PLACE_BITS)
    for i in range(count):
        cells = (last[i] >> rest) - (first[i] >> rest) + np.uint64(1)
        total += regular[i] * (intervals * np.int64(cells) if cells <= MOST_CELLS else 1)
    low, high = np.empty(total, np.uint64), np.empty(total, np.uint64)
    owner = np.empty(total, np.int32)
    prefix_shift = np.uint64(64 - prefix_bits)
    suffix_shift = np.uint64(64 - prefix_bits - suffix_bits)
    ones = (np.uint64(1) << suffix_shift) - np.uint64(1)
    top = (np.uint64(1) << np.uint64(suffix_bits)) - np.uint64(1)
    starts, ends = np.empty(intervals, np.uint64), np.empty(intervals, np.uint64)
    n = 0
    for i in range(count):
        if not regular[i]:
            continue
        kept = 0
        for k in range(intervals):
            if asked[k, i]:
                start, end = lows[k, i], highs[k, i]
                at = kept
                while at > 0 and starts[at - 1] > start:
                    starts[at], ends[at] = starts[at - 1], ends[at - 1]
                    at -= 1
                starts[at], ends[at] = start, end
                kept += 1
        if kept == 0:
            continue
        merged = 0
        for k in range(1, kept):
            if starts[k] <= ends[merged]:
                ends[merged] = max(ends[merged], ends[k])
            else:
                merged += 1
                starts[merged], ends[merged] = starts[k], ends[k]
        from_cell, to_cell = first[i] >> rest, last[i] >> rest
        cells = to_cell - from_cell + np.uint64(1)
        if cells > MOST_CELLS:
            low[n] = from_cell << prefix_shift
            high[n] = (to_cell << prefix_shift) | (top << suffix_shift) | ones
            owner[n] = i
            n += 1
            continue
        for c in range(np.int64(cells)):
            cell = from_cell + np.uint64(c)
            front = np.uint64(0) if prefix_bits == 0 else cell << prefix_shift
            least = first[i] & rest_top if cell == from_cell else np.uint64(0)
            most = last[i] & rest_top if cell == to_cell else rest_top
            for k in range(merged + 1):
                low[n] = front | (starts[k] << suffix_shift) | (least << np.uint64(PLACE_BITS))
                high[n] = front | (ends[k] << suffix_shift) | (ones ^ rest_mask) | (most << np.uint64(PLACE_BITS))
                owner[n] = i
                n += 1
    return low[:n], high[:n], owner[:n]


def _in_order(low: Words, high: Words, owner: Array) -> tuple[Words, Words, npt.NDArray[np.int32]]:
    """The ranges in ascending order of their lower bound, whose low bits are free to carry their number."""
    if len(low) > 1 << PLACE_BITS:
        order: Array = np.argsort(low, kind="stable")
        return low[order], high[order], owner[order]
    return _unpacked(sort_words(low | np.arange(len(low), dtype=np.uint64), PLACE_BITS), high, owner)


@compiled
def _merged(low, high, owner, more_low, more_high, more_owner, start):  # type: ignore[no-untyped-def]
    """Two lists of ranges as one; the second one's owners are counted from `start`."""
    n, m = len(low), len(more_low)
    new_low, new_high = np.empty(n + m, np.uint64), np.empty(n + m, np.uint64)
    new_owner = np.empty(n + m, np.int32)
    i = j = 0
    for k in range(n + m):
        first = j == m or (i < n and low[i] <= more_low[j])
        if first:
            new_low[k], new_high[k], new_owner[k] = low[i], high[i], owner[i]
            i += 1
        else:
            new_low[k], new_high[k], new_owner[k] = more_low[j], more_high[j], more_owner[j] + start
            j += 1
    return new_low, new_high, new_owner


@compiled
def _packed(low, high, exact, last, base, shift, top, word_shift):  # type: ignore[no-untyped-def]
    """The lower ends of ranges as words that carry the number of their tuple; empty ranges are left out."""
    out = np.empty(len(low), np.uint64)
    n = np.int64(0)
    start, by, most, to = np.uint64(np.int64(base)), np.uint64(shift), np.uint64(top), np.uint64(word_shift)
    for i in range(len(low)):
        a, b = np.int64(low[i]), np.int64(high[i])
        distance = np.uint64(0) if a < base else min((np.uint64(a) - start) >> by, most)
        out[n] = (distance << to) | np.uint64(i)
        n += (a <= b) & (not exact or (a <= last and b >= base))
    return out[:n]


@compiled
def _simple(packed, high, base, shift, top, word_shift):  # type: ignore[no-untyped-def]
    """Lower ends, upper ends and owners of sorted ranges."""
    mask = np.uint64((1 << PLACE_BITS) - 1)
    start, by, most, to = np.uint64(np.int64(base)), np.uint64(shift), np.uint64(top), np.uint64(word_shift)
    ones = (np.uint64(1) << to) - np.uint64(1)
    new_high, owner = np.empty(len(packed), np.uint64), np.empty(len(packed), np.int32)
    for i in range(len(packed)):
        at = packed[i] & mask
        packed[i] ^= at
        b = np.int64(high[at])
        distance = np.uint64(0) if b < base else min((np.uint64(b) - start) >> by, most)
        new_high[i] = (distance << to) | ones
        owner[i] = at
    return packed, new_high, owner


@compiled
def _unpacked(packed, high, owner):  # type: ignore[no-untyped-def]
    mask = np.uint64((1 << PLACE_BITS) - 1)
    new_high, new_owner = np.empty_like(high), np.empty_like(owner)
    for i in range(len(packed)):
        at = packed[i] & mask
        packed[i] ^= at
        new_high[i] = high[at]
        new_owner[i] = owner[at]
    return packed, new_high, new_owner
