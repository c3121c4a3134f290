"""Words of stored tuples, and ranges of probing ones, made and sorted by several threads.

Each part makes the words of its tuples and sorts them. Then neighbours are merged, two by two, until all words are in
order; the merge of two arrays is shared out as well. So a thread never waits for one that sorts more than its share.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..arrays import INT64_MAX, INT64_MIN, Array, Integers, Words
from ..compile.cache import compiled
from ..compile.intrinsics import pointer
from ..payload.segments import address_of
from ..tasks import DONE, Job
from .hashing import MULTIPLIER, SHIFT
from .ranges import Ranges, simple_into
from .runs import SAMPLE, padded
from .sorting import merge_words, radix_sort, split_merge
from .spare_words import spare_words
from .words import PLACE_BITS

if TYPE_CHECKING:
    from .batch import Batch
    from .keyspace import KeySpace

LEAST = 1 << 12
"""Tuples whose words are worth a thread."""
MERGED = 1 << 13
"""Words of a part of a merge."""
HASHED, MORE_HASHED, IN_CELLS, IN_SUFFIX, WIDE = range(5)
"""What a line of a job says: the first key of a hash, a further one; the key of the cells, that of the suffix; how far
one key lies above another."""
LINE, HEAD, FACTS = 10, 8, 8
"""Numbers in a line, in front of the lines, and in what a part says of its tuples."""

Stages = Generator[Sequence[Job], None, Any]
"""A `tasks.Walk` that returns something."""


def sorted_words(
    space: KeySpace, slots: Any, first: int, count: int, place: int, workers: int, others: Callable[[], list[Job]]
) -> Stages:
    """The words of `count` tuples in ascending order, with room for padding behind them. Their slots begin at `first`,
    and the first one has this place. None: they cannot be made here, or some tuples are irregular. `others` are done in
    the first stage, if there is one."""
    lines = _lines(space, slots, first)
    if lines is None or any(
        key.regular[0] is not None and not slots[key.regular[0]][first : first + count].all() for key in space.keys
    ):
        return None
    parts = max(min(workers, count // LEAST), 1)
    words, scratch = spare_words(padded(count)), spare_words(padded(count))
    facts = np.zeros((parts, FACTS), np.float64)
    head = place, count, parts, address_of(words), address_of(scratch), address_of(facts), len(lines), 0
    block: Integers = np.array([*head, *(number for line in lines for number in line)], np.int64)
    yield [*others(), Job(words_part, block, parts, (words, scratch, facts, slots))]
    if facts[:, 4].any() or facts[:, 7].any():
        return None
    space.exact = space.exact and not facts[:, 0].any()
    for number, key in enumerate(space.keys):
        if key.width is not None:
            least, most = float(facts[:, 2 + 3 * number].min()), float(facts[:, 3 + 3 * number].max())
            space.widest[key.key] = max(space.widest.get(key.key, 0), most)
            space.narrowest[key.key] = min(space.narrowest.get(key.key, np.inf), least)
    bounds = [count * part // parts for part in range(parts + 1)]
    found: Words = yield from _in_order(words, scratch, bounds)
    return found


def _lines(space: KeySpace, slots: Any, first: int) -> list[tuple[int, ...]] | None:
    """What `words_part` has to do; None: it cannot."""
    lines: list[tuple[int, ...]] = []
    shift = 64 - space.prefix_bits

    def where(number: int) -> tuple[int, int, int]:
        slot = slots[number]
        kind = slot.dtype.itemsize if slot.dtype.kind in "ib" else 0
        return slot.ctypes.data + first * slot.strides[0], slot.strides[0], kind

    for number, (own, _) in enumerate(space.hashed):
        lines.append((MORE_HASHED if number else HASHED, *where(own), shift, 0, 0, 0, 0, 0))
    if space.cells is not None:
        r = space.cell_reduction
        lines.append((
            IN_CELLS, *where(space.cells.key), r.base, r.shift, (1 << r.bits) - 1, space.rest_bits, shift, 0
        ))  # fmt: skip
    if space.suffix is not None:
        r = space.reduction
        lines.append((IN_SUFFIX, *where(space.suffix.key), r.base, r.shift, (1 << r.bits) - 1, shift - r.bits, 0, 0))
    for number, key in enumerate(space.keys):
        if key.width is not None:
            limit = space.limit_of(key)
            if key.key in space.float_bits:
                return None
            most = int(min(limit, 2.0**62))
            lines.append((WIDE, *where(key.key), *where(key.width), number, most, 0))
    kinds = [line[3] for line in lines] + [line[6] for line in lines if line[0] == WIDE]
    return lines if all(kinds) else None


def sorted_ranges(
    low: Array, high: Array, lower: int, exact: bool, last: int, shape: tuple[int, ...], workers: int
) -> Stages:
    """The ranges from low - lower to high, sorted. The rest is as in `store.ranges`."""
    count = len(low)
    parts = max(min(workers, count // LEAST), 1)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    memory = spare_words(3 * count + count // 2 + 8)
    packed, scratch = memory[:count], memory[count : 2 * count]
    kept: Integers = np.zeros(parts, np.int64)
    block: Integers = np.array([
        count, parts, address_of(packed), address_of(scratch), address_of(kept), address_of(low), low.itemsize,
        address_of(high), high.itemsize, lower, exact, last, *shape,
    ], np.int64)  # fmt: skip
    yield [Job(ranges_part, block, parts, (low, high, packed, scratch, kept))]
    begins = [count * part // parts for part in range(parts)]
    found = yield from _merged(packed, scratch, list(zip(begins, kept.tolist(), strict=True)))
    count = int(kept.sum())
    new_high, owner = memory[2 * len(low) :][:count], memory[3 * len(low) :].view(np.int32)[:count]
    parts = max(min(workers, count // LEAST), 1)
    block = np.array([
        count, parts, address_of(found), address_of(new_high), address_of(owner), address_of(high), len(high),
        high.itemsize, *shape,
    ], np.int64)  # fmt: skip
    yield [Job(simple_part, block, parts, (found, new_high, owner, high))]
    return Ranges(found[:count], new_high, owner)


def _in_order(words: Words, scratch: Words, bounds: Sequence[int]) -> Stages:
    spans = [(start, stop - start) for start, stop in itertools.pairwise(bounds)]
    found = yield from _merged(words, scratch, spans)
    return found


def _merged(words: Words, scratch: Words, spans: list[tuple[int, int]]) -> Stages:
    """Sorted pieces of `words`, each with its start and length, as one that begins at the start of the result."""
    source, target = words, scratch
    while len(spans) > 1:
        jobs, joined, end = [], list[tuple[int, int]](), 0
        for (start, count), (other, more) in zip(spans[::2], [*spans[1::2], (0, 0)], strict=False):
            pair = source[start : start + count], source[other : other + more]
            jobs.append(merge_job(*pair, target[end : end + count + more]))
            joined.append((end, count + more))
            end += count + more
        yield jobs
        spans, source, target = joined, target, source
    return source


def merge_job(a: Words, b: Words, out: Words, samples: Words | None = None) -> Job:
    """The merging of two ascending arrays, piece by piece. The first word of each partition goes to `samples`."""
    parts = max(len(out) // MERGED, 1)
    where = address_of(a) if len(a) else 0, len(a), address_of(b) if len(b) else 0, len(b)
    to = address_of(out) if len(out) else 0, parts, 0 if samples is None else address_of(samples)
    block: Integers = np.array([*where, *to], np.int64)
    return Job(merge_part, block, parts, (a, b, out, samples))


@compiled
def merge_part(block, part, slot):
    """The entry of `merge_job`. A part begins with a partition."""
    b = carray(pointer(block), 7, np.int64)
    first, second = carray(pointer(b[0]), b[1], np.uint64), carray(pointer(b[2]), b[3], np.uint64)
    total, parts = b[1] + b[3], b[5]
    start, stop = total * part // parts // SAMPLE * SAMPLE, total * (part + 1) // parts // SAMPLE * SAMPLE
    if part == parts - 1:
        stop = total
    i, j = split_merge(first, second, start)
    p, q = split_merge(first, second, stop)
    out = carray(pointer(b[4] + 8 * start), stop - start, np.uint64)
    merge_words(first[i:p], second[j:q], out)
    if b[6] != 0:
        samples = carray(pointer(b[6] + 8 * (start // SAMPLE)), (stop - start + SAMPLE - 1) // SAMPLE, np.uint64)
        for s in range(len(samples)):
            samples[s] = out[s * SAMPLE]
    return DONE


@compiled
def _value(address, kind):
    """The integer of so many bytes at an address."""
    if kind == 4:
        return np.int64(carray(pointer(address), 1, np.int32)[0])
    if kind == 8:
        return carray(pointer(address), 1, np.int64)[0]
    if kind == 2:
        return np.int64(carray(pointer(address), 1, np.int16)[0])
    return np.int64(carray(pointer(address), 1, np.int8)[0])


@compiled
def _mixed(word):
    product = word * MULTIPLIER
    return product ^ (product >> SHIFT)


@compiled
def words_part(block, part, slot):
    """The entry that makes the words of some tuples and sorts them."""
    h = carray(pointer(block), HEAD, np.int64)
    b = carray(pointer(block), HEAD + LINE * h[6], np.int64)
    first, last = h[1] * part // h[2], h[1] * (part + 1) // h[2]
    count = last - first
    words, scratch = (
        carray(pointer(h[3] + 8 * first), count, np.uint64), carray(pointer(h[4] + 8 * first), count, np.uint64)
    )  # fmt: skip
    facts = carray(pointer(h[5] + 8 * FACTS * part), FACTS, np.float64)
    for i in range(count):
        words[i] = np.uint64(h[0] + first + i)
    hash_shift = np.uint64(0)
    for n in range(h[6]):
        line = b[HEAD + LINE * n : HEAD + LINE * (n + 1)]
        role, address, stride, kind = line[0], line[1] + first * line[2], line[2], line[3]
        if role == HASHED:
            hash_shift = np.uint64(line[4])
            for i in range(count):
                scratch[i] = _mixed(np.uint64(_value(address + i * stride, kind)))
        elif role == MORE_HASHED:
            for i in range(count):
                scratch[i] = _mixed(scratch[i] ^ np.uint64(_value(address + i * stride, kind)))
        elif role == WIDE:
            above, step, width = line[4] + first * line[5], line[5], line[6]
            key = 3 * line[7]
            least, most, limit = np.inf, 0.0, np.float64(line[8])
            beyond = False
            for i in range(count):
                low, high = _value(address + i * stride, kind), _value(above + i * step, width)
                distance = np.float64(np.uint64(high) - np.uint64(low))
                distance = 0.0 if high < low else (distance if distance < 2.0**52 else distance * (1 + 2.0**-50))
                inside = distance <= limit
                beyond |= not inside
                least = min(least, distance)
                most = max(most, distance if inside else 0.0)
            facts[2 + key], facts[3 + key], facts[4 + key] = least, most, 1.0 if beyond else 0.0
        else:
            base, start, by, top = line[4], np.uint64(line[4]), np.uint64(line[5]), np.uint64(line[6])
            left, rest, was_cut = np.uint64(line[7]), np.uint64(line[7]), False
            shift = np.uint64(line[8])
            rest_mask = ((np.uint64(1) << rest) - np.uint64(1)) << np.uint64(PLACE_BITS)
            for i in range(count):
                value = _value(address + i * stride, kind)
                below = value < base
                distance_ = np.uint64(0) if below else (np.uint64(value) - start) >> by
                beyond_ = distance_ > top
                distance_ = top if beyond_ else distance_
                was_cut |= below | beyond_
                if role == IN_SUFFIX:
                    words[i] |= distance_ << left
                else:
                    words[i] |= (distance_ >> rest << shift) | ((distance_ << np.uint64(PLACE_BITS)) & rest_mask)
            if was_cut:
                facts[0] = 1.0
    if hash_shift > 0:
        for i in range(count):
            words[i] |= scratch[i] >> hash_shift << hash_shift
    if radix_sort(words, scratch, np.int64(PLACE_BITS)):
        for i in range(count):
            words[i] = scratch[i]
    return DONE


@compiled
def ranges_part(block, part, slot):
    """The entry that packs the lower ends of some ranges and sorts them."""
    b = carray(pointer(block), 16, np.int64)
    first, last = b[0] * part // b[1], b[0] * (part + 1) // b[1]
    count = last - first
    words, scratch = (
        carray(pointer(b[2] + 8 * first), count, np.uint64), carray(pointer(b[3] + 8 * first), count, np.uint64)
    )  # fmt: skip
    base, start, by, most, to = b[12], np.uint64(b[12]), np.uint64(b[13]), np.uint64(b[14]), np.uint64(b[15])
    least, lower, exact, end = np.int64(INT64_MIN) + b[9], b[9], b[10] != 0, b[11]
    n = np.int64(0)
    for i in range(first, last):
        low, high = _value(b[5] + i * b[6], b[6]), _value(b[7] + i * b[8], b[8])
        low = np.int64(INT64_MIN) if low < least else low - lower
        distance = np.uint64(0) if low < base else min((np.uint64(low) - start) >> by, most)
        words[n] = (distance << to) | np.uint64(i)
        n += (low <= high) & (not exact or (low <= end and high >= base))
    if radix_sort(words[:n], scratch[:n], np.int64(PLACE_BITS)):
        for i in range(n):
            words[i] = scratch[i]
    carray(pointer(b[4]), part + 1, np.int64)[part] = n
    return DONE


@compiled
def simple_part(block, part, slot):
    """The entry that takes some sorted ranges apart."""
    b = carray(pointer(block), 12, np.int64)
    first, last = b[0] * part // b[1], b[0] * (part + 1) // b[1]
    count = last - first
    packed, ends = (
        carray(pointer(b[2] + 8 * first), count, np.uint64),
        carray(pointer(b[3] + 8 * first), count, np.uint64),
    )
    owner = carray(pointer(b[4] + 4 * first), count, np.int32)
    if b[7] == 4:
        simple_into(packed, carray(pointer(b[5]), b[6], np.int32), b[8], b[9], b[10], b[11], ends, owner)
    else:
        simple_into(packed, carray(pointer(b[5]), b[6], np.int64), b[8], b[9], b[10], b[11], ends, owner)
    return DONE


def computed_ranges(space: KeySpace, batch: Batch, workers: int) -> Stages:
    """`KeySpace.ranges` by several threads."""
    if space.is_simple:
        low, high, lower = space.plain_bounds(batch.slots)
        if all(column.dtype.kind == "i" and column.itemsize in (4, 8) for column in (low, high)):
            r = space.reduction
            shape = r.base, r.shift, (1 << r.bits) - 1, 64 - r.bits
            found = yield from sorted_ranges(
                low, high, lower, space.exact, min(r.last, INT64_MAX), shape, workers
            )  # fmt: skip
            return found
    kept: list[Ranges] = []
    yield [lambda: kept.append(space.ranges(batch))]  # type: ignore[list-item]
    return kept[0]
