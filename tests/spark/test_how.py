"""Outer, semi and anti joins: the workers report what the embedded join does, and in the same micro-batch.

Also where rows are late, equal, have no key or meet their partners on several workers, and where steps are repeated.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.engine.options import How
from streamjoin.side import SIDES
from streamjoin.spark.segments import Cache
from streamjoin.testing import assert_same_rows

from ..long import LONG
from .simulated import PREDICATES, WINDOWS, Dictionary, Simulated, cut, dealt, make_spec, stream
from .test_step import shuffle_rows

pytestmark = pytest.mark.usefixtures("few_kernels", "small_segments")
HOWS = [how for how in get_args(How) if how != "inner"]
FAR = 10**6
SHORT = [(sj.TimeWindow(4), sj.TimeWindow(4)), (sj.TimeWindow(1), sj.TimeWindow(9))]
CASES = {"l.v BETWEEN r.v - 30 AND r.v + 30": ("broadcast", "range"), **PREDICATES}
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


@pytest.mark.parametrize("how", HOWS)
def test_like_the_embedded_join(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjoin.spark.marks.LARGEST", 16)

    @settings(max_examples=1_000 if LONG else 16)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        routing, window = rng.choice(["broadcast", "hash", "range"]), rng.choice([*SHORT, *WINDOWS])
        on = rng.choice([on for on, routings in CASES.items() if routing in routings])
        timed = all(isinstance(one, sj.TimeWindow) for one in window)
        disorder, lateness = rng.choice([0, 5, 40]), rng.choice([0, 2, 10, 44])
        tables = streams(rng, 80, disorder, ties=timed)
        schema = tables[0].schema
        arguments: dict[str, Any] = dict(on=on, window=window, time="ts", lateness=lateness, how=how, late="keep")
        workers = rng.choice([1, 2, 5])
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
                if how != "semi":  # rows of a semi join come when they have met; here, when their windows close
                    assert_same_rows(found[-1], want[-1], context=context)
            late = join.late()
        near = [pa.concat_tables(all_).filter(pc.field("ts") < FAR) for all_ in (found, want)]
        assert_same_rows(*near, context=context)
        for side, rows in zip(SIDES, late, strict=True):
            assert_same_rows(pa.concat_tables([rows.slice(0, 0), *run.late[side]]), rows, context=context)

    one()


def perhaps_repeated(run: Simulated, rng: random.Random, left: pa.Table, right: pa.Table) -> pa.Table:
    """A micro-batch, after attempts that fail, by processes that may have lost their memory or their files."""
    parts = dealt(rng, left, 2), dealt(rng, right, 2)
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


@pytest.mark.parametrize("how", HOWS)
def test_tables_end(how: str, tmp_path: Path) -> None:
    """All windows of DataFrames that are no streams close in the only step."""
    rng = random.Random(how)
    for on, routings in CASES.items():
        tables = streams(rng, 60, 0, ties=False)
        for routing in dict.fromkeys(routings):
            arguments: dict[str, Any] = dict(on=on, window=rng.choice(WINDOWS), time="ts", how=how)
            spec = make_spec(
                *(table.schema for table in tables), workers=3, routing=routing, bounded=True, cache=str(tmp_path),
                **arguments,
            )  # fmt: skip
            run = Simulated(spec)
            found = run.step(*(dealt(rng, table, 2) for table in tables))
            want = sj.join(*tables, **arguments)
            assert_same_rows(found, want, context=arguments)
            assert sum(figures["out"] for figures in run.figures) == want.num_rows
