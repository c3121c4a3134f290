"""The workers find what `join` finds, for every routing, cut, partitioning and window; and forget what expires."""

from __future__ import annotations

import pickle
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.spark.messages import ChunkMessage
from streamjoin.spark.pack import Pack
from streamjoin.spark.router import Router
from streamjoin.spark.segments import Cache
from streamjoin.testing import assert_same_rows

from .simulated import Simulated, cut, dealt, make_spec

PREDICATES = {
    "l.k = r.k": ("broadcast", "hash"),
    "l.k = r.k AND l.v BETWEEN r.v - 20 AND r.v + 20": ("broadcast", "hash"),
    "l.v BETWEEN r.v - 3 AND r.v + 3": ("broadcast", "range", "range"),
    "l.v < r.v AND l.name <> r.name": ("broadcast", "range"),
    "l.v BETWEEN r.v AND r.v + 4 OR l.v BETWEEN r.k - 1 AND r.v - 50": ("broadcast", "range"),
    "l.name = r.name": ("broadcast", "hash"),
    "TRUE": ("broadcast",),
}
WINDOWS = [
    (sj.TimeWindow(30), sj.TimeWindow(30)),
    (sj.TimeWindow(5), sj.TimeWindow(60)),
    (20, 20),
    (3, sj.TimeWindow(25)),
    (sj.TimeWindow(1), 7),
]


def stream(rng: random.Random, rows: int, disorder: int, step: int = 4) -> pa.Table:
    """Rows whose timestamps are all different, at most `disorder` behind the furthest before them."""
    times = np.cumsum([rng.randrange(1, step) for _ in range(rows)], dtype=np.int64)
    order = np.argsort(times + np.array([rng.randrange(disorder + 1) for _ in range(rows)], np.int64), kind="stable")
    texts = ["a", "b", "", "a name that is longer than seven bytes", "another one that is so", None]
    return pa.table(
        {
            "ts": times[order] if rows else pa.array([], pa.int64()),
            "k": pa.array([rng.choice([None, 0, 1, 2, 3, 2**31 - 1]) for _ in range(rows)], pa.int32()),
            "v": pa.array([rng.choice([float("nan"), rng.randrange(200)]) for _ in range(rows)], pa.float64()),
            "name": pa.array([rng.choice(texts) for _ in range(rows)], pa.string()),
            "tags": pa.array([[rng.randrange(3)] * rng.randrange(3) for _ in range(rows)], pa.list_(pa.int16())),
        }
    )


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjoin.spark.side_segments.SMALL", 8)
    monkeypatch.setattr("streamjoin.spark.router.ENOUGH", 1)
    monkeypatch.setattr("streamjoin.spark.router.UNEVEN", 1.01)
    monkeypatch.setattr("streamjoin.spark.router.BETTER", 1.0)
    monkeypatch.setattr("streamjoin.store.ordered.TAIL", 4)
    monkeypatch.setattr("streamjoin.store.index_choice.FEW_COMPARISONS", 16)


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("on", PREDICATES)
def test_like_the_embedded_join(on: str, tmp_path: Path) -> None:
    @settings(max_examples=60)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        window = rng.choice(WINDOWS)
        disorder = rng.choice([0, 0, 5, 40])
        tables = [stream(rng, rng.choice([0, 1, 40, 80]), disorder) for _ in range(2)]
        workers, partitions, batches = rng.choice([1, 2, 5]), rng.choice([1, 2, 5]), rng.choice([1, 3, 10])
        spec = make_spec(
            tables[0].schema, tables[1].schema, on=on, window=window, time="ts", lateness=disorder + 4,
            workers=workers, routing=rng.choice(PREDICATES[on]), cache=str(tmp_path), bounded=batches == 1,
        )  # fmt: skip
        run = Simulated(spec, rng.shuffle)
        found = []
        for left, right in zip(*(cut(rng, table, batches) for table in tables), strict=True):
            found.append(run.step(dealt(rng, left, partitions), dealt(rng, right, partitions)))
            if rng.random() < 0.2:
                Cache.loaded.clear()  # another process
            if rng.random() < 0.1:
                shutil.rmtree(tmp_path, ignore_errors=True)
        if batches > 1 and spec.options.needs_order:  # rows far in the future make everything before them ready
            last = [pa.table({"ts": [10**6], "k": [None], "v": [None], "name": [None], "tags": [None]}, table.schema)
                    for table in tables]  # fmt: skip
            found.append(run.step([last[0]], [last[1]]))
        expected = sj.join(tables[0], tables[1], on=on, window=window, time="ts")
        assert_same_rows(pa.concat_tables(found), expected, context=(seed, spec.routing, workers, partitions, window))
        assert sum(f["out"] for f in run.figures) == expected.num_rows
        assert sum(f["left_in"] for f in run.figures) >= tables[0].num_rows
        assert not any(f["left_late"] or f["right_late"] for f in run.figures)

    one()


