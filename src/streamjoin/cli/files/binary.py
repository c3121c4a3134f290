"""Parquet and Arrow IPC, which say their types themselves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator

import pyarrow as pa

from .source import Chained, Opened, Source, explained, read_up_to

ROWS = 1 << 16
"""How many rows of a Parquet file are read at once."""


class ParquetFile:
    """A Parquet file. Its end says what is in it, so what comes through a pipe is put into a temporary file first."""

    def __init__(self, source: Source, opened: Opened) -> None:
        from pyarrow import parquet

        self._source = source
        with explained(source, "parquet"):
            if opened.seekable is not None:
                self._file = parquet.ParquetFile(opened.seekable)
            else:
                kept = tempfile.TemporaryFile()  # noqa: SIM115
                shutil.copyfileobj(opened.stream, kept, 1 << 20)
                self._file = parquet.ParquetFile(kept)
            self.schema = self._file.schema_arrow
        self.part = 0.0

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        with explained(self._source, "parquet"):
            for batch in self._file.iter_batches(ROWS):
                self.part += batch.num_rows / self._file.metadata.num_rows
                yield pa.Table.from_batches([batch])


class ArrowFile:
    """An Arrow IPC file or stream. A file that comes through a pipe is read as the stream that it holds."""

    def __init__(self, source: Source, opened: Opened) -> None:
        self._source = source
        with explained(source, "arrow"):
            magic = read_up_to(opened.stream, 8)
            if opened.seekable is not None and magic.startswith(b"ARROW1"):
                reader = pa.ipc.open_file(pa.OSFile(str(opened.seekable)))
                self._batches = map(reader.get_batch, range(reader.num_record_batches))
                self._step = 1 / max(reader.num_record_batches, 1)
            else:
                rest = Chained(b"" if magic.startswith(b"ARROW1") else magic, opened.stream)
                reader = pa.ipc.open_stream(pa.PythonFile(rest, "r"))
                self._batches, self._step = iter(reader), 0.0
            self.schema = reader.schema
        self.part = 0.0

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        with explained(self._source, "arrow"):
            for batch in self._batches:
                self.part += self._step
                yield pa.Table.from_batches([batch])
