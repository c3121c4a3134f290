"""Outer, semi and anti joins: the workers report what the embedded join does, and in the same micro-batch.

Also where rows are late, equal, have no key or meet their partners on several workers, and where steps are repeated.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.engine.options import How
from streamjoin.side import SIDES
from streamjoin.spark.identity import _hash_bytes, _hash_bytes_in_numpy, identities, places_of
from streamjoin.spark.sealed_values import opened
from streamjoin.spark.segments import Cache
from streamjoin.spark.worker_state import NAME
from streamjoin.spark.worker_state import STATES as WORKERS
from streamjoin.testing import assert_same_rows

from ..long import LONG
from .simulated import PREDICATES, WINDOWS, Dictionary, Simulated, cut, dealt, make_spec, stream
from .test_step import shuffle_rows

pytestmark = pytest.mark.usefixtures("few_kernels", "small_segments")
HOWS = [how for how in get_args(How) if how != "inner"]
MATCHES = ["latest", "nearest"]
FAR = 10**6
SHORT = [(sj.TimeWindow(4), sj.TimeWindow(4)), (sj.TimeWindow(1), sj.TimeWindow(9))]
CASES = {"l.v BETWEEN r.v - 30 AND r.v + 30": ("broadcast", "broadcast", *["range", "blocks"] * 4), **PREDICATES}
"""Predicates and the routings that they allow. A row of the first one lies in several ranges, and has few partners."""


def streams(rng: random.Random, rows: int, disorder: int, ties: bool) -> list[pa.Table]:
    """Two streams, in which many rows have equal times and values if there may be `ties`."""
    tables = [stream(rng, rng.choice([0, 1, rows, rows, rows, rows]), disorder) for _ in range(2)]
    if not ties:
        return tables
    tables = [table.set_column(0, "ts", pc.divide(table["ts"], 4)) for table in tables]
    return [table.take(pa.array(several_times(rng, table.num_rows), pa.int64())) for table in tables]


def several_times(rng: random.Random, rows: int) -> list[int]:
    return [row for row in range(rows) for _ in range(rng.choice([1, 1, 3]))]


def far_rows(schema: pa.Schema, first: int, count: int) -> pa.Table:
    """Rows far in the future, with nothing in them that matches."""
    times = pa.array(range(first, first + 100 * count, 100))
    return pa.table([times, *(pa.nulls(count, field.type) for field in list(schema)[1:])], schema=schema)


@pytest.mark.parametrize("routing", ["broadcast", "hash", "split", "range", "blocks"])
def test_like_the_embedded_join(routing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjoin.spark.marks.LARGEST", 16)
    monkeypatch.setattr("streamjoin.spark.side_segments.PER_WINDOW", 1)
    monkeypatch.setattr("streamjoin.spark.side_segments.GROWTH", 9)

    @settings(max_examples=2_000 if LONG else 10)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        how, window = rng.choice(HOWS), rng.choice([*SHORT, *SHORT, *WINDOWS])
        on = rng.choice([on for on, routings in CASES.items() for each in routings if routing == each])
        timed = all(isinstance(one, sj.TimeWindow) for one in window)
        disorder, lateness = rng.choice([0, 5, 40]), rng.choice([0, 2, 10, 44])
        tables = streams(rng, 80, disorder, ties=timed)
        schema = tables[0].schema
        arguments: dict[str, Any] = dict(on=on, window=window, time="ts", lateness=lateness, how=how, late="keep")
        workers = rng.choice([1, 2, 5, 5])
        run = Simulated(
            make_spec(schema, schema, workers=workers, routing=routing, cache=str(tmp_path), **arguments),
            (lambda messages: shuffle_rows(rng, messages)) if timed else rng.shuffle,
        )
        batches = [cut(rng, table, 8) for table in tables]
        for side in batches:
            side += [far_rows(schema, FAR, 30), far_rows(schema, 2 * FAR, 1)]
        context = seed, on, window, lateness, routing, workers
        found, want = [], []
        with sj.WindowJoin(schema, schema, **arguments) as join:
            for left, right in zip(*batches, strict=True):
                join.push_left(left)
                join.push_right(right)
                want.append(join.poll())
                found.append(perhaps_repeated(run, rng, left, right))
                if how != "semi" or not run.spec.settles(
                    "left"
                ):  # several workers settle a semi join when windows close
                    assert_same_rows(found[-1], want[-1], context=context)
            late = join.late()
        near = [pa.concat_tables(all_).filter(pc.field("ts") < FAR) for all_ in (found, want)]
        assert_same_rows(*near, context=context)
        for side, rows in zip(SIDES, late, strict=True):
            assert_same_rows(pa.concat_tables([rows.slice(0, 0), *run.late[side]]), rows, context=context)

    one()


def perhaps_repeated(
    run: Simulated, rng: random.Random, left: pa.Table, right: pa.Table, partitions: int = 2
) -> pa.Table:
    """A micro-batch, after attempts that fail, by processes that may have lost their memory or their files."""
    parts = dealt(rng, left, partitions), dealt(rng, right, partitions)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        before, late = [[Dictionary(state) for state in states] for states in (run.states, run.routers)], run.late
        run.late = {side: list(tables) for side, tables in late.items()}
        run.step(*parts)
        (run.states, run.routers), run.late = before, late
    if rng.random() < 0.3:
        Cache.loaded.clear()
    if rng.random() < 0.1:
        shutil.rmtree(run.spec.cache_directory, ignore_errors=True)
    return run.step(*parts)


@pytest.mark.parametrize("routing", ["broadcast", "hash", "split", "range", "blocks"])
def test_closest_partners(routing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come when their windows close, which is later than the embedded join can say it. Ties are in one partition,
    since partitions have no order that both know."""
    monkeypatch.setattr("streamjoin.spark.marks.LARGEST", 16)

    @settings(max_examples=2_000 if LONG else 8)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        window, match, how = (
            rng.choice([*SHORT, *WINDOWS]),
            rng.choice(["latest", "nearest"]),
            rng.choice(["inner", "left"]),
        )
        on = rng.choice([on for on, routings in CASES.items() for each in routings if routing == each])
        disorder, lateness, ties = rng.choice([0, 5, 40]), rng.choice([0, 2, 44]), rng.choice([False, True])
        tables = streams(rng, 60, disorder, ties)
        schema = tables[0].schema
        arguments: dict[str, Any] = dict(on=on, window=window, time="ts", lateness=lateness, how=how, match=match)
        workers = rng.choice([1, 2, 5])
        spec = make_spec(schema, schema, workers=workers, routing=routing, cache=str(tmp_path), **arguments)
        run = Simulated(spec, rng.shuffle)
        batches = [[*cut(rng, table, 6), far_rows(schema, FAR, 30), far_rows(schema, 2 * FAR, 1)] for table in tables]
        found, want = [], []
        with sj.WindowJoin(schema, schema, **arguments) as join:
            for left, right in zip(*batches, strict=True):
                join.push_left(left)
                join.push_right(right)
                want.append(join.poll())
                found.append(perhaps_repeated(run, rng, left, right, partitions=1 if ties else 2))
        near = [pa.concat_tables(all_).filter(pc.field("ts") < FAR) for all_ in (found, want)]
        assert_same_rows(*near, context=(seed, routing, workers, arguments))

    one()


