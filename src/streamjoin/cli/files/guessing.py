"""What Arrow does not guess of CSV and NDJSON: texts that are moments, and integers of more than 64 bits."""

from __future__ import annotations

from collections.abc import Container

import pyarrow as pa
import pyarrow.compute as pc

MICROSECONDS = pa.timestamp("us")
_MOMENTS = (pa.date32(), MICROSECONDS, pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))


def with_times(table: pa.Table, time_format: str | None = None, *, dates: bool = True) -> pa.Table:
    """The table with timestamps in microseconds, or in nanoseconds where they need it, and with texts that are all
    moments as such."""
    columns = [_moments(column, time_format, dates) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _moments(column: pa.ChunkedArray, time_format: str | None, dates: bool) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return _cast(column, pa.timestamp("us", column.type.tz)) or column
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column
    for type_ in _MOMENTS[not dates :]:
        read = _cast(column, type_)
        if read is not None:
            return read
    if time_format is not None:
        try:
            return pc.strptime(column, format=time_format, unit="us")
        except pa.ArrowException:
            pass
    return column


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return column.cast(type_)
    except pa.ArrowException:
        return None


LONG_INTEGERS = (pa.uint64(), pa.decimal128(38, 0))
_EXACT = 1 << 53
"""From here on, floats are no longer all of the integers."""


def long_integers(table: pa.Table, known: Container[str]) -> list[str]:
    """Columns that were guessed to be floats, but may be integers that a float cannot tell from their neighbours."""

    def may_be(column: pa.ChunkedArray) -> bool:
        largest = pc.max(pc.abs(column)).as_py() if pa.types.is_float64(column.type) else None
        return largest is not None and largest >= _EXACT and bool(pc.all(pc.equal(pc.floor(column), column)).as_py())

    return [name for name in table.column_names if name not in known and may_be(table.column(name))]


def integer_type(texts: pa.ChunkedArray) -> pa.DataType:
    """The type that holds all of these numbers exactly, if they are written as integers; else float. Text holds the
    longest ones."""
    if not pc.all(pc.match_substring_regex(texts, r"^[+-]?[0-9]+$")).as_py():
        return pa.float64()
    if pc.max(pc.utf8_length(texts)).as_py() > LONG_INTEGERS[-1].precision:
        return pa.string()
    return next(type_ for type_ in LONG_INTEGERS if _cast(texts, type_) is not None)


def first_that_is_no_time(column: pa.ChunkedArray) -> tuple[int, str] | None:
    """The first value of a column of texts that is neither a moment nor a number, with the number of its row. If there
    is none, they are of several kinds: the first that is of another kind than the first one."""
    texts = [(row, text) for row, text in enumerate(column.to_pylist(), 1) if text is not None]
    kinds = (*_MOMENTS, pa.int64())
    first = None
    for row, text in texts:
        alone = pa.chunked_array([[text]])
        kind = next((type_ for type_ in kinds if _cast(alone, type_) is not None), None)
        if kind is None or kind != (first := first or kind):
            return row, text
    return texts[0] if texts else None
