"""State stores and executors as Spark promises them, and no better: what a simulated schedule may do with them."""

from __future__ import annotations

import random
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamjoin.spark.segments import Cache


class View:
    """One attempt's view of a state: the map state that an operator sees. Nothing is kept unless it is committed."""

    def __init__(self, base: dict[str, bytes]) -> None:
        self._base = base
        self.changes: dict[str, bytes | None] = {}

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        name = key[0]
        body = self.changes[name] if name in self.changes else self._base.get(name)
        return None if body is None else (body,)

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        assert isinstance(value[0], bytes)
        self.changes[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:
        self.changes[key[0]] = None


class Store:
    """The state of one partition of an operator. Every attempt that completes writes its changes, and perhaps a
    snapshot. Whoever loads a version gets any snapshot up to it, and then for each further version the changes of any
    attempt: a later file may have replaced an earlier one, or not."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._snapshots: dict[int, list[dict[str, bytes]]] = {0: [{}]}
        self._changes: dict[int, list[dict[str, bytes | None]]] = {}

    def load(self, version: int) -> dict[str, bytes]:
        rng = self._rng
        first = rng.choice([one for one in self._snapshots if one <= version])
        values = dict(rng.choice(self._snapshots[first]))
        for step in range(first + 1, version + 1):
            for name, body in rng.choice(self._changes[step]).items():
                if body is None:
                    values.pop(name, None)
                else:
                    values[name] = body
        return values

    def commit(self, base: dict[str, bytes], changes: dict[str, bytes | None], version: int) -> None:
        self._changes.setdefault(version, []).append(changes)
        if self._rng.random() < 0.4:
            values = {**base, **changes}
            kept = {name: body for name, body in values.items() if body is not None}
            self._snapshots.setdefault(version, []).append(kept)

    def has(self, version: int) -> bool:
        return version in self._changes

    def any_values(self) -> list[dict[str, bytes]]:
        """All snapshots there are."""
        return [values for snapshots in self._snapshots.values() for values in snapshots]


class Process:
    """A Python process of an executor: what it keeps in memory, and the directory of its cache files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._loaded: OrderedDict[Any, Any] = OrderedDict()

    def next_of(self, steps: Iterator[Any]) -> Any:
        """Go on with a task of this process."""
        before, Cache.loaded = Cache.loaded, self._loaded
        try:
            return next(steps, None)
        finally:
            Cache.loaded = before

    def die(self) -> None:
        """Another process takes its place."""
        self._loaded = OrderedDict()


def spoil(rng: random.Random, directory: Path) -> None:
    """Do something to a cache directory that may happen to files which nobody promises to keep."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        return
    file = rng.choice(files)
    match rng.choice([0, 1, 2, 3, 4, 4, 4, 5, 6]):
        case 0:
            shutil.rmtree(directory)
        case 1:
            file.unlink()
        case 2:  # cut off
            replace(file, file.read_bytes()[: rng.randrange(file.stat().st_size)])
        case 3:  # a few bytes changed
            body = bytearray(file.read_bytes())
            for _ in range(rng.choice([1, 1, 8])):
                body[rng.randrange(len(body))] ^= rng.randrange(1, 256)
            replace(file, bytes(body))
        case 4:  # files of other segments, attempts, generations or workers in their places
            some = [path for path in files if path.parent == file.parent] if rng.random() < 0.7 else files
            bodies = [path.read_bytes() for path in some]
            for path, body in zip(some, bodies[1:] + bodies[:1], strict=True):
                replace(path, body)
        case 5:  # one worker's files under the name of another
            places = sorted({path.parent for path in files})
            one, another = rng.choice(places), rng.choice(places)
            for path in one.iterdir() if one != another else ():
                shutil.copy(path, another / path.name)
        case 6:  # an empty file
            replace(file, b"")


def replace(file: Path, body: bytes) -> None:
    """Other content under the same name: who has mapped the old file still reads that."""
    file.unlink()
    file.write_bytes(body)
    file.chmod(0o600)