def test_splitters_follow_the_data(tmp_path: Path) -> None:
    """Keys that drift: workers stay evenly loaded, and generations go when all that they stored has expired."""
    rng = np.random.default_rng(0)
    schema = pa.schema([("ts", pa.int64()), ("v", pa.float64())])
    on, window = "l.v BETWEEN r.v - 0.01 AND r.v + 0.01", sj.TimeWindow(6000)
    spec = make_spec(schema, schema, on=on, window=window, time="ts", workers=4, routing="range", cache=str(tmp_path))
    run = Simulated(spec)
    found, sides = [], ([], [])
    living = []
    for number in range(16):
        tables = []
        for _ in range(2):
            times = np.arange(number * 3000, (number + 1) * 3000)
            skewed = number * 5.0 + rng.exponential(1.0, 3000)
            tables.append(pa.table({"ts": times, "v": skewed}, schema))
        run.figures.clear()
        found.append(run.step([tables[0]], [tables[1]]))
        for side, table in zip(sides, tables, strict=True):
            side.append(table)
        memory = pickle.loads(run.routers[0]["router"])
        living.append(len(memory.generations))
        windows = [figures["left_window"] for figures in run.figures]
    assert max(living) > 2, "no generation has followed the drift"
    assert living[-1] <= 5, "generations do not go"
    assert max(windows) < 2 * np.mean(windows), "one worker has piled up"
    expected = sj.join(pa.concat_tables(sides[0]), pa.concat_tables(sides[1]), on=on, window=window, time="ts")
    assert_same_rows(pa.concat_tables(found), expected)


def test_late_rows_are_counted_once_and_kept(tmp_path: Path) -> None:
    for routing in ("broadcast", "hash", "range"):
        rng = random.Random(7)
        on = "l.k = r.k AND l.v BETWEEN r.v - 3 AND r.v + 30"
        first, second = stream(rng, 60, 0), stream(rng, 60, 0)
        spec = make_spec(
            first.schema, first.schema, on=on, window=sj.TimeWindow(40), time="ts", lateness=10, late="keep",
            workers=3, routing=routing, cache=str(tmp_path),
        )  # fmt: skip
        run = Simulated(spec)
        run.step([first.slice(0, 50)], [second.slice(0, 50)])
        furthest = first["ts"][49].as_py(), second["ts"][49].as_py()
        old = first.slice(0, 5), pa.concat_tables([second.slice(0, 3), second.slice(48)])
        run.step([old[0]], [old[1]])
        late = {side: pa.concat_tables(tables) for side, tables in run.late.items()}
        for table, side, most in zip(old, ("left", "right"), furthest, strict=True):
            expected = table.filter(pa.compute.less(table["ts"], most - 10))
            assert_same_rows(late[side], expected, context=(routing, side))
            assert sum(figures[f"{side}_late"] for figures in run.figures) == expected.num_rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": (0, 2)}, r"partitions: the checkpoint belongs to a join with 2 workers \(0, 1\)"),
        ({"routing": "hash"}, "routing: the checkpoint belongs to a join with broadcast, and the query now has hash"),
        ({"on": "l.k > r.k"}, "on: the checkpoint belongs to a join with l.k = r.k"),
    ],
)
def test_a_checkpoint_of_another_join_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    table = stream(random.Random(0), 10, 0)
    spec = make_spec(table.schema, table.schema, on="l.k = r.k", window=5, time="ts", workers=2, cache=str(tmp_path))
    run = Simulated(spec)
    run.step([table], [table])
    run.spec = replace(spec, **change)
    with pytest.raises(sj.StateError, match=message):
        run.step([table], [table])


