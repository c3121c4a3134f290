"""What streamjoin's indexes and windowed joins are measured against: BI-Sort in C++, and what a user would write
himself with NumPy, DuckDB or Polars.

The windowed joins are given the two streams batch by batch. Both streams have two columns, x and y of the left, a and b
of the right; x and a are int32, y and b are int32, or float32 for "celljoin":

    equality    x = a
    band        x BETWEEN a - width AND a + width
    celljoin    x BETWEEN a - width AND a + width AND y BETWEEN b - width AND b + width

In "band", keys must not be nearer than the width to the ends of int32; in "celljoin", values are from 0 to 16,000.
The ways they go were chosen by measuring, with batches of 32,768 and one match per tuple (celljoin: 1..10,000, width
10) on 2 idle cores of a Zen 4 EPYC. The levels in the comments are M tuples/s, both streams together, at windows of
100,000 and 1,000,000 tuples.
"""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ..arrays import Array
from ..errors import ArgumentError
from ..side import SIDES, Side, other
from . import baselines
from .baselines import Pairs

Columns = tuple[Array, Array]
Rows = tuple[Array, Array, Array, Array]
"""Result rows: x, y, a, b."""

KINDS = ("equality", "band", "celljoin")
LARGE = 300_000
"""Windows of more tuples are kept and joined another way by some; between the two sizes that were measured."""
CHUNK = 32_768
NAMES: dict[Side, tuple[str, str]] = {"left": ("x", "y"), "right": ("a", "b")}


