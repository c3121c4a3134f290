"""`streamjoin bench scan`: CellJoin's band join on one core, against C++ written by hand for it.

    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.

x, a are int32 and y, b float32, uniform from 1 to 10,000, so that one pair in about 250,000 matches. y and b are
multiples of 1/128: then float32 and double arithmetic agree on every sum, and all contestants, however the predicate
is spelled, must find the same pairs. That is checked in every round. The window is full before the first round, each
round has fresh probing tuples, and all contestants take turns within it. The clock is the thread's CPU time: all of
them run in one thread, and being interrupted by other programs is no property of theirs.
"""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..arrays import Array
from ..engine.window_join import WindowJoin
from ..errors import StreamJoinError
from ..predicate import Predicate, plan_for
from ..predicate.lower import Lowered, lower
from ..predicate.vector import Frame
from ..side import SIDES, Side, other
from ..store import Batch, PairSink, Probing, SideWindow
from ..tasks import one_after_another
from .baselines import Cpp, Pairs, numpy_join

SQL = "l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10."
SCHEMAS: dict[Side, pa.Schema] = {
    "left": pa.schema({"x": pa.int32(), "y": pa.float32()}),
    "right": pa.schema({"a": pa.int32(), "b": pa.float32()}),
}
PAPERS = (
    ("ScaleJoin (Gulisano et al. 2015), Java, 48 cores", "0.08"),
    ("CellJoin (Gedik et al. 2009), 8 SPEs, 1,000 tuples/s", "0.23"),
    ("handshake join (Teubner, Mueller 2011), 8 cores, 1,400 tuples/s", "0.44"),
    ("the same in Roy et al. 2014, SSE, 40 cores, 5,125 tuples/s", "1.2"),
)
"""G comparisons/s per core: 2 x window x rate^2 / cores at 15-minute windows; ScaleJoin gives the figure itself."""
NUMPY_PROBES = 16


def _chained(l: Any, r: Any) -> Any:
    return r.a - 10 <= l.x <= r.a + 10 and r.b - 10 <= l.y <= r.b + 10


def _absolute(l: Any, r: Any) -> Any:
    return abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10


PREDICATES: dict[str, Predicate] = {
    "SQL": SQL,
    "Python, a <= x <= b": _chained,
    "Python, abs()": _absolute,
}
Columns = tuple[Array, Array]
Contestant = Callable[[Columns], Pairs]


@dataclass
class Series:
    """One contestant's rounds: G comparisons per second."""

    contestant: str
    stored: str
    rates: list[float] = field(default_factory=list)
    to_cpp: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        ratio = float(np.median(self.to_cpp)) if self.to_cpp else None
        return {
            "contestant": self.contestant, "stored": self.stored, "best": max(self.rates),
            "median": float(np.median(self.rates)), "min": min(self.rates), "ratio_to_cpp": ratio,
            "rates": self.rates,
        }  # fmt: skip


def tuples(rng: np.random.Generator, count: int) -> Columns:
    numbers = rng.integers(1, 10_001, count).astype(np.int32)
    return numbers, (rng.integers(128, 1_280_001, count) / 128).astype(np.float32)


class Scan:
    """One predicate through the product's own path: slots of the columns, chain of subwindows, compiled scan."""

    def __init__(self, on: Predicate, stored: Side, columns: Columns) -> None:
        self._lowered: Lowered = lower(plan_for(on, SCHEMAS["left"], SCHEMAS["right"]))
        self._stored = stored
        self._count = len(columns[0])
        self._window = SideWindow(self._lowered, stored, "scan", one_after_another)
        self._window.insert(self._batch(stored, columns))

    def __call__(self, probes: Columns) -> Pairs:
        sink = PairSink(left_probes=True)  # the kernels decide these predicates alone
        for _ in self._window.probe(Probing(self._batch(other(self._stored), probes)), sink):
            pass
        probing, found = sink.take()
        return np.concatenate([np.empty(0, np.int64), *probing]), np.concatenate([np.empty(0, np.int64), *found])

    def _batch(self, side: Side, columns: Columns) -> Batch:
        names = SCHEMAS[side].names
        arrays = {(side, name): pa.array(column) for name, column in zip(names, columns, strict=True)}
        rows = np.arange(len(columns[0]))
        slots = self._lowered.sides[side].run(Frame(len(rows), arrays)).columns
        return Batch(rows, rows, np.zeros_like(rows), np.full_like(rows, self._count), slots)


