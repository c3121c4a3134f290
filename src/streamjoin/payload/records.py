"""Columns of a known width, side by side in records: a row of the result then costs one access to far memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..arrays import Array, Integers, Words
from ..arrow.tables import single_arrays
from ..compile.background import is_rehearsing
from ..errors import DataError
from ..tasks import Job
from .gather import BITS, LENGTH_BITS, SEGMENT, SEGMENT_BITS, SLACK, TEXT
from .same_texts import TextPlace
from .scatter import bits_to_bytes, keep_texts, scatter_part, scatter_records
from .segments import Segments, address_of, pieces
from .taking import Place

SHARED_ROWS, REHEARSED = 1 << 13, 2000
"""Rows that several threads copy, and those for which a rehearsal does the same."""


def has_bytes(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_binary(type_) or t.is_large_binary(type_))


def record_width(type_: pa.DataType) -> int | None:
    """Bytes of a value in a record: texts have a word that says where they lie. None: kept otherwise."""
    if pa.types.is_boolean(type_):
        return 1
    if has_bytes(type_):
        return 8
    if (pa.types.is_primitive(type_) or pa.types.is_decimal(type_)) and type_.bit_width in (8, 16, 32, 64, 128, 256):
        return int(type_.bit_width) // 8
    return None


class Field:
    """One column: where its values lie in a record, which of them are NULL, and the bytes of texts."""

    def __init__(self, type_: pa.DataType, width: int, offset: int) -> None:
        self.type, self.width, self.offset = type_, width, offset
        self.is_text, self.is_boolean = has_bytes(type_), pa.types.is_boolean(type_)
        self.has_long_offsets = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
        self.kind = TEXT if self.is_text else BITS if self.is_boolean else width
        self.is_plain = self.kind == width
        """Whether the records have the values as Arrow has them."""
        self.bits = 1 if self.is_boolean else 8 * width
        """Of a value in a result."""
        self.bytes = Segments()
        self._used: dict[int, int] = {}
        self.validity = Segments()
        self.any_null = False

    def values(self, row: int, chunk: pa.Array) -> Array:
        """What goes into the records, if Arrow has it otherwise."""
        if self.is_text:
            return self._text_words(row, chunk)
        flags = np.empty(len(chunk), np.uint8)
        bits_to_bytes(chunk.buffers()[1].address, chunk.offset, len(chunk), address_of(flags))
        return flags

    def _text_words(self, row: int, chunk: pa.Array) -> Words:
        """Keep the texts' bytes by segment; returns where each one lies there, and its length."""
        _, offset_buffer, data = chunk.buffers()
        offsets = np.frombuffer(offset_buffer, np.int64 if self.has_long_offsets else np.int32)[chunk.offset :]
        source = offset_buffer.address + chunk.offset * offsets.itemsize, self.has_long_offsets
        content = 0 if data is None else data.address
        words = np.empty(len(chunk), np.uint64)
        for segment, _, done, length in pieces(row, len(chunk)):
            size = int(offsets[done + length]) - int(offsets[done])
            room, used = self.bytes.of(segment, lambda: np.empty(256, np.uint8)), self._used.get(segment, 0)
            assert room is not None
            if used + size + SLACK > len(room):
                larger = np.empty(max(2 * len(room), used + size + SLACK), np.uint8)
                larger[:used] = room[:used]
                self.bytes.put(segment, larger)
            keep_texts(*source, done, length, content, self.bytes.address(segment), used, words)
            self._used[segment] = used + size
        return words

    def mark_nulls(self, row: int, chunk: pa.Array) -> None:
        """Keep which values are NULL, by segment. This need not be called before the first one comes."""
        bits = chunk.buffers()[0] if chunk.null_count else None
        for segment, offset, done, length in pieces(row, len(chunk)):
            flags = self.validity.of(segment, lambda: None)
            if bits is not None:
                if flags is None:
                    self.validity.put(segment, np.ones(SEGMENT, np.uint8))
                    self.any_null = True
                bits_to_bytes(bits.address, chunk.offset + done, length, self.validity.address(segment) + offset)

    def release(self, segment: int) -> None:
        self.bytes.release(segment)
        self.validity.release(segment)
        self._used = {number: used for number, used in self._used.items() if number >= segment}


