"""Writing results batch by batch.

Invariant: a file has its name only once it is whole. Until then it is a hidden file beside it, which goes away if
anything goes wrong.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ...arrow.tables import decoded, takeable, takeable_type
from ...errors import ArgumentError
from .source import CODECS, ENDINGS, PIPE, Source, format_of

ROW_GROUP = 1 << 18
"""Rows of a Parquet row group."""


class Writer(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class Output:
    """Where results go: checked before there are any."""

    def __init__(self, argument: str, path: str, format_: str | None = None) -> None:
        self.argument, self.path = argument, path
        if os.path.isdir(path):
            raise ArgumentError(f"{argument}: {path!r} is a directory; give the name of a file in it")
        known = format_ or ("csv" if path == PIPE else format_of(path))
        if known is None:
            raise ArgumentError(
                f"{argument}: {path!r} has no known ending; it must end in {', '.join(ENDINGS)} (text also with "
                f"{', '.join(CODECS)}), or say what to write, as in --output-format csv"
            )
        self.format = known
        if path == PIPE:
            if sys.stdout.isatty() and self.format in ("parquet", "arrow"):
                raise ArgumentError(f"{argument}: {self.format} is not for a terminal; send it to a file or a pipe")
            return
        folder = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(folder):
            raise ArgumentError(f"{argument}: there is no directory {folder!r} for {path!r}; make it first")

    def check_not_read(self, sources: list[Source]) -> None:
        """Refuse a file that is also an input."""
        if self.path == PIPE or not os.path.exists(self.path):
            return
        for source in sources:
            if source.size is not None and os.path.samefile(source.path, self.path):
                raise ArgumentError(
                    f"{self.argument}: {self.path!r} is also an input ({source.argument}); give another"
                )

    @contextmanager
    def opened(self, schema: pa.Schema) -> Iterator[Writer]:
        """A writer; the file gets its name when all is written."""
        if self.path == PIPE:
            with self._writer(sys.stdout.buffer, schema) as writer:
                yield writer
            sys.stdout.buffer.flush()
            return
        final = Path(os.path.realpath(self.path))
        if final.exists() and not stat.S_ISREG(final.stat().st_mode):  # such as /dev/null or a named pipe
            with open(final, "wb") as file, self._writer(file, schema) as writer:
                yield writer
            return
        part = final.with_name(f".{final.name}.{os.getpid()}.part")
        try:
            with self._explained():
                file = open(part, "wb")  # noqa: SIM115
            if final.exists():  # whoever may not read the old file may not read the new one
                os.fchmod(file.fileno(), stat.S_IMODE(final.stat().st_mode))
            with file, self._writer(file, schema) as writer:
                yield writer
            os.replace(part, final)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise

    @contextmanager
    def _writer(self, file: Any, schema: pa.Schema) -> Iterator[Writer]:
        bare, ending = os.path.splitext(self.path.lower())
        codec = CODECS.get(ending) if self.format in ("csv", "ndjson") else None
        is_tsv = self.format == "csv" and (os.path.splitext(bare)[1] if codec else ending) == ".tsv"
        sink = pa.PythonFile(file, "w")
        out = pa.CompressedOutputStream(sink, codec) if codec else sink
        with self._explained():
            writer = _Csv(out, schema, "\t") if is_tsv else _WRITERS[self.format](out, schema, self.path == PIPE)
        try:
            yield _Explained(writer, self._explained)
        except BaseException:
            with suppress(Exception):  # while the file is still open
                writer.close()
            raise
        with self._explained():
            writer.close()
            if codec:
                out.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise ArgumentError(
                f"{self.argument}: {self.path!r} cannot be written as {self.format}: {reason}"
            ) from None


class _Explained:
    """A writer whose errors name the output."""

    def __init__(self, writer: Writer, explained: Callable[[], Any]) -> None:
        self._writer, self._explained = writer, explained

    def write(self, table: pa.Table) -> None:
        with self._explained():
            self._writer.write(table)

    def close(self) -> None:
        self._writer.close()


class _Parquet:
    """Results come in pieces of any size, and become row groups of many rows."""

    def __init__(self, out: Any, schema: pa.Schema, is_pipe: bool) -> None:
        from pyarrow import parquet

        self._schema, self._pieces, self._rows = schema, [schema.empty_table()], 0
        self._writer = parquet.ParquetWriter(out, schema)

    def write(self, table: pa.Table) -> None:
        self._pieces.append(table)
        self._rows += table.num_rows
        if self._rows >= ROW_GROUP:
            self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.concat_tables(self._pieces), ROW_GROUP)
        self._pieces, self._rows = [self._schema.empty_table()], 0


class _Arrow:
    """A file; a pipe takes a stream. Texts with a dictionary are written out: a file can have only one of each."""

    def __init__(self, out: Any, schema: pa.Schema, is_pipe: bool) -> None:
        plain = [f.with_type(_decoded_type(f.type)) if pa.types.is_dictionary(f.type) else f for f in schema]
        self._writer = (pa.ipc.new_stream if is_pipe else pa.ipc.new_file)(out, pa.schema(plain))

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(pa.table([decoded(column) for column in table.columns], names=table.column_names))

    def close(self) -> None:
        self._writer.close()


class _Csv:
    """Text of what Arrow can write as such; names are quoted only where they must be."""

    def __init__(self, out: Any, schema: pa.Schema, delimiter: str = ",") -> None:
        from pyarrow import csv as arrow_csv

        plain = pa.schema([field.with_type(_decoded_type(field.type)) for field in schema])
        for field in plain:
            if pa.types.is_nested(field.type):
                raise pa.ArrowInvalid(f"column {field.name!r} is {field.type}; parquet, arrow and ndjson can hold that")
        header = io.StringIO()
        csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
        out.write(header.getvalue().encode())
        options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="needed")
        self._writer = arrow_csv.CSVWriter(out, plain, write_options=options)

    def write(self, table: pa.Table) -> None:
        plain = takeable(table)
        self._writer.write_table(pa.table([decoded(column) for column in plain.columns], names=plain.column_names))

    def close(self) -> None:
        self._writer.close()


class _Ndjson:
    """One object per line. NaN and infinity, which JSON has not, become null."""

    def __init__(self, out: Any, schema: pa.Schema, is_pipe: bool) -> None:
        self._out = out

    def write(self, table: pa.Table) -> None:
        columns = {
            name: _plain(decoded(takeable(table.select([i])).column(0))) for i, name in enumerate(table.schema.names)
        }
        for start in range(0, table.num_rows, 1 << 14):
            rows = pa.table(columns).slice(start, 1 << 14).to_pylist()
            self._out.write("".join(f"{json.dumps(row, ensure_ascii=False, default=_text)}\n" for row in rows).encode())

    def close(self) -> None:
        pass


def _decoded_type(type_: pa.DataType) -> pa.DataType:
    return takeable_type(type_.value_type) if pa.types.is_dictionary(type_) else takeable_type(type_)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as JSON has it: moments as texts, floats that are no numbers as NULL."""
    if pa.types.is_timestamp(column.type):
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return column


def _text(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value)


_WRITERS: dict[str, Callable[[Any, pa.Schema, bool], Writer]] = {
    "parquet": _Parquet,
    "arrow": _Arrow,
    "csv": lambda out, schema, is_pipe: _Csv(out, schema),
    "ndjson": _Ndjson,
}