def contestants(columns: dict[Side, Columns], cpp: Cpp | None) -> Iterator[tuple[str, Side, Contestant]]:
    """Every contestant with either side stored; its window is full."""
    for stored in SIDES:
        coordinate = np.arange(len(columns[stored][0]))

        def by_columns(join: Any, stored: Side = stored, coordinate: Array = coordinate) -> Contestant:
            def run(probes: Columns) -> Pairs:
                low = np.zeros(len(probes[0]), np.int64)
                return join(stored, columns[stored], coordinate, probes, low, low + len(coordinate))

            return run

        if cpp is not None:
            yield "C++", stored, by_columns(cpp.join)
        for name, on in PREDICATES.items():
            yield name, stored, Scan(on, stored, columns[stored])
        yield "NumPy", stored, by_columns(numpy_join)


def measure(
    window: int, probes: int, rounds: int, seed: int, cpp: Cpp | None, step: Callable[[], None] = lambda: None
) -> list[Series]:
    """The rates of all contestants; AssertionError if they do not find the same pairs."""
    rng = np.random.default_rng(seed)
    entrants = list(contestants({side: tuples(rng, window) for side in SIDES}, cpp))
    series = {(name, stored): Series(name, stored) for name, stored, _ in entrants}
    for round_ in range(-1, rounds):  # the first one warms up: kernels are compiled or loaded
        fresh = tuples(rng, probes)
        found: dict[tuple[str, Side], Pairs] = {}
        rate: dict[tuple[str, Side], float] = {}
        for name, stored, run in entrants[round_ % len(entrants) :] + entrants[: round_ % len(entrants)]:
            given = tuple(column[:NUMPY_PROBES] for column in fresh) if name == "NumPy" else fresh
            started = time.thread_time()
            found[name, stored] = run((given[0], given[1]))
            rate[name, stored] = window * len(given[0]) / (time.thread_time() - started) / 1e9
            step()
        _check(found)
        if round_ >= 0:
            for key, value in rate.items():
                series[key].rates.append(value)
                if ("C++", key[1]) in rate:
                    series[key].to_cpp.append(value / rate["C++", key[1]])
    return list(series.values())


def _check(found: dict[tuple[str, Side], Pairs]) -> None:
    """All contestants must agree; NumPy has seen the first probing tuples only."""
    for stored in SIDES:
        pairs = {name: _as_set(found[name, side]) for name, side in found if side == stored}
        expected = pairs["SQL"]
        first = {pair for pair in expected if pair[0] < NUMPY_PROBES}
        for name, some in pairs.items():
            if some != (first if name == "NumPy" else expected):
                raise AssertionError(f"{name} ({stored} stored) finds {len(some)} pairs, SQL finds {len(expected)}")


