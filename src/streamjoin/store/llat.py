"""Linked List Adaptive Table (PanJoin, section III-B2, Fig. 5): words in partitions of unforeseen sizes.

The table is 2P entries of W = ceil(N / P * sigma) words each, for P partitions of N words in all. A partition begins in
an entry of its own; when that is full the partition goes on in the entry at the global pointer, and so on, as a linked
list. Invariant: of a partition's entries only the last one may have room, so at most N / W < P entries are ever linked
and 2P suffice. The storage is not touched before it is used, so that entries nobody needed cost address space only.

Sealing a subwindow compacts it: the words of each partition become one contiguous run, partition after partition. The
overhead of 150% (at sigma = 1.25) that the paper accounts for is gone from then on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..arrays import Places, Words
from ..compile.cache import compiled
from ..compile.intrinsics import I32, I64, compress, count_chosen, element, lane_numbers, load_lanes, splat, store_lanes
from .words import State

Links = npt.NDArray[np.int64]

SIGMA = 1.25
BLOCK = 256
"""So many ranges are located before their partitions are scanned."""
LANES = 16
"""So many words are compared at once."""
LAST_WORD = np.uint64(2**64 - 1)


@compiled
def rebound(splitters, start, word):  # type: ignore[no-untyped-def]
    """The first partition from `start` on whose splitter is not below the word (section III-E, Fig. 6).

    Steps double forward until the word is passed and are halved on the way back. The last splitter is the last word
    there can be, so there always is such a partition; those before `start` must not be candidates.
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


class Entries(NamedTuple):
    """The arrays of a table, for compiled code."""

    words: Words
    """`width` words per entry, and `LANES` more that are read but not used."""
    width: int
    head: Links
    """How many words there are in an entry."""
    following: Links
    """The entry in which an entry's partition goes on, or -1."""
    last: Links
    """The last entry of the partition that begins in an entry."""
    pointer: Links
    """The one global pointer: the first entry that is not in use."""


class Partitions(NamedTuple):
    """Per partition, by its first entry: the extremes of its words, the last word that belongs to it, its neighbour.

    A partition without words has the extremes 2**64 - 1 and 0; the last one's neighbour is no partition.
    """

    lowest: Words
    highest: Words
    upper: Words
    right: Links


class Output(NamedTuple):
    """The outputs of a probe: see `WordIndex.probe`."""

    range: Places
    place: Places


@compiled
def append(entries, partition, word):  # type: ignore[no-untyped-def]
    """Add a word to the last entry of its partition, or to a new one."""
    entry = entries.last[partition]
    place = entries.head[entry]
    if place == entries.width:
        entries.following[entry] = entries.pointer[0]
        entry = entries.pointer[0]
        entries.last[partition] = entry
        entries.pointer[0] += 1
        place = 0
    entries.words[entry * entries.width + place] = word
    entries.head[entry] = place + 1


@intrinsic
def _take_lanes(typing: Any, words: Any, slot: Any, end: Any, low: Any, span: Any, mask: Any, out: Any, at: Any) -> Any:
    """out[at:] = the low bits of those words from slot on, `LANES` of them but before end, that are in the range.

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
    """Write the places of those words from slot to end that are in [low, high], as matches of range `number`.

    Returns how many matches the outputs hold now, and the slot it came to: not the end if the word there matches but
    the outputs are full.
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
    """Like `take`, of words that are all known to be in the range: nothing is compared."""
    size = min(end - slot, len(out_place) - found)
    part, places, numbers = words[slot : slot + size], out_place[found : found + size], out_range[found : found + size]
    for k in range(size):
        places[k] = np.int32(part[k] & place_mask)
        numbers[k] = number
    return found + size, slot + size


@compiled
def scan(entries, partitions, firsts, begin, low, high, place_mask, out, found, state):  # type: ignore[no-untyped-def]
    """Take the matches of the ranges from `begin` on; `firsts` are the partitions of their low ends.

    Returns how many matches the outputs hold now. If they are full but not all matches in them, the state says where to
    go on; else state[0] is the range after these.
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
        if state[2] > 0:
            partition, entry, slot = state[2] - 1, state[3] // width, state[3]
            state[2] = 0
        while True:
            if lowest[partition] <= high[i] and highest[partition] >= low[i]:
                inside = lowest[partition] >= low[i] and highest[partition] <= high[i]
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
                        state[0], state[1], state[2], state[3] = i, state[1] + compared, partition + 1, reached
                        return found
                    entry = following[entry]
                    if entry < 0:
                        break
                    slot = entry * width
            if upper[partition] >= high[i]:
                break
            partition = right[partition]
            entry, slot = partition, partition * width
    state[0] = begin + len(firsts)
    state[1] += compared
    return found


@compiled
def _copy(entries, firsts, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the entries of the partitions that begin in `firsts` to `out`, and note where each begins in `offsets`."""
    count = 0
    for partition in range(len(firsts)):
        offsets[partition] = count
        entry = firsts[partition]
        while entry >= 0:
            for slot in range(entry * entries.width, entry * entries.width + entries.head[entry]):
                out[count] = entries.words[slot]
                count += 1
            entry = entries.following[entry]
    offsets[len(firsts)] = count


