"""`streamjoin bench subwindow`: insertion into and probing of one subwindow, one thread (PanJoin, Figs. 10-13).

Keys are 32-bit integers, uniform. A batch arrives unsorted: the time of an insertion includes making the batch's words
and sorting them, and that of a probe sorting its ranges. A subwindow is filled with batches of the measured size, or
with larger ones up to the last rounds where that would take over 512 batches. In each of the last rounds before it is
full one batch is inserted and one of fresh ranges is probed; then it is sealed, and probed again. The pairs found are
counted in every round and compared with what `np.searchsorted` counts on the sorted keys. Contestants run one after
another, each on its own copies of the same tuples. The clock is the thread's CPU time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..arrays import Array, Words
from ..compile.cache import compiled
from ..errors import StreamJoinError
from ..reporting import plots
from ..store.bi_sort import BiSort
from ..store.rap_table import RapTable, adjusted_splitters, even_splitters
from ..store.sorting import sort_words
from ..store.wib_tree import WibTree
from ..store.words import PLACE_BITS, WordIndex, new_state, place_bits_of
from .peers import CppBiSort
from .scan import machine

MOST_FILLS = 512
BATCH = 32_768
CALL_TUPLES = 1_024
"""A round of smaller batches has several of them, so that it can be timed."""
MOST_REPEATS = 8
"""Where few batches fit into a subwindow, the last rounds of several subwindows are measured."""
OUT = 1 << 16
SELECTIVITIES = (1, 16, 256, 4_096)
PARTITIONS = (1_024, 4_096, 16_384, 65_536)
ADJUSTMENTS = 5
FULL_RANGE = 2**32
INDEXES = ("BI-Sort", "RaP-Table", "WiB+-Tree")
SEARCHED = "np.searchsorted"
SEARCHED_SORTED = "np.argsort, np.searchsorted"
CPP = "C++ BI-Sort"
TARGETS = {"probe": 3.0, "insert_probe": 0.8}
PAPER = (
    ("machine", "2 x 20-core Xeon Gold 6148; probes of over 128 tuples and BI-Sort's insertion on 8 threads"),
    ("RaP-Table, insertion", "up to 100 M tuples/s, at batches of 8M (N = 8M)"),
    ("insertion, N = 8M", "BI-Sort is fastest only with batches of over 64K"),
    ("band probe, N = 8M, 32K", "S < 1K: RaP-Table 1.7-2.4x WiB+-Tree, BI-Sort 1.6-7x RaP-Table"),
    ("WiB+-Tree against a B-tree", "insertion 3.5-4.5x, band probe up to 1.3x"),
    ("RaP-Table, adjustment", "balanced after 3 subwindows, from even splitters, whatever the distribution"),
)


@dataclass
class Rates:
    """Rounds of one contestant: M tuples per second, and how much of the time it had a core."""

    rates: list[float] = field(default_factory=list)
    tuples: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    wall: float = 0.0

    @contextmanager
    def round(self, tuples: int, *, by_cpu: bool) -> Iterator[None]:
        wall, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        yield
        thread, cpu, wall = time.thread_time() - thread, time.process_time() - cpu, time.perf_counter() - wall
        self.add(tuples, thread if by_cpu else wall, thread if by_cpu else cpu, wall)

    def add(self, tuples: int, seconds: float, cpu: float, wall: float) -> None:
        self.rates.append(tuples / max(seconds, 1e-9) / 1e6)
        self.tuples, self.seconds = self.tuples + tuples, self.seconds + seconds
        self.cpu, self.wall = self.cpu + cpu, self.wall + wall

    @property
    def median(self) -> float:
        return float(np.median(self.rates))

    @property
    def overall(self) -> float:
        return self.tuples / max(self.seconds, 1e-9) / 1e6

    def figures(self) -> dict[str, Any]:
        return {
            "median": self.median, "min": min(self.rates), "max": max(self.rates), "overall": self.overall,
            "rounds": len(self.rates), "cpu_per_wall": self.cpu / max(self.wall, 1e-9),
        }  # fmt: skip


class Others:
    """How many cores other programs (no children of this one) used while it ran; None where the system does not tell.

    CPU per wall time alone does not show it: two threads that share one core look like one that has it for itself.
    """

    WARN = 0.1

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float] | None:
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
            user, nice, system, _, _, irq, soft, steal = (int(number) for number in fields)
        except (OSError, ValueError):
            return None
        busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        return busy, sum(os.times()[:4]), time.perf_counter()

    def cores(self) -> float | None:
        now, before = self._now(), self._before
        if now is None or before is None:
            return None
        busy, own, wall = (a - b for a, b in zip(now, before, strict=True))
        return max(busy - own, 0.0) / max(wall, 1e-9)


def check(who: str, found: int, expected: int) -> None:
    """AssertionError for a contestant that does not find what there is."""
    if found != expected:
        raise AssertionError(f"{who} finds {found:,} pairs where there are {expected:,}")


# -- contestants ---------------------------------------------------------------------------------------------------


@compiled
def _pack(keys, first, bits):  # type: ignore[no-untyped-def]
    """The words of int32 keys at consecutive places."""
    words = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):
        key = np.uint64(np.int64(keys[i]) + np.int64(0x80000000))
        words[i] = (key << np.uint64(bits)) | np.uint64(first + i)
    return words


@compiled
def _unpack(packed, high, bits):  # type: ignore[no-untyped-def]
    """Sorted words of low keys and their ranges' numbers, as the ends of ranges of words; `packed` is overwritten."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    ends = np.empty(len(packed), np.uint64)
    for i in range(len(packed)):
        number = packed[i] & mask
        packed[i] ^= number
        key = np.uint64(np.int64(high[number]) + np.int64(0x80000000))
        ends[i] = (key << np.uint64(bits)) | mask
    return packed, ends


