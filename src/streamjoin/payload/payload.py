"""The columns of a stream's rows, by row number, for as long as they can still be part of a result.

Rows are appended in arrival order and keep their number for ever. Numbers, moments and texts are copied once into
records, row by row, in segments of a fixed number of rows: a row of the result then costs one access to far memory,
not one per column. Compiled code takes the records apart again, in parallel. Columns of other types stay in the Arrow
batches they came in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Array, Rows
from ..arrow.tables import restored, takeable, takeable_type
from ..compile.generic import extremes
from ..errors import DataError
from ..integer_deque import IntegerDeque
from .gather import (
    LENGTH_BITS,
    SEGMENT,
    SEGMENT_BITS,
    copy_texts,
    gather_records,
    gather_validity,
    scatter_records,
    text_places,
)

RunAll = Callable[[Sequence[Callable[[], None]]], Any]
Spans = list[tuple[int, int]]

BLOCK_SEGMENTS, SPARE_SEGMENTS = 16, 32
SMALL_BUFFER = 1 << 14
PIECE = 1 << 14
"""Rows that are gathered by one task."""
LONGEST = 2**31 - 1
"""Bytes that a column of short texts can hold."""
SMALL_BATCH, MERGED_BATCHES, MERGED_ROWS = 64, 64, 4096
"""Batches of under 64 rows are merged, 64 at a time, into batches of some thousand rows: the overhead of an Arrow
batch would outweigh them. Larger batches are kept as they came."""


class Payload:
    """Rows [first, end) of a stream. `run_all` runs the tasks of a gathering, in parallel or one after another."""

    def __init__(self, schema: pa.Schema, run_all: RunAll) -> None:
        self.schema, self._names = schema, schema.names
        self._run_all = run_all
        kept = {field.name: width for field in schema if (width := _width(field.type)) is not None}
        self._records = _Records({name: (schema.field(name).type, width) for name, width in kept.items()})
        self._others = _Batches(pa.schema([field for field in schema if field.name not in kept]))
        self._unsettled: list[tuple[int, pa.Table]] = []
        self.first = self.end = 0

    @property
    def rows(self) -> int:
        return self.end - self.first

    def check(self, table: pa.Table, argument: str) -> None:
        """DataError for values that cannot be kept."""
        for name, field in self._records.columns.items():
            if field.is_text:
                _check_lengths(f"{argument}: column {name!r}", table.column(name))

    def append(self, table: pa.Table) -> None:
        """Give the table's rows their numbers; they are copied by `settle`, which may be called later."""
        if table.num_rows:
            self._unsettled.append((self.end, table))
            self.end += table.num_rows

    def settle(self) -> None:
        waiting, self._unsettled = self._unsettled, []
        for row, table in waiting:
            self._records.append(row, table)
            if self._others.schema.names:
                self._others.append(table.select(self._others.schema.names))

    def release(self, floor: int) -> None:
        """Forget rows below this number, as far as they lie in whole segments (and, of other types, batches)."""
        self.settle()
        self.first = max(self.first, self.end if floor >= self.end else floor >> SEGMENT_BITS << SEGMENT_BITS)
        self._records.release(self.first >> SEGMENT_BITS)
        self._others.release(floor)

    def take(self, rows: Rows, columns: list[str] | None = None) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        names = self._names if columns is None else columns
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_arrays(self.arrays(rows, names), schema=schema)

    def arrays(self, rows: Rows, columns: list[str] | None = None) -> list[pa.Array | pa.ChunkedArray]:
        """The same, column by column."""
        self.settle()
        earliest, _ = extremes(rows)
        if earliest < self.first and bool(((rows >= 0) & (rows < self.first)).any()):
            raise IndexError(f"rows below {self.first} have been released")
        names = self._names if columns is None else columns
        kept = [name for name in names if name in self._records.columns]
        taken = dict(zip(kept, self._records.take(rows, kept, earliest < 0, self._run_all), strict=True))
        others = [name for name in names if name not in taken]
        if others:
            table = self._others.take(rows, others)
            taken |= {name: table.column(name) for name in others}
        return [taken[name] for name in names]


# -- columns in records --------------------------------------------------------------------------------------------


def _is_text(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_binary(type_) or t.is_large_binary(type_))


def _width(type_: pa.DataType) -> int | None:
    """Bytes of a value in a record: texts have a word that says where they lie. None: kept otherwise."""
    if pa.types.is_boolean(type_):
        return 1
    if _is_text(type_):
        return 8
    if (pa.types.is_primitive(type_) or pa.types.is_decimal(type_)) and type_.bit_width in (8, 16, 32, 64, 128, 256):
        return int(type_.bit_width) // 8
    return None


