"""One side's input: one or many files of one format as one stream of tables, with one schema."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ...arrow.tables import check_names
from .binary import ArrowFile, ParquetFile
from .source import Opened, Source, find, readable
from .text import HEAD, CsvFile, File, NdjsonFile, Reading

IN_MEMORY = 512 << 20
"""An input that takes no more than this is a table, which may be in any order."""
LEAST_HEAD = 1 << 20
"""How much of each file of many types are guessed from."""


class Input:
    """The files that an argument names. They are read once, and only when asked for."""

    def __init__(self, argument: str, text: str, reading: Reading = Reading()) -> None:  # noqa: B008
        self.argument, self.text = argument, text
        self.sources = find(argument, text)
        self._reading = reading
        self._head = max(HEAD // len(self.sources), min(HEAD, LEAST_HEAD))
        self._finished, self._current = 0, ""
        self._file: File | None = None
        self.format = ""
        schemas = []
        for source in self.sources:
            file = self._open(source)
            schemas.append(file.schema)
            self._file = file
            self._check(source)
        if len(self.sources) > 1:
            self._file = None
        own = schemas[0] if len(schemas) == 1 else self._common(schemas)
        self.schema = with_folders(own, self.sources)
        for name, type_ in reading.types.items():
            if name in self.schema.names:
                place = self.schema.get_field_index(name)
                self.schema = self.schema.set(place, pa.field(name, type_))

    @property
    def size(self) -> int | None:
        """The bytes of all files; None where a pipe is among them."""
        sizes = [source.size for source in self.sources]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def done(self) -> int:
        """How many of these have been read."""
        return self._finished

    def tables(self) -> Iterator[pa.Table]:
        """All rows, in the order of the files."""
        for source in self.sources:
            file, self._file = self._file or self._open(source), None
            before = self._finished
            with readable(source):
                for table in file.tables(self.schema):
                    self._finished = before + int(min(file.part, 1) * (source.size or 0))
                    yield aligned(table, self.schema, source)
            self._finished = before + (source.size or 0)

    def _open(self, source: Source) -> File:
        with readable(source):
            opened = source.open(self._reading.format)
            if self.format and opened.format != self.format:
                raise source.error(f"it is {opened.format}, but {self.sources[0].name!r} is {self.format}")
            self.format = opened.format
            return _file(source, opened, self._reading, self._head)

    def _check(self, source: Source) -> None:
        assert self._file is not None
        check_names(self._file.schema, f"{self.argument}: {source.name}")

    def _common(self, schemas: Sequence[pa.Schema]) -> pa.Schema:
        """The columns of all files, in the order of the first; a type is the one that holds all of them."""
        first = schemas[0]
        if self.format == "ndjson":  # a key that an object lacks is NULL
            first = pa.unify_schemas([pa.schema([(name, pa.null()) for name in s.names]) for s in schemas])
        for source, schema in zip(self.sources, schemas, strict=True):
            missing, more = (sorted({*a} - {*b}) for a, b in ((first.names, schema.names), (schema.names, first.names)))
            if (missing or more) and self.format != "ndjson":
                what = f"has no column {missing[0]!r}" if missing else f"has the column {more[0]!r}"
                raise source.error(f"it {what}, unlike {self.sources[0].name!r}; files of one input have the same ones")
        fields = []
        for name in first.names:
            types = [schema.field(name).type for schema in schemas if name in schema.names]
            type_ = self._reading.types.get(name) or _widest(types, self.format == "csv")
            if type_ is None:
                at = next(i for i in range(len(types)) if _widest(types[: i + 1], False) is None)
                raise self.sources[at].error(
                    f"its column {name!r} is {types[at]}, but {types[0]} in {self.sources[0].name!r}; say one type for "
                    f"both, as in --types {name}=string"
                )
            fields.append(pa.field(name, type_))
        return pa.schema(fields)


def _file(source: Source, opened: Opened, reading: Reading, head: int) -> File:
    if opened.format == "parquet":
        return ParquetFile(source, opened)
    if opened.format == "arrow":
        return ArrowFile(source, opened)
    return (CsvFile if opened.format == "csv" else NdjsonFile)(source, opened, reading, head)


def _widest(types: Sequence[pa.DataType], texts: bool) -> pa.DataType | None:
    """The type that holds the values of all of them; text holds all, where the values come from text."""
    known = [type_ for type_ in dict.fromkeys(types) if not pa.types.is_null(type_)]
    if len(known) < 2:
        return known[0] if known else pa.null()
    if all(pa.types.is_date(t) or (pa.types.is_timestamp(t) and t.tz is None) for t in known):
        return pa.timestamp("ns" if pa.timestamp("ns") in known else "us")
    try:
        unified = pa.unify_schemas([pa.schema([("x", type_)]) for type_ in known], promote_options="permissive")
        return unified.field("x").type
    except pa.ArrowException:
        return pa.string() if texts else None


def aligned(table: pa.Table, schema: pa.Schema, source: Source) -> pa.Table:
    """The table with the columns of the schema: by name, NULL where it has none."""
    if table.schema.equals(schema):
        return table
    folders = dict(_folders(source.path))
    columns = []
    for field in schema:
        if field.name in table.column_names:
            column = table.column(field.name)
        elif field.name in folders:
            column = pa.chunked_array([pa.repeat(folders[field.name], table.num_rows)])
        else:
            column = pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            message = " ".join(str(error).split())[:200]
            raise source.error(f"column {field.name!r} cannot be read as {field.type}: {message}") from None
    return pa.Table.from_arrays(columns, schema=schema)


def with_folders(schema: pa.Schema, sources: Sequence[Source]) -> pa.Schema:
    """With the columns that folders name, as in `trades/day=2024-01-01/part-0.parquet`."""
    of_each = [dict(_folders(source.path)) for source in sources]
    for name in of_each[0]:
        values = [folders.get(name) for folders in of_each]
        if name not in schema.names and None not in values:
            schema = schema.append(pa.field(name, _type_of_texts(values)))
    return schema


def _folders(path: str) -> list[tuple[str, str]]:
    matches = (re.fullmatch(r"([^=]+)=(.*)", part) for part in os.path.dirname(path).split(os.sep))
    return [(match[1], match[2]) for match in matches if match]


def _type_of_texts(values: Sequence[str | None]) -> pa.DataType:
    for type_ in (pa.int64(), pa.date32()):
        try:
            pa.array(values, pa.string()).cast(type_)
            return type_
        except pa.ArrowException:
            continue
    return pa.string()


class Loaded(NamedTuple):
    """What fits into memory as a table; else what has been read so far, and the rest."""

    table: pa.Table | None
    rest: Iterator[pa.Table]


def load(schema: pa.Schema, tables: Iterator[pa.Table], tell: Callable[[], None]) -> Loaded:
    """Read tables until they have taken more memory than one may. `tell` is called after each."""
    pieces, taken = [schema.empty_table()], 0
    for table in tables:
        tell()
        pieces.append(table)
        taken += table.nbytes
        if taken > IN_MEMORY:
            return Loaded(None, _chain(pieces, tables))
    return Loaded(pa.concat_tables(pieces), iter(()))


def read_table(text: str, argument: str) -> pa.Table:
    """Files as one table, of any size."""
    data = Input(argument, text)
    return pa.concat_tables([data.schema.empty_table(), *data.tables()])


def _chain(pieces: list[pa.Table], rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    while pieces:
        yield pieces.pop(0)
    yield from rest


__all__ = ["Input", "Loaded", "Reading", "load", "read_table"]