def _as_set(pairs: Pairs) -> set[tuple[int, int]]:
    return set(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


@dataclass
class EndToEnd:
    """A whole WindowJoin: Arrow batches in, tables out, count windows, the left one full."""

    batch: int
    rates: list[float]
    tuples_per_second: float
    pairs: int

    def figures(self) -> dict[str, Any]:
        return {
            "batch": self.batch, "best": max(self.rates), "median": float(np.median(self.rates)),
            "min": min(self.rates), "tuples_per_second": self.tuples_per_second, "pairs": self.pairs,
        }  # fmt: skip


def end_to_end(window: int, batch: int, rounds: int, seed: int) -> EndToEnd:
    """Each batch of the right stream meets all of the left window and enters its own."""
    rng = np.random.default_rng(seed)

    def table(side: Side, count: int) -> pa.Table:
        return pa.table(list(tuples(rng, count)), schema=SCHEMAS[side])

    rates: list[float] = []
    seconds, pairs = 0.0, 0
    with WindowJoin(SCHEMAS["left"], SCHEMAS["right"], on=SQL, window=window, index="scan") as join:
        join.push_left(table("left", window))
        for round_ in range(-1, rounds):
            fresh, before = table("right", batch), join.metrics()["comparisons"]
            started = time.thread_time()
            join.push_right(fresh)
            result = join.poll()
            taken = time.thread_time() - started
            if round_ >= 0:
                rates.append((join.metrics()["comparisons"] - before) / taken / 1e9)
                seconds, pairs = seconds + taken, pairs + result.num_rows
    return EndToEnd(batch, rates, rounds * batch / seconds, pairs)


def machine() -> dict[str, str]:
    import numba

    from .. import __version__

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
    model = named[1] if named else model
    return {
        "cpu": model, "python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__,
        "pyarrow": pa.__version__, "streamjoin": __version__,
    }  # fmt: skip


def run(
    console: Console, *, window: int, probes: list[int], rounds: int, seed: int, json_file: Path | None = None
) -> None:
    """Measure, print the tables, and write the figures."""
    try:
        cpp: Cpp | None = Cpp()
    except RuntimeError as error:
        cpp = None
        console.print(f"C++ baseline left out: {error}", markup=False)
    about = machine() | ({"compiler": cpp.compiler, "avx512": str(cpp.avx512)} if cpp else {})
    console.print(SQL, markup=False, highlight=False)
    console.print(f"window {window:,} tuples, one core, seed {seed}; {about['cpu']}", markup=False, highlight=False)
    per_round = 2 * (len(PREDICATES) + 1 + (cpp is not None))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scan", total=len(probes) * (rounds + 1) * per_round + len(probes))
        measured = []
        for count in probes:
            series = measure(window, count, rounds, seed, cpp, lambda: progress.advance(task))
            measured.append((count, series))
        whole = []
        for batch in dict.fromkeys([64, 1024]):
            whole.append(end_to_end(window, batch, max(3, rounds * 64 // batch), seed))
            progress.advance(task)
    for count, series in measured:
        console.print(_table(count, series))
    console.print(_whole_table(window, whole))
    console.print(_paper_table())
    console.print("In every round all contestants found the same pairs.")
    if json_file is not None:
        figures = {
            "machine": about, "predicate": SQL, "window": window, "rounds": rounds, "seed": seed,
            "scan": [{"probes": count, **entry.figures()} for count, series in measured for entry in series],
            "end_to_end": [entry.figures() for entry in whole],
            "papers": dict(PAPERS),
        }  # fmt: skip
        try:
            json_file.write_text(json.dumps(figures, indent=2) + "\n")
        except OSError as error:
            raise StreamJoinError(f"--json: cannot write {str(json_file)!r}: {error.strerror}") from None


def _titled(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", min_width=len(title))


def _table(probes: int, series: list[Series]) -> Table:
    table = _titled(f"G comparisons/s, {probes:,} probing tuples at a time", "stored", "contestant")
    for name in ("best", "median", "min - max", "of C++"):
        table.add_column(name, justify="right")
    for entry in sorted(series, key=lambda entry: entry.stored):
        f = entry.figures()
        ratio = "" if f["ratio_to_cpp"] is None else f"{f['ratio_to_cpp']:.2f}"
        spread = f"{f['min']:.2f} - {f['best']:.2f}"
        table.add_row(entry.stored, entry.contestant, f"{f['best']:.2f}", f"{f['median']:.2f}", spread, ratio)
    return table


def _whole_table(window: int, whole: list[EndToEnd]) -> Table:
    table = _titled(f"G comparisons/s, whole WindowJoin (SQL), count windows of {window:,}")
    for name in ("batch", "best", "median", "min - max", "tuples/s"):
        table.add_column(name, justify="right")
    for entry in whole:
        f = entry.figures()
        spread, rate = f"{f['min']:.2f} - {f['best']:.2f}", f"{f['tuples_per_second']:,.0f}"
        table.add_row(f"{entry.batch:,}", f"{f['best']:.2f}", f"{f['median']:.2f}", spread, rate)
    return table


def _paper_table() -> Table:
    table = _titled("G comparisons/s per core in the papers, on the machines of their time", "system")
    table.add_column("per core", justify="right")
    for name, figure in PAPERS:
        table.add_row(name, figure)
    return table
