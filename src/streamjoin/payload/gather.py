"""Compiled gathering of rows from segments that lie anywhere in memory, by their addresses.

`addresses[k]` is where segment `first_segment + k` begins; row r is in segment r >> SEGMENT_BITS. A row number below 0
is a row that is not there.

The row numbers of the results lie in several `pieces`. Each piece has three numbers: which row of the result it begins
with, and where its row numbers of the first and of the second side lie in memory. The number of all rows comes last. A
call gathers result rows [start, stop); `start` is a multiple of BLOCK, so calls at the same time never write to the
same cache line or the same byte of bits.
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
ABSENT, RELEASED, FLAGS = 1, 2, 2
"""What a gathering came across: rows that are not there, and rows that are there no more. Two bits tell it."""
BITS, TEXT = -1, -2
"""Widths that stand for more: a byte that becomes a bit, and the word of a text, whose length is summed up."""
_LENGTH = np.uint64((1 << LENGTH_BITS) - 1)


@compiled
def _piece_of(pieces, place):
    """The number of the piece that gives this row of the result."""
    low, high = 0, len(pieces) // 3
    while high - low > 1:
        middle = (low + high) // 2
        if pieces[3 * middle] <= place:
            low = middle
        else:
            high = middle
    return low


@compiled
def _row_numbers(pieces, side, piece, place, count, numbers):
    """Where the next `count` row numbers from `place` on lie: in their piece, or, where it ends too soon, in `numbers`.
    Also the piece of the last one."""
    while pieces[3 * (piece + 1)] <= place:
        piece += 1
    first = pieces[3 * piece + 1 + side] + 8 * (place - pieces[3 * piece])
    if place + count <= pieces[3 * (piece + 1)]:
        return first, piece
    for i in range(count):
        while pieces[3 * (piece + 1)] <= place + i:
            piece += 1
        numbers[i] = number_at(pieces[3 * piece + 1 + side] + 8 * (place + i - pieces[3 * piece]))
    return np.int64(numbers.ctypes.data), piece


@compiled
def _put_bits(bits, address, count):
    """The lowest `count` bits, in whole bytes."""
    out = carray(pointer(address), (count + 7) // 8, np.uint8)
    for k in range(len(out)):
        out[k] = np.uint8(bits >> np.uint64(8 * k))


@compiled
def _ask_for(rows, count, source, record):
    """The addresses of some rows' records, which start to be loaded; returns what was come across."""
    addresses, base, first_row, end_row, width, nowhere = source
    crosses, missing = 64 % width != 0, np.int64(0)
    room = np.uint64(end_row - first_row)
    for i in range(count):
        row = number_at(rows + 8 * i)
        far = np.uint64(row - first_row) >= room
        missing |= np.int64(far)
        inside = base if far else row
        place = np.uint64(inside - base)
        address = (
            number_at(addresses + 8 * np.int64(place >> np.uint64(SEGMENT_BITS))) + (inside & (SEGMENT - 1)) * width
        )
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
def _gather_side(pieces, side, start, stop, source, columns, streamed):
    """Take the records of one side apart; returns what was come across.

    A record is a few neighbouring cache lines, so a row costs one access to far memory however many columns it has.
    """
    memory = np.empty(4 * BLOCK + 8, np.int64)
    numbers, record, ahead = memory[:BLOCK], memory[BLOCK : 2 * BLOCK], memory[2 * BLOCK : 3 * BLOCK]
    aside = (np.int64(memory[3 * BLOCK :].ctypes.data) + 63) & ~63
    piece, found = _piece_of(pieces, start), 0
    for block in range(start, stop + BLOCK, BLOCK):
        record, ahead = ahead, record
        asked = min(BLOCK, stop - block)
        if asked > 0:
            rows, piece = _row_numbers(pieces, side, piece, block, asked, numbers)
            found |= _ask_for(rows, asked, source, ahead)
        before = block - BLOCK
        if before < start:
            continue
        count = min(BLOCK, stop - before)
        for c in range(len(columns)):
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
    return found | (memory[0] & 0)  # so that the memory aside is kept until here: only its address was used


@compiled
def gather_records(pieces, job, first_side, last_side, start, stop, streamed):
    """Take the records of sides first_side to last_side apart. The `job` says how, in lines of four numbers. Each side
    has two lines: where the table of its segments' addresses lies, the first segment, the first row that is there, and
    the end of the last segment; the width of a record, the address of one for rows that are not there, the number of
    columns, and 0. A line for each column follows: where its values lie in a record, how wide they are (or BITS, or
    TEXT), the address that the result's go to, and 0, to which the lengths of texts are added.

    `streamed`: the result is too large for the cache, and its columns begin at cache lines. Returns what was come
    across, FLAGS bits for each side.
    """
    lines = job.reshape(-1, 4)
    line, side, found = 0, np.int64(0), 0
    while line < len(lines):
        base, first_row, end_row = lines[line, 1] << SEGMENT_BITS, lines[line, 2], lines[line, 3]
        source = lines[line, 0], base, first_row, end_row, lines[line + 1, 0], lines[line + 1, 1]
        columns = lines[line + 2 : line + 2 + lines[line + 1, 2]]
        if len(columns) and first_side <= side <= last_side:
            found |= _gather_side(pieces, side, start, stop, source, columns, streamed) << FLAGS * side
        line += 2 + len(columns)
        side += 1
    if streamed:
        fence()
    return found


