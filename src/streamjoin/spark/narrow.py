"""Whole numbers and times in as few bytes as they need: so segments lie in the state store, which copies them often.

A narrow column holds the distances of its values from the lowest one; or, where values ascend, the steps from each
value to the next, since timestamps are often near each other. Law: `widened(narrowed(table))` equals the table. A table
that was never narrowed stays as it is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrow.tables import contiguous

_SCHEMA, _LOWEST, _FIRST = b"streamjoin.schema", b"streamjoin.lowest", b"streamjoin.first"
"""Metadata: the schema before, and for each narrow column its lowest value, or its first one beside steps."""
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


def _narrow(field: pa.Field, column: pa.ChunkedArray) -> tuple[pa.Field, pa.Array | pa.ChunkedArray]:
    whole_type = _WHOLE.get(field.type.bit_width) if _holds_numbers(field.type) else None
    if whole_type is None or column.null_count == len(column):
        return field, column
    whole = contiguous(column).view(whole_type)
    low, high = (end.as_py() for end in pc.min_max(whole).values())
    distances, steps = _narrowest(high - low), None
    if not whole.null_count and whole[0].as_py() == low:
        numbers = whole.to_numpy()
        differences = np.diff(numbers, prepend=numbers[:1])
        if differences.min() >= 0:  # differences that do not fit are below 0
            steps = _narrowest(int(differences.max()))
    if steps is not None and (distances is None or steps.bit_width < distances.bit_width):
        return _field(field, steps, _FIRST, low), pa.array(differences.astype(steps.to_pandas_dtype()))
    if distances is None or distances.bit_width >= whole_type.bit_width:
        return field, column
    return _field(field, distances, _LOWEST, low), pc.subtract(whole, pa.scalar(low, whole_type)).cast(distances)


def _holds_numbers(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_temporal(type_)


def _narrowest(highest: int) -> pa.DataType | None:
    return next((type_ for type_ in _NARROW if highest < 1 << type_.bit_width), None)


def _field(field: pa.Field, type_: pa.DataType, known: bytes, value: int) -> pa.Field:
    return pa.field(field.name, type_, metadata={known: str(value).encode()})


def _wide(field: pa.Field, column: pa.ChunkedArray, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    known = field.metadata or {}
    if _LOWEST in known:
        whole = _WHOLE[wanted.type.bit_width]
        return pc.add(contiguous(column).cast(whole, safe=False), pa.scalar(int(known[_LOWEST]), whole)).view(
            wanted.type
        )
    if _FIRST in known:
        numbers = contiguous(column).to_numpy().astype(f"int{wanted.type.bit_width}")
        numbers[0] = int(known[_FIRST])
        return pa.array(np.cumsum(numbers, dtype=numbers.dtype)).view(wanted.type)
    return column
