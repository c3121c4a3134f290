"""The keyword arguments of a join, checked at the call: wrong ones never reach the data."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

import pyarrow as pa

from .errors import ArgumentError
from .predicate.expr import Side
from .window import (
    NANOSECONDS_PER_TICK,
    CountWindow,
    TimeUnit,
    TimeWindow,
    check_windows,
    lateness_ticks,
    parse_window,
    ticks,
    time_unit,
)  # fmt: skip

How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""Which rows are reported: matching pairs; also the unmatched rows of one or both sides; left rows with or without a
match."""
Order = Literal["none", "punctuated", "sorted"]
"""As found; as found with watermarks; by result timestamp and both positions, the same sequence on every run."""
Algorithm = Literal[
    "three-step",
    "celljoin",
    "handshake",
    "low-latency-handshake",
    "splitjoin",
    "scalejoin",
    "panjoin",
    "auto",
]
IndexName = Literal["scan", "hash", "bi-sort", "rap-table", "wib-tree", "auto"]
Late = Literal["drop", "keep"]
"""Whether late rows are only counted, or also kept for `late()`."""

ORDERED: tuple[str, ...] = ("bi-sort", "rap-table", "wib-tree")
MOST_WORKERS = 256
"""Each may be a thread; more of them than cores only take turns."""
MAX_PENDING, MAX_BATCH, MAX_WAIT = 1 << 24, 1 << 15, 0.005


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """The time column of each side and the unit that both are counted in."""

    left: str
    right: str
    unit: TimeUnit

    def of(self, side: Side) -> str:
        return self.left if side == "left" else self.right


@dataclass(frozen=True, slots=True)
class Options:
    """Checked arguments; windows and lateness are in ticks of the time columns or in rows."""

    windows: dict[Side, TimeWindow | CountWindow]
    time: TimeColumns | None
    lateness: int
    how: How
    order: Order
    algorithm: str
    index: str
    workers: int
    late: Late
    algorithm_why: str = "asked for"
    max_pending: int = MAX_PENDING
    max_batch: int = MAX_BATCH
    max_wait: float = MAX_WAIT
    """Seconds."""

    @property
    def needs_order(self) -> bool:
        """Whether tuples must be taken in the merged order: where order decides which pairs there are, or theirs, or
        where the algorithm begins with it."""
        counted = any(isinstance(window, CountWindow) for window in self.windows.values())
        return counted or self.order == "sorted" or self.algorithm == "scalejoin"


def choose(argument: str, value: Any, allowed: Sequence[str]) -> Any:
    """One of a few words."""
    if value in allowed:
        return value
    close = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise ArgumentError(f"{argument}: {value!r} will not do{hint}; choose from {', '.join(map(repr, allowed))}")


def check_options(
    left: pa.Schema,
    right: pa.Schema,
    *,
    window: Any,
    time: Any,
    lateness: Any,
    how: Any,
    algorithm: Any,
    index: Any,
    workers: Any,
    order: Any,
    late: Any,
    max_pending: Any = MAX_PENDING,
    max_batch: Any = MAX_BATCH,
    max_wait: Any = MAX_WAIT,
    has_equality: bool,
    has_order: bool,
) -> Options:
    """Check everything but the predicate; ArgumentError names the argument and what would do."""
    windows = parse_window(window)
    columns = time_columns(left, right, time)
    check_windows(windows, columns is not None)
    unit = columns.unit if columns else None
    crew = _workers(workers)
    return Options(
        windows={"left": _in_ticks(windows[0], unit), "right": _in_ticks(windows[1], unit)},
        time=columns,
        lateness=lateness_ticks(lateness, unit),
        how=choose("how", how, get_args(How)),
        order=choose("order", order, get_args(Order)),
        algorithm=_algorithm(algorithm, crew),
        algorithm_why="asked for" if algorithm != "auto" else f"{crew} worker{'s' * (crew > 1)}",
        index=_index(index, has_equality, has_order),
        workers=crew,
        late=choose("late", late, get_args(Late)),
        max_pending=_rows("max_pending", max_pending),
        max_batch=_rows("max_batch", max_batch),
        max_wait=_seconds("max_wait", max_wait),
    )


def _in_ticks(window: TimeWindow | CountWindow, unit: TimeUnit | None) -> TimeWindow | CountWindow:
    if isinstance(window, CountWindow):
        return window
    assert unit is not None
    return TimeWindow(ticks(window, unit))


def time_columns(left: pa.Schema, right: pa.Schema, time: Any) -> TimeColumns | None:
    if time is None:
        return None
    names = (time, time) if isinstance(time, str) else tuple(time) if isinstance(time, (tuple, list)) else ()
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"time: {time!r} will not do; give the time column's name, or a pair (left's, right's)")
    units: list[TimeUnit] = []
    for side, schema, name in (("left", left, names[0]), ("right", right, names[1])):
        if name not in schema.names:
            raise ArgumentError(
                f"time: the {side} stream has no column {name!r}; it has: {', '.join(schema.names) or 'none'}"
            )
        units.append(time_unit(schema.field(name).type, "time", name))
    if units[0] == units[1]:
        unit = units[0]
    elif "int" in units:
        raise ArgumentError(
            f"time: {names[0]!r} is {left.field(names[0]).type} and {names[1]!r} is {right.field(names[1]).type}; "
            "both must be integers, or both dates or timestamps"
        )
    else:
        unit = min(units, key=NANOSECONDS_PER_TICK.__getitem__)
    zones = [getattr(schema.field(name).type, "tz", None) for schema, name in ((left, names[0]), (right, names[1]))]
    if (zones[0] is None) != (zones[1] is None):
        raise ArgumentError(
            f"time: one of {names[0]!r} and {names[1]!r} has a time zone and the other has none; give both one"
        )
    return TimeColumns(names[0], names[1], unit)


def _algorithm(algorithm: Any, workers: int) -> str:
    choose("algorithm", algorithm, get_args(Algorithm))
    if algorithm == "auto":
        return "panjoin" if workers > 1 else "three-step"
    return str(algorithm)


def _index(index: Any, has_equality: bool, has_order: bool) -> str:
    choose("index", index, get_args(IndexName))
    if index == "hash" and not has_equality:
        raise ArgumentError(
            "index: 'hash' needs an equality between the two streams that every pair must meet, such as l.k = r.k, "
            "and the predicate has none; use 'auto'" + (", 'bi-sort'" if has_order else "") + " or 'scan'"
        )
    if index in ORDERED and not has_order:
        raise ArgumentError(
            f"index: {index!r} needs an equality, a band or a range between the two streams that every pair must meet, "
            "such as l.x BETWEEN r.a - 5 AND r.a + 5, and the predicate has none that it could sort by; use 'scan' or "
            "'auto'"
        )
    return str(index)


def _rows(argument: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ArgumentError(f"{argument}: {value!r} will not do; give a number of rows, 1 or more")
    return int(value)


def _seconds(argument: str, value: Any) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ArgumentError(f"{argument}: {value!r} will not do; give seconds, such as 0.005, or a timedelta")
    return float(value)


def _workers(workers: Any) -> int:
    if workers is None:
        return min(os.cpu_count() or 1, MOST_WORKERS)
    if isinstance(workers, bool) or not hasattr(workers, "__index__") or not 1 <= int(workers) <= MOST_WORKERS:
        raise ArgumentError(f"workers: {workers!r} will not do; give a number of cores, from 1 to {MOST_WORKERS}")
    return int(workers)
