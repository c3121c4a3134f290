"""The keyword arguments of a join, checked at the call: wrong ones never reach the data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

import pyarrow as pa

from ..arguments import choose
from ..arrow.times import TimeColumns, time_columns
from ..errors import ArgumentError
from ..gpu.support import missing
from ..side import Side
from ..store.index_choice import SCAN, usual_index
from ..store.registry import INDEXES
from ..topology.registry import ALGORITHMS, default_algorithm
from ..window import CountWindow, TimeUnit, TimeWindow, check_windows, lateness_ticks, parse_window, ticks

How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""Which rows are reported: matching pairs; also the unmatched rows of one or both sides; left rows with or without a
match."""
Match = Literal["all", "latest", "nearest"]
"""Which partners a left row is reported with: all; the last one that is not younger; the one closest in time."""
OTHER_HOWS = {
    "outer": "full", "full_outer": "full", "fullouter": "full", "full outer": "full", "left_outer": "left",
    "leftouter": "left", "left outer": "left", "right_outer": "right", "rightouter": "right", "right outer": "right",
    "left_semi": "semi", "leftsemi": "semi", "left semi": "semi", "left_anti": "anti", "leftanti": "anti",
    "left anti": "anti",
}  # fmt: skip
OTHER_MATCHES = {"backward": "latest", "last": "latest", "asof": "latest", "as-of": "latest", "closest": "nearest"}
"""What other libraries call them."""
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
DeviceName = Literal["auto", "cpu", "gpu"]
"""What scans windows: "auto" takes a GPU where there is one and it is likely to take less time."""
Late = Literal["drop", "keep"]
"""Whether late rows are only counted, or also kept for `late()`."""
NullTime = Literal["error", "drop"]
"""What a row without a timestamp is: an error in the data, or a row to leave out and count."""

MOST_WORKERS = 256
"""Each may be a thread; more of them than cores only take turns."""
MAX_PENDING, MAX_BATCH, MAX_WAIT = 1 << 24, 1 << 16, 0.005


Windows = dict[Side, TimeWindow | CountWindow]


@dataclass(frozen=True, slots=True)
class Options:
    """Checked arguments; windows and lateness are in ticks of the time columns or in rows."""

    windows: Windows
    time: TimeColumns | None
    lateness: int
    how: How
    order: Order
    algorithm: str
    index: str
    workers: int
    late: Late
    match: Match = "all"
    null_time: NullTime = "error"
    device: DeviceName = "cpu"
    algorithm_why: str = "asked for"
    max_pending: int = MAX_PENDING
    max_batch: int = MAX_BATCH
    max_wait: float = MAX_WAIT
    """Seconds."""

    @property
    def is_scanned(self) -> bool:
        """Whether the user's index looks at all tuples, so that no keys are needed."""
        return self.index != "auto" and INDEXES[self.index].scanned

    @property
    def needs_order(self) -> bool:
        """Whether tuples must be taken in the merged order: where order decides which pairs there are, or theirs, or
        where the algorithm needs it."""
        counted = any(isinstance(window, CountWindow) for window in self.windows.values())
        return counted or self.order == "sorted" or ALGORITHMS[self.algorithm].needs_order


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
    match: Any = "all",
    null_time: Any = "error",
    device: Any = "cpu",
    max_pending: Any = MAX_PENDING,
    max_batch: Any = MAX_BATCH,
    max_wait: Any = MAX_WAIT,
    has_equality: bool,
    has_order: bool,
) -> Options:
    """Check everything but the predicate; ArgumentError names the argument and what is valid."""
    windows = parse_window(window)
    columns = time_columns(left, right, time)
    check_windows(windows, columns is not None, window)
    null_time = choose("null_time", null_time, get_args(NullTime))
    if null_time == "drop" and columns is None:
        raise ArgumentError(
            'null_time: there is no time column; give its name, as in time="ts", or leave null_time out'
        )
    unit = columns.unit if columns else None
    crew = _workers(workers)
    how = choose("how", how, get_args(How), OTHER_HOWS)
    match = _match(match, how, columns)
    return Options(
        windows=_reaching({"left": _in_ticks(windows[0], unit), "right": _in_ticks(windows[1], unit)}, match),
        time=columns,
        lateness=lateness_ticks(lateness, unit),
        how=how,
        order=choose("order", order, get_args(Order)),
        algorithm=_algorithm(algorithm, crew),
        algorithm_why="asked for" if algorithm != "auto" else f"{crew} worker{'s' * (crew > 1)}",
        index=_index(index if device != "gpu" else _scanned(index), has_equality, has_order),
        workers=crew,
        late=choose("late", late, get_args(Late)),
        match=match,
        null_time=null_time,
        device=_device(device),
        max_pending=_rows("max_pending", max_pending),
        max_batch=_rows("max_batch", max_batch),
        max_wait=_seconds("max_wait", max_wait),
    )


