"""Reading schemas and tables that the command line names, and writing tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

FILES = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv"}
COLUMNS_HELP = 'its columns, as in "ts timestamp, price double", or a parquet, arrow or csv file that has them'


def read_schema(text: str, argument: str) -> pa.Schema:
    """The schema of a file, or of a list of columns with their SQL types."""
    kind = FILES.get(Path(text).suffix.lower())
    if kind is None or ("," in text and not Path(text).exists()):
        return _columns(text, argument)
    import pyarrow as pa

    try:
        if kind == "parquet":
            from pyarrow import parquet

            return parquet.read_schema(text)
        if kind == "csv":
            from pyarrow import csv

            with csv.open_csv(text) as reader:
                return reader.schema
        try:
            with pa.OSFile(text) as file:
                return pa.ipc.open_file(file).schema
        except pa.ArrowInvalid:
            with pa.OSFile(text) as file:
                return pa.ipc.open_stream(file).schema
    except (OSError, pa.ArrowException) as error:
        raise ArgumentError(f"{argument}: cannot read {text!r} as {kind}: {error}") from None


def _columns(text: str, argument: str) -> pa.Schema:
    import pyarrow as pa

    from ..predicate.types import Type, from_name

    plain = {
        "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
        "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
        "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
    }  # fmt: skip

    def arrow(type_: Type) -> pa.DataType:
        return pa.decimal128(type_.precision, type_.scale) if type_.kind == "decimal" else plain[type_.kind]

    fields = []
    for part in re.split(r",(?![^(]*\))", text):
        match = re.fullmatch(r"\s*(?:`([^`]+)`|(\S+))\s+(.+?)\s*", part)
        type_ = from_name(match[3]) if match else None
        if match is None or type_ is None:
            raise ArgumentError(
                f"{argument}: cannot read {part.strip()!r} as a column with its type; give a list such as "
                f"'ts timestamp, price double' (types: {', '.join(plain)}, decimal(p,s)), or the path of a "
                f"{', '.join(sorted(FILES))} file"
            )
        fields.append((match[1] or match[2], arrow(type_)))
    return pa.schema(fields)


def file_kind(text: str, argument: str) -> str:
    """The format that a file's name says; ArgumentError names the argument."""
    kind = FILES.get(Path(text).suffix.lower())
    if kind is None:
        raise ArgumentError(f"{argument}: {text!r} has no known format; it must end in {', '.join(sorted(FILES))}")
    return kind


def read_table(text: str, argument: str) -> pa.Table:
    """A file as a table."""
    import pyarrow as pa

    kind = file_kind(text, argument)
    try:
        if kind == "parquet":
            from pyarrow import parquet

            return parquet.read_table(text)
        if kind == "csv":
            from pyarrow import csv

            return csv.read_csv(text)
        try:
            with pa.OSFile(text) as file:
                return pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            with pa.OSFile(text) as file:
                return pa.ipc.open_stream(file).read_all()
    except (OSError, pa.ArrowException) as error:
        raise ArgumentError(f"{argument}: cannot read {text!r} as {kind}: {error}") from None


def write_table(table: pa.Table, file: Path) -> None:
    """A table as a file, in the format that its name says."""
    import pyarrow as pa

    kind = file_kind(str(file), "--out")
    try:
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, file)
        elif kind == "csv":
            from pyarrow import csv

            csv.write_csv(table, file)
        else:
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    except (OSError, pa.ArrowException) as error:
        raise ArgumentError(f"--out: cannot write {str(file)!r} as {kind}: {error}") from None