class _Segments:
    """Arrays of one segment each, and a table of their addresses for compiled code."""

    def __init__(self) -> None:
        self.first = 0
        self._arrays: deque[Array | None] = deque()
        self._spare: list[Array] = []
        self._places: deque[int] = deque()
        self._addresses: npt.NDArray[np.int64] | None = None

    def of(self, segment: int, make: Callable[[], Array | None]) -> Array | None:
        """The array of a segment, made if there is none; None may stand for an array that is not needed."""
        while self.end <= segment:
            array = make()
            self._arrays.append(array)
            self._places.append(0 if array is None else array.ctypes.data)
            self._addresses = None
        return self._arrays[segment - self.first]

    def address(self, segment: int, make: Callable[[], Array | None]) -> int:
        """Where this array lies in memory."""
        self.of(segment, make)
        return self._places[segment - self.first]

    @property
    def end(self) -> int:
        """The first segment that is not there yet."""
        return self.first + len(self._arrays)

    def put(self, segment: int, array: Array) -> Array:
        self._arrays[segment - self.first] = array
        self._places[segment - self.first] = array.ctypes.data
        self._addresses = None
        return array

    def release(self, segment: int) -> None:
        while self._arrays and self.first < segment:
            gone = self._arrays.popleft()
            self._places.popleft()
            if gone is not None and len(self._spare) < SPARE_SEGMENTS:
                self._spare.append(gone)
            self.first += 1
            self._addresses = None
        self.first = max(self.first, segment)

    def fresh(self, size: int) -> Array:
        """An array of `size` bytes, the same at each call: one that was released, since fresh memory is slow, or, once
        there are many, one of a block that is large enough for the system's huge pages."""
        if not self._spare:
            count = BLOCK_SEGMENTS if len(self._arrays) >= BLOCK_SEGMENTS else 1
            block = np.empty(count * size, np.uint8)
            self._spare = [block[k * size : (k + 1) * size] for k in range(count)]
        return self._spare.pop()

    @property
    def addresses(self) -> npt.NDArray[np.int64]:
        """Where each array lies in memory; 0 for None."""
        if self._addresses is None:
            self._addresses = np.array(self._places, np.int64)
        return self._addresses


def _pieces(row: int, count: int) -> list[tuple[int, int, int, int]]:
    """`count` rows from `row` on, cut at segments: (segment, offset in it, offset in the rows, length)."""
    pieces, done = [], 0
    while done < count:
        segment, offset = divmod(row + done, SEGMENT)
        length = min(SEGMENT - offset, count - done)
        pieces.append((segment, offset, done, length))
        done += length
    return pieces


