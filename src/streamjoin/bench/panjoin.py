"""`streamjoin bench panjoin`: whole joins with indexes, Arrow in and Arrow out (PanJoin, Fig. 15).

    equality    l.x = r.a                               keys uniform over W: one match per tuple
    band        l.x BETWEEN r.a - 1 AND r.a + 1         keys uniform over 3W: one match per tuple
    celljoin    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.      uniform 1..10,000

Count windows of W tuples on both sides, full before the first round. In a round a batch of each stream is pushed, and
all results are taken as tables. A rate is tuples of both streams per second of wall time. All contestants get the same
streams, each in its own arrays, one after another and each for all its rounds at once. Counts of results are compared
with an independent count (of celljoin: the NumPy peer's, from windows filled anew) in the first and the last round.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..arrays import Array
from ..engine.window_join import WindowJoin
from ..errors import ArgumentError
from ..reporting import plots
from ..side import SIDES
from . import peers
from .peers import PEERS, Columns, Peer
from .scan import SCHEMAS, SQL, machine, tuples
from .subwindow import Others, Rates, check, others_text, spread, text_table, titled, write_json

INTEGERS = {
    "left": pa.schema({"x": pa.int32(), "y": pa.int32()}),
    "right": pa.schema({"a": pa.int32(), "b": pa.int32()}),
}
ROW_BYTES = 8
CELL_WIDTH = 10
CELL_SELECTIVITY, MOST_FILLING = 4.4e-6, 50
"""Results per pair of tuples, and M results up to which windows are filled without having been asked for by name."""
SECONDS, QUICK_SECONDS, LEAST_ROUNDS = 3.0, 1.0, 3
"""A contestant's rounds end when they have taken so long, but not before a few are done."""
SCANNED = 2e9
"""Comparisons that a scan makes in a round at most."""
MIDDLE = 1_000_000
SELECTIVITIES = (1, 16, 256)
MOST_RESULTS = 4_000_000
"""Results in a round at most."""
EQUAL_WINDOW, EQUAL_BATCH = 4_096, 512
COMPARES_ALL = {("celljoin", peers.DuckDB): "2 K tuples/s at 100,000", ("celljoin", peers.Polars): "0.13 M at 100,000"}
PAPER = (
    ("equality, W = 128M, S = 1", "28.9 M tuples/s (BI-Sort, largest batches); 16 nodes of 40 cores per stream"),
    ("band, W = 1G, S = 1", "about 10 M tuples/s (BI-Sort, 32K batches); the others 1-10x slower, at S = 64 10-100x"),
    ("against nested loops, W = 8M, 16 nodes", "BI-Sort over 1000x low-latency handshake join and SplitJoin, "
     "RaP-Table and WiB+-Tree over 100x at small S; BI-Sort replies with places, no rows"),
)  # fmt: skip


# -- streams -------------------------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator, int, int], Array]
"""Keys of a stream, given how many and the window."""


def _uniform(width: int) -> Draw:
    return lambda rng, count, window: rng.integers(0, (3 if width else 1) * window, count)


