"""From a worker to `unpack`: results are handed over in files, and Spark carries only the files' names.

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
from .messages import from_bytes, to_view, write_stream
from .outputs import FILED, RESULT
from .spec import JoinSpec

WORTH_A_FILE = 1 << 17
"""Bytes of results from which on a file takes less time than a blob."""


class Handover:
    """Packs the tables of one worker."""

    def __init__(self, spec: JoinSpec) -> None:
        self._directory: Path | None = None
        if not spec.has_settling:
            self._directory = local_directory() / f"streamjoin-{spec.identity}" / "results"
            _remove_left_behind(self._directory)

    def packed(self, kind: str, table: pa.Table) -> tuple[str, bytes | memoryview]:
        """The kind and the body of an output with this table."""
        if kind == RESULT and self._directory is not None and table.nbytes >= WORTH_A_FILE:
            name = _written(self._directory, table)
            if name is not None:
                return FILED, os.fsencode(name)
        return kind, to_view(table)


def unpacked(kind: str, body: pa.Buffer) -> tuple[str, pa.Table]:
    """The kind and the table of an output: what `packed` was given. A file is removed."""
    if kind != FILED:
        return kind, from_bytes(body)
    name = os.fsdecode(body.to_pybytes())
    with pa.memory_map(name) as file:
        table = from_bytes(file)
    remove(name)
    return RESULT, table


def _written(directory: Path, table: pa.Table) -> str | None:
    """The name of a new file with the table, if it can be written."""
    name = None
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=directory)
        os.close(handle)
        with pa.OSFile(name, "wb") as file:
            write_stream(file, table)
    except OSError:
        if name is not None:
            remove(name)
        return None
    return name


def _remove_left_behind(directory: Path) -> None:
    """Remove the files of tasks that ended before they were read."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.stat().st_mtime < time.time() - ABANDONED:
                remove(entry.path)