class _Field:
    """One column: where its values lie in a record, which of them are NULL, and the bytes of texts."""

    def __init__(self, type_: pa.DataType, width: int, offset: int) -> None:
        self.type, self.width, self.offset = type_, width, offset
        self.is_text, self.is_boolean = _is_text(type_), pa.types.is_boolean(type_)
        self.has_long_offsets = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
        self.bytes = _Segments()
        self._used: dict[int, int] = {}
        self.validity = _Segments()
        self.any_null = False

    def values(self, row: int, chunk: pa.Array) -> tuple[int, Any]:
        """What goes into the records: the address of values of `width` bytes, and whose memory that is."""
        if self.is_text:
            words = self._text_words(row, chunk)
            return words.ctypes.data, words
        if self.is_boolean:
            flags = np.asarray((chunk.fill_null(False) if chunk.null_count else chunk).cast(pa.uint8()))
            return flags.ctypes.data, flags
        data = chunk.buffers()[1]
        return data.address + chunk.offset * self.width, data

    def _text_words(self, row: int, chunk: pa.Array) -> npt.NDArray[np.uint64]:
        """Keep the texts' bytes by segment; returns where each one lies there, and its length."""
        _, offset_buffer, data = chunk.buffers()
        offset_type = np.int64 if self.has_long_offsets else np.int32
        offsets = np.frombuffer(offset_buffer, offset_type)[chunk.offset : chunk.offset + len(chunk) + 1].astype(
            np.int64
        )
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        words = np.empty(len(chunk), np.uint64)
        for segment, _, done, length in _pieces(row, len(chunk)):
            first, last = int(offsets[done]), int(offsets[done + length])
            room, used = self.bytes.of(segment, lambda: np.empty(256, np.uint8)), self._used.get(segment, 0)
            assert room is not None
            if used + last - first > len(room):
                larger = np.empty(max(2 * len(room), used + last - first), np.uint8)
                larger[:used] = room[:used]
                room = self.bytes.put(segment, larger)
            room[used : used + last - first] = content[first:last]
            self._used[segment] = used + last - first
            mine = offsets[done : done + length + 1]
            words[done : done + length] = ((mine[:-1] + (used - first)) << LENGTH_BITS) | np.diff(mine)
        return words

    def mark_nulls(self, row: int, chunk: pa.Array) -> None:
        if not chunk.null_count and self.validity.end > (row + len(chunk) - 1) >> SEGMENT_BITS and not self.any_null:
            return
        valid = np.asarray(chunk.is_valid()) if chunk.null_count else None
        for segment, offset, done, length in _pieces(row, len(chunk)):
            flags = self.validity.of(segment, lambda: None)
            if valid is not None:
                if flags is None:
                    flags = self.validity.put(segment, np.ones(SEGMENT, np.uint8))
                    self.any_null = True
                flags[offset : offset + length] = valid[done : done + length]

    def release(self, segment: int) -> None:
        self.bytes.release(segment)
        self.validity.release(segment)
        self._used = {number: used for number, used in self._used.items() if number >= segment}

    def array(
        self, rows: Rows, values: pa.Buffer, absent: bool, spans: Spans, run_all: RunAll
    ) -> pa.Array | pa.ChunkedArray:
        """The gathered values as an Arrow array; `absent`: some rows are not there."""
        valid = None
        if self.any_null or absent:
            valid = np.empty(len(rows), np.uint8)
            gather_validity(self.validity.addresses, self.validity.first, rows, valid)
        if self.is_text:
            return self._texts(rows, np.frombuffer(values, np.uint64), valid, spans, run_all)
        content = _bitmap(np.frombuffer(values, np.uint8)) if self.is_boolean else values
        return pa.Array.from_buffers(self.type, len(rows), [None if valid is None else _bitmap(valid), content])

    def _texts(
        self, rows: Rows, words: Array, valid: Array | None, spans: Spans, run_all: RunAll
    ) -> pa.Array | pa.ChunkedArray:
        places = np.empty(len(rows) + 1, np.int64)
        text_places(words, places)
        out = np.frombuffer(_buffer(int(places[-1])), np.uint8)
        table, first = self.bytes.addresses, self.bytes.first
        run_all([partial(copy_texts, table, first, rows, words, places, *span, out) for span in spans])
        cuts = [0]
        while not self.has_long_offsets and places[-1] - places[cuts[-1]] > LONGEST:
            cuts.append(int(np.searchsorted(places, places[cuts[-1]] + LONGEST, side="right")) - 1)
        chunks = []
        for start, stop in pairwise([*cuts, len(rows)]):
            offsets = (places[start : stop + 1] - places[start]).astype(np.int64 if self.has_long_offsets else np.int32)
            validity = None if valid is None else _bitmap(valid[start:stop])
            content = pa.py_buffer(out[places[start] : places[stop]])
            chunks.append(pa.Array.from_buffers(self.type, stop - start, [validity, pa.py_buffer(offsets), content]))
        return chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, self.type)


def _buffer(size: int) -> pa.Buffer:
    """Bytes for a result, from Arrow's memory pool, which keeps what earlier results have given back; small ones from
    Python's, which is quicker."""
    return pa.py_buffer(bytearray(size)) if size <= SMALL_BUFFER else pa.allocate_buffer(size)


def _bitmap(flags: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags.reshape(-1), bitorder="little"))


