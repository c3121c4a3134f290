"""Compiled gathering of rows from segments that lie anywhere in memory, by their addresses.

`addresses[k]` is where segment `first_segment + k` begins; row r is in segment r >> SEGMENT_BITS. A row number below 0
is a row that is not there.

The row numbers lie in several pieces. `pieces` has two numbers for each one: where it lies in memory, and which row of
the result its first number gives. The last two are 0 and the number of all rows. A call gathers result rows
[start, stop); `start` is a multiple of BLOCK, so calls at the same time never write to the same cache line or the same
byte of bits.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..compile.cache import compiled
from ..compile.intrinsics import pointer, prefetch_at
from .moves import (
    byte_at,
    copy_bytes,
    fence,
    move8,
    move16,
    move32,
    move64,
    move128,
    number_at,
    stream_line,
    word_at,
)

SEGMENT_BITS = 14
SEGMENT = 1 << SEGMENT_BITS
BLOCK = 64
"""Rows whose records are asked for before they are read."""
LENGTH_BITS = 28
"""A text is known by one word: where it starts among its segment's bytes, and its length in the low bits."""
SLACK, LARGEST_MOVED = 16, 64
"""Bytes behind the texts of a segment that may be read: texts of up to 64 bytes are copied 16 bytes at a time."""
ABSENT, RELEASED = 1, 2
"""What a gathering came across: rows that are not there, and rows that are there no more."""
BITS, TEXT = -1, -2
"""Widths that stand for more: a byte that becomes a bit, and the word of a text, whose length is summed up."""
_LENGTH = np.uint64((1 << LENGTH_BITS) - 1)


@compiled
def _piece_of(pieces, place):
    """The number of the piece that gives this row of the result."""
    low, high = 0, len(pieces) // 2 - 1
    while high - low > 1:
        middle = (low + high) // 2
        if pieces[2 * middle + 1] <= place:
            low = middle
        else:
            high = middle
    return low


@compiled
def _row_numbers(pieces, piece, place, count, numbers):
    """Where the next `count` row numbers from `place` on lie: in their piece, or, where it ends too soon, in `numbers`.
    Also the piece of the last one."""
    while pieces[2 * piece + 3] <= place:
        piece += 1
    first = pieces[2 * piece] + 8 * (place - pieces[2 * piece + 1])
    if place + count <= pieces[2 * piece + 3]:
        return first, piece
    for i in range(count):
        while pieces[2 * piece + 3] <= place + i:
            piece += 1
        numbers[i] = number_at(pieces[2 * piece] + 8 * (place + i - pieces[2 * piece + 1]))
    return np.int64(numbers.ctypes.data), piece