def _skewed(rng: np.random.Generator, count: int, window: int) -> Array:
    """99% of the keys in 1% of the range, where one key of the other window is within a distance of 1."""
    everywhere = rng.integers(0, 300 * window, count)
    return np.where(rng.random(count) < 0.99, everywhere // 100, everywhere)


def _increasing(rng: np.random.Generator, count: int, window: int) -> Array:
    return np.cumsum(rng.integers(1, 6, count))


def _equal(rng: np.random.Generator, count: int, window: int) -> Array:
    return np.full(count, 7)


@dataclass
class Streams:
    """Both streams of a join from the first tuple to the last, and how many pairs there are."""

    kind: str
    window: int
    width: int
    left: Columns
    right: Columns
    counted: dict[Any, int] = field(default_factory=dict)

    @classmethod
    def make(cls, kind: str, window: int, rows: int, seed: int, width: int = 1, draw: Draw | None = None) -> Streams:
        """Both windows and `rows` more of each stream."""
        rng = np.random.default_rng(seed)
        count = window + rows
        if kind == "celljoin":
            return cls(kind, window, CELL_WIDTH, tuples(rng, count), tuples(rng, count))
        width = 0 if kind == "equality" else width
        draw = draw or _uniform(width)
        columns = [
            (draw(rng, count, window).astype(np.int32), rng.integers(0, 2**31, count, dtype=np.int32)) for _ in SIDES
        ]
        return cls(kind, window, width, columns[0], columns[1])

    @property
    def sql(self) -> str:
        if self.kind == "celljoin":
            return SQL
        return "l.x = r.a" if self.kind == "equality" else f"l.x BETWEEN r.a - {self.width} AND r.a + {self.width}"

    @cached_property
    def schemas(self) -> dict[Any, pa.Schema]:
        return dict(SCHEMAS) if self.kind == "celljoin" else dict(INTEGERS)

    def part(self, columns: Columns, start: int, stop: int) -> Columns:
        """Fresh arrays."""
        start = max(start, 0)
        return columns[0][start:stop].copy(), columns[1][start:stop].copy()

    def rounds(self, batch: int) -> int:
        return (len(self.left[0]) - self.window) // batch

    def expected(self, number: int, batch: int, one_sided: bool = False) -> int:
        """How many results round `number` has; one-sided: only the right batch comes, and the left window stays."""
        key = number, batch, one_sided
        if key not in self.counted:
            start = self.window + number * batch
            fresh = self.part(self.right, start, start + batch)
            left = self.window if one_sided else start + batch
            stored = self.part(self.left, left - self.window, left)
            count = self._count(stored, fresh, stored_left=True)
            if not one_sided:
                stored = self.part(self.right, start - self.window, start)
                count += self._count(stored, self.part(self.left, start, start + batch), stored_left=False)
            self.counted[key] = count
        return self.counted[key]

    def _count(self, stored: Columns, fresh: Columns, stored_left: bool) -> int:
        if self.kind == "celljoin":
            peer = peers.NumPy(self.window, self.kind, self.width)
            nothing = stored[0][:0], stored[1][:0]
            peer.fill(*((stored, nothing) if stored_left else (nothing, stored)))
            return peer.step(*((nothing, fresh) if stored_left else (fresh, nothing)))
        keys = np.sort(stored[0])
        return int(
            np.searchsorted(keys, fresh[0] + self.width, side="right").sum()
            - np.searchsorted(keys, fresh[0] - self.width).sum()
        )


# -- contestants ---------------------------------------------------------------------------------------------------


class Contestant(Protocol):
    name: str
    one_sided: bool

    def fill(self, streams: Streams) -> None: ...

    def step(self, left: Any, right: Any) -> int: ...

    def close(self) -> None: ...


class Joined:
    """A WindowJoin. A scan's left window is filled only: all its tuples come from the right."""

    def __init__(self, streams: Streams, index: str, workers: int, batch: int) -> None:
        self.name = f"{index}, {workers} thread{'s' if workers > 1 else ''}"
        self.index, self.workers, self._batch = index, workers, batch
        self.one_sided = index == "scan"
        self._streams = streams
        self.join = WindowJoin(
            streams.schemas["left"], streams.schemas["right"], on=streams.sql, window=streams.window,
            index=index, workers=workers,  # type: ignore[arg-type]
        )  # fmt: skip

    def fill(self, streams: Streams) -> None:
        if self.one_sided:
            self.join.push_left(self._table("left", streams.part(streams.left, 0, streams.window)))
            self.join.poll()
            return
        for start in range(0, streams.window, self._batch):
            stop = min(start + self._batch, streams.window)
            self.join.push_left(self._table("left", streams.part(streams.left, start, stop)))
            self.join.push_right(self._table("right", streams.part(streams.right, start, stop)))
            self.join.poll()

    def _table(self, side: str, columns: Columns) -> pa.Table:
        return pa.table(list(columns), schema=self._streams.schemas[side])

    def prepared(self, left: Columns, right: Columns) -> tuple[Any, Any]:
        return self._table("left", left), self._table("right", right)

    def step(self, left: Any, right: Any) -> int:
        if not self.one_sided:
            self.join.push_left(left)
        self.join.push_right(right)
        return int(self.join.poll().num_rows)

    def close(self) -> None:
        self.join.close()


class Rival:
    """One of the peers."""

    one_sided = False

    def __init__(self, streams: Streams, peer: type[Peer]) -> None:
        self.name = peer.name
        self._peer = peer(streams.window, streams.kind, streams.width)

    def fill(self, streams: Streams) -> None:
        window = streams.window
        self._peer.fill(streams.part(streams.left, 0, window), streams.part(streams.right, 0, window))

    def step(self, left: Any, right: Any) -> int:
        return self._peer.step(left, right)

    def close(self) -> None:
        del self._peer


@dataclass
class Entry:
    """One contestant's rounds."""

    contestant: str
    kind: str
    window: int
    batch: int
    rates: Rates = field(default_factory=Rates)
    results: int = 0
    index: str | None = None
    workers: int | None = None
    chosen: str | None = None
    others: float | None = None
    """Cores that other programs used meanwhile."""
    more: dict[str, Any] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        per_tuple = self.results / max(self.rates.tuples, 1)
        each = self.rates.seconds / self.results * 1e9 if self.results else None
        return {
            "contestant": self.contestant, "kind": self.kind, "window": self.window, "batch": self.batch,
            "index": self.index, "workers": self.workers, "chosen": self.chosen, **self.rates.figures(),
            "results_per_tuple": per_tuple, "ns_per_result": each, "others_cores": self.others,
            **self.more,
        }  # fmt: skip


def measure(contestant: Contestant, streams: Streams, batch: int, rounds: int, seconds: float) -> Entry:
    """Fill, one round to warm up, and then as many as there is time for; first and last counts are checked."""
    entry = Entry(contestant.name, streams.kind, streams.window, batch)
    contestant.fill(streams)
    rounds = min(rounds + 1, streams.rounds(batch))
    prepared = contestant.prepared if isinstance(contestant, Joined) else lambda left, right: (left, right)
    found: dict[int, int] = {}
    gc.collect()
    others = Others()
    for number in range(rounds):
        start = streams.window + number * batch
        both = (streams.part(columns, start, start + batch) for columns in (streams.left, streams.right))
        left, right = prepared(*both)
        with entry.rates.round(batch * (1 if contestant.one_sided else 2), by_cpu=False):
            found[number] = contestant.step(left, right)
        if number == 0:
            entry.rates = Rates()
        else:
            entry.results += found[number]
        if number >= LEAST_ROUNDS and entry.rates.wall > seconds:
            break
    entry.others = others.cores()
    for number in sorted({0, min(1, max(found)), max(found)}):
        check(contestant.name, found[number], streams.expected(number, batch, contestant.one_sided))
    if isinstance(contestant, Joined):
        entry.index, entry.workers = contestant.index, contestant.workers
        entry.chosen = contestant.join.metrics()["index"]
    contestant.close()
    return entry


# -- memory --------------------------------------------------------------------------------------------------------


def memory(kind: str, window: int, index: str, batch: int, seed: int) -> dict[str, Any]:
    """Bytes per window tuple, of a join in a process of its own."""
    code = "import sys; from streamjoin.bench.panjoin import _report_memory; _report_memory(sys.argv[1])"
    given = json.dumps({"kind": kind, "window": window, "index": index, "batch": batch, "seed": seed})
    done = subprocess.run([sys.executable, "-c", code, given], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArgumentError(f"memory: the process that measures it failed: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _report_memory(given: str) -> None:
    arguments = json.loads(given)
    kind, window, batch, seed = (arguments[name] for name in ("kind", "window", "batch", "seed"))
    small = Streams.make(kind, 2_000, 8_000, seed)
    first = Joined(small, arguments["index"], 1, 1_000)  # so that kernels are loaded
    measure(first, small, 1_000, 3, 1.0)
    streams = Streams.make(kind, window, 2 * batch, seed)
    joined = Joined(streams, arguments["index"], 1, batch)
    before = _resident()
    joined.fill(streams)
    after = _resident()
    metrics = joined.join.metrics()
    count = sum(metrics[side]["window"] for side in SIDES)
    print(json.dumps({
        "kind": kind, "window": window, "index": metrics["index"], "window_tuples": count,
        "index_bytes": sum(metrics["indexes"][side]["bytes"] for side in SIDES) / count,
        "payload_bytes": sum(metrics[side]["payload_rows"] for side in SIDES) * ROW_BYTES / count,
        "rss_bytes": None if before is None or after is None else (after - before) / count, "raw_bytes": ROW_BYTES,
    }))  # fmt: skip


def _resident() -> int | None:
    """Bytes in memory, after unused ones were given back."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


# -- the command ---------------------------------------------------------------------------------------------------


@dataclass
class Settings:
    windows: list[int]
    kinds: list[str]
    batch: int
    rounds: int
    workers: list[int]
    indexes: list[str]
    skew: bool
    seed: int
    quick: bool

    @property
    def seconds(self) -> float:
        return QUICK_SECONDS if self.quick else SECONDS

    @property
    def middle(self) -> int:
        """The window for what is measured at one window only."""
        return max((w for w in self.windows if w <= MIDDLE), default=min(self.windows))


@dataclass
class Results:
    systems: list[Entry] = field(default_factory=list)
    indexes: list[Entry] = field(default_factory=list)
    selectivity: list[Entry] = field(default_factory=list)
    skew: list[Entry] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    others: float | None = None

    @property
    def all(self) -> list[Entry]:
        return self.systems + self.indexes + self.selectivity + self.skew

    def compare(self) -> None:
        """Ratios to the best peer, to the scan, and of the most workers to one, of the same join and window."""
        for entry in self.systems + self.indexes:
            same = [e for e in self.systems if (e.kind, e.window) == (entry.kind, entry.window)]
            rivals = [e for e in same if e.index is None]
            if rivals and entry.index is not None:
                best = max(rivals, key=lambda e: e.rates.median)
                entry.more |= {
                    "best_peer": best.contestant, "to_best_peer": entry.rates.median / best.rates.median,
                    "to_best_peer_overall": entry.rates.overall / max(e.rates.overall for e in rivals),
                }  # fmt: skip
            scans = [e for e in same if e.index == "scan"]
            if scans and entry.index not in (None, "scan"):
                entry.more["to_scan"] = entry.rates.median / scans[0].rates.median
            alone = [e for e in same if e.index == entry.index and e.workers == 1]
            if alone and entry.workers not in (None, 1):
                entry.more["to_one_worker"] = entry.rates.median / alone[0].rates.median
                entry.more["to_one_worker_overall"] = entry.rates.overall / alone[0].rates.overall

    def figures(self) -> dict[str, Any]:
        return {
            "systems": [entry.figures() for entry in self.systems],
            "indexes": [entry.figures() for entry in self.indexes],
            "selectivity": [entry.figures() for entry in self.selectivity],
            "skew": [entry.figures() for entry in self.skew],
            "memory": self.memory, "others_cores": self.others, "left_out": self.left_out, "paper": dict(PAPER),
        }  # fmt: skip


def _fits(index: str, kind: str) -> bool:
    return index != "hash" or kind == "equality"


def _measure_all(settings: Settings, say: Callable[[str], None]) -> Results:
    results = Results()
    for kind in settings.kinds:
        for window in settings.windows:
            filling = window**2 * CELL_SELECTIVITY / 1e6
            if kind == "celljoin" and filling > MOST_FILLING and len(settings.kinds) > 1:
                results.left_out.append(
                    f"celljoin, W = {window:,}: filling the windows makes {filling:,.0f} M results, each time; "
                    "name it alone (--kinds celljoin) to run it"
                )
                continue
            say(f"{kind}, W = {window:,}: making the streams")
            streams = Streams.make(kind, window, (settings.rounds + 1) * settings.batch, settings.seed)
            _systems(results, settings, streams, say)
            if window == settings.middle and kind != "celljoin":
                _indexes(results, settings, streams, say)
            say(f"{kind}, W = {window:,}: memory")
            index = next(iter(settings.indexes))
            if _fits(index, kind):
                results.memory.append(memory(kind, window, index, settings.batch, settings.seed))
    if "band" in settings.kinds:
        _selectivity(results, settings, say)
        if settings.kinds == ["band"] or not settings.quick:
            for index in settings.indexes[1:]:
                if _fits(index, "band"):
                    found = memory("band", settings.middle, index, settings.batch, settings.seed)
                    results.memory.append(found)
    if settings.skew:
        _skew(results, settings, say)
    else:
        results.left_out.append("skewed keys: add --skew")
    results.compare()
    known = [(entry.others, entry.rates.wall) for entry in results.all if entry.others is not None]
    if known:
        cores, walls = zip(*known, strict=True)
        results.others = float(np.average(cores, weights=walls))
    return results


def _systems(results: Results, settings: Settings, streams: Streams, say: Callable[[str], None]) -> None:
    def add(make: Callable[[], Contestant], batch: int = settings.batch) -> None:
        contestant = make()
        say(f"{streams.kind}, W = {streams.window:,}: {contestant.name}")
        results.systems.append(measure(contestant, streams, batch, settings.rounds, settings.seconds))

    index = next(iter(settings.indexes))
    for workers in settings.workers:
        if _fits(index, streams.kind):
            add(lambda workers=workers: Joined(streams, index, workers, settings.batch))  # type: ignore[misc]
    scanned = max(min(settings.batch, int(SCANNED / streams.window)), 1)
    add(lambda: Joined(streams, "scan", max(settings.workers), scanned), scanned)
    for peer in PEERS[streams.kind]:
        where = f"{peer.name}, {streams.kind}, W = {streams.window:,}"
        if (why := COMPARES_ALL.get((streams.kind, peer))) is not None:
            results.left_out.append(f"{where}: compares nearly all pairs ({why})")
            continue
        try:
            add(lambda peer=peer: Rival(streams, peer))  # type: ignore[misc]
        except ArgumentError as error:  # a package that is not there
            results.left_out.append(f"{where}: {error}")


def _indexes(results: Results, settings: Settings, streams: Streams, say: Callable[[str], None]) -> None:
    for index in settings.indexes[1:]:
        if _fits(index, streams.kind):
            say(f"{streams.kind}, W = {streams.window:,}: {index}")
            contestant = Joined(streams, index, max(settings.workers), settings.batch)
            results.indexes.append(measure(contestant, streams, settings.batch, settings.rounds, settings.seconds))


def _selectivity(results: Results, settings: Settings, say: Callable[[str], None]) -> None:
    window = settings.middle
    for matches in SELECTIVITIES:
        width = max((3 * matches - 1) // 2, 1)
        if 8 * matches > window:
            continue
        batch = max(min(settings.batch, MOST_RESULTS // (2 * matches)), 1)
        streams = Streams.make("band", window, (settings.rounds + 1) * batch, settings.seed, width)
        for index in settings.indexes:
            if not _fits(index, "band"):
                continue
            say(f"band, {matches} matches per tuple: {index}")
            contestant = Joined(streams, index, max(settings.workers), batch)
            entry = measure(contestant, streams, batch, settings.rounds, settings.seconds)
            entry.more["selectivity"] = matches
            results.selectivity.append(entry)


def _skew(results: Results, settings: Settings, say: Callable[[str], None]) -> None:
    cases: Iterable[tuple[str, Draw, int, int]] = (
        ("uniform", lambda rng, count, window: rng.integers(0, 3 * window, count), settings.middle, settings.batch),
        ("99% in 1% of the range", _skewed, settings.middle, settings.batch),
        ("increasing", _increasing, settings.middle, settings.batch),
        ("uniform, narrow window", _uniform(1), EQUAL_WINDOW, EQUAL_BATCH),
        ("all equal, narrow window", _equal, EQUAL_WINDOW, EQUAL_BATCH),
    )
    for name, draw, window, batch in cases:
        for index in settings.indexes:
            kind = "equality" if index == "hash" else "band"
            streams = Streams.make(kind, window, (settings.rounds + 1) * batch, settings.seed, draw=draw)
            say(f"{name}: {index}")
            contestant = Joined(streams, index, max(settings.workers), batch)
            entry = measure(contestant, streams, batch, settings.rounds, settings.seconds)
            entry.more["keys"] = name
            results.skew.append(entry)


def run(
    console: Console, *, windows: list[int], kinds: Iterable[str], batch: int, rounds: int, workers: list[int],
    indexes: Iterable[str], skew: bool, seed: int, quick: bool = False, json_file: Path | None = None,
    plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    if plots_directory is not None:
        plots.library()
    settings = Settings(windows, list(kinds), batch, rounds, workers, list(indexes), skew, seed, quick)
    about = machine()
    console.print(
        f"count windows, batches of {batch:,} of each stream, up to {rounds} rounds or {settings.seconds:g} s each, "
        f"seed {seed}; {about['cpu']}, {os.cpu_count()} cores",
        markup=False, highlight=False,
    )  # fmt: skip
    started = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("panjoin", total=None)
        results = _measure_all(settings, lambda text: progress.update(task, description=text))
    for kind in settings.kinds:
        for window in windows:
            same = [entry for entry in results.systems if (entry.kind, entry.window) == (kind, window)]
            if same:
                console.print(_system_table(kind, window, same))
    if results.indexes:
        title = f"M tuples/s by index, windows of {settings.middle:,}: median (min - max)"
        console.print(_entry_table(title, "join", results.indexes, lambda entry: entry.kind))
    if results.selectivity:
        title = f"M tuples/s by matches per tuple, band, windows of {results.selectivity[0].window:,}"
        selectivity: Callable[[Entry], str] = lambda entry: f"{entry.more['selectivity']}"  # noqa: E731
        console.print(_entry_table(title, "S", results.selectivity, selectivity))
    if results.skew:
        title = "M tuples/s by distribution of the keys; hash: equality, else: band"
        console.print(_entry_table(title, "keys", results.skew, lambda entry: str(entry.more["keys"])))
    console.print(_memory_table(results.memory))
    console.print(text_table("In the paper (not this machine)", PAPER))
    for text in results.left_out:
        console.print(f"left out: {text}", markup=False, highlight=False)
    busy = [e for e in results.all if e.others is not None and e.others > Others.WARN]
    console.print(others_text(results.others), markup=False, highlight=False)
    if busy:
        console.print(f"{len(busy)} of {len(results.all)} contestants ran beside others (see the column): not valid.")
    console.print(
        "All counts of results were right in the first and in the last round of every contestant; "
        f"{time.perf_counter() - started:.0f} s in all."
    )
    figures = {"machine": about | {"cores": str(os.cpu_count())}, "settings": asdict(settings), **results.figures()}
    write_json(json_file, figures)
    if plots_directory is not None:
        for file in plots.panjoin(figures, plots_directory):
            console.print(f"wrote {file}", markup=False, highlight=False)


# -- tables --------------------------------------------------------------------------------------------------------


def _times(more: dict[str, Any], key: str) -> str:
    return f"{more[key]:,.3g}x" if key in more else ""


def _others(entry: Entry) -> str:
    return "" if entry.others is None else f"{entry.others:.2f}"


def _system_table(kind: str, window: int, entries: list[Entry]) -> Table:
    title = f"M tuples/s, {kind}, windows of {window:,}: median (min - max)"
    columns = "contestant", "index", "median (min - max)", "all rounds", "rounds", "results/tuple", "cpu/wall"
    table = titled(title, *columns, "others", "of best peer", "all rounds", "of scan", "of 1 thread")
    for entry in entries:
        f = entry.figures()
        table.add_row(
            entry.contestant, entry.chosen or "", spread(entry.rates), f"{f['overall']:.3g}", f"{f['rounds']}",
            f"{f['results_per_tuple']:.3g}", f"{f['cpu_per_wall']:.2f}", _others(entry), _times(f, "to_best_peer"),
            _times(f, "to_best_peer_overall"), _times(f, "to_scan"), _times(f, "to_one_worker"),
        )  # fmt: skip
    table.caption = "cpu/wall: own CPU time per wall time; others: cores that other programs used meanwhile"
    scans = [entry for entry in entries if entry.index == "scan"]
    if scans:
        table.caption += (
            f". scan: the left window is full, batches of {scans[0].batch:,} tuples come from the right only"
        )
    return table


def _entry_table(title: str, what: str, entries: list[Entry], label: Callable[[Entry], str]) -> Table:
    columns = what, "contestant", "window", "batch", "median (min - max)", "all rounds", "results/tuple", "ns/result"
    table = titled(title, *columns, "cpu/wall", "others")
    for entry in entries:
        f = entry.figures()
        each = "" if f["ns_per_result"] is None else f"{f['ns_per_result']:.3g}"
        table.add_row(
            label(entry), entry.contestant, f"{entry.window:,}", f"{entry.batch:,}", spread(entry.rates),
            f"{f['overall']:.3g}", f"{f['results_per_tuple']:.3g}", each, f"{f['cpu_per_wall']:.2f}", _others(entry),
        )  # fmt: skip
    return table


def _memory_table(entries: list[dict[str, Any]]) -> Table:
    table = titled("Bytes per window tuple, 1 thread, in a process of its own", "join", "window", "index", "in index",
                   "payload", "RSS grows by", "raw", "index + payload / raw")  # fmt: skip
    for entry in entries:
        resident = "" if entry["rss_bytes"] is None else f"{entry['rss_bytes']:.1f}"
        ratio = (entry["index_bytes"] + entry["payload_bytes"]) / entry["raw_bytes"]
        table.add_row(
            entry["kind"], f"{entry['window']:,}", entry["index"], f"{entry['index_bytes']:.1f}",
            f"{entry['payload_bytes']:.1f}", resident, f"{entry['raw_bytes']}", f"{ratio:.2f}x",
        )  # fmt: skip
    return table