class Records:
    """All columns of a known width, row by row. Wide values come first, so that all are aligned."""

    def __init__(self, schema: pa.Schema) -> None:
        widths = {field.name: width for field in schema if (width := record_width(field.type)) is not None}
        self.columns: dict[str, Field] = {}
        offset = 0
        for name in sorted(widths, key=lambda name: -widths[name]):
            self.columns[name] = Field(schema.field(name).type, widths[name], offset)
            offset += widths[name]
        self._width = -(-offset // 4) * 4
        self._fields = [(schema.get_field_index(name), field) for name, field in self.columns.items()]
        self._sources = np.array([(0, field.offset, field.width) for field in self.columns.values()], np.int64)
        """For `scatter_records`; each batch fills in where its values lie."""
        self.is_plain = not any(field.is_text for field in self.columns.values())
        """Whether no column has texts, or has had a NULL."""
        self._segments = Segments()
        self._places: dict[tuple[str, ...], Place] = {}
        """The last ones that were asked for."""
        self._nowhere = pa.py_buffer(bytes(max(self._width, 1)))

    def append(self, row: int, table: pa.Table, arrays: Sequence[pa.Array] | None = None) -> list[Job]:
        """Copy the rows of a table with all columns of the schema; the first one has the number `row`. What takes long
        is left to the jobs that are returned."""
        if arrays is None and (arrays := single_arrays(table)) is None:
            return self._append_batches(row, table)
        return self._append(row, table.num_rows, arrays) if self._fields else []

    def _append_batches(self, row: int, table: pa.Table) -> list[Job]:
        jobs: list[Job] = []
        for batch in table.to_batches():
            if batch.num_rows:
                jobs += self._append(row, batch.num_rows, batch.columns)
                row += batch.num_rows
        return jobs

    def _append(self, row: int, count: int, arrays: Sequence[pa.Array]) -> list[Job]:
        sources, segments = self._sources, self._segments
        memory = []
        for number, (place, field) in enumerate(self._fields):
            array = arrays[place]
            if field.is_plain:
                sources[number, 0] = array.buffers()[1].address + array.offset * field.width
            else:
                values = field.values(row, array)
                memory.append(values)
                sources[number, 0] = address_of(values)
            if field.any_null or array.null_count:
                field.mark_nulls(row, array)
                self.is_plain = False
        while segments.end << SEGMENT_BITS < row + count:
            segments.append(segments.fresh(SEGMENT * self._width))
        addresses = segments.addresses
        if count < (REHEARSED if is_rehearsing() else SHARED_ROWS):
            scatter_records(addresses, segments.first, row, count, self._width, sources)
            return []
        parts = max(count // (SHARED_ROWS // 2), 1)
        head = address_of(addresses), len(addresses), segments.first, row, count, parts, self._width, len(sources)
        block: Integers = np.array([*head, *sources.ravel().tolist()], np.int64)
        return [Job(scatter_part, block, parts, (addresses, arrays, memory))]

    def release(self, segment: int) -> None:
        self._segments.release(segment)
        for field in self.columns.values():
            field.release(segment)

    def place(self, names: tuple[str, ...], first_row: int) -> Place:
        """Where these columns of the rows from `first_row` on lie."""
        known, addresses = self._places.get(names), self._segments.addresses
        if known is None or known.memory is not addresses or known.first_row != first_row:
            fields = [self.columns[name] for name in names if name in self.columns]
            segments = address_of(addresses), self._segments.first, first_row, self._segments.end << SEGMENT_BITS
            numbers = (*segments, self._width, self._nowhere.address, len(fields), 0)
            known = self._places[names] = Place(fields, numbers, addresses, first_row)
        return known

    def text_place(self, name: str) -> TextPlace | None:
        """Where the texts of a column lie; None if it holds no texts."""
        field = self.columns.get(name)
        if field is None or not field.is_text:
            return None
        records, texts = self._segments, field.bytes
        return TextPlace(records.addresses, records.first, self._width, field.offset, texts.addresses, texts.first)


def check_lengths(where: str, column: pa.ChunkedArray) -> None:
    for chunk in column.chunks:
        data = chunk.buffers()[2]
        if data is not None and data.size >= 1 << LENGTH_BITS:
            longest = pa.compute.max(pa.compute.binary_length(chunk)).as_py() or 0
            if longest >= 1 << LENGTH_BITS:
                raise DataError(f"{where} holds a text of {longest} bytes; the longest that can be kept has 2**28 - 1")