class Contestant(Protocol):
    name: str

    def insert(self, keys: Array) -> None: ...

    def probe(self, low: Array, high: Array) -> int: ...

    def seal(self) -> None: ...


class Indexed:
    """One of the package's indexes, with what its callers do: words, sorting, outputs that are filled repeatedly."""

    def __init__(self, name: str, index: WordIndex, bits: int) -> None:
        self.name, self.index, self._bits = name, index, bits
        self._out = np.empty(OUT, np.int32), np.empty(OUT, np.int32)

    def insert(self, keys: Array) -> None:
        self.index.insert(sort_words(_pack(keys, self.index.count, self._bits), self._bits))

    def probe(self, low: Array, high: Array) -> int:
        starts, ends = _unpack(sort_words(_pack(low, 0, self._bits), self._bits), high, self._bits)
        state = new_state()
        found = 0
        while state[0] >= 0:
            found += self.index.probe(starts, ends, *self._out, state)
        return found

    def seal(self) -> None:
        self.index.seal()


@cache
def _built(capacity: int) -> CppBiSort:
    return CppBiSort(capacity)


class Cpp:
    """`CppBiSort`, which is one sorted array at any time."""

    name = CPP

    def __init__(self, capacity: int) -> None:
        self._cpp = _built(capacity)
        self._cpp.clear()
        self.compiler = self._cpp.compiler

    def insert(self, keys: Array) -> None:
        self._cpp.insert(keys)

    def probe(self, low: Array, high: Array) -> int:
        return len(self._cpp.probe(low, high)[0])

    def seal(self) -> None:
        pass


