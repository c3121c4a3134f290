"""Compiled gathering of rows from segments that lie anywhere in memory, by their addresses.

`addresses[k]` is where segment `first_segment + k` begins; row r is in segment r >> SEGMENT_BITS. A row number below 0
is a row that is not there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compile.cache import compiled
from ..compile.intrinsics import prefetch_at

SEGMENT_BITS = 14
SEGMENT = 1 << SEGMENT_BITS
BLOCK = 64
"""Rows whose records are asked for before they are read."""
LENGTH_BITS = 28
"""A text is known by one word: where it starts among its segment's bytes, and its length in the low bits."""


def _mover(bits: int) -> Any:
    @intrinsic
    def move(typing: Any, source: Any, target: Any) -> Any:
        """Copy one value from an address to an address."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = ir.IntType(bits).as_pointer()
            value = builder.load(builder.inttoptr(args[0], pointer), align=1)
            builder.store(value, builder.inttoptr(args[1], pointer), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), codegen

    return move


_move8, _move16, _move32, _move64 = (_mover(bits) for bits in (8, 16, 32, 64))


@intrinsic
def _byte_at(typing: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.int64), codegen


@intrinsic
def _copy_bytes(typing: Any, source: Any, target: Any, place: Any, count: Any) -> Any:
    """Copy bytes from an address to target[place:]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[1])(context, builder, args[1]).data
        cgutils.raw_memcpy(
            builder, builder.gep(data, [args[2]]), builder.inttoptr(args[0], cgutils.voidptr_t), args[3], 1
        )
        return context.get_dummy_value()

    return types.none(types.int64, target, types.int64, types.int64), codegen


@compiled
def gather_records(addresses, first_segment, width, nowhere, rows, start, stop, columns):
    """Take records of `width` bytes apart. Each column is given as where its values lie in a record, how wide they are,
    and the address that those of rows[start:stop] go to.

    A record is a few neighbouring cache lines, so a row costs one access to far memory however many columns it has.
    `nowhere` is the address of a record for rows that are not there.
    """
    base = first_segment << SEGMENT_BITS
    record = np.empty(2 * BLOCK, np.int64)
    for block in range(start, stop + BLOCK, BLOCK):
        mine = (block // BLOCK) % 2 * BLOCK
        for i in range(block, min(block + BLOCK, stop)):
            row = rows[i] - base
            far = rows[i] >= 0
            address = addresses[row >> SEGMENT_BITS] + (row & (SEGMENT - 1)) * width if far else nowhere
            record[mine + i - block] = address
            prefetch_at(address)
            if (address & 63) + width > 64:
                prefetch_at(address + width - 1)
        before = block - BLOCK
        if before < start:
            continue
        other = BLOCK - mine
        count = min(BLOCK, stop - before)
        for c in range(len(columns)):
            offset, size = columns[c, 0], columns[c, 1]
            out = columns[c, 2] + before * size
            if size == 8:
                for i in range(count):
                    _move64(record[other + i] + offset, out + i * 8)
            elif size == 4:
                for i in range(count):
                    _move32(record[other + i] + offset, out + i * 4)
            elif size == 2:
                for i in range(count):
                    _move16(record[other + i] + offset, out + i * 2)
            elif size == 1:
                for i in range(count):
                    _move8(record[other + i] + offset, out + i)
            else:
                for i in range(count):
                    for w in range(0, size, 8):
                        _move64(record[other + i] + offset + w, out + i * size + w)


@compiled
def scatter_records(target, width, count, sources, offsets, widths):
    """The reverse: `count` values of each column, side by side from its source's address on, go into the records from
    the address `target` on."""
    for block in range(0, count, BLOCK):
        stop = min(block + BLOCK, count)
        for c in range(len(sources)):
            source, size, out = sources[c], widths[c], target + offsets[c]
            if size == 8:
                for i in range(block, stop):
                    _move64(source + i * 8, out + i * width)
            elif size == 4:
                for i in range(block, stop):
                    _move32(source + i * 4, out + i * width)
            elif size == 2:
                for i in range(block, stop):
                    _move16(source + i * 2, out + i * width)
            elif size == 1:
                for i in range(block, stop):
                    _move8(source + i, out + i * width)
            else:
                for i in range(block, stop):
                    for w in range(0, size, 8):
                        _move64(source + i * size + w, out + i * width + w)


@compiled
def gather_validity(addresses, first_segment, rows, out):
    """Which rows are there and not NULL; a segment without NULLs has the address 0."""
    base = first_segment << SEGMENT_BITS
    for i in range(len(rows)):
        row = rows[i] - base
        if rows[i] < 0:
            out[i] = 0
        else:
            address = addresses[row >> SEGMENT_BITS]
            out[i] = 1 if address == 0 else _byte_at(address + (row & (SEGMENT - 1)))


@compiled
def text_places(words, places):
    """Where each text comes to lie when all are put behind each other."""
    total = np.int64(0)
    places[0] = 0
    for i in range(len(words)):
        total += np.int64(words[i] & np.uint64((1 << LENGTH_BITS) - 1))
        places[i + 1] = total


@compiled
def copy_texts(addresses, first_segment, rows, words, places, start, stop, out):
    """The bytes of the texts of rows[start:stop], each to its place."""
    first = first_segment << SEGMENT_BITS
    for i in range(start, stop):
        count = places[i + 1] - places[i]
        if i + 8 < stop and rows[i + 8] >= 0:
            ahead = np.int64(words[i + 8] >> np.uint64(LENGTH_BITS))
            prefetch_at(addresses[(rows[i + 8] - first) >> SEGMENT_BITS] + ahead)
        if count > 0:
            at = np.int64(words[i] >> np.uint64(LENGTH_BITS))
            _copy_bytes(addresses[(rows[i] - first) >> SEGMENT_BITS] + at, out, places[i], count)
