"""Where bytes come from: files, found by name, glob or directory, and pipes.

Invariant: a source is opened once for what it begins with and for the rest, so a pipe works where a file does.
"""

from __future__ import annotations

import difflib
import glob
import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, DataError

ENDINGS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".arrow": "arrow", ".arrows": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson",
}  # fmt: skip
FORMATS = ("parquet", "csv", "arrow", "ndjson")
CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
PIPE = "-"
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_CODEC_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh91AY&SY": "bz2"}
_LOOKED_AT = 64


class Chained(io.RawIOBase):
    """Bytes that were read already, then the rest of their stream. `taken` counts what has been read."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = memoryview(head), rest
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer))
        self._head = self._head[len(piece) :] if self._head else self._head
        buffer[: len(piece)] = piece
        self.taken += len(piece)
        return len(piece)

    def read(self, size: int = -1) -> bytes:
        """As many bytes as are asked for, unless the end comes before: Arrow takes less for the end."""
        if size is None or size < 0:
            return self.readall()
        pieces = []
        while size and (piece := super().read(size)):
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._rest.close()


def read_up_to(stream: Any, size: int) -> bytes:
    """So many bytes of a stream, or all that it has; a pipe gives a few at a time."""
    pieces, missing = [], size
    while missing and (piece := stream.read(missing)):
        pieces.append(bytes(piece))
        missing -= len(piece)
    return b"".join(pieces)


@dataclass(frozen=True)
class Opened:
    """A source's bytes, without their compression."""

    stream: Any
    raw: Chained
    format: str
    seekable: Path | None
    """The file itself, if it can be read at any place."""


@dataclass(frozen=True)
class Source:
    """One file, or a pipe. `size` is None where it is not known."""

    argument: str
    path: str
    size: int | None

    @property
    def name(self) -> str:
        return "standard input" if self.path == PIPE else self.path

    def error(self, message: object) -> DataError:
        return DataError(f"{self.argument}: {self.name}: {message}")

    def open(self, format_: str | None) -> Opened:
        """Its bytes, and its format. `format_` is for what neither begins nor ends with something that says it."""
        import pyarrow as pa

        try:
            file: Any = sys.stdin.buffer if self.path == PIPE else open(self.path, "rb", buffering=0)  # noqa: SIM115
            head = read_up_to(file, _LOOKED_AT)
            raw = Chained(head, file)
            codec = next((codec for magic, codec in _CODEC_MAGIC.items() if head.startswith(magic)), None)
            stream: Any = raw
            if codec is not None:
                unpacked = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)
                head = read_up_to(unpacked, _LOOKED_AT)
                stream = Chained(head, unpacked)
        except (OSError, pa.ArrowException) as error:
            raise self.error(_plain(error)) from None
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self.error("it is UTF-16 text; save it as UTF-8, or pipe it through `iconv -f UTF-16 -t UTF-8`")
        chosen = self._format(head, format_)
        return Opened(stream, raw, chosen, Path(self.path) if codec is None and self.size is not None else None)

    def _format(self, head: bytes, given: str | None) -> str:
        for magic, format_ in _MAGIC.items():
            if head.startswith(magic):
                return format_
        if (known := format_of(self.path)) is not None:
            return known
        if given is not None:
            return given
        if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
            return "ndjson"
        if self.size is None:
            return "csv"
        raise ArgumentError(
            f"{self.argument}: {self.path!r} has no known ending; say what it is, as in --format csv, or rename it to "
            f"end in {', '.join(ENDINGS)} (text also with {', '.join(CODECS)})"
        )


def format_of(path: str) -> str | None:
    """The format that a file's name says."""
    bare, ending = os.path.splitext(path.lower())
    return ENDINGS.get(os.path.splitext(bare)[1] if ending in CODECS else ending)


def find(argument: str, text: str) -> list[Source]:
    """The files that a name, glob or directory stands for, in the order of their names; numbers count as such."""
    if text == PIPE:
        return [Source(argument, PIPE, None)]
    if os.path.isdir(text):
        paths = _inside(text)
        if not paths:
            raise ArgumentError(f"{argument}: the directory {text!r} has no file that ends in {', '.join(ENDINGS)}")
    elif not os.path.lexists(text) and glob.has_magic(text):
        paths = [p for found in glob.glob(text, recursive=True) for p in (_inside(found) or [found])]
        paths = [path for path in paths if os.path.isfile(path)]
        if not paths:
            raise ArgumentError(f"{argument}: no file matches {text!r}")
    elif "://" in text:
        raise ArgumentError(f"{argument}: {text!r} is an address, and only local files are read; pipe it in as -")
    else:
        return [_source(argument, text)]
    sources = [_source(argument, path) for path in sorted(set(paths), key=_by_number)]
    return [source for source in sources if source.size] or sources[:1]  # Spark writes empty files beside full ones


def _inside(directory: str) -> list[str]:
    """The data files of a directory and those below it, as a table that Spark or Hive has written."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(folder, n) for n in names if not n.startswith((".", "_")) and format_of(n)]
    return found


def _source(argument: str, path: str) -> Source:
    try:
        status = os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            raise ArgumentError(f"{argument}: {path!r} cannot be read: {_plain(error)}") from None
        folder, name = os.path.split(path)
        beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        close = difflib.get_close_matches(name, beside, n=1)
        hint = f" (did you mean {os.path.join(folder, close[0])!r}?)" if close else ""
        raise ArgumentError(f"{argument}: there is no file {path!r}{hint}") from None
    is_file = stat.S_ISREG(status.st_mode) and not path.startswith("/dev/")
    return Source(argument, path, status.st_size if is_file else None)


def _by_number(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", path)]


def _plain(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def explained(source: Source, format_: str) -> Iterator[None]:
    """Errors of reading a source as errors that name it."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        message = " ".join(_plain(error).split())
        raise source.error(f"it cannot be read as {format_}: {message[:300]}") from None


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Errors of the system, and of packed files that end too soon, as errors that name the source."""
    try:
        yield
    except OSError as error:
        raise source.error(f"it cannot be read: {_plain(error)}") from None
