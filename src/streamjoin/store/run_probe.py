"""Probing ascending runs of words: many ranges against one run, or against all runs of a window in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from ..compile.cache import compiled
from ..compile.intrinsics import (
    I32,
    I64,
    compress,
    count_chosen,
    element,
    lane_numbers,
    load_lanes,
    pointer,
    prefetch,
    splat,
    store_lanes,
)
from .pair_slots import after_part, room_in_slot
from .runs import (
    COORDINATES,
    COUNT,
    FIRST_COORDINATE,
    FIRST_ROW,
    HIGHEST,
    LOWEST,
    ROWS,
    SAMPLE,
    SAMPLE_COUNT,
    SAMPLES,
    STRIDE,
    WORDS,
)
from .words import COMPARED, MOST_WORDS, NEXT, PARTITION, RUN, STOPPED

BLOCK = 1024
"""Ranges whose partitions are found before they are searched."""
AHEAD = 12
"""How many ranges before its use a partition is prefetched."""
DENSE, SPARSE = 1.5, 16
"""With at most `DENSE` partitions per range the search walks along them one by one. With more than `SPARSE` it skips
ahead in growing steps. In between it walks in strides."""
NO_REST = np.uint64(0)
"""The mask of the rest, for words that have none."""


def _counter(sign: str, lanes: int) -> Any:
    @intrinsic
    def count(typing: Any, words: Any, place: Any, bound: Any) -> Any:
        """How many of the next `lanes` words from `place` on are < (or <=) the bound."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = element(context, builder, signature.args[0], args[0], args[1])
            loaded = load_lanes(builder, where, I64, lanes)
            return count_chosen(builder, builder.icmp_unsigned(sign, loaded, splat(builder, args[2], lanes)))

        return types.int64(words, types.int64, types.uint64), codegen

    return count


_below: Any = _counter("<", SAMPLE)
_up_to: Any = _counter("<=", SAMPLE)
_samples_below: Any = _counter("<", STRIDE)


_NARROW = ir.VectorType(I32, SAMPLE)


@intrinsic
def _copy(
    typing: Any, words: Any, start: Any, mask: Any, number: Any, out_range: Any, out_place: Any, at: Any
) -> Any:  # fmt: skip
    """Write the masked low halves of the 16 words from `start` on, each with the number of its range."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        loaded = load_lanes(builder, element(context, builder, kinds[0], args[0], args[1]), I64, SAMPLE)
        mask = splat(builder, builder.trunc(args[2], I32), SAMPLE)
        places = builder.and_(builder.trunc(loaded, _NARROW), mask)
        store_lanes(builder, places, element(context, builder, kinds[5], args[5], args[6]))
        store_lanes(builder, splat(builder, args[3], SAMPLE), element(context, builder, kinds[4], args[4], args[6]))
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint64, types.int32, out_range, out_place, types.int64), codegen


@intrinsic
def _copy_within(
    typing: Any, words: Any, start: Any, count: Any, low: Any, high: Any, rest: Any, mask: Any, number: Any,
    out_range: Any, out_place: Any, at: Any
) -> Any:  # fmt: skip
    """Do the same for those of the first `count` words whose `rest` lies between the rests of the range's ends.

    They are written one behind the other. Returns how many they are.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        words_, start_, count_, low_, high_, rest_, mask_, number_, out_range_, out_place_, at_ = args
        loaded = load_lanes(builder, element(context, builder, kinds[0], words_, start_), I64, SAMPLE)
        halves = builder.trunc(loaded, _NARROW)
        rests = builder.and_(halves, splat(builder, builder.trunc(rest_, I32), SAMPLE))

        def bound(value: Any) -> Any:
            return splat(builder, builder.trunc(builder.and_(value, rest_), I32), SAMPLE)

        inside = builder.and_(
            builder.icmp_unsigned(">=", rests, bound(low_)), builder.icmp_unsigned("<=", rests, bound(high_))
        )
        counted = splat(builder, builder.trunc(count_, I32), SAMPLE)
        inside = builder.and_(inside, builder.icmp_signed("<", lane_numbers(I32, SAMPLE), counted))
        places = builder.and_(halves, splat(builder, builder.trunc(mask_, I32), SAMPLE))
        store_lanes(builder, compress(builder, places, inside), element(context, builder, kinds[9], out_place_, at_))
        store_lanes(builder, splat(builder, number_, SAMPLE), element(context, builder, kinds[8], out_range_, at_))
        return count_chosen(builder, inside)

    word, whole = types.uint64, types.int64
    return types.int64(words, whole, whole, word, word, word, word, types.int32, out_range, out_place, whole), codegen