def make(name: str, size: int, partitions: int | None = None) -> Contestant:
    """An empty subwindow; RuntimeError where the C++ one cannot be built. A RaP-Table has had a predecessor."""
    bits = max(PLACE_BITS, place_bits_of(size))
    if name == CPP:
        return Cpp(size)
    if name == "RaP-Table":
        before = Indexed(name, RapTable(size, bits, partitions=partitions), bits)
        for part in np.array_split(_uniform(np.random.default_rng(1), size), 8):
            before.insert(part)
        assert isinstance(before.index, RapTable)
        before.seal()
        return Indexed(name, RapTable(size, bits, before.index, partitions), bits)
    if name == "WiB+-Tree":
        return Indexed(name, WibTree(size, bits, None if partitions is None else max(size // partitions, 2)), bits)
    return Indexed(name, BiSort(size, bits), bits)


# -- one subwindow -------------------------------------------------------------------------------------------------


@dataclass
class Ranges:
    low: Array
    high: Array
    expected: int


@dataclass
class Plan:
    """What every contestant gets: keys to fill with, and ranges for each round, with the pairs there are."""

    size: int
    batch: int
    selectivity: int
    filling: list[Array]
    last: list[Array]
    while_filling: list[list[Ranges]]
    full: list[list[Ranges]]
    warm_up: Ranges
    sorted_keys: Array
    natural: bool


def _uniform(rng: np.random.Generator, count: int) -> Array:
    return rng.integers(-(2**31), 2**31, count, dtype=np.int32)


def ranges(rng: np.random.Generator, keys: Array, count: int, selectivity: int, size: int) -> Ranges:
    """Fresh ranges in which, of `size` uniform keys, `selectivity` are on average; expected is over the sorted keys."""
    width = max(selectivity * FULL_RANGE // size, 1)
    low = _uniform(rng, count).astype(np.int64) - width // 2
    high = np.minimum(low + width - 1, 2**31 - 1).astype(np.int32)
    low = np.maximum(low, -(2**31)).astype(np.int32)
    expected = np.searchsorted(keys, high, side="right").sum() - np.searchsorted(keys, low).sum()
    return Ranges(low, high, int(expected))


def plan(size: int, batch: int, selectivity: int, rounds: int, seed: int) -> Plan:
    rng = np.random.default_rng(seed)
    keys = _uniform(rng, size)
    calls = max(CALL_TUPLES // batch, 1)
    last = min(rounds, max(size // (2 * batch * calls), 1)) * min(batch * calls, size)
    chunk = max(batch, size // MOST_FILLS)
    filling = [keys[at : min(at + chunk, size - last)] for at in range(0, size - last, chunk)]
    tail = [keys[at : at + batch] for at in range(size - last, size, batch)]
    stored = np.sort(keys[: size - last])
    warm_up = ranges(rng, stored, batch, selectivity + -(-selectivity // 2), size)  # so that no output grows later
    while_filling = []
    for at in range(0, len(tail), calls):
        stored = np.sort(np.concatenate([stored, *tail[at : at + calls]]), kind="stable")  # merges
        while_filling.append([ranges(rng, stored, batch, selectivity, size) for _ in range(calls)])
    full = [[ranges(rng, stored, batch, selectivity, size) for _ in range(calls)] for _ in range(rounds)]
    return Plan(size, batch, selectivity, filling, tail, while_filling, full, warm_up, stored, chunk == batch)


@dataclass
class Measured:
    """One contestant's rounds with one subwindow."""

    contestant: str
    size: int
    batch: int
    selectivity: int
    insert: Rates = field(default_factory=Rates)
    probe_filling: Rates = field(default_factory=Rates)
    insert_probe: Rates = field(default_factory=Rates)
    probe: Rates = field(default_factory=Rates)
    fill: float | None = None
    """M tuples/s from empty to full and sealed; None if it was not filled with batches of this size."""
    seal_ms: float | None = None
    partitions: int | None = None

    def figures(self) -> dict[str, Any]:
        rates = {
            name: entry.figures()
            for name in ("insert", "probe_filling", "insert_probe", "probe")
            if (entry := getattr(self, name)).rates
        }
        return {
            "contestant": self.contestant, "size": self.size, "batch": self.batch, "selectivity": self.selectivity,
            "partitions": self.partitions, **rates, "fill": self.fill, "seal_ms": self.seal_ms,
        }  # fmt: skip


def measure(
    given: Plan, contestant: Contestant, partitions: int | None = None, earlier: Measured | None = None
) -> Measured:
    """Fill, insert and probe until full, seal, probe; every count is checked. `earlier` rounds are gone on with."""
    result = earlier or Measured(contestant.name, given.size, given.batch, given.selectivity, partitions=partitions)
    spent, before = 0.0, result.insert.seconds
    for part in given.filling:
        part = part.copy()
        spent -= time.thread_time()
        contestant.insert(part)
        spent += time.thread_time()
    if given.filling:
        check(contestant.name, contestant.probe(given.warm_up.low, given.warm_up.high), given.warm_up.expected)
    calls = len(given.while_filling[0])
    for number, asked in enumerate(given.while_filling):
        batches = [part.copy() for part in given.last[number * calls : (number + 1) * calls]]
        fresh = [(each.low.copy(), each.high.copy()) for each in asked]
        tuples = sum(map(len, batches))
        with result.insert.round(tuples, by_cpu=True):
            for part in batches:
                contestant.insert(part)
        with result.probe_filling.round(tuples, by_cpu=True):
            found = sum([contestant.probe(low, high) for low, high in fresh])
        check(contestant.name, found, sum(each.expected for each in asked))
        inserted, probed = tuples / result.insert.rates[-1] / 1e6, tuples / result.probe_filling.rates[-1] / 1e6
        result.insert_probe.add(tuples, inserted + probed, inserted + probed, inserted + probed)
    result.insert_probe.wall = result.insert.wall + result.probe_filling.wall
    started = time.thread_time()
    contestant.seal()
    sealing = time.thread_time() - started
    if contestant.name != CPP:
        result.seal_ms = sealing * 1e3
    if given.natural:
        result.fill = given.size / (spent + result.insert.seconds - before + sealing) / 1e6
    for asked in given.full:
        fresh = [(each.low.copy(), each.high.copy()) for each in asked]
        with result.probe.round(given.batch * len(asked), by_cpu=True):
            found = sum([contestant.probe(low, high) for low, high in fresh])
        check(contestant.name, found, sum(each.expected for each in asked))
    return result


def measure_searchsorted(given: Plan, in_order: bool) -> Measured:
    """np.searchsorted for both ends, which gives positions and no pairs; over the words that an index holds.

    `in_order`: the ranges are put in order first, which spares most cache misses in a large array.
    """
    name = SEARCHED_SORTED if in_order else SEARCHED
    result = Measured(name, given.size, given.batch, given.selectivity)
    bits = np.uint64(PLACE_BITS)
    words: Words = _biased(given.sorted_keys) << bits
    ones = (np.uint64(1) << bits) - np.uint64(1)
    for number, asked in enumerate([given.while_filling[0], *given.full]):  # the first one warms up
        fresh = [(_biased(each.low) << bits, _biased(each.high) << bits | ones) for each in asked]
        with result.probe.round(given.batch * len(asked), by_cpu=True):
            found = 0
            for low, high in fresh:
                if in_order:
                    order = np.argsort(low)
                    low, high = low[order], high[order]
                start, end = np.searchsorted(words, low), np.searchsorted(words, high, side="right")
                found += int((end - start).sum())
        if number == 0:
            result.probe = Rates()
            continue
        check(name, found, sum(each.expected for each in asked))
    return result


def _biased(keys: Array) -> Words:
    return (keys.astype(np.int64) + 2**31).astype(np.uint64)


# -- the adjustment of splitters (Fig. 10f) ------------------------------------------------------------------------


def _multimodal(rng: np.random.Generator, count: int) -> Array:
    centres = np.array([0.1, 0.35, 0.36, 0.8])[rng.integers(0, 4, count)] * FULL_RANGE
    return np.clip(rng.normal(centres, FULL_RANGE / 1024), 0, FULL_RANGE - 1)


def _rank_size(rng: np.random.Generator, count: int) -> Array:
    return np.minimum(FULL_RANGE / 1e4 * rng.pareto(1, count), FULL_RANGE - 1)


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "uniform": lambda rng, count: rng.integers(0, FULL_RANGE, count),
    "multimodal normal": _multimodal,
    "rank-size": _rank_size,
}
"""Keys in 32 bits; of the rank-size ones 99% lie in 1% of the range."""


def convergence(size: int, partitions: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """The normalised mean absolute error of the partitions' sizes before and after each adjustment, fresh words each
    time; `chance` is what even splitters leave for uniform words."""
    series = []
    for name, draw in DISTRIBUTIONS.items():
        for count in partitions:
            rng = np.random.default_rng(seed)
            splitters = even_splitters(count)
            errors = []
            for _ in range(ADJUSTMENTS + 1):
                keys = draw(rng, size).astype(np.uint64)
                words = np.sort(keys << np.uint64(32) | rng.permutation(size).astype(np.uint64))
                ends = np.searchsorted(words, splitters, side="right")
                starts = np.concatenate([[0], ends[:-1]])
                sizes = ends - starts
                errors.append(float(np.abs(sizes - size / count).mean()) * count / size)
                low, high = words[np.minimum(starts, size - 1)], words[np.maximum(ends - 1, 0)]
                splitters = adjusted_splitters(sizes, low, high, count)
            chance = float(np.sqrt(2 * count / (np.pi * size)))
            entry = {"distribution": name, "partitions": count, "size": size, "errors": errors, "chance": chance}
            series.append(entry)
    return series


# -- the command ---------------------------------------------------------------------------------------------------


@dataclass
class Results:
    grid: list[Measured] = field(default_factory=list)
    partitions: list[Measured] = field(default_factory=list)
    selectivity: list[Measured] = field(default_factory=list)
    convergence: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    compiler: str | None = None
    others: float | None = None

    def ratios(self) -> list[dict[str, Any]]:
        """Per size and batch, round by round: ours to NumPy's probe, ours to C++'s insertion and probe."""
        found = []
        by_case = {(entry.contestant, entry.size, entry.batch): entry for entry in self.grid}
        for (name, size, batch), ours in by_case.items():
            if name not in INDEXES:
                continue
            entry: dict[str, Any] = {"contestant": name, "size": size, "batch": batch}
            searched, in_order = by_case[SEARCHED, size, batch], by_case[SEARCHED_SORTED, size, batch]
            entry["probe_to_searchsorted"] = _ratio(ours.probe, searched.probe)
            entry["probe_filling_to_searchsorted"] = _ratio(ours.probe_filling, searched.probe)
            entry["probe_to_sorted_searchsorted"] = _ratio(ours.probe, in_order.probe)
            cpp = by_case.get((CPP, size, batch))
            if cpp is not None:
                entry["insert_probe_to_cpp"] = _ratio(ours.insert_probe, cpp.insert_probe)
                entry["probe_to_cpp"] = _ratio(ours.probe, cpp.probe)
                if ours.fill is not None and cpp.fill is not None:
                    entry["fill_to_cpp"] = ours.fill / cpp.fill
            found.append(entry)
        return found

    def figures(self) -> dict[str, Any]:
        return {
            "grid": [entry.figures() for entry in self.grid],
            "partitions": [entry.figures() for entry in self.partitions],
            "selectivity": [entry.figures() for entry in self.selectivity],
            "ratios": self.ratios(), "convergence": self.convergence, "left_out": self.left_out,
            "others_cores": self.others, "targets": TARGETS, "paper": dict(PAPER),
        }  # fmt: skip


def _ratio(ours: Rates, theirs: Rates) -> dict[str, float]:
    """Of the medians, round by round, and of all rounds together."""
    each = np.array(ours.rates) / np.resize(theirs.rates, len(ours.rates))
    whole = ours.overall / theirs.overall
    return {"median": ours.median / theirs.median, "min": float(min(each)), "max": float(max(each)), "overall": whole}


def run(
    console: Console, *, sizes: list[int], batches: list[int], rounds: int, seed: int, quick: bool = False,
    json_file: Path | None = None, plots_directory: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print the tables, and write the figures."""
    if plots_directory is not None:
        plots.library()
    about = machine()
    console.print(f"one subwindow, one thread, seed {seed}; {about['cpu']}", markup=False, highlight=False)
    console.print(
        f"32-bit keys, uniform; {rounds} rounds; words of {PLACE_BITS} place bits, more where a subwindow has over "
        f"{1 << PLACE_BITS:,} tuples",
        markup=False, highlight=False,
    )  # fmt: skip
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("subwindow", total=None)
        results = _measure_all(
            sizes, batches, rounds, seed, quick, lambda text: progress.update(task, description=text)
        )
    for size in sizes:
        console.print(_grid_table(size, [entry for entry in results.grid if entry.size == size]))
    console.print(_ratio_table(results.ratios()))
    if results.partitions:
        console.print(_sweep_table("partitions", results.partitions))
    console.print("BI-Sort's partitions are always 16 words: there is no P to choose.")
    if results.selectivity:
        console.print(_sweep_table("selectivity", results.selectivity))
    console.print(_convergence_table(results.convergence))
    console.print(text_table("In the paper (not this machine)", PAPER))
    for text in results.left_out:
        console.print(f"left out: {text}", markup=False)
    console.print(others_text(results.others), markup=False, highlight=False)
    console.print("In every round all contestants found as many pairs as np.searchsorted counts.")
    about |= {"compiler": results.compiler} if results.compiler else {}
    settings = {"sizes": sizes, "batches": batches, "rounds": rounds, "seed": seed, "quick": quick}
    figures = {"machine": about, "settings": settings, **results.figures()}
    write_json(json_file, figures)
    if plots_directory is not None:
        for file in plots.subwindow(figures, plots_directory):
            console.print(f"wrote {file}", markup=False, highlight=False)


def _measure_all(
    sizes: list[int], batches: list[int], rounds: int, seed: int, quick: bool, say: Callable[[str], None]
) -> Results:
    results, others = Results(), Others()
    names = [*INDEXES, CPP]
    try:
        probe = make(CPP, 64)
        assert isinstance(probe, Cpp)
        results.compiler = probe.compiler
    except RuntimeError as error:
        names.remove(CPP)
        results.left_out.append(f"{CPP}: {error}")
    for name in names:  # so that kernels are compiled or loaded
        measure(plan(4_096, 512, 1, 2, seed), make(name, 4_096))
    for size in sizes:
        for batch in batches:
            if 2 * batch > size:
                results.left_out.append(f"batches of {batch:,} in a subwindow of {size:,}: too large to fill it")
                continue
            given = plan(size, batch, 1, rounds, seed)
            subwindows = 1 if quick else min(-(-rounds // len(given.while_filling)), MOST_REPEATS)
            for name in names:
                say(f"{name}, N = {size:,}, batches of {batch:,}")
                measured = measure(given, make(name, size))
                for repeat in range(1, subwindows):
                    measure(plan(size, batch, 1, rounds, seed + repeat), make(name, size), earlier=measured)
                results.grid.append(measured)
            results.grid += [measure_searchsorted(given, in_order) for in_order in (False, True)]
    middle, batch = sizes[len(sizes) // 2], max(batches)
    batch = min(BATCH, batch, max(middle // 4, 1))
    given = plan(middle, batch, 1, rounds, seed)
    for count in [p for p in PARTITIONS if 4 * p <= middle][:: 2 if quick else 1]:
        for name in INDEXES[1:]:
            say(f"{name}, P = {count:,}")
            results.partitions.append(measure(given, make(name, middle, count), count))
    for selectivity in SELECTIVITIES[: 3 if quick else None]:
        if selectivity * 4 > middle:
            continue
        given = plan(middle, batch, selectivity, min(rounds, 5), seed)
        for name in names:
            say(f"{name}, S = {selectivity:,}")
            results.selectivity.append(measure(given, make(name, middle)))
        results.selectivity.append(measure_searchsorted(given, False))
    say("adjustment of splitters")
    size = min(max(sizes), 200_000 if quick else 1_000_000)
    results.convergence = convergence(size, [p for p in (256, 1_024, 16_384) if 8 * p <= size] or [16], seed)
    results.others = others.cores()
    return results


# -- tables --------------------------------------------------------------------------------------------------------


def titled(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(title=title, title_justify="left", min_width=min(len(title), 110))
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    return table


def text_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    table = Table("what", "figure", title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


def spread(rates: Rates | dict[str, float]) -> str:
    """Median and extremes: 12.3 (11.0 - 12.9)."""
    if isinstance(rates, Rates):
        if not rates.rates:
            return ""
        rates = rates.figures()
    return f"{_short(rates['median'])} ({_short(rates['min'])} - {_short(rates['max'])})"


def others_text(cores: float | None) -> str:
    if cores is None:
        return "How busy others kept this machine is not known."
    text = f"Other programs used {cores:.2f} cores on average."
    return text + (" THE MACHINE WAS BUSY: do not rely on these figures." if cores > Others.WARN else "")


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _grid_table(size: int, entries: list[Measured]) -> Table:
    title = f"M tuples/s, N = {size:,}: median (min - max). Inserting: the last batches before the subwindow is full"
    columns = "contestant", "batch", "insert", "probe meanwhile", "insert + probe", "fill, seal", "probe, full", "cpu"
    table = titled(title, *columns)
    batch = None
    for entry in entries:
        if batch not in (None, entry.batch):
            table.add_section()
        batch = entry.batch
        cpu = sum(rates.cpu for rates in (entry.insert, entry.probe_filling, entry.probe))
        wall = sum(rates.wall for rates in (entry.insert, entry.probe_filling, entry.probe))
        fill = "" if entry.fill is None else f"{entry.fill:.3g}"
        table.add_row(
            entry.contestant, f"{batch:,}", spread(entry.insert), spread(entry.probe_filling),
            spread(entry.insert_probe), fill, spread(entry.probe), f"{cpu / max(wall, 1e-9):.0%}",
        )  # fmt: skip
    table.caption = (
        "probe: one match per range on average. np.searchsorted finds positions, no pairs. fill, seal: all insertions "
        "from empty on, and sealing. cpu: CPU time per wall time; well under 100%: others were using this core"
    )
    return table


def _ratio_table(ratios: list[dict[str, Any]]) -> Table:
    title = f"Ratios. Targets: {TARGETS['probe']:g}x np.searchsorted, {TARGETS['insert_probe']:g}x C++"
    columns = (
        "index",
        "N",
        "batch",
        "probe / searchsorted",
        "/ argsort + it",
        "insert + probe / C++",
        "all rounds",
        "fill / C++",
    )
    table = titled(title, *columns, "probe / C++")
    for entry in ratios:
        texts = [spread(entry[key]) for key in ("probe_to_searchsorted", "probe_to_sorted_searchsorted")]
        cpp = entry.get("insert_probe_to_cpp")
        texts += [spread(cpp), f"{cpp['overall']:.3g}"] if cpp else ["", ""]
        fill = f"{entry['fill_to_cpp']:.3g}" if "fill_to_cpp" in entry else ""
        probe = spread(entry["probe_to_cpp"]) if "probe_to_cpp" in entry else ""
        table.add_row(entry["contestant"], f"{entry['size']:,}", f"{entry['batch']:,}", *texts, fill, probe)
    table.caption = (
        "probe: of the full subwindow. searchsorted gets the ranges unsorted, as they come; argsort + it puts them in "
        "order first. insert + probe: the last batches before the subwindow is full, median (min - max) and all rounds "
        "together, since merges fall into a few rounds; fill: from empty on, sealing included"
    )
    return table


def _sweep_table(what: str, entries: list[Measured]) -> Table:
    letter = "P" if what == "partitions" else "S"
    title = f"M tuples/s by {what}, N = {entries[0].size:,}, batches of {entries[0].batch:,}: median (min - max)"
    table = titled(title, "contestant", letter, "insert", "probe meanwhile", "probe, full")
    for entry in entries:
        number = entry.partitions if what == "partitions" else entry.selectivity
        cells = spread(entry.insert), spread(entry.probe_filling), spread(entry.probe)
        table.add_row(entry.contestant, f"{number:,}", *cells)
    if what == "partitions":
        table.caption = "WiB+-Tree: leaves of N / P words, which are half to wholly full: P is approximate"
    return table


def _convergence_table(series: list[dict[str, Any]]) -> Table:
    title = f"RaP-Table: normalised MAE of the partitions' sizes after so many adjustments, N = {series[0]['size']:,}"
    table = titled(title, "distribution", "P", *map(str, range(ADJUSTMENTS + 1)), "by chance")
    for entry in series:
        errors = (f"{error:.3f}" for error in entry["errors"])
        table.add_row(entry["distribution"], f"{entry['partitions']:,}", *errors, f"{entry['chance']:.3f}")
    return table


def write_json(file: Path | None, figures: dict[str, Any]) -> None:
    if file is None:
        return
    try:
        file.write_text(json.dumps(figures, indent=2) + "\n")
    except OSError as error:
        raise StreamJoinError(f"--json: cannot write {str(file)!r}: {error.strerror}") from None