def test_attempts_at_a_batch_write_the_same_keys(tmp_path: Path) -> None:
    """Spark may put the snapshot of one attempt and the changes of another together."""
    table = stream(random.Random(0), 400, 0)
    schema, on, window = table.schema, "l.v BETWEEN r.v - 3 AND r.v + 3", sj.TimeWindow(100)
    runs = [
        Simulated(make_spec(schema, schema, on=on, window=window, time="ts", workers=2, cache=str(tmp_path / name)))
        for name in ("one", "other")
    ]
    for start in range(0, 400, 40):
        for run in runs:
            run.step([table.slice(start, 40)], [table.slice(start, 40)])
        for one, other in zip(runs[0].states, runs[1].states, strict=True):
            assert set(one) == set(other)
    for one, other in zip(runs[0].states, runs[1].states, strict=True):  # rows of one attempt, memory of the other
        other.update({name: body for name, body in one.items() if name != "memory"})
    more = table.slice(390).set_column(0, "ts", pa.array(range(1000, 1010)))
    assert_same_rows(runs[1].step([more], [more]), runs[0].step([more], [more]))


def test_results_larger_than_a_column_of_texts_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjoin.spark.side_segments.BLOB_BYTES", 1 << 12)
    texts = ["x" * 500] * 40
    table = pa.table({"ts": range(40), "text": texts})
    spec = make_spec(table.schema, table.schema, on="TRUE", window=sj.TimeWindow(100), time="ts", cache=str(tmp_path))
    run = Simulated(spec)
    assert run.step([table], [table]).num_rows == 1600


def test_a_frequent_key_does_not_pile_up_generations(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("ts", pa.int64()), ("v", pa.float64())])
    on, window = "l.v BETWEEN r.v - 0.01 AND r.v + 0.01", sj.TimeWindow(10**6)
    spec = make_spec(schema, schema, on=on, window=window, time="ts", workers=4, routing="range", cache=str(tmp_path))
    run = Simulated(spec)
    for number in range(12):
        keys = np.where(rng.random(3000) < 0.9, 5.0, rng.random(3000) * 10)
        tables = [
            pa.table({"ts": np.arange(number * 3000, (number + 1) * 3000), "v": k}, schema) for k in (keys, keys[::-1])
        ]
        for worker, message in _routed(run, tables):
            assert worker in spec.workers
            assert message.rows
    assert len(pickle.loads(run.routers[0]["router"]).generations) <= 2


def _routed(run: Simulated, tables: list[pa.Table]) -> list:
    """What the first router sends on."""
    found = []
    for side, table in zip(("left", "right"), tables, strict=True):
        for batch in Pack(run.spec, side).messages(0, 0, table):
            (row,) = batch.to_pylist()
            if row.pop("worker") == run.spec.workers[0]:
                found.append(ChunkMessage(**row))
    return list(Router(run.spec, run.routers[0]).step(found))


def test_state_is_released(tmp_path: Path) -> None:
    """Many small batches: few segments, no more rows than the window and the youngest segments hold, no files left."""
    rng = random.Random(0)
    table = stream(rng, 3000, 0)
    on, window = "l.v BETWEEN r.v - 3 AND r.v + 3", sj.TimeWindow(100)
    spec = make_spec(table.schema, table.schema, on=on, window=window, time="ts", workers=2, cache=str(tmp_path))
    run = Simulated(spec)
    names, rows = [], []
    for start in range(0, 3000, 30):
        run.figures.clear()
        run.step([table.slice(start, 30)], [table.slice(start, 30)])
        names.append(sum(len(state) for state in run.states))
        rows.append(sum(figures["left_window"] for figures in run.figures))
    assert max(names[10:]) <= 2 * (1 + 2 * 6)
    assert max(rows[10:]) <= 4 * 100
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == sum(len(state) - 1 for state in run.states)
