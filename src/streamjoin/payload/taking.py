"""Rows on their way from the records into the columns of a result.

This takes two rounds of tasks. The first takes the records apart and sums up the lengths of texts. Then it is known
where each text comes to lie and whether rows are missing, and the second copies texts and writes bits for what is NULL.
The tasks of a round write to different places, so they may run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ..arrays import Array, Integers, Rows
from .gather import BITS, BLOCK, RELEASED, TEXT, copy_texts, gather_records, gather_validity
from .segments import Segments

SMALL_BUFFER = 1 << 14
TASK_ROWS, TASKS = 1 << 14, 16
"""A task gathers at least so many rows, and there are at most so many tasks."""
STREAMED_ROWS = 1 << 18
"""The columns of so many rows are written past the cache, which they would only sweep."""
LONGEST = 2**31 - 1
"""Bytes that a column of short texts can hold."""

Column: TypeAlias = pa.Array | pa.ChunkedArray
Tasks = list[Callable[[], Any]]


class Kept(Protocol):
    """A column as the records keep it: where its values lie in a record, which are NULL, and the bytes of texts."""

    type: pa.DataType
    width: int
    offset: int
    is_text: bool
    is_boolean: bool
    has_long_offsets: bool
    any_null: bool
    bytes: Segments
    validity: Segments


class Pieces:
    """Row numbers, one behind the other, in several arrays."""

    def __init__(self, arrays: Sequence[Rows]) -> None:
        self._arrays = [array if array.flags.c_contiguous else array.copy() for array in arrays if len(array)]
        self.count, table = 0, []
        for array in self._arrays:
            table += (pa.py_buffer(array).address, self.count)  # a fifth of the time of `array.ctypes.data`
            self.count += len(array)
        self.table: Integers = np.array([*table, 0, self.count], np.int64)
        """For compiled code, see `gather`."""

    @property
    def whole(self) -> Rows:
        """All of them in one array."""
        if len(self._arrays) == 1:
            return self._arrays[0]
        return np.concatenate([np.empty(0, np.int64), *self._arrays])

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The shares of tasks."""
        if 0 < self.count <= TASK_ROWS:
            return [(0, self.count)]
        size = max(TASK_ROWS, -(-self.count // (TASKS * BLOCK)) * BLOCK)
        return [(start, min(start + size, self.count)) for start in range(0, self.count, size)]


class Layout:
    """Some columns as they lie in records."""

    def __init__(self, fields: Sequence[Kept]) -> None:
        self.fields = fields
        widths = [TEXT if field.is_text else BITS if field.is_boolean else field.width for field in fields]
        lines = [(field.offset, width, 0, 0) for field, width in zip(fields, widths, strict=True)]
        self.columns: Integers = np.array([*lines, (0, 0, 0, 0)], np.int64)
        """For `gather_records`, which must still be told where the result's values go."""
        self.bits = [1 if field.is_boolean else 8 * field.width for field in fields]
        """Of a value in the result."""


class Taking:
    """The gathering of some columns of one side. `place` says where the records lie, as `gather_records` wants it."""

    def __init__(self, pieces: Pieces, layout: Layout, place: tuple[Any, ...]) -> None:
        self.count, self._pieces, self._place = pieces.count, pieces, place
        self._fields = layout.fields
        self._spans = pieces.spans
        self._outs = [new_buffer((bits * self.count + 7) // 8) for bits in layout.bits]
        columns = layout.columns.copy()
        for number, out in enumerate(self._outs):
            columns[number, 2] = out.address
        self._columns = [columns, *(columns.copy() for _ in self._spans[1:])]
        """For each task."""
        self._valid: list[pa.Buffer | None] = [None] * len(self._outs)
        self._texts: dict[int, tuple[Array, pa.Buffer]] = {}
        """Where the texts of a column end, and their bytes."""

    def first_round(self) -> Tasks:
        if not self._fields:
            return []
        table, place, streamed = self._pieces.table, self._place, self.count >= STREAMED_ROWS
        return [
            partial(gather_records, table, *span, *place, columns, streamed)
            for span, columns in zip(self._spans, self._columns, strict=False)
        ]

    def second_round(self) -> Tasks:
        """What follows from what the tasks of the first round came across."""
        found = 0
        for columns in self._columns:
            found |= columns[-1, 0]
        if found & RELEASED:
            raise IndexError(f"rows below {self._place[2]} have been released")
        tasks: Tasks = []
        all_there: pa.Buffer | None = None
        for number, field in enumerate(self._fields):
            if field.any_null:
                self._valid[number] = self._bits(tasks, field.validity.addresses, field.validity.first)
            elif found:
                all_there = self._bits(tasks, _NO_NULLS, 0) if all_there is None else all_there
                self._valid[number] = all_there
            if field.is_text:
                self._texts[number] = self._copied(tasks, number, field)
        return tasks

    def _bits(self, tasks: Tasks, addresses: Integers, first: int) -> pa.Buffer:
        bits = new_buffer(-(-self.count // 8))
        table = self._pieces.table
        tasks += [partial(gather_validity, table, *span, addresses, first, bits.address) for span in self._spans]
        return bits

    def _copied(self, tasks: Tasks, number: int, field: Kept) -> tuple[Array, pa.Buffer]:
        lengths = [int(columns[number, 3]) for columns in self._columns]
        ends = list(accumulate(lengths))
        total = ends[-1]
        long = field.has_long_offsets or total > LONGEST
        count = self.count + 1
        places = np.frombuffer(new_buffer((8 if long else 4) * count), np.int64 if long else np.int32)
        places[0] = 0
        content = new_buffer(total)
        words = np.frombuffer(self._outs[number], np.uint64)
        where = field.bytes.addresses, field.bytes.first, words
        tasks += [
            partial(copy_texts, self._pieces.table, *span, *where, end - length, end, places, content.address)
            for span, end, length in zip(self._spans, ends, lengths, strict=False)
        ]
        return places, content

    def arrays(self) -> list[Column]:
        """The columns, when all tasks are done."""
        return [self._array(number, field) for number, field in enumerate(self._fields)]

    def _array(self, number: int, field: Kept) -> Column:
        count, valid = self.count, self._valid[number]
        if number not in self._texts:
            return pa.Array.from_buffers(field.type, count, [valid, self._outs[number]])
        places, content = self._texts[number]
        if field.has_long_offsets or places[-1] <= LONGEST:
            return pa.Array.from_buffers(field.type, count, [valid, pa.py_buffer(places), content])
        return _cut(field.type, valid, places, content)


def _cut(type_: pa.DataType, valid: pa.Buffer | None, places: Integers, content: pa.Buffer) -> pa.ChunkedArray:
    """Texts that are too long for one array."""
    count = len(places) - 1
    cuts = [0]
    while places[-1] - places[cuts[-1]] > LONGEST:
        cuts.append(int(np.searchsorted(places, places[cuts[-1]] + LONGEST, side="right")) - 1)
    chunks = []
    flags = None if valid is None else pa.Array.from_buffers(pa.bool_(), count, [None, valid])
    for start, stop in pairwise([*cuts, count]):
        offsets = (places[start : stop + 1] - places[start]).astype(np.int32)
        bits = None if flags is None else pa.concat_arrays([flags.slice(start, stop - start)]).buffers()[1]
        first, last = int(places[start]), int(places[stop])
        buffers = [bits, pa.py_buffer(offsets), content.slice(first, last - first)]
        chunks.append(pa.Array.from_buffers(type_, stop - start, buffers))
    return pa.chunked_array(chunks, type_)


def new_buffer(size: int) -> pa.Buffer:
    """Bytes for a result, from Arrow's memory pool, which keeps what earlier results have given back; small ones from
    Python's, which is quicker."""
    return pa.py_buffer(bytearray(size)) if size <= SMALL_BUFFER else pa.allocate_buffer(size)


_NO_NULLS: Integers = np.empty(0, np.int64)
