"""Numbers in as few bytes as they need: so the columns of segments lie in the state store, which copies them often.

A narrow column holds the distances from its lowest value, which stands in the metadata of its field. Law:
`widened(narrowed(table))` equals the table. A table that was never narrowed stays as it is.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_SCHEMA, _LOWEST = b"streamjoin.schema", b"streamjoin.lowest"
_WHOLE = {32: pa.int32(), 64: pa.int64()}
_NARROW = (pa.uint8(), pa.uint16(), pa.uint32())


def narrowed(table: pa.Table) -> pa.Table:
    """The same table with whole numbers, dates and times made narrow."""
    pairs = [_narrow(field, column) for field, column in zip(table.schema, table.columns, strict=True)]
    schema = pa.schema([field for field, _ in pairs], {_SCHEMA: table.schema.serialize().to_pybytes()})
    return pa.Table.from_arrays([column for _, column in pairs], schema=schema)


def widened(table: pa.Table) -> pa.Table:
    """The table as it was before."""
    written = (table.schema.metadata or {}).get(_SCHEMA)
    if written is None:
        return table
    schema = pa.ipc.read_schema(pa.py_buffer(written))
    columns = [_wide(*one) for one in zip(table.schema, table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _narrow(field: pa.Field, column: pa.ChunkedArray) -> tuple[pa.Field, pa.ChunkedArray]:
    if not (pa.types.is_integer(field.type) or pa.types.is_temporal(field.type)) or field.type.bit_width not in _WHOLE:
        return field, column
    whole = _viewed(column, _WHOLE[field.type.bit_width])
    ends = pc.min_max(whole)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return field, column
    for type_ in _NARROW:
        if high - low < 1 << type_.bit_width and type_.bit_width < field.type.bit_width:
            distances = pc.subtract(whole, pa.scalar(low, whole.type)).cast(type_, safe=False)
            return pa.field(field.name, type_, metadata={_LOWEST: str(low).encode()}), distances
    return field, column


def _wide(field: pa.Field, column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
    low = (field.metadata or {}).get(_LOWEST)
    if low is None:
        return column
    whole = _WHOLE[wanted.type.bit_width]
    return _viewed(pc.add(column.cast(whole), pa.scalar(int(low), whole)), wanted.type)


def _viewed(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The same bits as another type of the same width."""
    return pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type_)
