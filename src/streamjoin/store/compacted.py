"""What sealing makes of a table of partitions: the words of each partition as one contiguous piece.

The paper accounts for an overhead of 150% in an LLAT (at sigma = 1.25); a compacted table has none of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Integers, Words
from ..compile.cache import compiled
from .partition_scan import BLOCK, Output, locate, take, take_all
from .words import COMPARED, DONE, NEXT, PARTITION, STOPPED, State


class Compacted(NamedTuple):
    """Partitions that no longer change: partition p is words[offsets[p] : offsets[p + 1]], in no order.

    It holds the words in (upper[p - 1], upper[p]]; the last upper bound is the last word there can be.
    """

    lowest: Words
    highest: Words
    upper: Words
    offsets: Integers
    words: Words

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self)

    def probe(self, place_mask: np.uint64, low: Words, high: Words, out: Output, state: State) -> int:
        """See `WordIndex.probe`: partitions that a range covers are copied, those it does not touch are skipped."""
        return _probe(self, place_mask, low, high, out, state)


@compiled
def _scan_compacted(table, firsts, begin, low, high, place_mask, out, found, state):  # type: ignore[no-untyped-def]
    """Like `scan`, where each partition is one run of words."""
    lowest, highest, upper, offsets, words = table
    out_range, out_place = out
    compared = 0
    for i in range(begin, begin + len(firsts)):
        if low[i] > high[i]:
            continue
        partition, slot = firsts[i - begin], offsets[firsts[i - begin]]
        if state[STOPPED] > 0:
            slot, partition = state[STOPPED] - 1, state[PARTITION]
            state[STOPPED] = 0
        # Walk from partition to partition up to that of the range's high end.
        while True:
            end = offsets[partition + 1]
            if lowest[partition] <= high[i] and highest[partition] >= low[i]:
                if lowest[partition] >= low[i] and highest[partition] <= high[i]:
                    found, reached = take_all(words, slot, end, place_mask, i, out_range, out_place, found)
                else:
                    found, reached = take(words, slot, end, low[i], high[i], place_mask, i, out_range, out_place, found)
                    compared += reached - slot
                if reached < end:
                    state[NEXT], state[STOPPED], state[PARTITION] = i, reached + 1, partition
                    state[COMPARED] += compared
                    return found
            if upper[partition] >= high[i]:
                break
            partition, slot = partition + 1, end
    state[NEXT] = begin + len(firsts)
    state[COMPARED] += compared
    return found


@compiled
def _probe(table, place_mask, low, high, out, state):  # type: ignore[no-untyped-def]
    """Locate a block of ranges, then scan their partitions, until the outputs are full or all ranges are done."""
    firsts = np.empty(BLOCK, np.int64)
    found, last = 0, 0
    for begin in range(state[NEXT], len(low), BLOCK):
        block = firsts[: min(BLOCK, len(low) - begin)]
        last = locate(table.upper, last, low[begin : begin + len(block)], block)
        found = _scan_compacted(table, block, begin, low, high, place_mask, out, found, state)
        if state[STOPPED] > 0:
            return found
    state[NEXT] = DONE
    return found