@compiled
def _sizes(entries, firsts, sizes):  # type: ignore[no-untyped-def]
    for partition in range(len(firsts)):
        entry = firsts[partition]
        while entry >= 0:
            sizes[partition] += entries.head[entry]
            entry = entries.following[entry]


@compiled
def locate(splitters, start, low, firsts):  # type: ignore[no-untyped-def]
    """Note the partitions of the low ends of ranges, from that of the range before them on; returns the last."""
    for i in range(len(low)):
        start = rebound(splitters, start, low[i])
        firsts[i] = start
    return start


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
        if state[2] > 0:
            partition, slot = state[2] - 1, state[3]
            state[2] = 0
        while True:
            end = offsets[partition + 1]
            if lowest[partition] <= high[i] and highest[partition] >= low[i]:
                if lowest[partition] >= low[i] and highest[partition] <= high[i]:
                    found, reached = take_all(words, slot, end, place_mask, i, out_range, out_place, found)
                else:
                    found, reached = take(words, slot, end, low[i], high[i], place_mask, i, out_range, out_place, found)
                    compared += reached - slot
                if reached < end:
                    state[0], state[1], state[2], state[3] = i, state[1] + compared, partition + 1, reached
                    return found
            if upper[partition] >= high[i]:
                break
            partition, slot = partition + 1, end
    state[0] = begin + len(firsts)
    state[1] += compared
    return found


@compiled
def _probe(table, place_mask, low, high, out, state):  # type: ignore[no-untyped-def]
    firsts = np.empty(BLOCK, np.int64)
    found, last = 0, 0
    for begin in range(state[0], len(low), BLOCK):
        block = firsts[: min(BLOCK, len(low) - begin)]
        last = locate(table.upper, last, low[begin : begin + len(block)], block)
        found = _scan_compacted(table, block, begin, low, high, place_mask, out, found, state)
        if state[2] > 0:
            return found
    state[0] = -1
    return found


class Llat:
    """The entries of a table, of which the first `partitions` have been given to one partition each."""

    def __init__(self, entries: int, width: int, partitions: int) -> None:
        self.entries = Entries(
            np.empty(entries * width + LANES, np.uint64),
            width,
            np.zeros(entries, np.int64),
            np.full(entries, -1, np.int64),
            np.arange(entries),
            np.array([partitions]),
        )

    def __len__(self) -> int:
        return len(self.entries.head)

    @property
    def used(self) -> int:
        """Entries up to the global pointer."""
        return int(self.entries.pointer[0])

    @property
    def nbytes(self) -> int:
        """Of the words, only the entries up to the global pointer: the others have not been touched."""
        _, width, head, following, last, _ = self.entries
        return self.used * width * 8 + head.nbytes + following.nbytes + last.nbytes

    def grow(self) -> None:
        """Make twice as many entries."""
        old, more = self.entries, Llat(2 * len(self), self.entries.width, self.used)
        more.entries.words[: len(old.words)] = old.words
        for kept, longer in zip(old[2:5], more.entries[2:5], strict=True):
            longer[: len(kept)] = kept
        self.entries = more.entries

    def sizes(self, firsts: Links) -> Links:
        """How many words there are in the partitions that begin in these entries."""
        sizes = np.zeros(len(firsts), np.int64)
        _sizes(self.entries, firsts, sizes)
        return sizes

    def compact(self, firsts: Links, count: int) -> tuple[Links, Words]:
        """Where each of these partitions begins and the last one ends, and their `count` words one after another.

        The array of words is followed by `LANES` that are none.
        """
        offsets = np.empty(len(firsts) + 1, np.int64)
        words = np.empty(count + LANES, np.uint64)
        _copy(self.entries, firsts, offsets, words)
        return offsets, words


def width_of(capacity: int, partitions: int) -> int:
    """The width of entries of which two per partition suffice."""
    return max(math.ceil(capacity / partitions * SIGMA), 1)


class Compacted(NamedTuple):
    """Partitions that no longer change: partition p is words[offsets[p] : offsets[p + 1]], in no order.

    It holds the words in (upper[p - 1], upper[p]]; the last upper bound is the last word there can be.
    """

    lowest: Words
    highest: Words
    upper: Words
    offsets: Links
    words: Words

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self)

    def probe(self, place_mask: np.uint64, low: Words, high: Words, out: Output, state: State) -> int:
        """See `WordIndex.probe`: partitions that a range covers are copied, those it does not touch are skipped."""
        return _probe(self, place_mask, low, high, out, state)