@pytest.mark.parametrize(
    ("how", "match"), [*((how, "all") for how in HOWS), ("left", "latest"), ("left", "nearest"), ("inner", "nearest")]
)
def test_tables_end(how: str, match: str, tmp_path: Path) -> None:
    """All windows of DataFrames that are no streams close in the only step."""
    rng = random.Random(f"{how} {match}")
    for on, routings in CASES.items():
        tables = streams(rng, 60, 0, ties=False)
        for routing in dict.fromkeys(routings):
            arguments: dict[str, Any] = dict(on=on, window=rng.choice(WINDOWS), time="ts", how=how, match=match)
            spec = make_spec(
                *(table.schema for table in tables), workers=3, routing=routing, bounded=True, cache=str(tmp_path),
                **arguments,
            )  # fmt: skip
            run = Simulated(spec)
            found = run.step(*(dealt(rng, table, 2) for table in tables))
            want = sj.join(*tables, **arguments)
            assert_same_rows(found, want, context=arguments)
            assert sum(figures["out"] for figures in run.figures) == want.num_rows


@pytest.mark.parametrize(("how", "match"), [("full", "all"), ("left", "nearest")])
def test_state_is_released(how: str, match: str, tmp_path: Path) -> None:
    """Many small batches: bits and marks go with the windows, and blobs of marks stay few."""
    rng = random.Random(0)
    tables = [stream(rng, 1400, 0) for _ in range(2)]
    schema = tables[0].schema
    arguments: dict[str, Any] = dict(window=sj.TimeWindow(100), time="ts", how=how, match=match)
    arguments["on"] = "l.v BETWEEN r.v - 9 AND r.v + 9"
    run = Simulated(make_spec(schema, schema, workers=2, cache=str(tmp_path), **arguments))
    names, sizes, out = [], [], 0
    for start in range(0, 1400, 20):
        out += run.step(*([table.slice(start, 20)] for table in tables)).num_rows
        names.append(sum(len(state) for state in run.states))
        sizes.append(sum(len(body) for state in run.states for body in state.values()))
    assert max(names[35:]) <= 1.3 * max(names[10:35])
    assert max(sizes[35:]) <= 1.2 * max(sizes[10:35])
    assert any(name.startswith("marks-") for state in run.states for name in state)
    want = sj.join(*tables, **arguments)
    assert want.num_rows - 200 < out < want.num_rows
    run.step([far_rows(schema, FAR, 1)], [far_rows(schema, FAR, 1)])
    assert not any(name.startswith("marks-") for state in run.states for name in state)


