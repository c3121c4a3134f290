"""Compiled copying of Arrow's columns into segments that lie anywhere in memory: the reverse of `gather`."""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..compile.cache import compiled
from ..compile.intrinsics import pointer
from .gather import BLOCK, LENGTH_BITS, SEGMENT, SEGMENT_BITS
from .moves import byte_at, copy_bytes, move8, move16, move32, move64, move128, number_at, short_number_at


@compiled
def scatter_records(addresses, first_segment, row, count, width, columns):
    """Put `count` values of each column into the records from row number `row` on. Each column is given as the address
    of its values, where they go in a record, and how wide they are."""
    start = 0
    while start < count:
        segment, place = (row + start) >> SEGMENT_BITS, (row + start) & (SEGMENT - 1)
        stop = min(start + BLOCK, start + SEGMENT - place, count)
        target = addresses[segment - first_segment] + (place - start) * width
        for c in range(len(columns)):
            source, size, out = columns[c, 0], columns[c, 2], target + columns[c, 1]
            if size == 8:
                for i in range(start, stop):
                    move64(source + i * 8, out + i * width)
            elif size == 4:
                for i in range(start, stop):
                    move32(source + i * 4, out + i * width)
            elif size == 2:
                for i in range(start, stop):
                    move16(source + i * 2, out + i * width)
            elif size == 1:
                for i in range(start, stop):
                    move8(source + i, out + i * width)
            else:
                for i in range(start, stop):
                    for w in range(0, size, 16):
                        move128(source + i * size + w, out + i * width + w)
        start = stop


@compiled
def scatter_part(block, part, slot):
    """The entry (`compile.entries`) of `scatter_records`; a part copies a span of the rows. The block: where the
    segments' addresses lie and how many they are; the first segment, the first row, how many rows and parts there are,
    the width of a record, and how many columns; then the columns, three numbers each."""
    h = carray(pointer(block), 8, np.int64)
    first, last = h[4] * part // h[5], h[4] * (part + 1) // h[5]
    columns = carray(pointer(block + 64), (h[7], 3), np.int64).copy()
    for c in range(h[7]):
        columns[c, 0] += first * columns[c, 2]
    scatter_records(carray(pointer(h[0]), h[1], np.int64), h[2], h[3] + first, last - first, h[6], columns)
    return 1


@compiled
def bits_to_bytes(bits, first, count, target):
    """Bits [first, first + count) from the address `bits` on, as bytes from the address `target` on."""
    out = carray(pointer(target), count, np.uint8)
    for i in range(count):
        place = first + i
        out[i] = (byte_at(bits + (place >> 3)) >> (place & 7)) & 1


@compiled
def _offset(offsets, is_long, number):
    return number_at(offsets + 8 * number) if is_long else np.int64(short_number_at(offsets + 4 * number))


@compiled
def keep_texts(offsets, is_long, first, count, content, target, used, words):
    """Copy texts [first, first + count) behind the bytes of their segment that are `used`, at the address `target`. The
    bytes come from the address `content`; at the address `offsets` lie numbers of 32 bits, or 64 if `is_long`, that say
    which are whose. `words` gets the word of each text."""
    begin = place = _offset(offsets, is_long, first)
    for i in range(first, first + count):
        end = _offset(offsets, is_long, i + 1)
        words[i] = np.uint64((place - begin + used) << LENGTH_BITS | (end - place))
        place = end
    copy_bytes(content + begin, target + used, place - begin)