@compiled
def probe_run(words, count, samples, low, high, mask, rest, out_range, out_place, state):
    """Sorted ranges against sorted words.

    The partition of each lower bound is found by walking along the samples (a merge of both), or, where ranges are
    few, by the rebounding search of Fig. 6; the place within it by counting smaller words. From there on words are
    copied 16 at a time, and as many kept as lie in the range. state[NEXT] is the number of ranges once all are done. It
    stops before that when the outputs are full, or after many comparisons.
    """
    parts = np.empty(BLOCK, np.int32)
    found, room = 0, len(out_range)
    first_range, compared, resumed, part = state[NEXT], state[COMPARED], state[STOPPED] - 1, state[PARTITION]
    n, last = len(low), len(samples) - STRIDE - 1
    most = compared + MOST_WORDS
    sparse, dense = last > SPARSE * n, last < DENSE * n
    while first_range < n:
        block = min(BLOCK, n - first_range)
        k = 0
        # First find the partition of each lower bound in this block of ranges: `part` only moves to the right.
        if sparse:
            for k in range(block):
                bound = low[first_range + k]
                step = 1
                while part + step <= last and samples[part + step] < bound:
                    part += step
                    step *= 2
                while step > 1:
                    step //= 2
                    if part + step <= last and samples[part + step] < bound:
                        part += step
                parts[k] = part
        elif not dense:
            for k in range(block):
                bound = low[first_range + k]
                ahead = _samples_below(samples, part + 1, bound)
                while ahead == STRIDE:
                    part += STRIDE
                    ahead = _samples_below(samples, part + 1, bound)
                part = min(part + ahead, last)
                parts[k] = part
        else:
            while k < block and part < last:
                beyond = samples[part + 1] < low[first_range + k]
                parts[k] = part
                part += beyond
                k += not beyond
            while k < block:
                parts[k] = part
                k += 1
        # Then copy each range's words, 16 at a time until one of them lies beyond its upper bound.
        for k in range(block):
            asked = np.int64(parts[min(k + AHEAD, block - 1)]) * SAMPLE
            prefetch(words, asked)
            prefetch(words, asked + 8)
            i = first_range + k
            end = high[i]
            start = resumed
            if resumed < 0:
                place = np.int64(parts[k]) * SAMPLE
                start = place + _below(words, place, low[i])
                compared += SAMPLE
            resumed = np.int64(-1)
            hits = SAMPLE
            while hits == SAMPLE:
                if found + SAMPLE > room or compared > most:
                    state[NEXT], state[COMPARED], state[STOPPED], state[PARTITION] = i, compared, start + 1, parts[k]
                    return found
                hits = min(_up_to(words, start, end), count - start)
                if rest == 0:
                    _copy(words, start, mask, i, out_range, out_place, found)
                    found += hits
                else:
                    found += _copy_within(words, start, hits, low[i], end, rest, mask, i, out_range, out_place, found)
                compared += hits
                start += SAMPLE
        first_range += block
    state[NEXT], state[COMPARED], state[STOPPED], state[PARTITION] = n, compared, 0, 0
    return found