class CppBiSort:
    """BI-Sort's steps in C++ (`bisort.cpp`), built by the system's compiler; one subwindow, one thread."""

    def __init__(self, capacity: int) -> None:
        """Raises RuntimeError where it cannot be built."""
        compiler = next((path for name in baselines.COMPILERS if (path := shutil.which(name))), None)
        if compiler is None:
            raise RuntimeError(f"no C++ compiler found; looked for {', '.join(baselines.COMPILERS)}")
        with tempfile.TemporaryDirectory(prefix="streamjoin-bench-") as directory:
            library = Path(directory) / "bisort.so"
            source = Path(__file__).with_name("bisort.cpp")
            built = subprocess.run(
                [compiler, *baselines.FLAGS, source, "-o", library], capture_output=True, text=True, check=False
            )
            if built.returncode:
                raise RuntimeError(f"{compiler} cannot build the C++ baseline: {built.stderr.strip()[:500]}")
            loaded = ctypes.CDLL(str(library))
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
        self.compiler = f"{version.splitlines()[0] if version else compiler}, {' '.join(baselines.FLAGS[:2])}"
        number, address = ctypes.c_int64, ctypes.c_void_p
        for name in ("partition", "pad"):
            getattr(loaded, f"bisort_{name}").restype = number
        self._sort, self._merge, self._probe = loaded.bisort_sort, loaded.bisort_merge, loaded.bisort_probe
        self._sort.argtypes, self._sort.restype = [address, number, number, address, address], None
        self._merge.argtypes, self._merge.restype = [address, number, address, number, address, address], number
        self._probe.argtypes = [address, address, number, address, number, address, address, address, number, address]
        self._probe.restype = number
        partition, pad = loaded.bisort_partition(), loaded.bisort_pad()
        self.capacity, self._pad = capacity, pad
        # The offset keeps stores to the one from looking like loads from the other to the CPU (same low 12 bits).
        self._main = [_aligned(capacity + pad, np.uint64), _aligned(capacity + pad, np.uint64, offset=2048)]
        self._index = _aligned(-(-capacity // partition) + pad, np.uint32)
        for array in (*self._main, self._index):
            array.fill(0)  # so that no page is touched for the first time while the clock runs
        self._batch = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._out = np.empty(1 << 16, np.int32), np.empty(1 << 16, np.int32)
        self.clear()

    def clear(self) -> None:
        self.count = self._index_size = 0
        self._main[0][: self._pad] = ~np.uint64(0)

    def insert(self, keys: Array) -> None:
        """Keys are int32; their places are consecutive, the first key ever inserted is at place 0."""
        self.merge(self.sort(keys))

    def sort(self, keys: Array) -> Array:
        """The first step of `insert`: the words of the keys, in a buffer that the next call overwrites."""
        if self.count + len(keys) > self.capacity:
            raise ArgumentError(f"keys: {len(keys):,} more than {self.count:,} exceed the capacity {self.capacity:,}")
        return self._sorted(keys, self.count)

    def merge(self, words: Array) -> None:
        """The second step of `insert`: main array and index with the words in it."""
        main, out = self._main
        self._index_size = self._merge(
            main.ctypes.data, self.count, words.ctypes.data, len(words), out.ctypes.data, self._index.ctypes.data
        )
        self.count += len(words)
        self._main.reverse()

    def probe(self, low: Array, high: Array) -> Pairs:
        """(i, place) for each key from low[i] to high[i], which are int32; in buffers that the next call overwrites."""
        ranges, high = self._sorted(low, 0), np.ascontiguousarray(high, np.int32)
        state = np.array([0, -1, 0])
        found = 0
        while True:
            numbers, places = self._out
            found += self._probe(
                self._main[0].ctypes.data, self._index.ctypes.data, self._index_size, ranges.ctypes.data, len(ranges),
                high.ctypes.data, numbers[found:].ctypes.data, places[found:].ctypes.data, len(places) - found,
                state.ctypes.data,
            )  # fmt: skip
            if state[0] == len(ranges):
                return numbers[:found], places[:found]
            self._out = np.resize(numbers, 2 * len(numbers)), np.resize(places, 2 * len(places))

    def _sorted(self, keys: Array, first: int) -> Array:
        keys = np.ascontiguousarray(keys, np.int32)
        if len(self._batch[0]) < len(keys):
            self._batch = _aligned(len(keys), np.uint64), _aligned(len(keys), np.uint64)
        words, scratch = self._batch
        self._sort(keys.ctypes.data, len(keys), first, words.ctypes.data, scratch.ctypes.data)
        return words[: len(keys)]


def _aligned(size: int, dtype: Any, offset: int = 0) -> Array:
    """An empty array that begins `offset` bytes behind a page's start."""
    nbytes = size * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + 4096 + offset, np.uint8)
    start = -memory.ctypes.data % 4096 + offset
    return memory[start : start + nbytes].view(dtype)


class Peer(ABC):
    """A join of two streams with count windows, fed with batches, which must not be changed afterwards."""

    name: ClassVar[str]

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        if kind not in KINDS:
            raise ArgumentError(f"kind: {kind!r} is none of {', '.join(KINDS)}")
        if window < 1 or width < 0:
            raise ArgumentError(f"window: {window}, width: {width}; at least one tuple, and no negative width")
        self.window, self.kind, self.width = window, kind, 0 if kind == "equality" else width
        self._dtypes = np.dtype(np.int32), np.dtype(np.float32 if kind == "celljoin" else np.int32)
        self._results: list[Any] = []

    def fill(self, left: Columns, right: Columns) -> None:
        """Append to both windows without joining."""
        for side, columns in zip(SIDES, (left, right), strict=True):
            self._append(side, self._last(columns))

    def step(self, left: Columns, right: Columns) -> int:
        """How many pairs the left batch has with the right window, and then the right batch with the left window.

        Each batch enters its window, and the oldest tuples beyond the window's size leave it, once it was joined.
        """
        self._results = []
        for side, columns in zip(SIDES, (left, right), strict=True):
            self._results.append(self._join(side, self._checked(columns)))
            self._append(side, self._last(columns))
        return sum(map(self._count, self._results))

    def rows(self) -> tuple[Rows, Rows]:
        """The rows that the last step found for the left batch and for the right batch."""
        left, right = map(self._rows, self._results)
        return left, right

    def _checked(self, columns: Columns) -> Columns:
        if (given := (columns[0].dtype, columns[1].dtype)) != self._dtypes:
            raise ArgumentError(f"columns: {given[0]}, {given[1]} given, {self._dtypes[0]}, {self._dtypes[1]} needed")
        return columns

    def _last(self, columns: Columns) -> Columns:
        """As much of it as a window holds."""
        first, second = self._checked(columns)
        return first[-self.window :], second[-self.window :]

    @abstractmethod
    def _join(self, side: Side, batch: Columns) -> Any:
        """The result rows, materialised, of a batch of `side` with the window of the other side."""

    @abstractmethod
    def _append(self, side: Side, batch: Columns) -> None: ...

    @abstractmethod
    def _count(self, result: Any) -> int: ...

    @abstractmethod
    def _rows(self, result: Any) -> Rows: ...


SHIFT = np.uint64(32)
STRIP_BITS = 20


class _SortedWindow:
    """Columns in a ring, and words (key << 32 | number of the tuple) in ascending order."""

    def __init__(self, window: int, dtypes: tuple[Any, Any]) -> None:
        self._window = window
        self._slack = window // 8  # drop expired words when there are so many: 4.4 against 3.6 each time (band, 1M)
        self._mask = (1 << (window + self._slack).bit_length()) - 1
        self._columns = tuple(np.empty(self._mask + 1, dtype) for dtype in dtypes)
        self.words = np.empty(0, np.uint64)
        self._head = 0

    def append(self, keys: Array, batch: Columns) -> None:
        count, at = len(keys), self._head & self._mask
        split = min(count, self._mask + 1 - at)
        for column, fresh in zip(self._columns, batch, strict=True):
            column[at : at + split] = fresh[:split]
            column[: count - split] = fresh[split:]
        order = _argsort(keys)
        fresh_words = keys[order].astype(np.uint64) << SHIFT | (order + self._head).astype(np.uint64)
        self._head += count
        words = self.words
        if len(words) + count > self._window + self._slack:
            words = words[words.view(np.uint32)[::2] >= self._oldest()]
        self.words = np.concatenate([words, fresh_words])
        self.words.sort(kind="stable")  # merges the two runs: 1.2 ms for 1M; np.insert the same, np.sort 55 ms

    def _oldest(self) -> np.uint32:
        return np.uint32(max(self._head - self._window, 0))

    def take(self, numbers: Array) -> tuple[Array, Array, Array]:
        """Whether they are in the window, and their columns."""
        slots = (numbers & np.uint32(self._mask)).astype(np.intp)
        first, second = self._columns
        return numbers >= self._oldest(), first[slots], second[slots]


def _argsort(keys: Array) -> Array:
    """Two passes of the radix sort that NumPy has for 16 bits: 0.30 ms for 32K, np.argsort 1.3 ms."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]


class NumPy(Peer):
    """Both windows sorted, `searchsorted` for the ends of each range, `repeat` to expand them. One core.

    Sorted by key; for celljoin, by strips of x as wide as the band, and by y within them: two ranges per tuple.
    """

    name = "NumPy"  # 7.5 and 4.3 (equality), 7.5 and 4.1 (band), 4.5 and 1.5 (celljoin)

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        super().__init__(window, kind, width)
        self._windows = {side: _SortedWindow(window, self._dtypes) for side in SIDES}
        self._strip = np.int32(2 * self.width + 1)

    def _append(self, side: Side, batch: Columns) -> None:
        self._windows[side].append(self._keys(batch), batch)

    def _keys(self, batch: Columns) -> Array:
        first, second = batch
        if self.kind != "celljoin":
            return np.ascontiguousarray(first).view(np.uint32) ^ np.uint32(1 << 31)
        return self._strips(first) << np.uint32(STRIP_BITS) | (second * np.float32(64)).astype(np.uint32)

    def _strips(self, first: Array) -> Array:
        return (first // self._strip + np.int32(1)).astype(np.uint32)

    def _ranges(self, batch: Columns) -> list[tuple[Array, Array, Array]]:
        """Numbers of the tuples, and their lowest and highest keys; the lowest ascend."""
        if self.kind != "celljoin":
            keys = self._keys(batch)
            order = _argsort(keys)
            keys = keys[order]
            return [(order, keys - np.uint32(self.width), keys + np.uint32(self.width))]
        first, second = batch
        width, real, bits = np.int32(self.width), np.float32(self.width), np.uint32(STRIP_BITS)
        # One step of the grid more on either side: y - width and b + width may be rounded differently.
        low = np.maximum((second - real) * np.float32(64) - np.float32(1), np.float32(0)).astype(np.uint32)
        high = ((second + real) * np.float32(64)).astype(np.uint32) + np.uint32(1)
        begin = self._strips(first - width) << bits
        order = _argsort(begin | low)
        begin, low, high = begin[order], low[order], high[order]
        two = self._strips(first + width)[order] << bits != begin
        ranges = [(order, begin | low, begin | high)]
        if two.any():
            begin = (begin + (np.uint32(1) << bits))[two]
            ranges.append((order[two], begin | low[two], begin | high[two]))
        return ranges

    def _join(self, side: Side, batch: Columns) -> Rows:
        window = self._windows[other(side)]
        words = window.words
        found: list[Pairs] = []
        for numbers, low, high in self._ranges(batch):
            start = np.searchsorted(words, low.astype(np.uint64) << SHIFT)
            end = np.searchsorted(words, high.astype(np.uint64) << SHIFT | np.uint64(0xFFFFFFFF), side="right")
            counts = end - start
            ends = np.cumsum(counts)
            places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - (ends - counts), counts)
            found.append((np.repeat(numbers, counts), words[places].astype(np.uint32)))
        ids = np.concatenate([i for i, _ in found]) if len(found) > 1 else found[0][0]
        valid, *stored = window.take(np.concatenate([n for _, n in found]) if len(found) > 1 else found[0][1])
        probing = [column[ids] for column in batch]
        x, y, a, b = (*probing, *stored) if side == "left" else (*stored, *probing)
        if self.kind == "celljoin":
            width, real = np.int32(self.width), np.float32(self.width)
            valid = valid & (x >= a - width) & (x <= a + width) & (y >= b - real) & (y <= b + real)
        return (x, y, a, b) if valid.all() else (x[valid], y[valid], a[valid], b[valid])

    def _count(self, result: Rows) -> int:
        return len(result[0])

    def _rows(self, result: Rows) -> Rows:
        return result


class _Bins:
    """A number per stored tuple, and for each probing tuple the two (celljoin: up to four) numbers it may match.

    Bins are at least as wide as the whole band, so that a range meets no more than two of them.
    """

    def __init__(self, kind: str, width: int, factor: int) -> None:
        if kind == "equality":
            raise ArgumentError("kind: 'equality' is joined on the keys themselves, without bins")
        self._square = kind == "celljoin"
        self._width, self._size = width, (2 * width + 1) * factor

    def stored(self, batch: Columns) -> Array:
        return self._cell(self._column(batch[0]), self._row(batch[1])) if self._square else self._column(batch[0])

    def probing(self, batch: Columns) -> tuple[Array, Array, Array]:
        """The batch with one copy of a tuple for each of its bins, and the bins."""
        first, second = batch
        width = np.int32(self._width)
        low, high = self._column(first - width), self._column(first + width)
        copies = [np.arange(len(first)), np.flatnonzero(low != high)]
        if not self._square:
            bins = [low, high[copies[1]]]
        else:
            real = np.float32(
                self._width + 1 / 64
            )  # a little more, as y - width and b + width may be rounded differently
            below, above = self._row(second - real), self._row(second + real)
            copies += [np.flatnonzero(below != above), np.flatnonzero((low != high) & (below != above))]
            cells = [self._cell(low, below), self._cell(high, below), self._cell(low, above), self._cell(high, above)]
            bins = [cell[some] for cell, some in zip(cells, copies, strict=True)]
        places = np.concatenate(copies)
        return first[places], second[places], np.concatenate(bins)

    def _column(self, first: Array) -> Array:
        return first // np.int32(self._size)

    def _row(self, second: Array) -> Array:
        return np.floor(second / np.float32(self._size)).astype(np.int32)

    @staticmethod
    def _cell(column: Array, row: Array) -> Array:
        return column * np.int32(1 << 14) + row


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ArgumentError(f"{name} is not installed; `pip install 'streamjoin[dev]'` installs it") from None


class DuckDB(Peer):
    """The condition as it stands, on Arrow tables as windows, or on tables of the database; Arrow out. All cores."""

    name = "DuckDB"  # 6.6 and 4.3 (equality), 1.3 and 0.3 (band)
    _binned: ClassVar[bool] = False

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        super().__init__(window, kind, width)
        # Bin size / band: band 4.4 and 2.8 (2x), 4.3 and 2.9 (3x); celljoin 2.9 and 1.3 (1x), 3.1 and 1.1 (2x)
        factor = 1 if kind == "celljoin" and window > LARGE else 2
        self._bins = _Bins(kind, self.width, factor) if self._binned else None
        # Own tables: equality 3.7 and 4.3, band 2.3 and 2.8, celljoin 2.0 and 1.2
        # Arrow:      equality 6.6 and 3.2, band 4.4 and 2.6, celljoin 3.1 and 1.3
        self._own_tables = window > LARGE and kind != "celljoin"
        self._connection = _package("duckdb").connect()
        self._windows: dict[Side, Any] = {}
        self._head, self._kept = dict.fromkeys(SIDES, 0), dict.fromkeys(SIDES, 0)
        for side in SIDES:
            self._windows[side] = self._table(side, (np.empty(0, self._dtypes[0]), np.empty(0, self._dtypes[1])))
            if self._own_tables:
                self._connection.register("fresh", self._windows[side])
                self._connection.execute(f"CREATE TABLE {side}_ AS SELECT *, 0::BIGINT AS number FROM fresh")
        condition = f"x BETWEEN a - {self.width} AND a + {self.width}" if self.width else "x = a"
        if kind == "celljoin":
            condition += f" AND y BETWEEN b - {self.width}::FLOAT AND b + {self.width}::FLOAT"
        self._condition = condition + (" AND batch.bin = stored.bin" if self._binned else "")

    def _table(self, side: Side, batch: Columns) -> Any:
        columns = dict(zip(NAMES[side], batch, strict=True))
        if self._bins is not None:
            columns["bin"] = self._bins.stored(batch)
        return pa.table(columns)

    def _append(self, side: Side, batch: Columns) -> None:
        fresh = self._table(side, batch)
        if not self._own_tables:
            parts = [fresh.slice(at, CHUNK) for at in range(0, len(fresh), CHUNK)]  # what is filled in, for the threads
            window = pa.concat_tables([self._windows[side], *parts])
            self._windows[side] = window.slice(max(len(window) - self.window, 0))
            return
        numbers = np.arange(self._head[side], self._head[side] + len(fresh))
        self._connection.register("fresh", fresh.append_column("number", pa.array(numbers)))
        self._connection.execute(f"INSERT INTO {side}_ SELECT * FROM fresh")
        self._head[side] += len(fresh)
        oldest = self._head[side] - self.window
        if oldest - self._kept[side] > self.window // 8:  # after each batch: 2.4 instead of 2.5 (band, 1M)
            self._connection.execute(f"DELETE FROM {side}_ WHERE number < {oldest}")
            self._kept[side] = oldest

    def _join(self, side: Side, batch: Columns) -> Any:
        columns = batch if self._bins is None else self._bins.probing(batch)
        names = NAMES[side] if self._bins is None else (*NAMES[side], "bin")
        self._connection.register("batch", pa.table(dict(zip(names, columns, strict=True))))
        stored = other(side)
        query = f"SELECT x, y, a, b FROM batch JOIN {stored}_ AS stored ON {self._condition}"
        if self._own_tables:
            query += f" WHERE number >= {self._head[stored] - self.window}"
        else:
            self._connection.register(f"{stored}_", self._windows[stored])
        return self._connection.sql(query).to_arrow_table()

    def _count(self, result: Any) -> int:
        return int(result.num_rows)

    def _rows(self, result: Any) -> Rows:
        x, y, a, b = (result[name].to_numpy() for name in ("x", "y", "a", "b"))
        return x, y, a, b


class DuckDBBinned(DuckDB):
    """A column of bins in the windows, joined on equality with the batch, whose tuples are repeated for each bin."""

    name = "DuckDB, binned"  # 4.4 and 2.8 (band), 3.1 and 1.3 (celljoin)
    _binned = True


class Polars(Peer):
    """Data frames as windows; `join` for equality, else `join_where`. All cores."""

    name = "Polars"  # 17 and 5.8 (equality), 2.1 and 0.4 (band)
    _binned: ClassVar[bool] = False

    def __init__(self, window: int, kind: str, width: int = 0) -> None:
        super().__init__(window, kind, width)
        # Bin size / band: band 7.2 and 4.3 (1x), 10.0 and 3.9 (2x); celljoin 4.8 and 2.3 (1x), 5.6 and 1.9 (2x)
        self._bins = _Bins(kind, self.width, 1 if window > LARGE else 2) if self._binned else None
        self._polars = pl = _package("polars")
        # Streaming: band 10.0 and 3.7, in memory 6.7 and 4.3; celljoin faster, equality slower when streaming
        streaming = kind == "celljoin" or (kind == "band" and window <= LARGE)
        self._engine = "streaming" if streaming else "in-memory"
        nothing = np.empty(0, self._dtypes[0]), np.empty(0, self._dtypes[1])
        self._windows = {side: self._frame(side, nothing) for side in SIDES}
        self._appended = dict.fromkeys(SIDES, 0)
        x, y, a, b = map(pl.col, ("x", "y", "a", "b"))
        real = pl.lit(float(self.width), pl.Float32)
        self._conditions = [x >= a - self.width, x <= a + self.width]
        if kind == "celljoin":
            self._conditions += [y >= b - real, y <= b + real]

    def _frame(self, side: Side, batch: Columns) -> Any:
        columns = dict(zip(NAMES[side], batch, strict=True))
        if self._bins is not None:
            columns["bin"] = self._bins.stored(batch)
        return self._polars.DataFrame(columns)

    def _append(self, side: Side, batch: Columns) -> None:
        window = self._polars.concat([self._windows[side], self._frame(side, batch)], rechunk=False).tail(self.window)
        self._appended[side] += 1
        # Every 4th time: 6.5; always: 5.6 (equality, 1M)
        self._windows[side] = window.rechunk() if self._appended[side] % 4 == 1 else window

    def _join(self, side: Side, batch: Columns) -> Any:
        pl, window = self._polars, self._windows[other(side)].lazy()
        if self._bins is not None:
            names = (*NAMES[side], "bin")
            frame = pl.DataFrame(dict(zip(names, self._bins.probing(batch), strict=True))).lazy()
            query = frame.join(window, on="bin").filter(*self._conditions)
        else:
            frame = pl.DataFrame(dict(zip(NAMES[side], batch, strict=True))).lazy()
            if self.kind == "equality":
                mine, theirs = NAMES[side][0], NAMES[other(side)][0]
                query = frame.join(window, left_on=mine, right_on=theirs, coalesce=False)
            else:
                query = frame.join_where(window, *self._conditions)
        return query.select("x", "y", "a", "b").collect(engine=self._engine)

    def _count(self, result: Any) -> int:
        return int(result.height)

    def _rows(self, result: Any) -> Rows:
        x, y, a, b = (result[name].to_numpy() for name in ("x", "y", "a", "b"))
        return x, y, a, b


class PolarsBinned(Polars):
    """A column of bins in the windows, joined on equality with the batch, whose tuples are repeated for each bin."""

    name = "Polars, binned"  # 10.0 and 4.3 (band), 5.6 and 2.3 (celljoin)
    _binned = True


PEERS: dict[str, tuple[type[Peer], ...]] = {
    "equality": (NumPy, DuckDB, Polars),
    "band": (NumPy, DuckDB, DuckDBBinned, Polars, PolarsBinned),
    "celljoin": (NumPy, DuckDB, DuckDBBinned, Polars, PolarsBinned),
}
"""Who can be asked for what. The plain ones take long for celljoin: DuckDB 2 K, Polars 0.13 M tuples/s at 100,000."""
