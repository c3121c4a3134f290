"""Segments: a worker's stored rows of one side, as immutable pieces.

Each segment exists twice. Its Arrow table lies in Spark's state store and survives every failure. Its index (sealed
subwindows) and the same table lie in a memory-mapped file of the executor. So no batch rebuilds a window, whichever
Python process runs it. A missing file is made again from the state.

In the state store, the name of a segment depends only on the rows stored before it. So a micro-batch that is computed
again writes the same keys; Spark may combine a snapshot of one attempt with the changes of another. The name of a file
is never used twice. So nobody reads a file that an uncommitted attempt has left behind.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ..arrays import Integers, Mask
from ..side import Side
from ..store import Index
from .cache_directories import claim, directory_of, sweep
from .local_files import local_directory, remove
from .messages import from_bytes, to_bytes
from .narrow import narrowed, widened
from .spec import JoinSpec

COORDINATE, HOME = "__streamjoin_coordinate", "__streamjoin_home"
WORKERS_KEPT = 4
"""A process keeps in memory the segments of so many workers, those that it ran last."""
LEFT_BEHIND = 600
"""Seconds after which a file is removed that no state names."""


@dataclass(slots=True)
class Segment:
    """Rows with their columns, and the subwindows that find them by their row numbers.

    Where rows of the side may be reported alone, they are sorted by coordinate, and some may be in no subwindow: those
    that can match nothing. `home` says for which rows this worker answers; None: for all.
    """

    table: pa.Table
    subwindows: list[Index]
    coordinate: Integers | None = None
    home: Mask | None = None


def new_file() -> str:
    return uuid.uuid4().hex


def packed(spec: JoinSpec, table: pa.Table, coordinate: Integers, home: Mask | None) -> bytes:
    """A segment's rows as they lie in the state store. Where order does not count, the times are the coordinates."""
    if spec.options.needs_order:
        table = table.append_column(COORDINATE, pa.array(coordinate))
    if home is not None:
        table = table.append_column(HOME, pa.array(home))
    return to_bytes(narrowed(table))


def unpacked(spec: JoinSpec, side: Side, body: bytes) -> tuple[pa.Table, Integers, Mask | None]:
    table = widened(from_bytes(body))
    home = table.column(HOME).to_numpy() if HOME in table.column_names else None
    coordinate = table.column(COORDINATE).to_numpy() if spec.options.needs_order else None
    table = table.select(spec.schemas[side].names)
    return table, spec.times(side, table) if coordinate is None else coordinate, home


class Cache:
    """The segments of one worker of one join, in the memory of this process and in files of this executor."""

    loaded: ClassVar[OrderedDict[tuple[str, str], dict[str, Segment]]] = OrderedDict()
    """By join and worker, the segments in memory."""
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, join: str, worker: str, directory: str | None = None, *, keeps_files: bool = True,
        ended: Sequence[str] = (),
    ) -> None:  # fmt: skip
        root = Path(directory) if directory else local_directory()
        self.directory = directory_of(root, join) / worker
        self._keeps_files = keeps_files
        with Cache._lock:
            self._is_new = (join, worker) not in Cache.loaded
            if self._is_new:
                with suppress(OSError):  # there is none yet
                    claim(self.directory.parent)
                sweep(root, ended)
            self._segments = Cache.loaded.setdefault((join, worker), {})
            Cache.loaded.move_to_end((join, worker))
            while len(Cache.loaded) > WORKERS_KEPT:
                Cache.loaded.popitem(last=False)

    def get(self, name: str, rebuild: Callable[[], Segment]) -> Segment:
        """A segment from memory, else from its file, else made again."""
        segment = self._segments.get(name)
        if segment is None:
            segment = self._read(name)
        if segment is None:
            segment = rebuild()
            self._write(name, segment)
        self._segments[name] = segment
        return segment

    def put(self, name: str, segment: Segment) -> None:
        self._segments[name] = segment
        self._write(name, segment)

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all other segments, and remove their files once they are old.

        Such a file was left behind by an uncommitted attempt; a young one may belong to an attempt that still runs.
        """
        kept = set(names)
        for gone in [name for name in self._segments if name not in kept]:
            del self._segments[gone]
        try:
            with os.scandir(self.directory) as entries:
                old = [e.path for e in entries if e.name not in kept and e.stat().st_mtime < time.time() - LEFT_BEHIND]
        except OSError:
            return
        for path in old:
            remove(path)

    def drop(self, names: Iterable[str]) -> None:
        """Remove segments that have expired. If the batch is repeated, their files are made again."""
        for name in names:
            self._segments.pop(name, None)
            remove(self.directory / name)

    def _write(self, name: str, segment: Segment) -> None:
        """Write the file, if possible: the join also works without files, only slower. A join that has no further
        micro-batch needs none."""
        if not self._keeps_files:
            return
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(
            (segment.table, segment.subwindows, segment.coordinate, segment.home),
            protocol=5, buffer_callback=buffers.append,
        )  # fmt: skip
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_new:
                claim(self.directory.parent)
                self._is_new = False
            handle, temporary = tempfile.mkstemp(dir=self.directory, prefix=".")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                _write_parts(file, [memoryview(body), *(buffer.raw() for buffer in buffers)])
            os.replace(temporary, self.directory / name)
        except OSError:
            remove(temporary)

    def _read(self, name: str) -> Segment | None:
        try:
            if self.directory.stat().st_uid != os.getuid():
                return None
            with open(self.directory / name, "rb") as file:
                # Private pages are shared with other processes until somebody writes to them, and nobody does.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            body, *buffers = _read_parts(memoryview(mapped))
            return Segment(*pickle.loads(body, buffers=buffers))
        except Exception:  # whatever a damaged file causes, the segment is made again
            return None


_ALIGNMENT = 64


def _write_parts(file: Any, parts: Sequence[memoryview]) -> None:
    """The number of parts, their sizes, then each at a multiple of 64 bytes."""
    sizes = [part.nbytes for part in parts]
    head = b"".join(value.to_bytes(8, "little") for value in (len(sizes), *sizes))
    at = file.write(head)
    for part in parts:
        at += file.write(b"\0" * (-at % _ALIGNMENT))
        at += file.write(part)


def _read_parts(content: memoryview) -> list[memoryview]:
    def number(place: int) -> int:
        return int.from_bytes(content[8 * place : 8 * place + 8], "little")

    count = number(0)
    if 8 * (1 + count) > len(content):
        raise ValueError("the file is cut off")
    sizes = [number(1 + k) for k in range(count)]
    parts, at = [], 8 * (1 + count)
    for size in sizes:
        at += -at % _ALIGNMENT
        if at + size > len(content):
            raise ValueError("the file is cut off")
        parts.append(content[at : at + size])
        at += size
    return parts