class _Records:
    """All columns of a known width, row by row. Wide values come first, so that all are aligned."""

    def __init__(self, columns: dict[str, tuple[pa.DataType, int]]) -> None:
        self.columns: dict[str, _Field] = {}
        offset = 0
        for name, (type_, width) in sorted(columns.items(), key=lambda column: -column[1][1]):
            self.columns[name] = _Field(type_, width, offset)
            offset += width
        self._width = -(-offset // 4) * 4
        self._offsets = np.array([field.offset for field in self.columns.values()], np.int64)
        self._widths = np.array([field.width for field in self.columns.values()], np.int64)
        self._segments = _Segments()
        self._nowhere = pa.py_buffer(bytes(max(self._width, 1)))

    def append(self, row: int, table: pa.Table) -> None:
        if not self.columns:
            return
        columns = [table.column(name) for name in self.columns]
        if all(column.num_chunks == 1 for column in columns):
            self._append(row, [column.chunk(0) for column in columns])
            return
        for batch in table.select(list(self.columns)).to_batches():
            if batch.num_rows:
                self._append(row, batch.columns)
                row += batch.num_rows

    def _append(self, row: int, chunks: list[pa.Array]) -> None:
        fields = self.columns.values()
        values = [field.values(row, chunk) for field, chunk in zip(fields, chunks, strict=True)]
        sources = np.array([address for address, _ in values], np.int64)
        for segment, offset, done, length in _pieces(row, len(chunks[0])):
            target = self._segments.address(segment, self._fresh) + offset * self._width
            here = sources + done * self._widths if done else sources
            scatter_records(target, self._width, length, here, self._offsets, self._widths)
        for field, chunk in zip(fields, chunks, strict=True):
            field.mark_nulls(row, chunk)

    def _fresh(self) -> Array:
        return self._segments.fresh(SEGMENT * self._width)

    def release(self, segment: int) -> None:
        self._segments.release(segment)
        for field in self.columns.values():
            field.release(segment)

    def take(self, rows: Rows, names: list[str], absent: bool, run_all: RunAll) -> list[pa.Array | pa.ChunkedArray]:
        """These columns of some rows; `absent`: some of them are not there."""
        if not names:
            return []
        fields = [self.columns[name] for name in names]
        outs = [_buffer(len(rows) * field.width) for field in fields]
        columns = np.array(
            [(field.offset, field.width, out.address) for field, out in zip(fields, outs, strict=True)], np.int64
        )
        spans = [(start, min(start + PIECE, len(rows))) for start in range(0, len(rows), PIECE)]
        table, first = self._segments.addresses, self._segments.first
        places = table, first, self._width, self._nowhere.address, rows
        run_all([partial(gather_records, *places, *span, columns) for span in spans])
        return [field.array(rows, out, absent, spans, run_all) for field, out in zip(fields, outs, strict=True)]


def _check_lengths(where: str, column: pa.ChunkedArray) -> None:
    for chunk in column.chunks:
        data = chunk.buffers()[2]
        if data is not None and data.size >= 1 << LENGTH_BITS:
            longest = pa.compute.max(pa.compute.binary_length(chunk)).as_py() or 0
            if longest >= 1 << LENGTH_BITS:
                raise DataError(f"{where} holds a text of {longest} bytes; 2**28 - 1 is the most that will do")


# -- columns of other types ----------------------------------------------------------------------------------------


class _Batches:
    """Columns of any type, kept as the Arrow batches they came in; whole batches are dropped from the front."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._tables: deque[pa.Table] = deque()
        self._starts = IntegerDeque()
        self._small = 0
        self.end = 0

    def append(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._tables.append(takeable(table))
        self._starts.append(self.end)
        self.end += table.num_rows
        self._small = self._small + 1 if table.num_rows < SMALL_BATCH else 0
        if self._small == MERGED_BATCHES:
            self._merge_small()

    def _merge_small(self) -> None:
        """The newest small batches as one contiguous batch, together with merged ones that are no larger."""
        count = self._small
        rows = sum(self._tables[-k].num_rows for k in range(1, count + 1))
        while count < len(self._tables) and self._tables[-count - 1].num_rows <= min(rows, MERGED_ROWS):
            count += 1
            rows += self._tables[-count].num_rows
        self._small = 0
        try:
            merged = pa.concat_tables([self._tables[-k] for k in range(count, 0, -1)]).combine_chunks()
        except pa.ArrowException:  # dictionaries that do not fit into one: they stay apart
            return
        for _ in range(count):
            self._tables.pop()
        self._tables.append(merged)
        self._starts.drop_back(count)
        self._starts.append(self.end - rows)

    def release(self, floor: int) -> None:
        """Forget the batches that lie wholly below row number `floor`."""
        gone = int(np.searchsorted(self._starts.view, floor, side="right")) - 1
        gone = len(self._tables) if floor >= self.end else max(gone, 0)
        for _ in range(gone):
            self._tables.popleft()
        self._starts.drop_front(gone)
        self._small = min(self._small, len(self._tables))

    def take(self, rows: Rows, columns: list[str]) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        present = rows[rows >= 0]
        if not len(present):
            fields = [pa.field(field.name, takeable_type(field.type)) for field in schema]
            nulls = [pa.nulls(len(rows), field.type) for field in fields]
            return restored(pa.Table.from_arrays(nulls, schema=pa.schema(fields)), schema)
        absent = rows < 0
        starts = self._starts.view
        batch = np.searchsorted(starts, rows, side="right") - 1
        batch[absent] = batch[~absent][0]
        used, inverse = np.unique(batch, return_inverse=True)
        places = rows - starts[batch]
        tables = [self._tables[i].select(columns) for i in used]
        if len(used) == 1:
            table = tables[0]
        else:
            # Rows of each batch first, then their order: Arrow would join whole batches to take from several at once.
            order = np.argsort(inverse, kind="stable")
            cuts = np.searchsorted(inverse[order], np.arange(len(used) + 1))
            table = pa.concat_tables(
                part.take(pa.array(np.where(absent[mine], 0, places[mine])))
                for part, mine in zip(tables, (order[a:b] for a, b in pairwise(cuts)), strict=True)
            )
            places = np.empty(len(rows), np.int64)
            places[order] = np.arange(len(rows))
        indices = pa.array(places, mask=absent) if absent.any() else pa.array(places)
        return restored(table.take(indices), schema)
