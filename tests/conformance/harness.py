"""Runs a join push by push and judges what comes out by the oracle."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from streamjoin import oracle, testing
from streamjoin.predicate import Plan, plan_for
from streamjoin.predicate.evaluate import column_values, is_true
from streamjoin.predicate.expr import Column, walk
from streamjoin.window import CountWindow, TimeWindow, Window

from .engines import Engine, Windows

NANOSECONDS = {"day": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
Pair = tuple[int | None, int | None]
DEVICE = os.environ.get("STREAMJOIN_TEST_DEVICE", "cpu")
"""What scans windows where the index allows it."""


@dataclass(frozen=True)
class Case:
    """Two streams and a predicate. Every row carries its number: `ln` in the left stream, `rn` in the right.

    A window of n steps is n * `step` ticks long. `lateness` is in ticks; None: just enough that nothing is late.
    """

    name: str
    left: pa.Table
    right: pa.Table
    on: str
    time: tuple[str, str] = ("ts", "ts")
    step: int = 1
    lateness: int | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def plan(self) -> Plan:
        return plan_for(self.on, self.left.schema, self.right.schema)

    @property
    def unit(self) -> str:
        """The finer unit of both time columns; "int" for integers."""
        units = [unit_of(t.schema.field(n).type) for t, n in zip((self.left, self.right), self.time, strict=True)]
        return "int" if "int" in units else min(units, key=NANOSECONDS.__getitem__)

    def times(self) -> tuple[list[int], list[int]]:
        """The timestamps of both streams in ticks of `unit`."""
        unit = self.unit
        left, right = (ticks(t.column(n), unit) for t, n in zip((self.left, self.right), self.time, strict=True))
        return left, right

    def enough_lateness(self) -> int:
        """How far the most belated tuple is behind its stream, or the lateness that was given."""
        if self.lateness is not None:
            return self.lateness
        most = 0
        for times in self.times():
            furthest = None
            for t in times:
                furthest = t if furthest is None else max(furthest, t)
                most = max(most, furthest - t)
        return most


def unit_of(time_type: pa.DataType) -> str:
    if pa.types.is_integer(time_type):
        return "int"
    if pa.types.is_date32(time_type):
        return "day"
    return "ms" if pa.types.is_date64(time_type) else str(time_type.unit)


def ticks(column: pa.ChunkedArray, unit: str) -> list[int]:
    own = unit_of(column.type)
    if own == "int":
        return column.to_pylist()
    numbers = column.cast(pa.int32() if own == "day" else pa.int64()).to_pylist()
    return [n * (NANOSECONDS[own] // NANOSECONDS[unit]) for n in numbers]


def numbered(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(range(table.num_rows), pa.int64()))


@dataclass
class Run:
    """What a join gave. `polls` are the tables in their order, each with the watermark that came with it."""

    polls: list[tuple[pa.Table, int | None]]
    arrivals: list[tuple[oracle.Side, int]]
    metrics: dict[str, Any]

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables(table.replace_schema_metadata(None) for table, _ in self.polls)

    @property
    def pairs(self) -> list[Pair]:
        return pairs_of(self.table)


def pairs_of(table: pa.Table) -> list[Pair]:
    """The row numbers of both sides, None where there is no tuple."""
    left = table.column("ln").to_pylist()
    right = table.column("rn").to_pylist() if "rn" in table.column_names else [None] * len(left)
    return list(zip(left, right, strict=True))


def run(
    case: Case,
    engine: Engine,
    windows: Windows,
    *,
    order: str = "none",
    how: str = "inner",
    match: str = "all",
    size: int | None = None,
    seed: int = 0,
    poll_every: int = 1,
    device: str | None = None,
) -> Run:
    """Push both streams in batches of `size` (None: random), interleaved at random, polling now and then."""
    if device is None:
        device = DEVICE if engine.index in ("auto", "scan") else "cpu"
    options: dict[str, Any] = {}
    if windows.time:
        options = {"time": case.time, "lateness": _duration(case.enough_lateness(), case.unit)}
    pushes = testing.interleave(
        testing.batches(case.left, size, seed=seed) or [case.left],
        testing.batches(case.right, size, seed=seed + 1) or [case.right],
        seed,
    )
    result = Run([], [], {})
    window = tuple(_argument(w, case) for w in windows[:2])
    with sj.WindowJoin(
        case.left.schema, case.right.schema, on=case.on, window=window, how=how, match=match, order=order,
        algorithm=engine.algorithm, index=engine.index, workers=engine.workers, device=device, **options,
    ) as join:  # fmt: skip
        for i, (side, batch) in enumerate(pushes):
            (join.push_left if side == "left" else join.push_right)(batch)
            result.arrivals.append((side, batch.num_rows))
            if i % poll_every == 0:
                table = join.poll()
                result.polls.append((table, join.watermark))
        result.polls.append((join.finish(), None))
        result.metrics = join.metrics()
    return result


def _duration(amount: int, unit: str) -> Any:
    """A length of time as a user would give it: an int over integer columns, else a timedelta."""
    return amount if unit == "int" else np.timedelta64(amount, "D" if unit == "day" else unit)


def _argument(window: Window, case: Case) -> Any:
    if isinstance(window, CountWindow):
        return window.rows
    return TimeWindow(_duration(window.amount * case.step, case.unit))


def expected(
    case: Case,
    windows: Windows,
    *,
    how: str = "inner",
    match: str = "all",
    arrivals: list[tuple[oracle.Side, int]] | None = None,
) -> list[Pair]:
    """The oracle's rows for the case, in the order of sorted results."""
    predicate = case.plan.predicate
    sides = []
    for side, table, times in zip(("left", "right"), (case.left, case.right), case.times(), strict=True):
        names = sorted({n.name for n in walk(predicate) if isinstance(n, Column) and n.side == side})
        columns = {name: column_values(table.column(name)) for name in names}
        rows = range(table.num_rows)
        sides.append([{**{n: columns[n][i] for n in names}, "the time": times[i]} for i in rows])
    window = tuple(TimeWindow(w.amount * case.step) if isinstance(w, TimeWindow) else w for w in windows[:2])
    time = ("the time", "the time") if windows.time else None
    lateness = case.enough_lateness() if windows.time else 0
    return oracle.join_rows(
        sides[0],
        sides[1],
        is_true(predicate),
        window,
        time,
        arrivals,
        lateness,
        how,  # type: ignore[arg-type]
        match,  # type: ignore[arg-type]
    )


