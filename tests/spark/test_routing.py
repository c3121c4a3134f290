"""Which worker gets which row: every pair meets on one worker, work is shared out, and `auto` takes what suits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.predicate import plan_for
from streamjoin.predicate.evaluate import is_true, table_rows
from streamjoin.predicate.lower import lower
from streamjoin.side import SIDES
from streamjoin.spark.blocks import Blocks, hash_shares
from streamjoin.spark.key_router import homes, key_hashes
from streamjoin.spark.messages import RowRole
from streamjoin.spark.processor import COUNTS
from streamjoin.spark.progress import Progress, WorkerFigures
from streamjoin.spark.range_keys import RangeKeys
from streamjoin.spark.routing import choose_routing
from streamjoin.spark.spec import JoinSpec

from ..conformance.predicates import values
from ..long import LONG
from .simulated import make_spec

TYPES = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(), "f32": pa.float32(), "f64": pa.float64(),
    "cents": pa.decimal128(9, 2), "large": pa.decimal128(30, 2),
}  # fmt: skip
AT = pa.timestamp("us")
SCHEMA = pa.schema([("ts", pa.int64()), ("at", AT), *TYPES.items()])
ROWS = 24
FORMS = [
    "l.{a} BETWEEN r.{b} - 1 AND r.{b} + 1",
    "l.{a} > r.{b} - 1 AND l.{a} < r.{b} + 2 AND l.{c} <> r.{c}",
    "l.{a} BETWEEN r.{b} AND r.{b} OR l.{a} BETWEEN r.{b} + 2 AND r.{b} + 3",
    "abs(l.{a} - r.{b}) <= 1",
    "abs(l.{a} - r.{b}) < r.{c}",
    "abs(l.{a} - r.{b}) < CAST(r.{c} AS double)",
    "abs(l.{a} - r.{b}) <= 1e0",
    "abs(r.{b} - l.{a} - r.{c}) <= 2",
    "l.{a} - r.{b} BETWEEN -1 AND 1",
    "r.{b} - l.{a} BETWEEN -1 AND 1",
    "-1 <= r.{b} - l.{a} AND l.{a} - r.{b} >= -1",
    "l.{a} - r.{b} >= -1 AND l.{a} - r.{c} <= 1",
    "l.{a} - r.{b} + 5 >= 4 AND l.{a} - r.{b} <= 1",
    "abs(l.{a} - r.{b}) <= 1 AND l.{a} <= r.{c}",
    "abs(l.{a} - r.{b}) <= 1 AND l.{a} - r.{b} <= 0",
    "abs(l.{a} - r.{b}) <= -1 OR abs(l.{a} - r.{b}) <= 1",
    "l.{a} + l.{c} - r.{b} BETWEEN -1 AND 1",
    "l.{a} <= r.{b} + 1 AND r.{b} <= l.{a} + 1",
    "l.{c} = r.{c} AND abs(l.{a} - r.{b}) <= 1",
    "l.{a} <= r.{b}",
    "l.{a} - r.{b} <= 1",
]


def in_turn(rows: np.ndarray) -> np.ndarray:
    """Rows that can match nothing go to any worker."""
    return rows % 2


def rows_of_workers(spec: JoinSpec, tables: dict[str, pa.Table], rng: random.Random) -> Iterator[list[set[int]]]:
    """For each side, which rows each worker gets. A row that several get is answered by one of them."""
    splitters = np.sort(np.array([rng.choice([-(2**62), -5, 0, 1, 2, 5, 2**62]) for _ in spec.workers[1:]], np.int64))
    for side in SIDES:
        slots = spec.slots(side, tables[side])
        if spec.routing == "range":
            masks = RangeKeys.of(spec).touched(side, slots.columns, splitters)
            live = np.ones(tables[side].num_rows, np.bool_) if slots.live is None else slots.live
            yield [set(np.flatnonzero(mask & live).tolist()) for mask in masks]
            continue
        if spec.routing == "split":
            home = homes(key_hashes(spec, side, slots.columns), len(spec.workers))
            live = np.ones(tables[side].num_rows, np.bool_) if slots.live is None else slots.live
            yield [set(np.flatnonzero(live & (home == worker)).tolist()) for worker in spec.workers]
            continue
        by_hash = spec.routing == "hash"
        shares = hash_shares(spec, side, slots, in_turn) if by_hash else Blocks(spec).shares(side, slots, in_turn)
        answered = [
            row for share in shares
            for row in (share.rows if share.role is None else share.rows[share.role == RowRole.ANSWERED])
        ]  # fmt: skip
        assert sorted(answered) == list(range(tables[side].num_rows))
        assert all((np.diff(share.rows) > 0).all() for share in shares)
        assert (shares[0].role is None) != spec.has_roles(side)
        yield [set(share.rows.tolist()) for share in shares]


@pytest.mark.parametrize("form", FORMS)
def test_every_pair_meets_on_one_worker(form: str) -> None:
    """Whatever the values: the ends of integers, where sums wrap, NaN, infinities, NULLs."""

    @settings(max_examples=400 if LONG else 15)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        family = rng.choice([[name] for name in TYPES] + [["i8", "i32", "i64"], ["f32", "f64", "i32"], list(TYPES)])
        on = form.format(**{name: rng.choice(family) for name in "abc"})
        tables = {
            side: pa.table([pa.array(range(ROWS)), pa.nulls(ROWS, AT), *(values(rng, t, ROWS) for t in TYPES.values())],
                           schema=SCHEMA)
            for side in SIDES
        }  # fmt: skip
        try:
            plan = plan_for(on, SCHEMA, SCHEMA)
        except sj.PredicateError:
            return
        matches = is_true(plan.predicate)
        rows = {side: table_rows(tables[side], TYPES) for side in SIDES}
        pairs = [(i, j) for i, l in enumerate(rows["left"]) for j, r in enumerate(rows["right"]) if matches(l, r)]
        for routing in ("blocks", "range", "hash", "split"):
            try:
                spec = make_spec(
                    SCHEMA, SCHEMA, on=on, window=5, workers=rng.choice([2, 5]), routing=routing, time="ts"
                )
            except sj.ArgumentError:
                continue
            left, right = rows_of_workers(spec, tables, rng)
            for i, j in pairs:
                meetings = sum(i in mine and j in its for mine, its in zip(left, right, strict=True))
                assert meetings == 1, (seed, on, routing, rows["left"][i], rows["right"][j])

    one()


@pytest.mark.parametrize(
    ("on", "workers", "chosen", "also"),
    [
        ("l.i32 = r.i32", 2, "hash: the predicate has an equality", ()),
        ("l.i32 = r.i32 AND abs(l.f64 - r.f64) <= 1", 8, "hash", ("blocks", "range")),
        ("l.i32 BETWEEN r.i32 - 5 AND r.i32 + 5", 2, "blocks: l.i32 has a band of constant width; blocks of 64",
         ("range",)),
        ("abs(l.f64 - r.f64) <= 1", 2, "blocks: l.f64 has a band of constant width; blocks of 8", ("range",)),
        ("l.f64 - r.f64 BETWEEN -1 AND 1", 2, "blocks", ("range",)),
        ("abs(l.cents - r.cents) <= 1", 2, "blocks", ("range",)),
        ("l.cents - r.cents BETWEEN -1 AND 1", 2, "blocks", ("range",)),
        ("abs(l.i32 - r.i32) <= 10 AND abs(l.f32 - r.f32) <= 10", 2, "blocks", ("range",)),
        ("abs(l.i64 - r.i64) <= 10", 2, "blocks", ()),
        ("l.i64 - r.i64 BETWEEN -10 AND 10", 2, "blocks", ("range",)),
        ("l.i32 BETWEEN r.i32 - 5 AND r.i32 + 5", 1, "broadcast: there is one worker", ("blocks", "range")),
        ("l.i8 BETWEEN r.i8 - 5 AND r.i8 + 5", 8, "range", ("blocks",)),
        ("l.at BETWEEN r.at AND r.at + INTERVAL 9 SECOND", 2, "broadcast", ("blocks", "range")),
        ("abs(l.f32 - r.f32) <= 1 AND l.at BETWEEN r.at AND r.at + INTERVAL 9 SECOND", 2, "blocks: l.f32", ("range",)),
        ("l.i32 BETWEEN r.i16 AND r.i32", 8, "range: l.i32 has a band", ()),
        ("l.i32 BETWEEN r.i16 AND r.i32", 4, "broadcast: nothing else suits", ("range",)),
        ("l.f64 BETWEEN 0.9 * r.f64 AND 1.1 * r.f64", 8, "range", ()),
        ("l.i32 < r.i32", 8, "broadcast", ("range",)),
        ("l.i32 <> r.i32", 8, "broadcast", ()),
    ],
)  # fmt: skip
def test_what_auto_takes_and_why(on: str, workers: int, chosen: str, also: tuple[str, ...]) -> None:
    schemas: Any = dict.fromkeys(SIDES, SCHEMA)
    lowered = lower(plan_for(on, SCHEMA, SCHEMA))
    route = choose_routing("auto", lowered, schemas, workers, needs_order=False)
    assert f"{route.routing}: {route.why}".startswith(chosen)
    possible = {"broadcast", route.routing, *also} | ({"split"} if route.routing == "hash" else set())
    for routing in ("broadcast", "range", "blocks", "hash", "split"):
        if routing in possible:
            found = choose_routing(routing, lowered, schemas, workers, needs_order=False)
            assert (found.routing, found.why[:9]) == (routing, "asked for")
        else:
            with pytest.raises(
                sj.ArgumentError, match=f"routing: '{routing}' needs .* and the predicate has none; use"
            ):
                choose_routing(routing, lowered, schemas, workers, needs_order=False)


@pytest.mark.parametrize(
    ("on", "left", "most"),
    [
        ("abs(l.f64 - r.f64) <= 0.01", {"f64": np.random.default_rng(0).normal(100, 0.4, 20_000)}, 1.3),
        ("l.i64 BETWEEN r.i64 - 3 AND r.i64 + 3", {"i64": np.arange(20_000) * 4_800 + 10}, 1.3),
        ("l.i8 = r.i8 AND l.f64 BETWEEN r.f64 - 1 AND r.f64 + 1", {"f64": np.arange(20_000.0)}, 1.2),
    ],
    ids=["near each other", "with gaps", "one frequent key beside a band"],
)  # fmt: skip
def test_blocks_share_the_work_out(on: str, left: dict[str, Any], most: float) -> None:
    columns = {name: left.get(name, np.zeros(20_000)) for name in SCHEMA.names}
    table = pa.table(
        [pa.array(columns[f.name]).cast(pa.int64() if f.name == "at" else f.type).cast(f.type) for f in SCHEMA],
        schema=SCHEMA,
    )
    spec = make_spec(SCHEMA, SCHEMA, on=on, window=sj.TimeWindow(5), time="ts", workers=4, routing="blocks")
    for side in SIDES:
        rows = [len(share.rows) for share in Blocks(spec).shares(side, spec.slots(side, table), in_turn)]
        assert max(rows) < most * np.mean(rows), (side, rows)
        assert sum(rows) < 1.3 * 20_000, (side, rows)


def test_skew_counts_rows_as_well_as_seconds() -> None:
    workers = tuple(WorkerFigures(number, rows, rows, 0, 0.1) for number, rows in enumerate((930, 70)))
    counts = dict.fromkeys(COUNTS, 1_000)
    figures = Progress(0, 1.0, **counts, slowest=0.1, mean=0.1, workers=workers)
    assert figures.skew == pytest.approx(1.86)
    assert replace(figures, slowest=0.3).skew == pytest.approx(3)
    assert replace(figures, workers=()).skew == 1


def test_the_size_of_blocks_is_part_of_the_terms() -> None:
    specs = [
        make_spec(SCHEMA, SCHEMA, on=f"abs(l.f64 - r.f64) <= {width}", window=5, time="ts", routing="blocks", workers=2)
        for width in (0.5, 2)
    ]
    assert [spec.terms["routing"] for spec in specs] != [specs[0].terms["routing"]] * 2
    assert specs[0].terms["routing"].startswith("blocks of 4.0")
