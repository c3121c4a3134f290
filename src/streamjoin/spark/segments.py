"""Segments: a worker's stored rows of one side, as immutable pieces.

Each segment exists twice. Its Arrow table in Spark's state store is the truth, and survives whatever happens. Its index
(sealed subwindows) and the same table lie in files of the executor, memory-mapped, so that no batch rebuilds a window,
whichever Python process runs it. A file that is missing is made again from the state.

In the state store a segment has a name that follows from the history, so that a micro-batch which is computed again
writes the same keys: Spark may put a snapshot of one attempt and the changes of another together. Its file has a name
that is never used twice, so that one left behind by an attempt that was not committed is never read.
"""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ..arrays import Integers
from ..side import Side
from ..store import Index
from .messages import from_bytes, to_bytes
from .spec import JoinSpec

COORDINATE = "__streamjoin_coordinate"
REMEMBERED = 4
LEFT_BEHIND, ABANDONED = 600, 86_400
"""Seconds after which a file that no state speaks of is removed, and the whole directory of a join."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the worker remembers of a segment: its name in the state store and that of its file, rows
    [first, first + rows) of its side, none with a coordinate above `highest`, stored under one generation of splitters
    (see `ranges`)."""

    name: str
    file: str
    first: int
    rows: int
    nbytes: int
    highest: int
    generation: int = 0


@dataclass(slots=True)
class Segment:
    """Rows with their columns, and the subwindows that find them by their row numbers."""

    table: pa.Table
    subwindows: list[Index]


def new_file() -> str:
    return uuid.uuid4().hex


def packed(spec: JoinSpec, table: pa.Table, coordinate: Integers) -> bytes:
    """A segment's rows as they are kept in the state store; where no order counts, times are coordinates."""
    return to_bytes(table.append_column(COORDINATE, pa.array(coordinate)) if spec.options.needs_order else table)


def unpacked(spec: JoinSpec, side: Side, body: bytes) -> tuple[pa.Table, Integers]:
    table = from_bytes(body)
    if not spec.options.needs_order:
        return table, spec.times(side, table)
    coordinate = table.column(COORDINATE).to_numpy()
    return table.drop_columns([COORDINATE]), coordinate


class Cache:
    """The segments of one worker of one join, in this process and in files of this executor.

    A process remembers the segments of the workers that it ran last.
    """

    _loaded: ClassVar[OrderedDict[tuple[str, str], dict[str, Segment]]] = OrderedDict()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, join: str, worker: str, directory: str | None = None) -> None:
        root = Path(directory) if directory else _local_directory()
        self.directory = root / f"streamjoin-{join}" / worker
        with Cache._lock:
            if (join, worker) not in Cache._loaded:
                _remove_abandoned(root)
            self._held = Cache._loaded.setdefault((join, worker), {})
            Cache._loaded.move_to_end((join, worker))
            while len(Cache._loaded) > REMEMBERED:
                Cache._loaded.popitem(last=False)

    def get(self, name: str, rebuild: Callable[[], Segment]) -> Segment:
        """A segment from memory, else from its file, else made again."""
        held = self._held.get(name)
        if held is None:
            held = self._read(name)
        if held is None:
            held = rebuild()
            self._write(name, held)
        self._held[name] = held
        return held

    def put(self, name: str, segment: Segment) -> None:
        self._held[name] = segment
        self._write(name, segment)

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all other segments. Files that attempts have left behind which were not committed go with time: a
        young one may belong to an attempt that is still running."""
        kept = set(names)
        for gone in [name for name in self._held if name not in kept]:
            del self._held[gone]
        try:
            with os.scandir(self.directory) as entries:
                old = [e.path for e in entries if e.name not in kept and e.stat().st_mtime < time.time() - LEFT_BEHIND]
        except OSError:
            return
        for path in old:
            _remove(path)

    def drop(self, names: Iterable[str]) -> None:
        """These segments have expired. Should the batch be repeated, their files are made again."""
        for name in names:
            self._held.pop(name, None)
            _remove(self.directory / name)

    def _write(self, name: str, segment: Segment) -> None:
        """Files are a convenience: where they cannot be written, the join goes on without them."""
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps((segment.table, segment.subwindows), protocol=5, buffer_callback=buffers.append)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.directory, prefix=".")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                _write_parts(file, [memoryview(body), *(buffer.raw() for buffer in buffers)])
            os.replace(temporary, self.directory / name)
        except OSError:
            _remove(temporary)

    def _read(self, name: str) -> Segment | None:
        try:
            if self.directory.stat().st_uid != os.getuid():
                return None
            with open(self.directory / name, "rb") as file:
                # Private pages: shared with every other process until somebody writes, which nobody does.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            body, *buffers = _read_parts(memoryview(mapped))
            return Segment(*pickle.loads(body, buffers=buffers))
        except Exception:  # whatever a damaged file leads to: the segment is made again
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


def _remove(path: str | Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def _remove_abandoned(root: Path) -> None:
    """Remove what joins have left behind in which nothing has happened for long; should one go on, it is made again."""
    for directory in root.glob("streamjoin-*/"):
        try:
            last = max(path.stat().st_mtime for path in (directory, *directory.glob("*/")))
        except OSError:
            continue
        if last < time.time() - ABANDONED:
            shutil.rmtree(directory, ignore_errors=True)


def _local_directory() -> Path:
    """Where Spark keeps an executor's files, and removes them when it ends."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(local if local and os.path.isdir(local) else tempfile.gettempdir())
