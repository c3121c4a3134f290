"""From a worker to `unpack`: results are handed over in a file, and Spark carries only the file's name.

Both run in one task, one after the other, unless rows are settled between them. So they see the same local files.
Spark would copy each blob eight times on its way from one Python process to the other. A file is written once, and
read where it lies. Its name is never used twice, and whoever reads it removes it: so a task that is computed again
writes files of its own. Small results, and those for which there is no room on the disk, travel as blobs.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from .local_files import ABANDONED, local_directory, remove
from .spec import JoinSpec

PREFIX = "streamjoin-results-"
WORTH_A_FILE = 1 << 14
"""Bytes of results from which on a file takes less time than a blob."""


class Handover:
    """Takes one worker's results of one micro-batch. `name` is that of the file, once there is one.

    Invariant: the first `_complete` bytes of the file have all tables that were taken. Where the next one could not be
    written, the rest is cut off.
    """

    def __init__(self, spec: JoinSpec) -> None:
        self.name: str | None = None
        self._file: pa.NativeFile | None = None
        self._writer: pa.RecordBatchWriter | None = None
        self._complete = 0
        self._directory: Path | None = None
        if not spec.has_settling:
            self._directory = local_directory()
            _remove_left_behind(self._directory)

    def takes(self, table: pa.Table) -> bool:
        """Take a table; False: it must travel as a blob. All have the same columns."""
        if self._directory is None or (self.name is None and table.nbytes < WORTH_A_FILE):
            return False
        try:
            if self._writer is None:
                self._open(self._directory, table.schema)
            self._write(table)
        except OSError:
            self._directory = None
            self.close()
            if self.name is not None:
                os.truncate(self.name, self._complete)
            return False
        return True

    def close(self) -> None:
        """Complete the file."""
        for part in (self._writer, self._file):
            with suppress(OSError):  # the tables need no end mark
                if part is not None:
                    part.close()
        self._writer = self._file = None

    def discard(self) -> None:
        """Leave no file: the task fails."""
        self.close()
        if self.name is not None:
            remove(self.name)

    def _open(self, directory: Path, schema: pa.Schema) -> None:
        handle, name = tempfile.mkstemp(dir=directory, prefix=PREFIX)
        os.close(handle)
        try:
            self._file = pa.OSFile(name, "wb")
            self._writer = pa.ipc.new_stream(self._file, schema)
        except OSError:
            remove(name)
            raise
        self.name, self._complete = name, self._file.tell()

    def _write(self, table: pa.Table) -> None:
        assert self._writer is not None
        assert self._file is not None
        self._writer.write_table(table)
        self._complete = self._file.tell()


def handed_over(name: str) -> pa.Table:
    """The tables in a file, which is removed."""
    with pa.memory_map(name) as file:
        table = pa.ipc.open_stream(file).read_all()
    remove(name)
    return table


def _remove_left_behind(directory: Path) -> None:
    """Remove the files of tasks that ended before they were read."""
    for path in directory.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - ABANDONED:
                remove(path)
