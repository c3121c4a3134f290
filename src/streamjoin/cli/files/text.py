"""CSV and NDJSON: types are guessed from the beginning, which is all of a file that is not large.

Invariant: what has been read to guess is not read again, so a pipe works. An empty field is NULL, and `""` is an empty
text.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from ...arrow.tables import check_names
from ...errors import DataError
from .guessing import LONG_INTEGERS, integer_type, long_integers, with_times
from .source import Chained, Opened, Source, read_up_to

HEAD = 64 << 20
"""How much of an input types are guessed from."""
BLOCK = 8 << 20
DELIMITERS = ",\t;|"
GUESSED = f"types were guessed from the first {HEAD >> 20} MB; say the type, as in --types NAME=string"


@dataclass(frozen=True)
class Reading:
    """What the user says about how files are to be read."""

    format: str | None = None
    delimiter: str | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    nulls: tuple[str, ...] = ()
    time_format: str | None = None


class File(Protocol):
    """A file that has been opened: its columns, then its rows, once."""

    schema: pa.Schema
    """As the file has them; of text as guessed."""

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """All rows. Text is read as the types of `schema`, which may be wider than the file's own."""
        ...

    @property
    def part(self) -> float:
        """How much of it has been read, from 0 to 1."""
        ...


class CsvFile:
    """A CSV file with a header line."""

    def __init__(self, source: Source, opened: Opened, reading: Reading, head: int) -> None:
        self._source, self._reading, self._stream, self._raw = source, reading, opened.stream, opened.raw
        self._head = read_up_to(self._stream, head)
        self._is_all = len(self._head) < head
        if not self._head.strip():
            raise source.error("it is empty; a CSV file begins with a line of column names")
        self._delimiter = reading.delimiter or self._guess_delimiter()
        sample = self._head if self._is_all else self._head[: _last_row(self._head)]
        forced = {name: type_ for name, type_ in reading.types.items() if not pa.types.is_timestamp(type_)}
        raw = self._read(sample, forced)
        check_names(raw.schema, f"{source.argument}: {source.name}")
        if long := long_integers(raw, forced):
            texts = self._read(sample, forced | dict.fromkeys(long, pa.string()))
            raw = self._read(sample, forced | {name: integer_type(texts.column(name)) for name in long})
        table = with_times(raw, reading.time_format)
        for name, type_ in zip(table.schema.names, table.schema.types, strict=True):
            if pa.types.is_binary(type_):
                raise source.error(
                    f"column {name!r} is no UTF-8 text; convert the file, as with `iconv -f LATIN1 -t UTF-8`"
                )
        self.schema = table.schema if self._is_all else _without_nulls(table.schema)
        self._table = table if self._is_all else None

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        wanted = {f.name: f.type for f in schema if f.name in self.schema.names}
        if self._table is not None:
            if all(self.schema.field(name).type == type_ for name, type_ in wanted.items()):
                yield self._table
            else:
                yield self._read(self._head, wanted)
            return
        from pyarrow import csv as arrow_csv

        rest = Chained(self._head, self._stream)
        self._head, rows = b"", 0
        try:
            with arrow_csv.open_csv(pa.PythonFile(rest, "r"), **self._options(wanted, BLOCK)) as reader:
                for batch in reader:
                    rows += batch.num_rows
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise self._explained(error, b"", f"after row {rows:,}: ", f"; {GUESSED}") from None

    @property
    def part(self) -> float:
        return self._raw.taken / self._source.size if self._source.size else 0.0

    def _read(self, text: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
        from pyarrow import csv as arrow_csv

        block = max(len(text), 1) if len(text) < BLOCK else BLOCK
        try:
            return arrow_csv.read_csv(pa.BufferReader(text), **self._options(types, block))
        except pa.ArrowException as error:
            failed = error
        try:  # once more, for the number of the row
            arrow_csv.read_csv(pa.BufferReader(text), **self._options(types, block, use_threads=False))
        except pa.ArrowException as error:
            failed = error
        raise self._explained(failed, text) from None

    def _options(self, types: Mapping[str, pa.DataType], block: int, use_threads: bool = True) -> dict[str, Any]:
        from pyarrow import csv as arrow_csv

        parsers = [arrow_csv.ISO8601, *([self._reading.time_format] if self._reading.time_format else [])]
        return {
            "read_options": arrow_csv.ReadOptions(use_threads=use_threads, block_size=block),
            "parse_options": arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            "convert_options": arrow_csv.ConvertOptions(
                null_values=["", *self._reading.nulls], strings_can_be_null=True, quoted_strings_can_be_null=False,
                true_values=["true", "True", "TRUE"], false_values=["false", "False", "FALSE"],
                column_types=types, timestamp_parsers=parsers,
            ),
        }  # fmt: skip

    def _guess_delimiter(self) -> str:
        header = re.sub(rb'"[^"]*"', b"", self._head[: 1 << 16]).lstrip().split(b"\n", 1)[0]
        return max(DELIMITERS, key=lambda delimiter: header.count(delimiter.encode()))

    def _explained(self, error: BaseException, text: bytes, where: str = "", hint: str = "") -> DataError:
        """The error with its line, where Arrow has counted rows."""
        message = " ".join(str(error).split()).replace("CSV parse error: ", "").replace("CSV conversion error ", "")
        if "invalid UTF8" in message or "BOM" in message:
            return self._source.error("it is no UTF-8 text; save it as UTF-8, or say what it is with --format")
        row = re.search(r"Row #([0-9]+): ", message)
        if row is not None:
            line = _line_of(text, self._delimiter, int(row[1]))
            where = f"line {line}: " if line else f"row {row[1]}: "
            message = message.replace(row[0], "")
        column = re.search(r"In CSV column #([0-9]+): ", message)
        if column is not None:
            names = [self.schema.names[int(column[1])]] if hasattr(self, "schema") else []
            message = message.replace(column[0], f"column {names[0]!r}: " if names else "") + hint
        message = re.sub(r"to (\S+): invalid value '(.*)'", r"'\2' is no \1", message)
        return self._source.error(f"{where}{message[:300]}")


class NdjsonFile:
    """One JSON object in each line."""

    def __init__(self, source: Source, opened: Opened, reading: Reading, head: int) -> None:
        self._source, self._reading, self._stream, self._raw = source, reading, opened.stream, opened.raw
        self._head = read_up_to(self._stream, head)
        self._is_all = len(self._head) < head
        self._line = 1
        if not self._head.strip():
            raise source.error("it is empty, so it has no columns")
        if self._head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
            raise source.error("it is one JSON array; give one object per line, as `jq -c '.[]'` writes them")
        sample = self._head if self._is_all else self._head[: self._head.rfind(b"\n") + 1]
        if not sample:
            raise source.error(f"its first line is longer than {head >> 20} MB")
        self._table = self._read(sample, None)  # without the moments that Arrow finds, for it overlooks their zones
        if (plain := _as_text(self._table.schema)) != self._table.schema:
            self._table = self._read(sample, plain)
        for name in long_integers(self._table, {}):
            self._table = self._with_long_integers(sample, name)
        self.schema = with_times(self._table, reading.time_format).schema
        if not self._is_all:
            for name, type_ in reading.types.items():
                if name not in self.schema.names:
                    self._table = self._table.append_column(name, pa.nulls(self._table.num_rows, pa.string()))
                    self.schema = self.schema.append(pa.field(name, type_))
            self._table, self.schema = self._table.slice(0, 0), _without_nulls(self.schema)

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        if self._is_all:
            yield self._timed(self._table, schema)
            return
        raw = pa.schema([f if f.type != pa.null() else f.with_type(pa.string()) for f in self._table.schema])
        pending, stream = b"", Chained(self._head, self._stream)
        self._head = b""
        while block := read_up_to(stream, BLOCK):
            cut = block.rfind(b"\n") + 1
            text, pending = pending + block[:cut], block[cut:] if cut else pending + block
            if cut and text.strip():
                yield self._timed(self._read(text, raw), schema)
                self._line += text.count(b"\n")
        if pending.strip():
            yield self._timed(self._read(pending, raw), schema)

    @property
    def part(self) -> float:
        return self._raw.taken / self._source.size if self._source.size else 0.0

    def _with_long_integers(self, text: bytes, name: str) -> pa.Table:
        place = self._table.schema.get_field_index(name)
        for type_ in LONG_INTEGERS:
            with suppress(DataError):
                return self._read(text, self._table.schema.set(place, pa.field(name, type_)))
        return self._table

    def _timed(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Texts as the moments that the schema has them as."""
        for number, name in enumerate(table.column_names):
            type_ = schema.field(name).type
            if table.column(number).type == pa.string() != type_:
                timed = with_times(table.select([name]), self._reading.time_format, dates=type_ == pa.date32())
                column = timed.column(0)
                if type_ == pa.date32() and pa.types.is_timestamp(column.type):  # a cast would drop the time of day
                    hint = "" if self._is_all else f"; {GUESSED}"
                    raise self._source.error(f"column {name!r}: a value with a time of day is no {type_}{hint}")
                table = table.set_column(number, name, column)
        return table

    def _read(self, text: bytes, schema: pa.Schema | None) -> pa.Table:
        from pyarrow import json as arrow_json

        parse = arrow_json.ParseOptions(schema, unexpected_field_behavior="infer" if schema is None else "error")
        read = arrow_json.ReadOptions(use_threads=False, block_size=max(len(text), 1))
        try:
            return arrow_json.read_json(pa.BufferReader(text), parse_options=parse, read_options=read)
        except pa.ArrowException as error:
            message = " ".join(str(error).split()).removeprefix("JSON parse error: ")
            row = re.search(r" in row ([0-9]+)$", message)
            if schema is not None and "unexpected field" in message:
                raise self._new_key(text, schema) from None
            if row is None:
                raise self._source.error(message[:300]) from None
            lines = (n for n, line in enumerate(text.split(b"\n"), self._line) if line.strip())
            line = next((n for count, n in enumerate(lines) if count == int(row[1])), self._line)
            hint = f"; {GUESSED}" if schema is not None and not self._is_all else ""
            raise self._source.error(f"line {line}: {message.removesuffix(row[0])[:300]}{hint}") from None

    def _new_key(self, text: bytes, schema: pa.Schema) -> DataError:
        """The error for a key that comes after the types were guessed."""
        for number, line in enumerate(text.split(b"\n"), self._line):
            for key in json.loads(line) if line.strip() else ():
                if key not in schema.names:
                    return self._source.error(
                        f"line {number}: the key {key!r} is new, and the columns were found in the first "
                        f"{HEAD >> 20} MB; say that it is one, as in --types {key}=string"
                    )
        return self._source.error("an object in an object has a new key")


def _last_row(text: bytes) -> int:
    """Where the last whole row of a CSV text ends: a line end with an even number of quotes before it."""
    cut = len(text)
    for _ in range(1000):
        cut = text.rfind(b"\n", 0, cut)
        if cut < 0:
            break
        if text.count(b'"', 0, cut) % 2 == 0:
            return cut + 1
    return text.rfind(b"\n") + 1 or len(text)


def _line_of(text: bytes, delimiter: str, row: int) -> int | None:
    """The line in which a row begins; blank lines are no rows."""
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", "replace", newline=""), delimiter=delimiter)
    number, end = 0, 0
    try:
        for fields in lines:
            number += bool(fields)
            if number == row:
                return end + 1
            end = lines.line_num
    except csv.Error:
        pass
    return None


def _without_nulls(schema: pa.Schema) -> pa.Schema:
    """A column without a value so far as one of texts, for what comes later."""
    return pa.schema([f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in schema])


def _as_text(schema: pa.Schema) -> pa.Schema:
    def plain(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(type_):
            return pa.string()
        if pa.types.is_struct(type_):
            return pa.struct([f.with_type(plain(f.type)) for f in type_])
        return pa.list_(plain(type_.value_type)) if pa.types.is_list(type_) else type_

    return pa.schema([f.with_type(plain(f.type)) for f in schema])


__all__ = ["BLOCK", "HEAD", "CsvFile", "File", "NdjsonFile", "Reading"]