def test_identities_follow_from_values_alone() -> None:
    """Not from the rows around, or from columns that the predicate does not read; different rows differ."""
    columns = {
        "ts": [1, 1, 2, 1, 1],
        "flag": [True, None, True, False, True],
        "day": [None, 1, 1, 1, 1],
        "cents": [5, 5, 5, None, 5],
        "text": ["a text of many bytes", "", None, "a", "b"],
        "x": [0.5, None, 0.5, 1.0, 2.0],
        "other": range(5),
    }
    types = {"ts": pa.int64(), "flag": pa.bool_(), "day": pa.date32(), "cents": pa.decimal128(38, 2), "x": pa.float32()}
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    on = " AND ".join(f"l.{name} = r.{name}" for name in ("flag", "day", "cents", "text", "x"))
    spec = make_spec(table.schema, table.schema, on=on, window=1, time="ts")

    def found(rows: pa.Table) -> list[tuple[int, int]]:
        words = identities(spec, "left", rows, spec.times("left", rows))
        assert set(places_of(words, 3)) <= {0, 1, 2}
        return list(zip(*words.tolist(), strict=True))

    first = found(table)
    assert len(set(first)) == 5
    more = pa.concat_tables([table.slice(3), table]).combine_chunks()
    more = more.set_column(6, "other", pa.array(range(10, 17)))
    assert found(more) == first[3:] + first
    assert found(table.slice(2, 2)) == first[2:4]
    assert found(table.slice(0, 1)) == first[:1], "a NULL, and no other value in its column"


TWINS = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"
"""Two texts with the same 64-bit FNV-1a hash."""


@pytest.mark.parametrize("how", ["anti", "left", "semi"])
def test_equal_hashes_of_texts_are_not_equal_rows(how: str, tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.int64()), ("x", pa.string())])
    left, right = (pa.table([[5] * len(texts), texts], schema=schema) for texts in (TWINS, TWINS[:1]))
    arguments: dict[str, Any] = dict(on="l.x = r.x", how=how, window=sj.TimeWindow(10), time="ts")
    spec = make_spec(schema, schema, workers=4, bounded=True, cache=str(tmp_path), **arguments)
    assert_same_rows(Simulated(spec).step([left], [right]), sj.join(left, right, **arguments))


def test_identities_of_hard_values() -> None:
    """They are those of the compiled hash, differ where rows do, and NULL is like no value."""
    schema = pa.schema([("ts", pa.int64()), ("x", pa.string()), ("n", pa.int64())])
    spec = make_spec(schema, schema, on="l.x = r.x AND l.n = r.n", window=10, time="ts")
    texts = ["", None, "a", "a" * 7, "a" * 8, "a" * 9, "b" * 20, "é" * 30, *TWINS]
    table = pa.table(
        [[0] * 2 * len(texts), texts * 2, [0] * len(texts) + [None] * len(texts)], schema=schema
    )  # fmt: skip
    words = identities(spec, "left", table, np.zeros(table.num_rows, np.int64))
    for one in words:
        assert len(np.unique(one)) == table.num_rows - 1 or len(np.unique(one)) == table.num_rows
    assert len(np.unique(words, axis=1).T) == table.num_rows
    content, starts = np.frombuffer(b"abcdefgh" * 3, np.uint8), np.array([0, 0, 3, 24])
    found = [np.full(3, 7, np.uint64) for _ in range(2)]
    _hash_bytes(starts, content, found[0])
    _hash_bytes_in_numpy(starts, content, found[1])
    assert found[0].tolist() == found[1].tolist()


def test_a_left_row_has_few_candidates(tmp_path: Path) -> None:
    """However many micro-batches bring partners for it."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    spec = make_spec(
        schema, schema, on="l.k = r.k", match="nearest", window=1000, time="ts", workers=2, cache=str(tmp_path)
    )  # fmt: skip
    run = Simulated(spec)
    run.step([pa.table([[100] * 50, [1] * 50], schema=schema)], [pa.table([[90], [1]], schema=schema)])
    for time in range(101, 120):
        row = pa.table([[time], [1]], schema=schema)
        run.step([row.set_column(1, "k", pa.array([2]))], [row])
    for state in run.states:
        kept = WORKERS.load(opened(NAME, state[NAME]))
        assert sum(entry.count for entry in kept.held["left"].marks) <= 2 * 70
