"""Columns and their types as the command line names them: a file's, or a list with SQL types."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import pyarrow as pa

from ...errors import ArgumentError
from .reading import Input
from .source import ENDINGS, format_of

_PLAIN = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
    "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_TYPES = f"{', '.join(_PLAIN)}, decimal(p,s)"


def read_schema(text: str, argument: str) -> pa.Schema:
    """The schema of a file, or of a list of columns with their SQL types."""
    if os.path.exists(text) or (format_of(text) is not None and "," not in text):
        return Input(argument, text).schema
    return _columns(text, argument)


def read_types(texts: Sequence[str], argument: str) -> dict[str, pa.DataType]:
    """Types of columns, as in `price=decimal(10,2)`. A file's times say themselves whether they have a zone."""
    types = {}
    for text in texts:
        name, _, wanted = text.rpartition("=")
        type_ = _arrow_type(wanted)
        if not name or type_ is None:
            raise ArgumentError(f"{argument}: {text!r} is not valid; give NAME=TYPE with a type of {_TYPES}")
        types[name] = pa.timestamp("us") if wanted.strip().lower() == "timestamp" else type_
    return types


def _arrow_type(text: str) -> pa.DataType | None:
    from ...predicate.types import from_name

    type_ = from_name(text)
    if type_ is None:
        return None
    return pa.decimal128(type_.precision, type_.scale) if type_.kind == "decimal" else _PLAIN[type_.kind]


def _columns(text: str, argument: str) -> pa.Schema:
    fields = []
    for part in re.split(r",(?![^(]*\))", text):
        match = re.fullmatch(r"\s*(?:`([^`]+)`|(\S+))\s+(.+?)\s*", part)
        type_ = _arrow_type(match[3]) if match else None
        if match is None or type_ is None:
            raise ArgumentError(
                f"{argument}: cannot read {part.strip()!r} as a column with its type; give a list such as "
                f"'ts timestamp, price double' (types: {_TYPES}), or the path of a file that ends in "
                f"{', '.join(ENDINGS)}"
            )
        fields.append((match[1] or match[2], type_))
    return pa.schema(fields)
