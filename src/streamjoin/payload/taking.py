"""Rows on their way from the records into the columns of a result.

This takes two rounds of jobs. The first takes the records apart and sums up the lengths of texts. Then it is known
where each text comes to lie and whether rows are missing, and the second copies texts and writes bits for what is NULL.
The parts of a round write to different places, so they may run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ..arrays import Array, Integers, Rows
from ..compile.background import is_rehearsing
from ..tasks import Job
from .gather import (
    ABSENT,
    BLOCK,
    FLAGS,
    RELEASED,
    copy_texts_part,
    gather_records,
    gather_records_part,
    gather_validity_part,
)
from .segments import Segments, address_of

SMALL_BUFFER = 1 << 14
PART_ROWS, PARTS = 1 << 12, 64
"""A part gathers at least so many rows, and there are at most so many parts."""
REHEARSED = 1 << 10
"""Rows that a rehearsal gathers as if they were many."""
STREAMED_ROWS = 1 << 18
"""The columns of so many rows are written past the cache, which they would only sweep."""
LONGEST = 2**31 - 1
"""Bytes that a column of short texts can hold."""

Column: TypeAlias = pa.Array | pa.ChunkedArray
Tasks = list[Callable[[], Any]]


class Kept(Protocol):
    """A column as the records keep it: where its values lie in a record, which are NULL, and the bytes of texts."""

    type: pa.DataType
    offset: int
    kind: int
    bits: int
    is_text: bool
    has_long_offsets: bool
    any_null: bool
    bytes: Segments
    validity: Segments


class Place(NamedTuple):
    """Some columns of one side, and where they lie: the first two lines of a side for `gather_records`."""

    fields: Sequence[Kept]
    numbers: tuple[int, ...]
    memory: Integers
    """What the numbers know only by its address."""
    first_row: int


class Taking:
    """The gathering of the columns of one side or both. `rows` has the row numbers of each side, in several pieces:
    arrays without gaps, as long as those of the other side."""

    def __init__(self, sides: Sequence[Place], rows: Sequence[Sequence[Rows]]) -> None:
        self._sides, self._rows = sides, rows  # so that the memory is kept that compiled code finds by its address
        pieces: list[int] = []
        count = 0
        for piece in zip(*rows, strict=True):
            if len(piece[0]):
                pieces += (count, address_of(piece[0]), address_of(piece[-1]))
                count += len(piece[0])
        self.count, self._span = count, _span(count)
        self._parts = max(-(-count // self._span), 1)
        self._pieces: Integers = np.array([*pieces, count], np.int64)
        self._columns: list[tuple[int, Kept, pa.Buffer]] = []
        """The number of the side, what is kept, and the values of the result."""
        job: list[int] = []
        for side, place in enumerate(sides):
            job += place.numbers
            for field in place.fields:
                out = new_buffer((field.bits * count + 7) // 8)
                job += (field.offset, field.kind, out.address, 0)
                self._columns.append((side, field, out))
        self._jobs: Integers = np.array([job], np.int64)
        """A line for each part: it gets the lengths of the texts there."""
        self._found, self._together = _NO_NULLS, 0
        """What the parts have come across, and what all rows have, if they were taken at once."""
        self._valid: dict[int, pa.Buffer] = {}
        self._texts: dict[int, tuple[Array, pa.Buffer]] = {}
        """Where the texts of a column end, and their bytes."""

    def first_round(self) -> Tasks:
        """Each part takes rows of both sides. Where they are very many, one side comes behind the other, so that its
        records stay in the cache."""
        if not self._columns or not self.count:
            return []
        streamed, sides = self.count >= STREAMED_ROWS, len(self._sides)
        if self._parts == 1 and not streamed and not (is_rehearsing() and self.count > REHEARSED):
            return [self._all_at_once]
        self._jobs = np.repeat(self._jobs, self._parts, axis=0)
        parts = self._parts * (sides if streamed else 1)
        self._found = np.zeros(parts, np.int64)
        block: Integers = np.array([
            address_of(self._pieces), len(self._pieces), address_of(self._jobs), self._jobs.shape[1], self._parts,
            self._span, self.count, streamed, streamed, address_of(self._found),
        ], np.int64)  # fmt: skip
        return [Job(gather_records_part, block, parts, self)]

    def _all_at_once(self) -> None:
        last = len(self._sides) - 1
        self._together = gather_records(self._pieces, self._jobs[0], 0, last, 0, self.count, False)

    def second_round(self) -> Tasks:
        """What follows from what the parts of the first round came across."""
        together = self._together | (int(np.bitwise_or.reduce(self._found)) if len(self._found) else 0)
        tasks: Tasks = []
        all_there: dict[int, pa.Buffer] = {}
        for number, (side, field, out) in enumerate(self._columns):
            flags = together >> FLAGS * side
            if flags & RELEASED:
                raise IndexError(f"rows below {self._sides[side].first_row} have been released")
            if field.any_null:
                self._valid[number] = self._bits(tasks, side, field.validity.addresses, field.validity.first)
            elif flags & ABSENT:
                if side not in all_there:
                    all_there[side] = self._bits(tasks, side, _NO_NULLS, 0)
                self._valid[number] = all_there[side]
            if field.is_text:
                line = 2 * (side + 1) + number
                self._texts[number] = self._copied(tasks, side, field, out, self._jobs[:, 4 * line + 3])
        return tasks

    def _task(self, entry: Any, side: int, addresses: Integers, first: int, rest: Sequence[int], *keeps: Any) -> Job:
        block: Integers = np.array([
            address_of(self._pieces), len(self._pieces), self._span, self.count, side,
            address_of(addresses), len(addresses), first, *rest,
        ], np.int64)  # fmt: skip
        return Job(entry, block, self._parts, (self, addresses, keeps))

    def _bits(self, tasks: Tasks, side: int, addresses: Integers, first: int) -> pa.Buffer:
        bits = new_buffer(-(-self.count // 8))
        tasks.append(self._task(gather_validity_part, side, addresses, first, [bits.address], bits))
        return bits

    def _copied(
        self, tasks: Tasks, side: int, field: Kept, out: pa.Buffer, lengths: Integers
    ) -> tuple[Array, pa.Buffer]:  # fmt: skip
        total = int(lengths.sum())
        long = field.has_long_offsets or total > LONGEST
        places = np.frombuffer(new_buffer((8 if long else 4) * (self.count + 1)), np.int64 if long else np.int32)
        places[0] = 0
        content = new_buffer(total)
        begins = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        rest = long, out.address, address_of(places), content.address, *begins
        keeps = out, places, content
        tasks.append(self._task(copy_texts_part, side, field.bytes.addresses, field.bytes.first, rest, *keeps))
        return places, content

    def arrays(self) -> list[Column]:
        """The columns, when all tasks are done."""
        columns: list[Column] = []
        for number, (_, field, out) in enumerate(self._columns):
            valid = self._valid.get(number)
            if field.is_text:
                columns.append(self._text_column(field, valid, *self._texts[number]))
            else:
                columns.append(pa.Array.from_buffers(field.type, self.count, [valid, out]))
        return columns

    def _text_column(self, field: Kept, valid: pa.Buffer | None, places: Integers, content: pa.Buffer) -> Column:
        if field.has_long_offsets or places[-1] <= LONGEST:
            return pa.Array.from_buffers(field.type, self.count, [valid, pa.py_buffer(places), content])
        return _cut(field.type, valid, places, content)


def _span(count: int) -> int:
    """Rows of a part: a whole number of blocks."""
    return max(PART_ROWS, -(-count // (PARTS * BLOCK)) * BLOCK)


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
