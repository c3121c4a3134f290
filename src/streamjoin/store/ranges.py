"""Ranges of words that probing tuples ask for, and the kernels that compute and sort them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Places, Words
from ..compile.cache import compiled
from .batch import Batch
from .sorting import radix_sort, sort_words
from .words import PLACE_BITS

MOST_CELLS = 8
"""A band that touches more cells is taken as one range from the first to the last."""


@dataclass(slots=True)
class Ranges:
    """Ranges of words in ascending order of `low`; `owner` is the place of the probing tuple in its batch."""

    low: Words
    high: Words
    owner: Places
    regular: Batch | None = None
    """The regular tuples; None: all are."""
    irregular: Batch | None = None
    """The irregular tuples; None: there are none."""


@compiled
def expanded(  # type: ignore[no-untyped-def]
    first, last, lows, highs, asked, regular, prefix_bits, suffix_bits, rest_bits
):  # fmt: skip
    """Every probing tuple's ranges of words: for each cell of the prefix, its intervals of the suffix, disjoint.

    `first` and `last` are the first and the last prefix, each with the rest behind it. Only the first and the last cell
    bound the rest.
    """
    intervals, count = lows.shape
    # Count the ranges at most needed: cells times intervals for each tuple.
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
        # Sort the tuple's intervals and join those that overlap: starts[: merged + 1] and ends[: merged + 1].
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
        # Repeat them in each cell, or take all cells as one range if they are too many.
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


def in_order(low: Words, high: Words, owner: Array) -> tuple[Words, Words, Places]:
    """The ranges in ascending order of their lower bounds, whose low bits carry the numbers of the ranges meanwhile."""
    if len(low) > 1 << PLACE_BITS:
        order: Array = np.argsort(low, kind="stable")
        return low[order], high[order], owner[order]
    return _unpacked(sort_words(low | np.arange(len(low), dtype=np.uint64), PLACE_BITS), high, owner)


@compiled
def packed_lows(low, high, exact, last, base, shift, top, word_shift):  # type: ignore[no-untyped-def]
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
def _unpacked_lows(packed, high, base, shift, top, word_shift):  # type: ignore[no-untyped-def]
    """Lower ends, upper ends and owners of the ranges whose packed lower ends are given in ascending order."""
    new_high, owner = np.empty(len(packed), np.uint64), np.empty(len(packed), np.int32)
    simple_into(packed, high, base, shift, top, word_shift, new_high, owner)
    return packed, new_high, owner


@compiled
def simple_into(packed, high, base, shift, top, word_shift, new_high, owner):  # type: ignore[no-untyped-def]
    """The same: upper ends and owners go to arrays, lower ends stay where they are."""
    mask = np.uint64((1 << PLACE_BITS) - 1)
    start, by, most, to = np.uint64(np.int64(base)), np.uint64(shift), np.uint64(top), np.uint64(word_shift)
    ones = (np.uint64(1) << to) - np.uint64(1)
    for i in range(len(packed)):
        at = packed[i] & mask
        packed[i] ^= at
        b = np.int64(high[at])
        distance = np.uint64(0) if b < base else min((np.uint64(b) - start) >> by, most)
        new_high[i] = (distance << to) | ones
        owner[i] = at


@compiled
def simple(low, high, exact, last, base, shift, top, word_shift):  # type: ignore[no-untyped-def]
    """The ranges of tuples that ask for one each: lower ends, upper ends and owners."""
    packed = packed_lows(low, high, exact, last, base, shift, top, word_shift)
    scratch = np.empty(len(packed), np.uint64)
    ascending = scratch if radix_sort(packed, scratch, np.int64(PLACE_BITS)) else packed
    return _unpacked_lows(ascending, high, base, shift, top, word_shift)


@compiled
def _unpacked(packed, high, owner):  # type: ignore[no-untyped-def]
    """Take the numbers out of the lower bounds, and bring the upper bounds and owners into their order."""
    mask = np.uint64((1 << PLACE_BITS) - 1)
    new_high, new_owner = np.empty_like(high), np.empty_like(owner)
    for i in range(len(packed)):
        at = packed[i] & mask
        packed[i] ^= at
        new_high[i] = high[at]
        new_owner[i] = owner[at]
    return packed, new_high, new_owner
