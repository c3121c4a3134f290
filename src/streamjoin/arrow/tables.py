"""Arrow at the door: anything with the PyCapsule interface in, checked tables out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import ArgumentError, SchemaError


def as_schema(data: Any, argument: str) -> pa.Schema:
    """The schema of a schema, table, batch or data frame."""
    schema, lazy = None, _lazy(data)
    if isinstance(data, pa.Schema):
        schema = data
    elif not lazy and isinstance(getattr(data, "schema", None), pa.Schema):
        schema = data.schema
    elif not lazy:
        for read in (pa.schema, lambda d: as_table(d, argument).schema):
            try:
                schema = read(data)
                break
            except (TypeError, ValueError, pa.ArrowException, SchemaError):
                continue
    if schema is None:
        raise ArgumentError(
            f"{argument}: {type(data).__name__} has no Arrow schema{lazy}; give a pyarrow.Schema, or anything with "
            "the Arrow PyCapsule interface (pyarrow, polars, pandas, duckdb)"
        )
    check_names(schema, argument)
    return schema


def check_names(schema: pa.Schema, argument: str) -> None:
    if not schema.names:
        raise ArgumentError(f"{argument}: a stream needs at least one column, and this one has none")
    doubled = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if doubled:
        raise ArgumentError(f"{argument}: column names must be unique; {', '.join(map(repr, doubled))} appears twice")


def as_table(data: Any, argument: str) -> pa.Table:
    """Anything with the Arrow PyCapsule interface as a table; the data is not copied."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return pa.table(data)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SchemaError(f"{argument}: cannot read {type(data).__name__} as Arrow data: {error}") from None
    raise SchemaError(
        f"{argument}: {type(data).__name__} is not Arrow data{_lazy(data)}; give anything with the Arrow PyCapsule "
        "interface (a pyarrow Table or RecordBatch, a polars or pandas DataFrame, a duckdb relation)"
    )


def _lazy(data: Any) -> str:
    """What to do with a frame that has no rows yet."""
    if hasattr(data, "__arrow_c_stream__"):
        return ""
    if hasattr(data, "sparkSession"):
        return " (Spark's are joined with streamjoin.spark.stream_join, or here after .toArrow())"
    return " (it is lazy: call .collect() first)" if hasattr(data, "collect") else ""


def conform(table: pa.Table, schema: pa.Schema, argument: str) -> pa.Table:
    """The table with exactly the columns of `schema`; only the encoding of text may differ and is brought in line."""
    given, wanted = table.column_names, schema.names
    if given != wanted:
        missing, extra = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
        if missing or extra or len(given) != len(wanted):
            problem = f"lacks {missing}" if missing else f"has {extra or given}"
            raise SchemaError(f"{argument}: the batch {problem}; the join was opened with {_listing(schema)}")
        table = table.select(wanted)
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if column.type != field.type:
            column = _same_text(column, field, argument)
        if not field.nullable and column.null_count:
            raise SchemaError(f"{argument}: column {field.name!r} holds NULLs; the join was opened with it NOT NULL")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _same_text(column: pa.ChunkedArray, field: pa.Field, argument: str) -> pa.ChunkedArray:
    if is_text(column.type) and is_text(field.type):
        try:
            return decoded(column).cast(pa.large_string()).cast(field.type)
        except pa.ArrowException:
            pass
    raise SchemaError(
        f"{argument}: column {field.name!r} is {column.type}; the join was opened with {field.type}. "
        "Cast it before the push"
    )


