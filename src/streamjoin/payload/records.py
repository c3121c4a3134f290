"""Columns of a known width, side by side in records: a row of the result then costs one access to far memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Array, Words
from ..errors import DataError
from .gather import LENGTH_BITS, SEGMENT, SEGMENT_BITS, SLACK, scatter_records
from .same_texts import TextPlace
from .segments import Segments, pieces
from .taking import Layout, Pieces, Taking


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
        self.bytes = Segments()
        self._used: dict[int, int] = {}
        self.validity = Segments()
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

    def _text_words(self, row: int, chunk: pa.Array) -> Words:
        """Keep the texts' bytes by segment; returns where each one lies there, and its length."""
        _, offset_buffer, data = chunk.buffers()
        offset_type = np.int64 if self.has_long_offsets else np.int32
        offsets = np.frombuffer(offset_buffer, offset_type)[chunk.offset : chunk.offset + len(chunk) + 1].astype(
            np.int64
        )
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        words = np.empty(len(chunk), np.uint64)
        for segment, _, done, length in pieces(row, len(chunk)):
            first, last = int(offsets[done]), int(offsets[done + length])
            room, used = self.bytes.of(segment, lambda: np.empty(256, np.uint8)), self._used.get(segment, 0)
            assert room is not None
            if used + last - first + SLACK > len(room):
                larger = np.empty(max(2 * len(room), used + last - first + SLACK), np.uint8)
                larger[:used] = room[:used]
                room = self.bytes.put(segment, larger)
            room[used : used + last - first] = content[first:last]
            self._used[segment] = used + last - first
            mine = offsets[done : done + length + 1]
            words[done : done + length] = ((mine[:-1] + (used - first)) << LENGTH_BITS) | np.diff(mine)
        return words

    def mark_nulls(self, row: int, chunk: pa.Array) -> None:
        """Keep which values are NULL, by segment. Without NULLs so far, there is nothing to keep."""
        if not (chunk.null_count or self.any_null):
            return
        valid = np.asarray(chunk.is_valid()) if chunk.null_count else None
        for segment, offset, done, length in pieces(row, len(chunk)):
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
        self._segments = Segments()
        self._nowhere = pa.py_buffer(bytes(max(self._width, 1)))

    def append(self, row: int, table: pa.Table) -> None:
        """Copy the rows of a table with all columns of the schema; the first one has the number `row`."""
        if self._fields:
            for batch in table.to_batches():
                if batch.num_rows:
                    self._append(row, batch)
                    row += batch.num_rows

    def _append(self, row: int, batch: pa.RecordBatch) -> None:
        sources, memory = self._sources, []
        for number, (place, field) in enumerate(self._fields):
            chunk = batch.column(place)
            sources[number, 0], owner = field.values(row, chunk)
            memory.append(owner)
            field.mark_nulls(row, chunk)
        for segment, offset, done, length in pieces(row, batch.num_rows):
            target = self._segments.address(segment, self._fresh) + offset * self._width
            scatter_records(target, self._width, sources, done, length)

    def _fresh(self) -> Array:
        return self._segments.fresh(SEGMENT * self._width)

    def release(self, segment: int) -> None:
        self._segments.release(segment)
        for field in self.columns.values():
            field.release(segment)

    def layout(self, names: Sequence[str]) -> Layout:
        """These columns as they lie in the records."""
        return Layout([self.columns[name] for name in names])

    def taking(self, pieces: Pieces, layout: Layout, first_row: int, end_row: int) -> Taking:
        """The gathering of some columns of some rows; rows [first_row, end_row) are there."""
        segments = self._segments
        place = segments.addresses, segments.first, first_row, end_row, self._width, self._nowhere.address
        return Taking(pieces, layout, place)

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
