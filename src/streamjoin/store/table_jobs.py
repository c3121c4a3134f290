"""Storing, hashing and linking of tuples by several threads.

A part stores or hashes a span of the tuples. To link, a part passes over all tuples and takes those of its own buckets:
so every chain keeps the order of insertion, and no two threads touch a bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..arrays import Array, Integers, Words
from ..compile.cache import compiled
from ..compile.intrinsics import pointer, prefetch
from ..payload.moves import move8, move16, move32, move64
from ..payload.segments import address_of
from ..tasks import DONE, Job
from .hashing import MULTIPLIER, SHIFT
from .spare_words import spare_words

LEAST = 1 << 12
"""Tuples that are worth a thread."""
BLOCK = 128
"""Tuples whose columns are stored one after another."""
AHEAD = 16
"""How many tuples before its use the head of a bucket is asked for."""


def parts_for(count: int, workers: int) -> int:
    return max(min(workers, count // LEAST), 1)


def store_job(columns: Sequence[tuple[Array, int]], records: Array, capacity: int, number: int, workers: int) -> Job:
    """Put columns into records, from this number on, in a ring of a power of two of them. Each column is given with its
    place in a record."""
    sources = [(np.ascontiguousarray(column), offset) for column, offset in columns]
    count = len(sources[0][0]) if sources else 0
    parts = parts_for(count, workers)
    lines = [(address_of(column), offset, column.itemsize) for column, offset in sources]
    head = address_of(records), records.itemsize, capacity, number, count, parts, len(lines)
    block: Integers = np.array([*head, *(value for line in lines for value in line)], np.int64)
    return Job(store_part, block, parts, (sources, records))


@compiled
def store_part(block, part, slot):
    """The entry of `store_job`."""
    h = carray(pointer(block), 7, np.int64)
    columns = carray(pointer(block + 8 * 7), (h[6], 3), np.int64)
    _store(columns, h[4] * part // h[5], h[4] * (part + 1) // h[5], h[3], h[0], h[2], h[1])
    return DONE


@compiled
def _store(columns, start, last, number, records, capacity, size):
    while start < last:
        place = (number + start) & (capacity - 1)
        stop = min(start + BLOCK, start + capacity - place, last)
        target = records + (place - start) * size
        for c in range(len(columns)):
            source, out, width = columns[c, 0], target + columns[c, 1], columns[c, 2]
            if width == 8:
                for i in range(start, stop):
                    move64(source + i * 8, out + i * size)
            elif width == 4:
                for i in range(start, stop):
                    move32(source + i * 4, out + i * size)
            elif width == 2:
                for i in range(start, stop):
                    move16(source + i * 2, out + i * size)
            else:
                for i in range(start, stop):
                    move8(source + i, out + i * size)
        start = stop


def hash_job(keys: Sequence[Array], workers: int) -> tuple[Job, Words] | None:
    """`hashing.hash_keys`, and where the hashes go. None: keys of these types are not hashed here."""
    kept = [np.ascontiguousarray(key) for key in keys]
    if any(key.dtype not in (np.dtype(np.int32), np.dtype(np.int64)) for key in kept):
        return None
    hashes = spare_words(len(kept[0]))
    parts = parts_for(len(hashes), workers)
    lines = [number for key in kept for number in (address_of(key), key.itemsize)]
    block: Integers = np.array([len(hashes), parts, address_of(hashes), len(kept), *lines], np.int64)
    return Job(hash_part, block, parts, (kept, hashes)), hashes


@compiled
def hash_part(block, part, slot):
    """The entry of `hash_job`."""
    h = carray(pointer(block), 4, np.int64)
    b = carray(pointer(block), 4 + 2 * h[3], np.int64)
    first, last = h[0] * part // h[1], h[0] * (part + 1) // h[1]
    out = carray(pointer(h[2] + 8 * first), last - first, np.uint64)
    for k in range(h[3]):
        if b[5 + 2 * k] == 4:
            narrow = carray(pointer(b[4 + 2 * k] + 4 * first), last - first, np.int32)
            for i in range(last - first):
                word = np.uint64(np.int64(narrow[i]))
                product = (word if k == 0 else out[i] ^ word) * MULTIPLIER
                out[i] = product ^ (product >> SHIFT)
        else:
            wide = carray(pointer(b[4 + 2 * k] + 8 * first), last - first, np.int64)
            for i in range(last - first):
                word = np.uint64(wide[i])
                product = (word if k == 0 else out[i] ^ word) * MULTIPLIER
                out[i] = product ^ (product >> SHIFT)
    return DONE


def link_job(hashes: Words, number: int, heads: Array, records: Array, following: int, workers: int) -> Job:
    """Put tuples, from this number on, in front of their chains. `following` is the place of the chain in a record."""
    parts = 1 << (parts_for(len(hashes), workers).bit_length() - 1)
    block: Integers = np.array([
        address_of(hashes), len(hashes), number, address_of(heads), len(heads), address_of(records) + following,
        records.itemsize, len(records), parts,
    ], np.int64)  # fmt: skip
    return Job(link_part, block, parts, (hashes, heads, records))


@compiled
def link_part(block, part, slot):
    """The entry of `link_job`."""
    b = carray(pointer(block), 9, np.int64)
    hashes, heads = carray(pointer(b[0]), b[1], np.uint64), carray(pointer(b[3]), b[4], np.uint32)
    following = carray(pointer(b[5]), (1, b[6] // 4), np.uint32)
    number, places = b[2], b[7] - 1
    buckets, own, each = np.uint64(b[4] - 1), np.uint64(part), np.uint64(b[4] // b[8])
    if b[8] == 1:
        _link(hashes, number, heads, following, places)
        return DONE
    mine = np.empty(AHEAD, np.int64)
    begin, end = own * each, (own + np.uint64(1)) * each
    waiting = 0
    for i in range(b[1]):
        bucket = hashes[i] & buckets
        if (bucket >= begin) & (bucket < end):
            prefetch(heads, np.int64(bucket))
            mine[waiting] = i
            waiting += 1
            if waiting == AHEAD:
                for k in range(AHEAD):
                    at = hashes[mine[k]] & buckets
                    following[(number + mine[k]) & places, 0] = heads[at]
                    heads[at] = np.uint32(number + mine[k])
                waiting = 0
    for k in range(waiting):
        at = hashes[mine[k]] & buckets
        following[(number + mine[k]) & places, 0] = heads[at]
        heads[at] = np.uint32(number + mine[k])
    return DONE


@compiled
def _link(hashes, number, heads, following, places):
    buckets, last = np.uint64(len(heads) - 1), len(hashes) - 1
    for i in range(len(hashes)):
        prefetch(heads, np.int64(hashes[min(i + AHEAD, last)] & buckets))
        bucket = hashes[i] & buckets
        following[(number + i) & places, 0] = heads[bucket]
        heads[bucket] = np.uint32(number + i)


@compiled
def store_and_link(columns, hashes, number, records, capacity, size, heads, following):
    """The same as a `store_job` and a `link_job`, in one call by one thread. `columns` has a line for each: where its
    values lie, its place in a record, and how wide it is."""
    _store(columns, 0, len(hashes), number, records, capacity, size)
    _link(hashes, number, heads, carray(pointer(records + following), (1, size // 4), np.uint32), capacity - 1)
