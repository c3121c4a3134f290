"""Finding words by range in partitions (PanJoin, sections III-E and III-F2).

The words of a partition are in no order. A partition that the range covers is copied, one that the range cuts is
compared, and others are skipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..arrays import Places
from ..compile.cache import compiled
from ..compile.intrinsics import I32, I64, compress, count_chosen, element, lane_numbers, load_lanes, splat, store_lanes
from .words import COMPARED, LANES, NEXT, PARTITION, STOPPED

BLOCK = 256
"""Ranges that are located before their partitions are scanned."""


class Output(NamedTuple):
    """The outputs of a probe: see `WordIndex.probe`."""

    range: Places
    place: Places


@compiled
def rebound(splitters, start, word):  # type: ignore[no-untyped-def]
    """The first partition from `start` on whose splitter is not below the word (section III-E, Fig. 6).

    The search steps forward, and doubles its steps, until it has passed the word; then it halves the gap. The last
    splitter is the last word there can be, so there always is such a partition. The caller knows that none before
    `start` is the one.
    """
    if splitters[start] >= word:
        return start
    below, step, last = start, 1, len(splitters) - 1
    reached = below + 1
    while reached < last and splitters[reached] < word:
        below = reached
        step *= 2
        reached = below + step
    reached = min(reached, last)
    while reached - below > 1:
        middle = (below + reached) >> 1
        if splitters[middle] < word:
            below = middle
        else:
            reached = middle
    return reached


@compiled
def locate(splitters, start, low, firsts):  # type: ignore[no-untyped-def]
    """Note the partition of each range's low end. The search begins at partition `start`; returns the last one."""
    for i in range(len(low)):
        start = rebound(splitters, start, low[i])
        firsts[i] = start
    return start


@intrinsic
def _take_lanes(typing: Any, words: Any, slot: Any, end: Any, low: Any, span: Any, mask: Any, out: Any, at: Any) -> Any:
    """Write to out[at:] the low bits of those of the next `LANES` words from `slot` on that lie before `end` and in the
    range.

    Returns how many these are. Reads and writes all `LANES` places.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words_, slot_, end_, low_, span_, mask_, out_, at_ = args
        kinds = signature.args
        loaded = load_lanes(builder, element(context, builder, kinds[0], words_, slot_), I64, LANES)
        distance = builder.sub(loaded, splat(builder, low_, LANES))
        inside = builder.icmp_unsigned("<=", distance, splat(builder, span_, LANES))
        rest = splat(builder, builder.sub(end_, slot_), LANES)
        chosen = builder.and_(inside, builder.icmp_signed("<", lane_numbers(I64, LANES), rest))
        narrow = ir.VectorType(I32, LANES)
        mask = splat(builder, builder.trunc(mask_, I32), LANES)
        places = builder.and_(builder.trunc(loaded, narrow), mask)
        store_lanes(builder, compress(builder, places, chosen), element(context, builder, kinds[6], out_, at_))
        return count_chosen(builder, chosen)

    u64 = types.uint64
    return types.int64(words, types.int64, types.int64, u64, u64, u64, out, types.int64), codegen


@compiled
def take(words, slot, end, low, high, place_mask, number, out_range, out_place, found):  # type: ignore[no-untyped-def]
    """Write the places of those words from `slot` to `end` that are in [low, high], as matches of range `number`.

    Returns how many matches the outputs hold now, and where it stopped: at the end, or at a word that matches but does
    not fit into the outputs.
    """
    span = high - low
    if end - slot + LANES <= len(out_place) - found:
        after = found
        for lane in range(slot, end, LANES):
            after += _take_lanes(words, lane, end, low, span, place_mask, out_place, after)  # type: ignore[call-arg]
        for k in range(found, found + LANES):
            out_range[k] = number
        for k in range(found + LANES, after):
            out_range[k] = number
        return after, end
    for k in range(slot, end):
        if words[k] - low <= span:
            if found == len(out_place):
                return found, k
            out_range[found] = number
            out_place[found] = np.int32(words[k] & place_mask)
            found += 1
    return found, end


@compiled
def take_all(words, slot, end, place_mask, number, out_range, out_place, found):  # type: ignore[no-untyped-def]
    """Like `take`, for words that are all known to be in the range: nothing is compared."""
    size = min(end - slot, len(out_place) - found)
    part, places, numbers = words[slot : slot + size], out_place[found : found + size], out_range[found : found + size]
    for k in range(size):
        places[k] = np.int32(part[k] & place_mask)
        numbers[k] = number
    return found + size, slot + size


@compiled
def scan(entries, partitions, firsts, begin, low, high, place_mask, out, found, state):  # type: ignore[no-untyped-def]
    """Take the matches of the ranges from `begin` on; `firsts` are the partitions of their low ends.

    Returns how many matches the outputs hold now. If some matches did not fit in, the state says where to go on; else
    state[NEXT] is the range after these.
    """
    words, width, head, following, _, _ = entries
    lowest, highest, upper, right = partitions
    out_range, out_place = out
    compared = 0
    for i in range(begin, begin + len(firsts)):
        if low[i] > high[i]:
            continue
        partition = firsts[i - begin]
        entry, slot = partition, partition * width
        if state[STOPPED] > 0:
            slot, partition = state[STOPPED] - 1, state[PARTITION]
            entry = slot // width
            state[STOPPED] = 0
        # Walk from partition to partition up to that of the range's high end.
        while True:
            if lowest[partition] <= high[i] and highest[partition] >= low[i]:
                inside = lowest[partition] >= low[i] and highest[partition] <= high[i]
                # Walk along the entries of the partition. If the range covers it, nothing needs to be compared.
                while True:
                    end = entry * width + head[entry]
                    if inside:
                        found, reached = take_all(words, slot, end, place_mask, i, out_range, out_place, found)
                    else:
                        found, reached = take(
                            words, slot, end, low[i], high[i], place_mask, i, out_range, out_place, found
                        )
                        compared += reached - slot
                    if reached < end:
                        state[NEXT], state[STOPPED], state[PARTITION] = i, reached + 1, partition
                        state[COMPARED] += compared
                        return found
                    entry = following[entry]
                    if entry < 0:
                        break
                    slot = entry * width
            if upper[partition] >= high[i]:
                break
            partition = right[partition]
            entry, slot = partition, partition * width
    state[NEXT] = begin + len(firsts)
    state[COMPARED] += compared
    return found
