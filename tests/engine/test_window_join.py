"""A join from its first push to its end: states, metrics, late rows, watermarks, schemas, memory."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

from ..long import LONG
from ..predicates import KEY, NO_KEY
from ..streams import LEFT, RIGHT, left, opened, right


def test_states() -> None:
    join = opened()
    join.push_left(left([1]))
    join.push_right(right([1]))
    assert join.finish().num_rows == 1
    assert join.finish().num_rows == 0  # again: nothing is left
    assert join.poll().num_rows == 0
    for push, batch in ((join.push_left, left([1])), (join.push_right, right([1]))):
        with pytest.raises(sj.StateError, match="finished"):
            push(batch)
    join.close()
    join.close()
    for use in (join.poll, join.finish, lambda: join.push_left(left([1]))):
        with pytest.raises(sj.StateError, match="closed"):
            use()
    with pytest.raises(sj.StateError, match="late"):
        opened().late()


def test_what_a_join_says_of_itself() -> None:
    with opened(window=("10 ticks", 5), lateness=3, aliases=("a", "b"), on="a.k = b.k", order="sorted") as join:
        join.push_left(left([1, 2]))
        join.push_right(right([1]))
        what = "on='a.k = b.k', window=('10 ticks', '5 rows'), time='ts', how='inner', order='sorted', lateness=3"
        assert repr(join) == f"<WindowJoin {what}: open, 2 left and 1 right rows in, 0 out>"
        join.finish()
        assert repr(join).endswith(": finished, 2 left and 1 right rows in, 2 out>")
    times = pa.schema({"t": pa.timestamp("us"), "k": pa.int64()})
    with sj.WindowJoin(times, times, on="l.k = r.k", window="15 minutes", time="t") as join:
        assert "window='15 minutes', time='t', how='inner': open" in repr(join)


def test_a_join_cannot_be_pickled_or_copied() -> None:
    with opened() as join:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="a WindowJoin cannot be pickled or copied"):
                attempt(join)


def test_leaving_the_block_closes() -> None:
    with opened() as join:
        pass
    with pytest.raises(sj.StateError):
        join.poll()
    with pytest.raises(ZeroDivisionError), opened() as join:
        raise ZeroDivisionError
    with pytest.raises(sj.StateError):
        join.finish()


def test_poll_gives_each_result_once_and_before_the_end() -> None:
    with opened() as join:
        assert join.poll().num_rows == 0
        join.push_left(left([1]))
        join.push_right(right([1, 2]))
        assert join.poll().num_rows == 2
        assert join.poll().num_rows == 0
        assert join.finish().num_rows == 0


def test_empty_batches_change_nothing() -> None:
    with opened(order="sorted") as join:
        for _ in range(3):
            join.push_left(left([]))
            join.push_right(right([]))
        assert join.watermark is None
        assert join.finish().schema == join.schema


def test_metrics() -> None:
    with opened(lateness=2, late="keep", index="scan", algorithm="three-step") as join:
        join.push_left(left([10, 11]))
        join.push_left(left([1, 9, 20]))  # 1 is late
        join.push_right(right([11]))
        before = join.metrics()
        assert before["pending"] == 4
        assert before["out"] == 0
        out = join.poll()
        metrics = join.metrics()
    assert out.num_rows == 4
    assert set(metrics) >= {
        "left", "right", "out", "pending", "late", "comparisons", "latency_ms", "watermark",
        "algorithm", "index", "workers",
    }  # fmt: skip
    assert set(metrics["left"]) >= {"in", "late", "window", "waiting", "payload_rows"}
    assert metrics["left"]["in"] == 5
    assert metrics["left"]["late"] == 1
    assert metrics["right"]["in"] == 1
    assert metrics["right"]["late"] == 0
    assert metrics["late"] == 1
    assert metrics["out"] == 4
    assert metrics["pending"] == 0
    assert metrics["comparisons"] >= 4
    assert metrics["algorithm"] == "three-step"
    assert metrics["index"] == "scan"
    assert metrics["watermark"] == 9
    assert metrics["right"]["window"] == 1
    assert len(metrics["workers"]) >= 1
    latency = metrics["latency_ms"]
    assert set(latency) == {"p50", "p95", "p99", "max"}
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["max"]


@pytest.mark.parametrize("algorithm", ["three-step", "splitjoin"])
def test_metrics_name_the_index_that_will_serve(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And say that NumPy does until machine code is there. A predicate without a key leaves only a scan."""
    is_ready = [False]
    monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", lambda *_: lambda: is_ready[0])
    for asked, on, index in (("bi-sort", KEY, "bi-sort"), ("auto", KEY, "auto"), ("auto", NO_KEY, "scan")):
        is_ready[0] = False
        with opened(index=asked, on=on, algorithm=algorithm) as join:
            join.push_left(left([1]))
            metrics = join.metrics()
            assert metrics["index"] == index
            for side in ("left", "right"):
                assert metrics["indexes"][side]["why"] == "machine code is being compiled; NumPy serves meanwhile"
            is_ready[0] = True
            join.push_left(left([2]))
            join.push_right(right([2]))
            after = join.metrics()
            assert set(after["indexes"]["left"]) == set(metrics["indexes"]["left"])
            assert "NumPy" not in after["indexes"]["left"]["why"]
            assert (after["index"] == index) == (index != "auto")


