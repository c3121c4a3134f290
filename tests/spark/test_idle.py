"""`idle_timeout`: a stream that has gone silent holds neither state nor results."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.engine.options import How
from streamjoin.flow.progress import Progress
from streamjoin.side import SIDES, other
from streamjoin.testing import assert_same_rows

from ..long import LONG
from .simulated import PREDICATES, WINDOWS, Simulated, cut, dealt, make_spec, stream
from .test_how import FAR, far_rows

LATENESS = 12


def without_far_rows(table: pa.Table) -> pa.Table:
    for name in {"ts", "ts_right"} & set(table.column_names):
        table = table.filter(pc.fill_null(pc.less(table[name], FAR), True))
    return table


@pytest.mark.usefixtures("small_segments", "few_kernels")
def test_rows_behind_an_idle_stream(tmp_path: Path) -> None:
    """What is joined and what is late, in streams that run apart and come back, is what the rule says."""

    @settings(max_examples=500 if LONG else 10)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        how = rng.choice(get_args(How))
        on, window, idle = (
            rng.choice([on for on in PREDICATES if on != "TRUE"]),
            rng.choice(WINDOWS),
            rng.choice([1, 20, 100]),
        )
        tables = dict(zip(SIDES, (stream(rng, rng.choice([40, 120]), LATENESS - 4) for _ in SIDES), strict=True))
        spec = make_spec(
            *(table.schema for table in tables.values()), on=on, window=window, time="ts", lateness=LATENESS,
            workers=rng.choice([1, 2, 5]), routing=rng.choice(PREDICATES[on]), cache=str(tmp_path), late="keep",
            idle_timeout=idle, how=how,
        )  # fmt: skip
        run, schema = Simulated(spec), tables["left"].schema
        pieces = {side: cut(rng, table, rng.choice([2, 8])) for side, table in tables.items()}
        on_time: dict[str, list[pa.Table]] = {side: [table.slice(0, 0)] for side, table in tables.items()}
        late: dict[str, list[pa.Table]] = {side: [table.slice(0, 0)] for side, table in tables.items()}
        furthest: dict[str, int] = {}
        found = []
        far = [far_rows(schema, FAR, 30), far_rows(schema, 2 * FAR, 1)]
        while any(pieces.values()) or far:
            batch = {side: tables[side].slice(0, 0) for side in SIDES}
            if any(pieces.values()):
                for side in rng.choice([SIDES, ("left",), ("right",)]):
                    batch[side] = pieces[side].pop(0) if pieces[side] else batch[side]
            else:
                batch = dict.fromkeys(SIDES, far.pop(0))
            before = dict(furthest)
            for side, table in batch.items():
                reached = [before[side]] if side in before else []
                reached += [before[other(side)] - idle] if other(side) in before else []
                horizon = max(reached) - LATENESS if reached else -(10**6)
                kept = pc.greater_equal(table["ts"], horizon)
                on_time[side].append(table.filter(kept))
                late[side].append(table.filter(pc.invert(kept)))
                if table.num_rows:
                    furthest[side] = max(furthest.get(side, -(10**6)), pc.max(table["ts"]).as_py())
            found.append(run.step(*(dealt(rng, batch[side], 2) for side in SIDES)))
        context = seed, on, spec.routing, window, idle, how
        want = sj.join(*(pa.concat_tables(on_time[side]) for side in SIDES), on=on, window=window, time="ts", how=how)
        near = [without_far_rows(table) for table in (pa.concat_tables(found), want)]
        assert_same_rows(*near, context=context)
        for side in SIDES:
            assert_same_rows(pa.concat_tables(run.late[side]), pa.concat_tables(late[side]), context=(*context, side))

    one()


@pytest.mark.parametrize("window", [sj.TimeWindow(30), 20], ids=str)
@pytest.mark.usefixtures("few_kernels")
def test_a_silent_stream_holds_nothing(window: Any, tmp_path: Path) -> None:
    """Without the timeout, the stream that goes on is kept whole."""
    texts = [random.Random(row).randbytes(100).hex() for row in range(1_000)]
    table = pa.table({"ts": range(1_000), "k": [1] * 1_000, "text": texts})
    kept = []
    for idle in (None, 50):
        spec = make_spec(
            table.schema, table.schema, on="l.k = r.k", window=window, time="ts", cache=str(tmp_path), idle_timeout=idle
        )
        run = Simulated(spec)
        run.step([table.slice(0, 10)], [table.slice(0, 10)])
        for start in range(10, 1_000, 10):
            run.step([table.slice(start, 10)], [])
        kept.append(sum(len(body) for state in run.states for body in state.values()))
    assert kept[1] < kept[0] / 3


def test_progress_of_idle_streams() -> None:
    progress = Progress(5, idle=20)
    assert progress.watermark is None
    progress.reach("left", 100)
    assert (progress.horizon("left"), progress.horizon("right"), progress.watermark) == (95, 75, 75)
    progress.reach("right", 90)
    assert (progress.horizon("right"), progress.watermark) == (85, 85)
    progress.reach("left", 200)
    assert (progress.horizon("right"), progress.horizon("left")) == (175, 195)


@pytest.mark.parametrize("routing", ["hash", "range"])
def test_another_idle_timeout_does_not_move_time_back(routing: str, tmp_path: Path) -> None:
    """What was late before a query is started again is late after it."""

    def rows(*times: int) -> pa.Table:
        return pa.table({"ts": times, "v": pa.array([1] * len(times), pa.int32())})

    on = "l.v = r.v" if routing == "hash" else "l.v BETWEEN r.v - 1 AND r.v + 1"
    schema = rows().schema.set(0, pa.field("ts", pa.int64()))
    spec = make_spec(
        schema, schema, on=on, window=10, time="ts", idle_timeout=20, workers=2, routing=routing, late="keep",
        cache=str(tmp_path),
    )  # fmt: skip
    run = Simulated(spec)
    run.step([rows(100, 101, 110)], [rows(90)])
    run.step([rows(200)], [])
    run.spec = dataclasses.replace(spec, idle_timeout=None)
    assert run.step([], [rows(105, 106)]).num_rows == 0
    assert sum(late.num_rows for late in run.late["right"]) == 2
