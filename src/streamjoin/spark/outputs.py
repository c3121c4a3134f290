"""What leaves a worker: packed tables of several kinds, and the worker's figures of the micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from .messages import BLOB_BYTES, row_bytes

COUNTS = (
    "left_in", "right_in", "left_late", "right_late", "out", "unmatched", "left_window", "right_window", "rows_held",
    "bytes_held",
)  # fmt: skip
_FIELDS: list[tuple[str, str, pa.DataType]] = [
    ("worker", "int", pa.int32()),
    ("kind", "string", pa.string()),
    ("body", "binary", pa.binary()),
    *((name, "bigint", pa.int64()) for name in COUNTS),
    ("seconds", "double", pa.float64()),
]
OUTPUT = ", ".join(f"{name} {type_}" for name, type_, _ in _FIELDS)
ARROW_OUTPUT = pa.schema([(name, type_) for name, _, type_ in _FIELDS])
RESULT, FILED, FIGURES = "result", "filed", "figures"
"""Kinds of output: packed results, the name of a file with them (see `handover`), and a worker's figures; packed late
rows have their side as the kind. `settle` has further kinds."""


class Output(NamedTuple):
    """A table of some kind, and the worker that it is for, or from."""

    worker: int
    kind: str
    table: pa.Table


def blobs(table: pa.Table) -> Iterator[pa.Table]:
    """A table in pieces of about the size of a blob."""
    size = max(BLOB_BYTES // row_bytes(table), 1)
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)
