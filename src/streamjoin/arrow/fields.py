"""What a predicate may read of a table: its columns, and the fields of its struct columns by names such as `s.value`.

A column of that very name comes first. A field of a struct that is NULL is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import Rows


class Readable(NamedTuple):
    """A column, or a field within it: the column's place, the names that lead to the field, and the type."""

    place: int
    path: tuple[str, ...]
    type: pa.DataType

    def of(self, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """The values, from the column at that place."""
        return pc.struct_field(column, list(self.path)) if self.path else column


def readable(schema: pa.Schema) -> dict[str, Readable]:
    """Columns first, then fields."""
    found = {field.name: Readable(place, (), field.type) for place, field in enumerate(schema)}
    for place, column in enumerate(schema):
        for path, type_ in _fields(column.type):
            found.setdefault(".".join((column.name, *path)), Readable(place, path, type_))
    return found


def _fields(type_: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    if pa.types.is_struct(type_):
        for field in type_:
            yield (field.name,), field.type
            yield from (((field.name, *path), inner) for path, inner in _fields(field.type))


def read(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column or a field of a table."""
    found = readable(table.schema)[name]
    return found.of(table.column(found.place))


def taken(
    take: Callable[[Rows, list[str]], pa.Table], schema: pa.Schema, rows: Rows, names: list[str]
) -> pa.Table:  # fmt: skip
    """Some columns and fields of some rows, by a function that takes columns."""
    if all(name in schema.names for name in names):
        return take(rows, names)
    known = readable(schema)
    columns = list(dict.fromkeys(schema.names[known[name].place] for name in names))
    table = take(rows, columns)
    return pa.table({name: known[name].of(table.column(schema.names[known[name].place])) for name in names})
