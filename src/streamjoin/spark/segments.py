"""Segments: a worker's stored rows of one side, as immutable pieces.

Each segment exists twice. Its Arrow table lies in Spark's state store and survives every failure. Its index (sealed
subwindows) and the same table lie in a memory-mapped file of the executor. So no batch rebuilds a window, whichever
Python process runs it. A missing file is made again from the state.

In the state store, the name of a segment depends only on the rows stored before it. So a micro-batch that is computed
again writes the same keys; Spark may combine a snapshot of one attempt with the changes of another. The name of a file
is never used twice. So nobody reads a file that an uncommitted attempt has left behind. A file that is not as it was
written (see `segment_files`) is made again.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from ..arrays import Integers, Mask
from ..side import Side
from ..store import Index
from . import segment_files
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


def unpacked(spec: JoinSpec, side: Side, body: bytes | memoryview) -> tuple[pa.Table, Integers, Mask | None]:
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
        """A join that has no further micro-batch needs no files."""
        if not self._keeps_files:
            return
        content = segment.table, segment.subwindows, segment.coordinate, segment.home
        segment_files.write(self.directory / name, self._label(name), content)
        if self._is_new:
            with suppress(OSError):
                claim(self.directory.parent)
                self._is_new = False

    def _read(self, name: str) -> Segment | None:
        content = segment_files.read(self.directory / name, self._label(name))
        return None if content is None else Segment(*content)

    def _label(self, name: str) -> str:
        """What a file of a segment says of itself."""
        return "/".join([*self.directory.parts[-2:], name])