@compiled
def gather_side_of(pieces, side, lines, address, rows):
    """The same for one side and all rows, where columns lie in one buffer at this address: a column that says b for its
    address begins at b * rows / 8."""
    columns = lines[2:].copy()
    for c in range(len(columns)):
        columns[c, 2] = address + (columns[c, 2] * rows >> 3)
    source = lines[0, 0], lines[0, 1] << SEGMENT_BITS, lines[0, 2], lines[0, 3], lines[1, 0], lines[1, 1]
    start, streamed = np.int64(0), np.bool_(False)  # for literals, the function would be compiled anew
    return _gather_side(pieces, side, start, pieces[len(pieces) - 1], source, columns, streamed)


@compiled
def gather_records_part(block, part, slot):
    """The entry (`compile.entries`) of `gather_records`; a part takes a span of rows.

    The block: where the pieces lie and how many numbers they are; where the jobs of spans lie, how long each one is and
    how many there are; rows of a span and of all; whether results are streamed; whether each side has parts of its own,
    side by side; where what each part has come across goes.
    """
    b = carray(pointer(block), 10, np.int64)
    spans, rows, separate = b[4], b[6], b[8] != 0
    span = part % spans
    start = span * b[5]
    first, last = (part // spans, part // spans) if separate else (0, 1)
    job = carray(pointer(b[2] + 8 * b[3] * span), b[3], np.int64)
    found = carray(pointer(b[9]), part + 1, np.int64)
    pieces = carray(pointer(b[0]), b[1], np.int64)
    found[part] = gather_records(pieces, job, first, last, start, min(start + b[5], rows), b[7] != 0)
    return 1


@compiled
def gather_validity_part(block, part, slot):
    """The entry of `gather_validity`. The block: where the pieces lie and how many numbers they are; rows of a span and
    of all; the side; where the segments' addresses lie, how many, and the first segment; the result's address."""
    b = carray(pointer(block), 9, np.int64)
    start = part * b[2]
    addresses = carray(pointer(b[5]), b[6], np.int64)
    gather_validity(
        carray(pointer(b[0]), b[1], np.int64), b[4], start, min(start + b[2], b[3]), addresses, b[7], b[8]
    )  # fmt: skip
    return 1


@compiled
def copy_texts_part(block, part, slot):
    """The entry of `copy_texts`. The block goes on, in place of the result's address: whether lengths are long, the
    addresses of the words, of the texts' ends and of the result; then the place where each part begins, and the end."""
    b = carray(pointer(block), 13 + part + 1, np.int64)
    start, stop = part * b[2], min((part + 1) * b[2], b[3])
    pieces = carray(pointer(b[0]), b[1], np.int64)
    addresses = carray(pointer(b[5]), b[6], np.int64)
    words = carray(pointer(b[9]), b[3], np.uint64)
    if b[8] != 0:
        ends = carray(pointer(b[10]), b[3] + 1, np.int64)
        copy_texts(pieces, b[4], start, stop, addresses, b[7], words, b[12 + part], b[13 + part], ends, b[11])
    else:
        short = carray(pointer(b[10]), b[3] + 1, np.int32)
        copy_texts(pieces, b[4], start, stop, addresses, b[7], words, b[12 + part], b[13 + part], short, b[11])
    return 1


@compiled
def gather_validity(pieces, side, start, stop, addresses, first_segment, out):
    """The bits of the rows that are there and not NULL, to the address `out`; returns how many have none.

    A segment without NULLs has the address 0; no addresses at all: there are no NULLs.
    """
    base, any_null = first_segment << SEGMENT_BITS, len(addresses) > 0
    numbers = np.empty(BLOCK, np.int64)
    piece, none = _piece_of(pieces, start), np.int64(0)
    for block in range(start, stop, BLOCK):
        count = min(BLOCK, stop - block)
        rows, piece = _row_numbers(pieces, side, piece, block, count, numbers)
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
def copy_texts(pieces, side, start, stop, addresses, first_segment, words, place, end, places, out):
    """The bytes of texts, one behind the other, from out + place to out + end; places[i + 1] is where text i ends.

    Short texts are copied with what lies behind them, which the next text overwrites.
    """
    base = first_segment << SEGMENT_BITS
    numbers, source = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    piece = _piece_of(pieces, start)
    for block in range(start, stop, BLOCK):
        asked = min(BLOCK, stop - block)
        rows, piece = _row_numbers(pieces, side, piece, block, asked, numbers)
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