@compiled
def _rows_of(run, places, owner, probing_rows, window_low, window_high, is_whole, out, found):
    """Turn places into row numbers, from `found` on. Keep a pair if the stored tuple lies in the probing one's window.
    Where all tuples of the run lie in all windows, there is no question to ask, and the loops become vectors."""
    ranges, stored = places[0], places[1]
    probing_out, stored_out = out[0][found:], out[1][found:]
    rows = carray(pointer(run[ROWS]), run[COUNT], np.int64)
    first, rows_count_up = run[FIRST_ROW], run[ROWS] == 0
    if is_whole:
        for c in range(len(ranges)):
            probing_out[c] = probing_rows[np.uint32(owner[np.uint32(ranges[c])])]
        if rows_count_up:
            for c in range(len(stored)):
                stored_out[c] = first + stored[c]
        else:
            for c in range(len(stored)):
                stored_out[c] = rows[np.uint32(stored[c])]
        return found + len(ranges)
    coordinates = carray(pointer(run[COORDINATES]), run[COUNT], np.int64)
    base, coordinates_count_up = run[FIRST_COORDINATE], run[COORDINATES] == 0
    kept = np.uint64(0)
    for c in range(len(ranges)):
        i, j = np.int64(np.uint32(owner[np.uint32(ranges[c])])), np.int64(np.uint32(stored[c]))
        probing_out[kept] = probing_rows[i]
        stored_out[kept] = first + j if rows_count_up else rows[j]
        where = base + j if coordinates_count_up else coordinates[j]
        kept += np.uint64((where >= window_low[i]) & (where < window_high[i]))
    return found + np.int64(kept)


@compiled
def probe_runs(
    runs, low, high, mask, rest, owner, probing_rows, window_low, window_high, latest_low, earliest_high, places, out,
    state,
):  # fmt: skip
    """Ranges against many runs, and the found tuples as row numbers: one call for a whole window.

    `runs` is the run table of `store.runs`. The windows of probing tuples begin at `window_low`, the last of them at
    `latest_low`, and end at `window_high`, the first of them at `earliest_high`. `places` is room for what is found in
    one run, `out` for the pairs of rows.
    Here every word in a range is a match, because the key decides alone; `check_runs_source` tests the condition too.
    """
    found, room = np.int64(0), len(out[0]) - places.shape[1]
    number, most = state[RUN], state[COMPARED] + MOST_WORDS
    while number < len(runs) and found <= room and state[COMPARED] <= most:
        run = runs[number]
        count = run[COUNT]
        words = carray(pointer(run[WORDS]), count + SAMPLE, np.uint64)
        samples = carray(pointer(run[SAMPLES]), run[SAMPLE_COUNT], np.uint64)
        hits = probe_run(words, count, samples, low, high, mask, rest, places[0], places[1], state)
        is_whole = (run[LOWEST] >= latest_low) & (run[HIGHEST] < earliest_high)
        found = _rows_of(run, places[:, :hits], owner, probing_rows, window_low, window_high, is_whole, out, found)
        if state[NEXT] == len(low):
            number += 1
            state[NEXT] = 0
    state[RUN] = number
    return found


@compiled
def probe_runs_part(block, part, slot):
    """The entry (`compile.entries`) of `probe_runs`: a part is a share of the ranges."""
    b = carray(pointer(block), BLOCK_WORDS, np.int64)
    runs = carray(pointer(b[0]), (b[1], b[2]), np.int64)
    low, high, owner = ranges_of_part(b, part)
    out, places, state = room_in_slot(b[16], slot)
    found = probe_runs(
        runs, low, high, np.uint64(b[7]), np.uint64(b[8]), owner, carray(pointer(b[10]), b[13], np.int64),
        carray(pointer(b[11]), b[13], np.int64), carray(pointer(b[12]), b[13], np.int64), b[14], b[15],
        places, out, state,
    )  # fmt: skip
    return after_part(slot, found, state[RUN] == len(runs), len(out[0]) - found <= places.shape[1])


@compiled
def ranges_of_part(b, part):
    """Lower ends, upper ends and owners of a share of the ranges."""
    first, last = b[5] * part // b[6], b[5] * (part + 1) // b[6]
    low = carray(pointer(b[3] + 8 * first), last - first, np.uint64)
    high = carray(pointer(b[4] + 8 * first), last - first, np.uint64)
    return low, high, carray(pointer(b[9] + 4 * first), last - first, np.int32)


BLOCK_WORDS = 17
"""What all parts of a search share, by place:

0 to 2: where the run table lies, its lines and columns. 3 to 6: lower and upper ends of ranges, how many they are, and
in how many parts they are probed. 7, 8: the masks of places and of rests. 9: the owners of ranges. 10 to 13: probing
rows, the lower and upper ends of their windows, and how many there are. 14, 15: the last beginning and the first end of
a window. 16: whether left tuples probe. Addresses of the probing slots follow.
"""
