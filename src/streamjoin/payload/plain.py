"""Few rows of columns that are values without NULLs, the usual case of a join that is polled often.

They need none of what `taking` is for: no second round, since no text and no bit for NULL follows from what the first
one found, and no parts. What does not change from one result to the next is known beforehand: a *layout*. All columns
of a side share one buffer, because a few large allocations take less time than many small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Rows
from ..compile.cache import has_machine_code
from .gather import gather_side_of
from .segments import address_of
from .taking import Place, new_buffer

MOST_VALUES = 1 << 16
"""Values of a result that one thread gathers before another one would be awake."""
GRAIN = 64
"""Columns have room for a multiple of so many rows, so each begins at a whole number of words."""


class Layout(NamedTuple):
    """How the columns of one side lie in the buffer of a result.

    A column that begins at bit b of a row of the buffer begins at b * rows / 8 of the buffer, for rows rounded up.
    """

    types: list[tuple[pa.DataType, int, int]]
    """Of each column: its type, where it begins in a row of the buffer, and the bits of its values."""
    job: Integers
    """For `gather_side_of`: as `gather_records` has it for one side, with those beginnings for addresses."""
    bits: int
    """Of a row in the buffer."""
    place: Place


def layout_of(place: Place) -> Layout:
    """Of columns without texts and NULLs."""
    begins, end = {}, 0
    for number in sorted(range(len(place.fields)), key=lambda number: -place.fields[number].bits):
        begins[number], end = end, end + place.fields[number].bits
    lines = [*place.numbers]
    for number, field in enumerate(place.fields):
        lines += (field.offset, field.kind, begins[number], 0)
    types = [(field.type, begins[number], field.bits) for number, field in enumerate(place.fields)]
    return Layout(types, np.array(lines, np.int64).reshape(-1, 4), end, place)


def few_columns(layouts: Sequence[Layout], rows: Sequence[Sequence[Rows]]) -> list[pa.Array] | None:
    """The columns of some rows; None: there are too many, or some are missing. `rows` as for `taking.Taking`."""
    pieces: list[int] = []
    count = 0
    of_left, of_right = rows[0], rows[-1]
    for number, left in enumerate(of_left):
        length = len(left)
        if length:
            pieces += (count, address_of(left), address_of(of_right[number]))
            count += length
    width = 0
    for layout in layouts:
        width += len(layout.types)
    if not count or count * width > MOST_VALUES or not has_machine_code(gather_side_of):
        return None
    pieces.append(count)
    where: Integers = np.array(pieces, np.int64)
    room = count + GRAIN - 1 & -GRAIN
    columns: list[pa.Array] = []
    for side, layout in enumerate(layouts):
        buffer = new_buffer(layout.bits * room >> 3)
        if gather_side_of(where, side, layout.job, buffer.address, room):
            return None
        columns += [
            pa.Array.from_buffers(type_, count, [None, buffer.slice(begin * room >> 3, bits * count + 7 >> 3)])
            for type_, begin, bits in layout.types
        ]
    return columns


def rehearse() -> None:
    """Compile what `few_columns` calls."""
    gather_side_of(np.zeros(1, np.int64), 0, np.zeros((2, 4), np.int64), 0, 0)