def check(
    case: Case,
    result: Run,
    wanted: list[Pair],
    *,
    order: str,
    how: str = "inner",
    match: str = "all",
    rows: bool = True,
) -> None:
    """The right pairs, in the right sequence if sorted, with the promised watermarks and the right columns."""
    table = result.table
    found = pairs_of(table)
    testing.assert_same_rows(found, wanted, ordered=order == "sorted")
    if order == "punctuated":
        check_watermarks(case, result, match)
    assert result.metrics["out"] == len(wanted)
    if rows:
        testing.assert_same_rows(table, gathered(case, found, how), ordered=True)


def gathered(case: Case, pairs: list[Pair], how: str) -> pa.Table:
    """The result's table, made from the inputs: the left's columns, then the right's."""
    left = taken(case.left, pa.array([l for l, _ in pairs], pa.int64()))
    names, columns = list(left.column_names), list(left.columns)
    if how not in ("semi", "anti"):
        right = taken(case.right, pa.array([r for _, r in pairs], pa.int64()))
        names += [f"{n}_right" if n in left.column_names else n for n in right.column_names]
        columns += right.columns
    return pa.table(columns, names=names)


def taken(table: pa.Table, rows: pa.Array) -> pa.Table:
    """`table.take`, which Arrow lacks for views of text."""
    views = {field.name for field in table.schema if pa.types.is_string_view(field.type)}
    return pa.table({
        name: column.cast(pa.string()).take(rows).cast(column.type) if name in views else column.take(rows)
        for name, column in zip(table.column_names, table.columns, strict=True)
    })  # fmt: skip


def check_watermarks(case: Case, result: Run, match: str = "all") -> None:
    """No result that comes after a watermark is earlier than it. A closest partner's timestamp does not count."""
    left, right = case.times()
    promise: int | None = None
    for table, watermark in result.polls:
        times = [
            max(([] if l is None else [left[l]]) + ([] if r is None or match != "all" else [right[r]]))
            for l, r in pairs_of(table)
        ]
        if promise is not None and times:
            assert min(times) >= promise, f"a result at {min(times)} after the watermark {promise}"
        if watermark is not None:
            assert int(table.schema.metadata[b"streamjoin.watermark"]) == watermark
            promise = watermark if promise is None else max(promise, watermark)