@compiled
def _put_bits(bits, address, count):
    """The lowest `count` bits, in whole bytes."""
    out = carray(pointer(address), (count + 7) // 8, np.uint8)
    for k in range(len(out)):
        out[k] = np.uint8(bits >> np.uint64(8 * k))


@compiled
def _ask_for(rows, count, addresses, base, first_row, end_row, width, nowhere, record):
    """The addresses of some rows' records, which start to be loaded; returns what was come across."""
    crosses, missing = 64 % width != 0, np.int64(0)
    room = np.uint64(end_row - first_row)
    for i in range(count):
        row = number_at(rows + 8 * i)
        far = np.uint64(row - first_row) >= room
        missing |= np.int64(far)
        inside = base if far else row
        place = np.uint64(inside - base)
        address = addresses[place >> np.uint64(SEGMENT_BITS)] + (inside & (SEGMENT - 1)) * width
        address = nowhere if far else address
        record[i] = address
        prefetch_at(address)
        if crosses:
            prefetch_at(address + width - 1)
    found = 0
    if missing:
        for i in range(count):
            row = number_at(rows + 8 * i)
            if row < first_row or row >= end_row:
                found |= ABSENT if row < 0 else RELEASED
    return found


@compiled
def gather_records(
    pieces, start, stop, addresses, first_segment, first_row, end_row, width, nowhere, columns, streamed
):
    """Take records of `width` bytes apart. Each column is given as where its values lie in a record, how wide they are
    (or BITS, or TEXT), the address that the result's go to, and 0, to which the lengths of texts are added. One more
    line, all 0, is for what was come across: it has that in front when the call is done.

    A record is a few neighbouring cache lines, so a row costs one access to far memory however many columns it has.
    `nowhere` is the address of a record for rows that are not there: rows [first_row, end_row) are. `streamed`: the
    result is too large for the cache, and its columns begin at cache lines.
    """
    base = first_segment << SEGMENT_BITS
    numbers = np.empty(BLOCK, np.int64)
    record, ahead = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    memory = np.empty(8 * BLOCK + 64, np.uint8)
    aside = (np.int64(memory.ctypes.data) + 63) & ~63
    piece, last = _piece_of(pieces, start), len(columns) - 1
    for block in range(start, stop + BLOCK, BLOCK):
        record, ahead = ahead, record
        asked = min(BLOCK, stop - block)
        if asked > 0:
            rows, piece = _row_numbers(pieces, piece, block, asked, numbers)
            columns[last, 0] |= _ask_for(rows, asked, addresses, base, first_row, end_row, width, nowhere, ahead)
        before = block - BLOCK
        if before < start:
            continue
        count = min(BLOCK, stop - before)
        for c in range(last):
            offset, size = columns[c, 0], columns[c, 1]
            out = columns[c, 2]
            if size == BITS:
                bits = np.uint64(0)
                for i in range(count):
                    bits |= np.uint64(byte_at(record[i] + offset)) << np.uint64(i)
                _put_bits(bits, out + before // 8, count)
                continue
            if size == TEXT:
                total = np.uint64(0)
                words = carray(pointer(out + before * 8), count, np.uint64)
                for i in range(count):
                    word = word_at(record[i] + offset)
                    words[i] = word
                    total += word & _LENGTH
                columns[c, 3] += np.int64(total)
                continue
            out += before * size
            streams = streamed and count == BLOCK and size <= 8
            target = aside if streams else out
            if size == 8:
                for i in range(count):
                    move64(record[i] + offset, target + i * 8)
            elif size == 4:
                for i in range(count):
                    move32(record[i] + offset, target + i * 4)
            elif size == 2:
                for i in range(count):
                    move16(record[i] + offset, target + i * 2)
            elif size == 1:
                for i in range(count):
                    move8(record[i] + offset, target + i)
            else:
                for i in range(count):
                    for w in range(0, size, 16):
                        move128(record[i] + offset + w, target + i * size + w)
            if streams:
                for line in range(0, BLOCK * size, 64):
                    stream_line(target + line, out + line)
    if streamed:
        fence()
    return memory[0]  # so that the memory aside is kept until here: only its address was used


@compiled
def gather_validity(pieces, start, stop, addresses, first_segment, out):
    """The bits of the rows that are there and not NULL, to the address `out`; returns how many have none.

    A segment without NULLs has the address 0; no addresses at all: there are no NULLs.
    """
    base, any_null = first_segment << SEGMENT_BITS, len(addresses) > 0
    numbers = np.empty(BLOCK, np.int64)
    piece, none = _piece_of(pieces, start), np.int64(0)
    for block in range(start, stop, BLOCK):
        count = min(BLOCK, stop - block)
        rows, piece = _row_numbers(pieces, piece, block, count, numbers)
        bits = np.uint64(0)
        for i in range(count):
            row = number_at(rows + 8 * i)
            valid = np.uint64(row >= 0)
            if any_null and row >= 0:
                address = addresses[(row - base) >> SEGMENT_BITS]
                valid = np.uint64(1) if address == 0 else np.uint64(byte_at(address + (row & (SEGMENT - 1))))
            bits |= valid << np.uint64(i)
            none += 1 - np.int64(valid)
        _put_bits(bits, out + block // 8, count)
    return none


@compiled
def copy_texts(pieces, start, stop, addresses, first_segment, words, place, end, places, out):
    """The bytes of texts, one behind the other, from out + place to out + end; places[i + 1] is where text i ends.

    Short texts are copied with what lies behind them, which the next text overwrites.
    """
    base = first_segment << SEGMENT_BITS
    numbers, source = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    piece = _piece_of(pieces, start)
    for block in range(start, stop, BLOCK):
        asked = min(BLOCK, stop - block)
        rows, piece = _row_numbers(pieces, piece, block, asked, numbers)
        for i in range(asked):
            word = words[block + i]
            source[i] = out
            if word & _LENGTH:
                segment = np.uint64(number_at(rows + 8 * i) - base) >> np.uint64(SEGMENT_BITS)
                source[i] = addresses[segment] + np.int64(word >> np.uint64(LENGTH_BITS))
                prefetch_at(source[i])
        for i in range(asked):
            count = np.int64(words[block + i] & _LENGTH)
            if place + LARGEST_MOVED > end or count > LARGEST_MOVED:
                copy_bytes(source[i], out + place, count)
            else:
                move128(source[i], out + place)
                if count > 16:
                    for k in range(16, count, 16):
                        move128(source[i] + k, out + place + k)
            place += count
            places[block + i + 1] = place


@compiled
def scatter_records(target, width, columns, start, count):
    """The reverse: values [start, start + count) of each column go into the records from the address `target` on. Each
    column is given as the address of its values, where they go in a record, and how wide they are."""
    for block in range(0, count, BLOCK):
        stop = min(block + BLOCK, count)
        for c in range(len(columns)):
            size, out = columns[c, 2], target + columns[c, 1]
            source = columns[c, 0] + start * size
            if size == 8:
                for i in range(block, stop):
                    move64(source + i * 8, out + i * width)
            elif size == 4:
                for i in range(block, stop):
                    move32(source + i * 4, out + i * width)
            elif size == 2:
                for i in range(block, stop):
                    move16(source + i * 2, out + i * width)
            elif size == 1:
                for i in range(block, stop):
                    move8(source + i, out + i * width)
            else:
                for i in range(block, stop):
                    for w in range(0, size, 16):
                        move128(source + i * size + w, out + i * width + w)
