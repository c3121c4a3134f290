"""Arrow at the door: anything with the PyCapsule interface in, checked tables out; payload kept without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .errors import ArgumentError, SchemaError

SMALL_BATCH = 64
"""Batches below this many rows are merged in the background of the store, or their overhead would outweigh them."""
MERGE_ROWS = 4096


def as_schema(data: Any, argument: str) -> pa.Schema:
    """The schema of a schema, table, batch or data frame."""
    schema = None
    if isinstance(data, pa.Schema):
        schema = data
    elif isinstance(getattr(data, "schema", None), pa.Schema):
        schema = data.schema
    else:
        for read in (pa.schema, lambda d: as_table(d, argument).schema):
            try:
                schema = read(data)
                break
            except (TypeError, ValueError, pa.ArrowException, SchemaError):
                continue
    if schema is None:
        raise ArgumentError(
            f"{argument}: {type(data).__name__} has no Arrow schema; give a pyarrow.Schema, or anything with the "
            "Arrow PyCapsule interface (pyarrow, polars, pandas, duckdb)"
        )
    check_names(schema, argument)
    return schema


def check_names(schema: pa.Schema, argument: str) -> None:
    doubled = sorted({name for name in schema.names if schema.names.count(name) > 1})
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
        f"{argument}: {type(data).__name__} is not Arrow data; give anything with the Arrow PyCapsule interface "
        "(a pyarrow Table or RecordBatch, a polars or pandas DataFrame, a duckdb relation)"
    )


def conform(table: pa.Table, schema: pa.Schema, argument: str) -> pa.Table:
    """The table with exactly the columns of `schema`; only the encoding of text may differ and is brought in line."""
    missing = [name for name in schema.names if name not in table.column_names]
    extra = [name for name in table.column_names if name not in schema.names]
    if missing or extra or table.num_columns != len(schema):
        problem = f"lacks {missing}" if missing else f"has {extra or table.column_names}"
        raise SchemaError(f"{argument}: the batch {problem}; the join was opened with {_listing(schema)}")
    if table.column_names != schema.names:
        table = table.select(schema.names)
    if table.schema.types == schema.types:
        return table
    for i, field in enumerate(schema):
        given = table.schema.field(i).type
        if given != field.type:
            if not (_is_text(given) and _is_text(field.type)):
                raise SchemaError(
                    f"{argument}: column {field.name!r} is {given}; the join was opened with {field.type}. "
                    "Cast it before the push"
                )
            table = table.set_column(i, field, table.column(i).cast(field.type))
    return table


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_text(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _listing(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def result_schema(left: pa.Schema, right: pa.Schema, how: str) -> pa.Schema:
    """The left's columns, then the right's; a right name that the left also has gets the suffix `_right`."""
    left_outer, right_outer = how in ("right", "full"), how in ("left", "full")
    fields = [field.with_nullable(True) if left_outer else field for field in left]
    if how in ("semi", "anti"):
        return pa.schema(fields)
    taken = set(left.names)
    names: set[str] = set(taken)
    for field in right:
        name = f"{field.name}_right" if field.name in taken else field.name
        if name in names:
            raise ArgumentError(
                f"right: the result would have two columns {name!r}; rename the column {field.name!r} of one stream"
            )
        names.add(name)
        new = field.with_name(name)
        fields.append(new.with_nullable(True) if right_outer else new)
    return pa.schema(fields)


class Payload:
    """All columns of a stream's rows, by row number, for as long as they can still be part of a result.

    Rows are appended in arrival order and keep their number for ever; whole batches are dropped from the front.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._tables: list[pa.Table] = []
        self._starts: list[int] = []
        self._small = 0
        self.end = 0

    def append(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._tables.append(table)
        self._starts.append(self.end)
        self.end += table.num_rows
        self._small = self._small + 1 if table.num_rows < SMALL_BATCH else 0
        if self._small and (self._small >= MERGE_ROWS // SMALL_BATCH):
            self._merge_small()

    def _merge_small(self) -> None:
        """The newest small batches as one contiguous batch, and likewise the merged ones before it."""
        count = self._small
        rows = sum(t.num_rows for t in self._tables[-count:])
        while count < len(self._tables) and self._tables[-count - 1].num_rows <= min(rows, MERGE_ROWS):
            count += 1
            rows += self._tables[-count].num_rows
        merged = pa.concat_tables(self._tables[-count:]).combine_chunks()
        self._tables[-count:] = [merged]
        self._starts[-count:] = [self.end - rows]
        self._small = 0

    def release(self, floor: int) -> None:
        """Forget the batches that lie wholly below row number `floor`."""
        keep = 0
        while keep < len(self._starts) and self._starts[keep] + self._tables[keep].num_rows <= floor:
            keep += 1
        if keep:
            del self._tables[:keep], self._starts[:keep]
            self._small = min(self._small, len(self._tables))

    def take(self, rows: npt.NDArray[np.int64], columns: list[str] | None = None) -> pa.Table:
        """The given rows, in the given order; row number -1 gives NULLs."""
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        if not len(rows):
            return schema.empty_table()
        absent = rows < 0
        some_absent = bool(absent.any())
        first = int(rows[~absent].min()) if not absent.all() else self.end
        last = int(rows.max())
        begin = max(int(np.searchsorted(self._starts, first, side="right")) - 1, 0)
        stop = int(np.searchsorted(self._starts, last, side="right"))
        needed = range(begin, max(stop, begin))
        if len(needed) > 64 and len(rows) < len(needed):
            places = np.searchsorted(self._starts, rows[~absent], side="right") - 1
            needed_places = np.unique(places)
        else:
            needed_places = np.arange(begin, max(stop, begin))
        tables = [self._tables[i] for i in needed_places]
        if columns is not None:
            tables = [table.select(columns) for table in tables]
        table = pa.concat_tables([schema.empty_table(), *tables]) if not tables else pa.concat_tables(tables)
        lengths = np.array([self._tables[i].num_rows for i in needed_places], np.int64)
        bases = np.cumsum(lengths) - lengths
        starts = np.array([self._starts[i] for i in needed_places], np.int64)
        if len(starts):
            chunk = np.maximum(np.searchsorted(starts, rows, side="right") - 1, 0)
            places = rows - starts[chunk] + bases[chunk]
        else:
            places = rows
        indices = pa.array(places, mask=absent) if some_absent else pa.array(places)
        return table.take(indices)

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self._tables)
