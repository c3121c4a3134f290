"""Rows to compute on: Arrow columns of one or both streams as NumPy arrays.

A frame of candidate pairs holds each row of a stream once, where that saves much: `places` says which row each pair
has. So what reads one stream only is computed once per row, not once per pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Array, Mask, Rows
from ..arrow.tables import decoded, raw_values, valid_rows
from ..errors import DataError
from ..side import Side
from .dialect import dtype_of, is_wide
from .evaluate import column_values, row_function
from .expr import Column, Expr, walk
from .types import Type

PLAIN = {
    type_.id: type_.to_pandas_dtype()
    for type_ in (
        *(pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
        pa.float16(), pa.float32(), pa.float64(),
    )
}  # fmt: skip
"""The numbers of Arrow that NumPy has as well, by the type's id."""


class Frame:
    """Columns of one length, read lazily and once. With `places`, those of a side have the length of its rows."""

    def __init__(
        self, length: int, columns: Mapping[tuple[Side, str], pa.Array], places: Mapping[Side, Rows] | None = None
    ) -> None:
        self.length = length
        self.columns = columns
        """One value per row of its side, by side and name."""
        self._places = places or {}
        self._numbers: dict[tuple[Side | None, str], tuple[Array, Mask | None]] = {}
        self._sides: dict[Side, Frame] = {}
        self._texts: dict[Expr, pa.Array] = {}

    def numbers(self, column: Column) -> tuple[Array, Mask | None]:
        """A numeric column as values and validity; values under NULL are arbitrary."""
        name = column.side, column.name
        known = self._numbers.get(name)
        if known is None:
            assert column.side is not None
            known = read_numbers(self.columns[column.side, column.name], column.type)
            known = self._numbers[name] = self.spread(column.side, *known)
        return known

    def spread(self, side: Side, values: Array, valid: Mask | None) -> tuple[Array, Mask | None]:
        """One value per pair from one value per row of a side."""
        places = self._places.get(side)
        return (values, valid) if places is None else (values[places], None if valid is None else valid[places])

    def spread_arrow(self, side: Side, column: pa.Array) -> pa.Array:
        places = self._places.get(side)
        return column if places is None else column.take(pa.array(places))

    def texts(self, expr: Expr, compute: Callable[[], pa.Array]) -> pa.Array:
        """The texts of an expression, computed the first time that they are asked for."""
        known = self._texts.get(expr)
        if known is None:
            known = self._texts[expr] = compute()
        return known

    def of(self, side: Side) -> Frame:
        """The rows of one side; the frame itself where it does not know them apart."""
        places = self._places.get(side)
        if places is None:
            return self
        known = self._sides.get(side)
        if known is None:
            columns = {name: column for name, column in self.columns.items() if name[0] == side}
            length = len(next(iter(columns.values()))) if columns else 0
            known = self._sides[side] = Frame(length, columns)
        return known

    def arrow(self, column: Column) -> pa.Array:
        assert column.side is not None
        return self.spread_arrow(column.side, self.columns[column.side, column.name])

    def rowwise(self, expr: Expr) -> list[Any]:
        """The expression's plain values, one row at a time."""
        function = row_function(expr)
        used = {n for n in walk(expr) if isinstance(n, Column)}
        lists = {column: column_values(self.arrow(column)) for column in used}
        left = {column.name: values for column, values in lists.items() if column.side == "left"}
        right = {column.name: values for column, values in lists.items() if column.side == "right"}
        return [
            function({name: v[i] for name, v in left.items()}, {name: v[i] for name, v in right.items()})
            for i in range(self.length)
        ]


def distinct(rows: Rows) -> tuple[Rows, Rows | None]:
    """The rows that occur, and for each row its place among them; None where most occur only once."""
    if len(rows) < 64:
        return rows, None
    first = int(rows.min())
    span = int(rows.max()) - first + 1
    if span > 4 * len(rows):
        return rows, None
    seen = np.zeros(span, np.bool_)
    offsets = rows - first
    seen[offsets] = True
    found = np.flatnonzero(seen)
    if 2 * len(found) > len(rows):
        return rows, None
    place = np.empty(span, np.int64)
    place[found] = np.arange(len(found))
    return found + first, place[offsets]


def read_numbers(column: pa.Array, type_: Type) -> tuple[Array, Mask | None]:
    """An Arrow array as a NumPy array of the type's own width, without a copy where the layouts agree."""
    column = decoded(column)  # first: a dictionary's own values may be NULL
    valid = valid_rows(column)
    if is_wide(type_):
        high, low = read_words(column)
        if not np.any(high != low >> 63):
            return low.astype(object), valid
        return high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object), valid
    arrow, dtype = column.type, dtype_of(type_)
    if arrow.id in PLAIN:
        return raw_values(column, PLAIN[arrow.id]).astype(dtype, copy=False), valid
    if pa.types.is_null(arrow):
        return np.zeros(len(column), dtype), np.zeros(len(column), np.bool_)
    if pa.types.is_boolean(arrow):
        return np.asarray(column.fill_null(False)), valid
    if pa.types.is_decimal(arrow):
        words = arrow.bit_width // 64
        if words == 0:
            return np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column)].astype(dtype), valid
        return _decimal_words(column, words)[0], valid
    if pa.types.is_date64(arrow):
        column, arrow = column.cast(pa.date32()), pa.date32()
    raw = raw_values(column, np.int32 if pa.types.is_date32(arrow) else np.int64)
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return _to_micros(raw, valid, arrow.unit), valid
    return raw.astype(dtype, copy=False), valid


def read_words(column: pa.Array) -> tuple[Array, Array]:
    """A column of wide decimals or of uint64 as high and low words; arbitrary under NULL."""
    column = decoded(column)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.int64)
    if not pa.types.is_decimal(column.type):
        return np.zeros(len(column), np.int64), raw_values(column, np.int64)
    low, high = _decimal_words(column, column.type.bit_width // 64)[:2]
    return high, low


def _decimal_words(column: pa.Array, words: int) -> list[Array]:
    """The words of decimals of 64 bits or more, the lowest first."""
    if not len(column):
        return [np.empty(0, np.int64)] * max(words, 2)
    content = np.frombuffer(column.buffers()[1], np.int64)
    return [content[word::words][column.offset : column.offset + len(column)] for word in range(words)]


def _to_micros(ticks: Array, valid: Mask | None, unit: str) -> Array:
    """Seconds and milliseconds as microseconds; DataError where those do not fit."""
    factor = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}[unit]
    if factor == 1:
        return ticks
    present = ticks if valid is None else ticks[valid]
    edge = np.iinfo(np.int64).max // factor
    if len(present) and (int(present.max()) > edge or int(present.min()) < -edge):
        raise DataError(f"a timestamp of {int(np.abs(present).max())} {unit} does not fit into 64 bits of microseconds")
    return ticks * np.int64(factor)