def _in_ticks(window: TimeWindow | CountWindow, unit: TimeUnit | None) -> TimeWindow | CountWindow:
    if isinstance(window, CountWindow):
        return window
    assert unit is not None
    return TimeWindow(ticks(window, unit))


def _match(match: Any, how: str, columns: TimeColumns | None) -> Match:
    chosen: Match = choose("match", match, get_args(Match), OTHER_MATCHES)
    if chosen == "all":
        return chosen
    if how not in ("inner", "left"):
        raise ArgumentError(
            f"match: {match!r} gives each left row its closest partner, which how={how!r} does not ask for; use "
            "how='inner' or how='left', or match='all'"
        )
    if columns is None:
        raise ArgumentError(
            f'match: {match!r} compares timestamps, and there is no time column; give its name, as in time="ts", or '
            "use match='all'"
        )
    return chosen


def _reaching(windows: Windows, match: Match) -> Windows:
    """The windows, with a left one no longer than it must be: of the right tuples that come after a left one, its
    latest partner can only be one with the same timestamp, and those a time window of either stream lets in."""
    if match == "latest" and any(isinstance(window, TimeWindow) for window in windows.values()):
        return {**windows, "left": TimeWindow(1)}
    return windows


def _algorithm(algorithm: Any, workers: int) -> str:
    choose("algorithm", algorithm, [*ALGORITHMS, "auto"])
    if algorithm == "auto":
        return default_algorithm(workers)
    return str(algorithm)


def _device(device: Any) -> DeviceName:
    chosen: DeviceName = choose("device", device, get_args(DeviceName))
    reason = missing() if chosen == "gpu" else None
    if reason is not None:
        raise ArgumentError(f"device: 'gpu' cannot be used here: {reason}; use 'auto' or 'cpu'")
    return chosen


def _scanned(index: Any) -> Any:
    """The index for a GPU, which scans."""
    if index == "auto":
        return SCAN.name
    if index in INDEXES and not INDEXES[index].scanned:
        raise ArgumentError(f"index: {index!r} cannot be searched by device='gpu', which scans; use 'auto' or 'scan'")
    return index


def _index(index: Any, has_equality: bool, has_order: bool) -> str:
    choose("index", index, [*INDEXES, "auto"])
    needs = "nothing" if index == "auto" else INDEXES[index].needs
    instead = [repr(name) for name in dict.fromkeys(("auto", usual_index(has_order), usual_index(False)))]
    if needs == "equality" and not has_equality:
        raise ArgumentError(
            f"index: {index!r} needs an equality between the two streams that every pair must meet, such as l.k = r.k, "
            f"and the predicate has none; use {', '.join(instead)}"
        )
    if needs == "order" and not has_order:
        raise ArgumentError(
            f"index: {index!r} needs an equality, a band or a range between the two streams that every pair must meet, "
            "such as l.x BETWEEN r.a - 5 AND r.a + 5, and the predicate has none that it could sort by; "
            f"use {', '.join(instead)}"
        )
    return str(index)


def _rows(argument: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ArgumentError(f"{argument}: {value!r} is not valid; give a number of rows, 1 or more")
    return int(value)


def _seconds(argument: str, value: Any) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ArgumentError(f"{argument}: {value!r} is not valid; give seconds, such as 0.005, or a timedelta")
    return float(value)


def _workers(workers: Any) -> int:
    if workers is None:
        return min(os.cpu_count() or 1, MOST_WORKERS)
    if isinstance(workers, bool) or not hasattr(workers, "__index__") or not 1 <= int(workers) <= MOST_WORKERS:
        raise ArgumentError(f"workers: {workers!r} is not valid; give a number of cores, from 1 to {MOST_WORKERS}")
    return int(workers)
