"""What travels between the steps: Arrow tables packed into single values, so that Spark moves blobs and not rows.

A message is one row of a DataFrame. Every worker gets a message about every chunk of a partition. So every worker knows
how far both streams have come and, where the merged order counts, every tuple's timestamp. The rows themselves go only
to the workers that need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from ..arrays import Integers
from ..side import Side

_FIELDS: list[tuple[str, str, pa.DataType]] = [
    ("worker", "int", pa.int32()),
    ("side", "string", pa.string()),
    ("partition", "int", pa.int32()),
    ("chunk", "int", pa.int32()),
    ("rows", "bigint", pa.int64()),
    ("latest", "bigint", pa.int64()),
    ("times", "binary", pa.binary()),
    ("body", "binary", pa.binary()),
    ("note", "binary", pa.binary()),
]
MESSAGE = ", ".join(f"{name} {type_}" for name, type_, _ in _FIELDS)
ARROW_MESSAGE = pa.schema([(name, type_) for name, _, type_ in _FIELDS])
EVERY_WORKER = -1
POSITION, ROLE = "__streamjoin_position", "__streamjoin_role"
"""Columns that a body may have beside the stream's own: a row's position in its chunk, and its role on the worker that
gets it. Without that column, the worker stores every row and answers for it."""


class RowRole:
    """A row only probes; or it is also stored; or it is stored, and the worker also answers for it if it is late."""

    PROBING, STORED, ANSWERED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ChunkMessage:
    """`rows` counts all rows of the chunk, `latest` is their latest timestamp, and `times` has all their timestamps
    (None if order does not count, or if the body has all rows). `body` has the rows for this worker. `note` belongs to
    routing by ranges: on the way to a router a sample of the keys of a partition, whose rows are counted; the
    generations on the way to a worker."""

    side: Side
    partition: int
    chunk: int
    rows: int
    latest: int
    times: bytes | None
    body: bytes | memoryview | None
    note: bytes | None = None

    @classmethod
    def of(cls, row: Any) -> ChunkMessage:
        return cls(row.side, row.partition, row.chunk, row.rows, row.latest, row.times, row.body, row.note)

    def row(self, worker: int) -> Row:
        return Row(worker=worker, **{name: getattr(self, name) for name in self.__slots__})

    @property
    def order(self) -> tuple[int, int]:
        """Messages of a side are taken in this order, whatever order they arrive in."""
        return self.partition, self.chunk


BLOB_BYTES, SEGMENT_BYTES = 1 << 24, 1 << 27
"""About the largest size of a blob of results, and of a segment."""


def row_bytes(table: pa.Table) -> int:
    """The mean size of a row."""
    return max(table.nbytes // max(table.num_rows, 1), 1)


def to_view(table: pa.Table) -> memoryview:
    """A table as one blob for the next step. The size is computed first, so that the table is copied only once."""
    table = table.combine_chunks()
    counting = pa.MockOutputStream()
    _write(counting, table)
    buffer = pa.allocate_buffer(counting.size())
    _write(pa.FixedSizeBufferWriter(buffer), table)
    return memoryview(buffer)


def to_bytes(table: pa.Table) -> bytes:
    """A table as one blob for the state store, compressed: the store copies it several times, so smaller is faster."""
    sink = pa.BufferOutputStream()
    _write(sink, table.combine_chunks(), compression="lz4")
    return sink.getvalue().to_pybytes()


def binary_value(body: bytes | memoryview) -> pa.Array:
    """An array of one blob, which is not copied."""
    buffer = pa.py_buffer(body)
    ends = pa.py_buffer(np.array([0, buffer.size], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, buffer])


def _write(sink: pa.NativeFile, table: pa.Table, compression: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)  # all cores have tasks of their own
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)


def from_bytes(body: bytes | memoryview | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(body).read_all().combine_chunks()


def times_of(body: bytes) -> Integers:
    return np.frombuffer(body, np.int64)