def is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return is_text(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _listing(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def decoded(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A dictionary-encoded column as its values; Arrow cannot decode a dictionary of text views by itself."""
    if not pa.types.is_dictionary(column.type):
        return column
    return _dictionary(column, takeable_type(column.type.value_type)).cast(takeable_type(column.type.value_type))


def _dictionary(column: pa.Array | pa.ChunkedArray, values: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The same dictionary-encoded column with dictionary values of another type."""
    if isinstance(column, pa.ChunkedArray):
        type_ = pa.dictionary(column.type.index_type, values, column.type.ordered)
        return pa.chunked_array([_dictionary(chunk, values) for chunk in column.chunks], type_)
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(values), ordered=column.type.ordered)


def takeable(table: pa.Table) -> pa.Table:
    """The table with its columns in layouts that Arrow can take rows from: no views, no run-ends."""
    types = [takeable_type(type_) for type_ in table.schema.types]
    return table if types == table.schema.types else _converted(table, types)


def restored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows taken from a takeable table, in their own layout again."""
    return table if table.schema.types == schema.types else _converted(table, schema.types)


def takeable_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type_):
        return pa.large_string()
    if pa.types.is_binary_view(type_):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(type_):
        return takeable_type(type_.value_type)
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, takeable_type(type_.value_type), type_.ordered)
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(takeable_type(type_.value_type)))
    if pa.types.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(takeable_type(type_.value_type)))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(takeable_type(type_.value_type)), type_.list_size)
    if pa.types.is_map(type_):
        return pa.map_(takeable_type(type_.key_type), takeable_type(type_.item_type), type_.keys_sorted)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(takeable_type(field.type)) for field in type_])
    return type_


def _converted(table: pa.Table, types: list[pa.DataType]) -> pa.Table:
    columns = []
    for column, type_ in zip(table.columns, types, strict=True):
        if pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        if pa.types.is_run_end_encoded(type_):
            column = pc.run_end_encode(column.cast(type_.value_type), type_.run_end_type)
        if column.type != type_ and pa.types.is_dictionary(type_):
            column = _dictionary(column, type_.value_type)
        columns.append(column if column.type == type_ else column.cast(type_))
    fields = [field.with_type(type_) for field, type_ in zip(table.schema, types, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def contiguous(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; only key columns that arrive in several chunks are copied."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def single_arrays(table: pa.Table) -> list[pa.Array] | None:
    """The columns, if each is one array; to take them all at once takes less time than one by one."""
    batches = table.to_batches()
    columns: list[pa.Array] | None = batches[0].columns if len(batches) == 1 else None
    return columns


def raw_values(column: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    """The value buffer of an array whose values are as wide as those of `dtype`; what lies under NULL is arbitrary."""
    if not len(column):
        return np.empty(0, dtype)
    width = np.dtype(dtype).itemsize
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * width)


def valid_rows(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which values of an array are not NULL; None: all."""
    if not column.null_count:
        return None
    bits = column.buffers()[0]
    if bits is None:  # a layout without a bitmap, such as that of a column of the type null
        return np.asarray(column.is_valid())
    first, skipped = divmod(column.offset, 8)
    rows = np.unpackbits(np.frombuffer(bits, np.uint8)[first:], count=skipped + len(column), bitorder="little")
    return rows[skipped:].view(np.bool_)


def result_schema(left: pa.Schema, right: pa.Schema, how: str, suffix: Any = "_right") -> pa.Schema:
    """The left's columns, then the right's; a right name that the left also has gets the suffix."""
    if not isinstance(suffix, str) or not suffix:
        raise ArgumentError(f"suffix: {suffix!r} is not valid; give a text such as '_right'")
    left_outer, right_outer = how in ("right", "full"), how in ("left", "full")
    fields = [field.with_nullable(True) if left_outer else field for field in left]
    if how in ("semi", "anti"):
        return pa.schema(fields)
    taken = set(left.names)
    names: set[str] = set(taken)
    for field in right:
        name = f"{field.name}{suffix}" if field.name in taken else field.name
        if name in names:
            raise ArgumentError(
                f"right: the result would have two columns {name!r}; rename the column {field.name!r} of one stream, "
                "or give another suffix"
            )
        names.add(name)
        new = field.with_name(name)
        fields.append(new.with_nullable(True) if right_outer else new)
    return pa.schema(fields)