@pytest.mark.parametrize("order", ["none", "sorted"])
def test_late_rows_are_kept_on_request(order: str) -> None:
    with opened(lateness=3, late="keep", order=order) as join:
        join.push_left(left([10, 1, 7], [1, 2, 3]))  # within one batch nothing is late
        assert [t.num_rows for t in join.late()] == [0, 0]
        join.push_left(left([6, 7, 20, 2], [4, 5, 6, 7]))
        join.push_right(right([20]))
        join.push_right(right([16, 17], [8, 9]))
        late = join.late()
        assert late.left["k"].to_pylist() == [4, 7]
        assert late.left.schema == LEFT
        assert late.right["k"].to_pylist() == [8]
        assert [t.num_rows for t in join.late()] == [0, 0]
        assert join.metrics()["late"] == 3
        join.push_left(left([1], [10]))
        join.finish()
    assert join.late().left["k"].to_pylist() == [10], "what was kept outlives the join"


def test_late_rows_are_not_kept_by_default() -> None:
    with opened() as join:
        join.push_left(left([10]))
        join.push_left(left([9]))
        assert join.metrics()["left"]["late"] == 1
        with pytest.raises(sj.StateError, match='late="keep"'):
            join.late()


def test_watermark() -> None:
    with opened(lateness=2, order="punctuated") as join:
        assert join.watermark is None
        join.push_left(left([10]))
        assert join.watermark is None
        join.push_right(right([7]))
        table = join.poll()
        assert table.schema.metadata == {b"streamjoin.watermark": b"5"}
        assert join.watermark == 5
        join.push_right(right([30]))
        assert join.watermark == 5  # results that wait to be polled may be as early as the last promise
        join.poll()
        assert join.watermark == 8
    with opened(window=5, time=None) as join:
        join.push_left(left([10]))
        join.push_right(right([10]))
        assert join.watermark is None


def test_only_punctuated_results_carry_watermarks() -> None:
    for order in ("none", "sorted"):
        with opened(order=order) as join:
            join.push_left(left([10]))
            join.push_right(right([10]))
            assert not join.finish().schema.metadata


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_result_schema(how: str) -> None:
    with opened(how=how) as join:
        names = ["ts", "k", "x", "s"]
        if how not in ("semi", "anti"):
            names += ["ts_right", "k_right", "a", "t"]
        assert join.schema.names == names
        assert join.schema.types == (LEFT.types + RIGHT.types)[: len(names)]
        assert join.poll().schema == join.schema
        join.push_left(left([1, 2], [1, 2]))
        join.push_right(right([1, 2], [1, 3]))
        out = join.finish()
        assert out.schema == join.schema
        assert out.num_rows == {"inner": 1, "left": 2, "right": 2, "full": 3, "semi": 1, "anti": 1}[how]


def test_colliding_names_are_refused() -> None:
    l = pa.schema({"k": pa.int64(), "k_right": pa.int64()})
    r = pa.schema({"k": pa.int64()})
    with pytest.raises(sj.ArgumentError, match="k_right"):
        sj.WindowJoin(l, r, on="l.k = r.k", window=5)
    sj.WindowJoin(l, r, on="l.k = r.k", window=5, how="semi").close()


def test_not_null_fields_become_nullable_where_rows_may_be_missing() -> None:
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    l, r = pa.table([[1, 2]], schema=strict), pa.table([[2, 3]], schema=strict)
    out = sj.join(l, r, on="l.k = r.k", window=5, how="full", order="sorted")
    assert out["k"].to_pylist() == [1, 2, None]
    assert out["k_right"].to_pylist() == [None, 2, 3]
    out.validate(full=True)
    assert all(field.nullable for field in out.schema)


LONG_RUNS: list[Any] = [
    ("inner", "none", sj.TimeWindow(2000), "ts"),
    ("left", "sorted", (500, sj.TimeWindow(2000)), "ts"),
    ("semi", "none", 500, None),
]
if LONG:
    LONG_RUNS += [
        ("inner", "sorted", sj.TimeWindow(2000), "ts"),
        ("full", "punctuated", sj.TimeWindow(2000), "ts"),
        ("inner", "none", 500, "ts"),
    ]


@pytest.mark.parametrize(("how", "order", "window", "time"), LONG_RUNS)
def test_memory_stays_flat(how: Any, order: Any, window: Any, time: Any) -> None:
    """180,000 rows per side in small batches through a window of some hundreds; 300,000 in the long run."""
    batch, rounds, every = (1000, 300, 50) if LONG else (2000, 90, 15)
    rng = np.random.default_rng(1)
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "text": pa.string()})
    sizes, traced = [], []
    with sj.WindowJoin(
        schema, schema, on="l.k = r.k", window=window, time=time, how=how, order=order, lateness=10 if time else 0
    ) as join:
        tracemalloc.start()
        try:
            for i in range(rounds):
                for push in (join.push_left, join.push_right):
                    ts = np.arange(i * batch, (i + 1) * batch) * 4 + rng.integers(0, 5, batch)
                    text = pa.array(["some text that travels along"] * batch)
                    push(pa.table([ts, rng.integers(0, 1000, batch), text], schema=schema))
                join.poll()
                if i % every == every - 1:
                    metrics = join.metrics()
                    sizes.append([metrics[side][what] for side in ("left", "right") for what in ("window", "waiting")])
                    assert max(metrics[side]["payload_rows"] for side in ("left", "right")) <= 140_000
                    assert metrics["pending"] == 0
                    traced.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
        finally:
            tracemalloc.stop()
        assert join.metrics()["left"]["in"] == batch * rounds
        assert join.metrics()["late"] == 0
    assert max(max(row) for row in sizes) <= 6000
    assert max(traced[3:]) < 2 * max(traced[:3]) + 4_000_000
