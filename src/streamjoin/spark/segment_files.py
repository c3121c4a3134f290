"""Segments as files of the executor: rows as Arrow, arrays as they are, and the subwindows that find the rows.

A file begins with its version, its length and a checksum, and says which segment it is of. It is believed only if all
of this fits, and if it belongs to this user and nobody else may write to it. Subwindows are objects of many classes
that share arrays: they are pickled, and what reads them makes objects of the store's and the predicate's classes only.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Mask
from ..store import Index
from .messages import from_bytes, to_view
from .pickled_state import ARRAYS, RestrictedLoad
from .private_directory import check_private, made_private, open_private

MAGIC, VERSION = b"\xf5SF", 1
_HEAD = Struct("<3sBIQ")
_ALIGNMENT = 64
Content = tuple[pa.Table, list[Index], Integers | None, Mask | None]


def write(path: Path, label: str, content: Content) -> None:
    """Write a file, if possible: the join also works without files, only slower."""
    table, subwindows, coordinate, home = content
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(subwindows, protocol=5, buffer_callback=buffers.append)
    plain = [_view(coordinate), _view(home)]
    parts = [memoryview(label.encode()), to_view(table), *plain, memoryview(body), *(b.raw() for b in buffers)]
    pieces = list(_laid_out(parts))
    length = checksum = 0
    for piece in pieces:
        length, checksum = length + piece.nbytes, zlib.crc32(piece, checksum)
    temporary = None
    try:
        made_private(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        with os.fdopen(handle, "wb") as file:
            file.write(_HEAD.pack(MAGIC, VERSION, checksum, length))
            for piece in pieces:
                file.write(piece)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def read(path: Path, label: str) -> Content | None:
    """What was written under this name and label; None if it is not there, or is not as it was written."""
    check_private(path.parent)
    try:
        with open(open_private(path), "rb") as file:
            # Private pages are shared with other processes until somebody writes to them, and nobody does.
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        magic, version, checksum, length = _HEAD.unpack_from(content)
        content = content[_HEAD.size :]
        if (magic, version, length) != (MAGIC, VERSION, len(content)) or zlib.crc32(content) != checksum:
            return None
        own, table, coordinate, home, body, *buffers = _parts(content)
        if bytes(own) != label.encode():
            return None
        subwindows = _Load(io.BytesIO(body), buffers=buffers).load()
        return from_bytes(table), subwindows, _array(coordinate, np.int64), _array(home, np.bool_)
    except Exception:  # whatever a damaged file causes, the segment is made again
        return None


class _Load(RestrictedLoad):
    def allows(self, module: str, name: str) -> bool:
        """Classes of the store and of predicates: when they are made, they keep what they are given, and do no more."""
        if (module, name) in ARRAYS or (module, name) == ("streamjoin.tasks", "one_after_another"):
            return True
        if not module.startswith(("streamjoin.store.", "streamjoin.predicate.")) or "." in name:
            return False
        found = getattr(sys.modules.get(module), name, None)
        return isinstance(found, type) and found.__module__ == module


def _view(array: Any) -> memoryview:
    return memoryview(b"") if array is None else memoryview(np.ascontiguousarray(array).view(np.uint8).data)


def _array(part: memoryview, dtype: Any) -> Any:
    """No segment is empty, so nothing means None."""
    return np.frombuffer(part, dtype) if len(part) else None


def _laid_out(parts: Sequence[memoryview]) -> Iterator[memoryview]:
    """The number of parts, their sizes, then each at a multiple of 64 bytes, counted with the head of the file."""
    sizes = [part.nbytes for part in parts]
    yield memoryview(b"".join(value.to_bytes(8, "little") for value in (len(sizes), *sizes)))
    at = _HEAD.size + 8 * (1 + len(sizes))
    for part in parts:
        yield memoryview(b"\0" * (-at % _ALIGNMENT))
        yield part.cast("B") if part.nbytes else memoryview(b"")
        at += -at % _ALIGNMENT + part.nbytes


def _parts(content: memoryview) -> Iterator[memoryview]:
    def number(place: int) -> int:
        return int.from_bytes(content[8 * place : 8 * place + 8], "little")

    count = number(0)
    at = _HEAD.size + 8 * (1 + count)
    for place in range(count):
        at += -at % _ALIGNMENT
        size = number(1 + place)
        yield content[at - _HEAD.size : at - _HEAD.size + size]
        at += size
