"""The engine's behaviour beyond which pairs it finds: errors, states, metrics, schemas, inputs, memory, the cache."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time as clock
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import testing

LEFT = pa.schema({"ts": pa.int64(), "k": pa.int64(), "x": pa.int32(), "s": pa.string()})
RIGHT = pa.schema({"ts": pa.int64(), "k": pa.int64(), "a": pa.int32(), "t": pa.string()})


def left(ts: list[int], k: list[int] | None = None) -> pa.Table:
    n = len(ts)
    return pa.table([ts, k or [1] * n, pa.array(range(n), pa.int32()), ["left"] * n], schema=LEFT)


def right(ts: list[int], k: list[int] | None = None) -> pa.Table:
    n = len(ts)
    return pa.table([ts, k or [1] * n, pa.array(range(n), pa.int32()), ["right"] * n], schema=RIGHT)


def opened(**changes: Any) -> sj.WindowJoin:
    arguments: dict[str, Any] = {"on": "l.k = r.k", "window": sj.TimeWindow(10), "time": "ts", **changes}
    return sj.WindowJoin(arguments.pop("left", LEFT), arguments.pop("right", RIGHT), **arguments)


# --- Errors at the call ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("l.nope = r.k", ["nope", "ts, k, x, s"]),
        ("nope = k", ["nope"]),
        ("k = 1", ["ambiguous", "l.k", "r.k"]),
        ("q.k = r.k", ["'q'", "'l'", "'r'"]),
        ("l.s < r.a", ["text", "CAST"]),
        ("l.s = 1 AND l.k = r.k", ["text"]),
        ("l.k + r.k", ["boolean"]),
        ("l.x = 1", ["only the left", "ts, k, a, t"]),
        ("r.a > 1", ["only the right"]),
        ("sum(l.x) = r.a", ["aggregate"]),
        ("l.x IN (SELECT a FROM r)", ["subquery"]),
        ("EXISTS (SELECT 1)", ["subquery"]),
        ("row_number() OVER (ORDER BY l.x) = r.a", ["window function"]),
        ("l.k = r.k; DROP TABLE users", ["one condition"]),
        ("SELECT * FROM l JOIN r", ["statement"]),
        ("DROP TABLE l", ["statement"]),
        ("l.k = r.k UNION SELECT 1", []),
        ("__import__('os').system('true') = r.k", []),
        ("exec('1') = r.k", ["EXEC"]),
        ("l.`__class__` = r.k", ["__class__"]),
        ("l.k = r.k)", []),
        ("l.k =", []),
        ("", ["empty"]),
        ("   -- nothing", ["empty"]),
        ("nofunction(l.k) = r.k", ["NOFUNCTION"]),
        ("l.k = r.k = TRUE = r.a", []),
        ("l.s LIKE r.t", ["LIKE"]),
        ("CAST(l.k AS nonsense) = r.k", ["nonsense"]),
        ("l.k = ?", ["parameter"]),
        ("*", []),
        (3, ["on"]),
        (None, ["on"]),
    ],
)
def test_wrong_predicates(on: Any, words: list[str]) -> None:
    with pytest.raises(sj.PredicateError) as caught:
        opened(on=on)
    assert str(caught.value).startswith("on:")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 0}, ["window", "0"]),
        ({"window": -3}, ["window", "-3"]),
        ({"window": "0 seconds"}, ["window"]),
        ({"window": "-5 seconds"}, ["window", "negative"]),
        ({"window": "5 fortnights"}, ["window", "fortnights"]),
        ({"window": datetime.timedelta(seconds=-1)}, ["window"]),
        ({"window": (5, 5, 5)}, ["window", "pair"]),
        ({"window": 1.5}, ["window", "1.5"]),
        ({"window": None}, ["window"]),
        ({"window": "5 seconds"}, ["window", "TimeWindow(900)"]),
        ({"window": sj.TimeWindow(5), "time": None}, ["window", "time="]),
        ({"window": (5, sj.TimeWindow(5)), "time": None}, ["window", "right"]),
        ({"time": "when"}, ["time", "when", "ts, k, x, s"]),
        ({"time": ("ts", "when")}, ["time", "when", "ts, k, a, t"]),
        ({"time": "k", "left": pa.schema({"k": pa.float64()})}, ["time", "double"]),
        ({"time": ("s", "t")}, ["time", "'s'", "string"]),
        ({"time": ("ts", "ts"), "left": LEFT.set(0, pa.field("ts", pa.timestamp("us")))}, ["time"]),
        ({"time": 3}, ["time", "3"]),
        ({"lateness": -1}, ["lateness", "-1"]),
        ({"lateness": "5 seconds"}, ["lateness"]),
        ({"lateness": 5, "time": None, "window": 5}, ["lateness"]),
        ({"how": "outer"}, ["how", "outer", "'full'"]),
        ({"how": "lef"}, ["how", "did you mean 'left'"]),
        ({"how": None}, ["how"]),
        ({"how": ["left"]}, ["how"]),
        ({"order": "ascending"}, ["order", "'sorted'"]),
        ({"index": "btree"}, ["index", "btree", "'scan'"]),
        ({"index": "hash", "on": "l.x < r.a"}, ["index", "hash", "equality"]),
        ({"algorithm": "nested-loop"}, ["algorithm", "nested-loop"]),
        ({"workers": 0}, ["workers", "0"]),
        ({"workers": -1}, ["workers", "-1"]),
        ({"workers": "two"}, ["workers", "two"]),
        ({"workers": True}, ["workers"]),
        ({"aliases": "ab"}, ["aliases"]),
        ({"aliases": ("a", "a")}, ["aliases"]),
        ({"aliases": ("a",)}, ["aliases"]),
        ({"late": "maybe"}, ["late", "'keep'"]),
        ({"left": 5}, ["left", "int"]),
        ({"right": "nothing"}, ["right"]),
        ({"left": pa.schema([("k", pa.int64()), ("k", pa.int64())])}, ["left", "'k'"]),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_wrong_arguments(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(sj.ArgumentError) as caught:
        opened(**changes)
    for word in words:
        assert word in str(caught.value)


def test_a_garbage_text_is_refused_at_once() -> None:
    for text in ("l.k = r.k AND " * 700_000, "(" * 10_000_000, "\0\xff'" * 3_000_000, "a" * 10_000_000):
        started = clock.thread_time()
        with pytest.raises(sj.PredicateError) as caught:
            opened(on=text)
        assert clock.thread_time() - started < 2
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "on",
    [
        " OR ".join(f"l.k = r.k + {i}" for i in range(10_000)),
        " AND ".join(f"l.k <> r.k + {i}" for i in range(10_000)),
        "l.k = r.k AND (" + " OR ".join(f"l.x = {i}" for i in range(10_000)) + ")",
        "l.k = r.k AND l.x IN (" + ", ".join(map(str, range(10_000))) + ")",
        "(" * 5000 + "l.k = r.k" + ")" * 5000,
        "NOT " * 5000 + "l.k = r.k",
        "l.k = r.k" + " + 1" * 10_000,
    ],
    ids=["or", "and", "filter", "in", "parentheses", "not", "sum"],
)
def test_a_predicate_of_ten_thousand_terms_works_or_is_refused(on: str) -> None:
    started, message = clock.perf_counter(), ""
    try:
        with opened(on=on) as join:
            join.push_left(left([1]))
            join.push_right(right([1]))
            join.finish()
    except sj.PredicateError as error:
        message = str(error)
    assert len(message) < 2000
    assert clock.perf_counter() - started < 20


# --- Bad data ----------------------------------------------------------------------------------------

BAD_BATCHES: dict[str, tuple[Any, type[Exception], str]] = {
    "a column is missing": (left([1]).drop_columns("x"), sj.SchemaError, "x"),
    "a column too many": (left([1]).append_column("more", pa.array([1])), sj.SchemaError, "more"),
    "another type": (left([1]).set_column(1, "k", pa.array(["1"])), sj.SchemaError, "'k'"),
    "a wider type": (left([1]).set_column(2, "x", pa.array([1], pa.int64())), sj.SchemaError, "'x'"),
    "no Arrow data": ([1, 2, 3], sj.SchemaError, "list"),
    "nothing": (None, sj.SchemaError, "NoneType"),
    "a NULL timestamp": (left([1, 2]).set_column(0, "ts", pa.array([5, None], pa.int64())), sj.DataError, "row 1"),
}


@pytest.mark.parametrize("order", ["none", "sorted"])
@pytest.mark.parametrize("bad", BAD_BATCHES)
def test_a_bad_batch_leaves_the_join_as_it_was(bad: str, order: str) -> None:
    batch, error, word = BAD_BATCHES[bad]
    with opened(order=order) as join:
        join.push_left(left([1, 2]))
        join.push_right(right([1]))
        before = join.metrics()
        for _ in range(2):
            with pytest.raises(error) as caught:
                join.push_left(batch)
            assert "push_left" in str(caught.value)
            assert word in str(caught.value)
        assert join.metrics() == before
        join.push_left(left([3]))
        assert join.finish().num_rows == 3


def test_timestamps_beyond_64_bits_are_refused() -> None:
    unsigned = pa.schema({"ts": pa.uint64(), "k": pa.int64()})
    with opened(left=unsigned, right=unsigned) as join:
        with pytest.raises(sj.DataError, match="18446744073709551615"):
            join.push_left(pa.table([[2**64 - 1], [1]], schema=unsigned))
        join.push_left(pa.table([[1], [1]], schema=unsigned))
    for end in (-(2**63), 2**63 - 1):  # nothing is beyond them for a window to end at
        with opened() as join, pytest.raises(sj.DataError, match="64 bits"):
            join.push_left(left([end]))
    seconds, nanos = (pa.schema({"ts": pa.timestamp(unit), "k": pa.int64()}) for unit in ("s", "ns"))
    with opened(left=seconds, right=nanos, window="5 s") as join:
        year_9999 = pa.table([pa.array([253402300799], pa.timestamp("s")), [1]], schema=seconds)
        with pytest.raises(sj.DataError, match="64 bits"):
            join.push_left(year_9999)


# --- States ------------------------------------------------------------------------------------------


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


# --- Metrics, lateness, watermarks -------------------------------------------------------------------


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
        join.finish()


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


# --- Inputs ------------------------------------------------------------------------------------------


def shapes(table: pa.Table) -> dict[str, Any]:
    """One table in all the forms in which it may be pushed."""
    import duckdb
    import polars

    pandas = table.to_pandas()
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1)])
    padded = pa.concat_tables([table, table, table]).combine_chunks()
    return {
        "Table": table,
        "RecordBatch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(),
        "chunked": chunked,
        "sliced": padded.slice(table.num_rows, table.num_rows),
        "sliced batch": padded.to_batches()[0].slice(table.num_rows, table.num_rows),
        "polars": polars.from_arrow(table),
        "pandas": pandas,
        "duckdb": duckdb.sql("SELECT * FROM pandas"),
        "other column order": table.select(table.column_names[::-1]),
    }


@pytest.mark.parametrize("order", ["none", "sorted"])
@pytest.mark.parametrize("form", shapes(left([1])))
def test_anything_with_the_capsule_interface(form: str, order: str) -> None:
    l, r = left([1, 2, 3], [1, 2, 1]), right([3, 3, 4], [1, 2, 3])
    wanted = sj.join(l, r, on="l.k = r.k", window=sj.TimeWindow(10), time="ts", order="sorted")
    assert wanted.num_rows == 3
    with opened(order=order) as join:
        join.push_left(shapes(l)[form])
        join.push_right(shapes(r)[form])
        testing.assert_same_rows(join.finish(), wanted, ordered=order == "sorted")
    if form != "other column order":
        arguments: dict[str, Any] = {"on": "l.k = r.k", "window": 10, "order": order}
        whole = sj.join(shapes(l)[form], shapes(r)[form], **arguments)
        rows = [list(row.values()) for row in whole.to_pylist()]
        assert rows == [list(row.values()) for row in sj.join(l, r, **arguments).to_pylist()]


def test_schemas_from_data_frames() -> None:
    import polars

    frames = polars.from_arrow(left([1])), right([1]).to_pandas()
    with sj.WindowJoin(*frames, on="l.k = r.k", window=5) as join:
        join.push_left(frames[0])
        join.push_right(frames[1])
        assert join.finish().num_rows == 1


def test_sliced_columns_of_every_type() -> None:
    """Keys are read from buffers, so offsets and validity bits must be heeded."""
    types = {
        "b": pa.bool_(), "i": pa.int16(), "f": pa.float32(), "m": pa.decimal128(10, 2), "s": pa.string(),
        "d": pa.date32(), "t": pa.timestamp("ms"), "m64": pa.decimal64(10, 2), "m32": pa.decimal32(5, 2),
    }  # fmt: skip
    whole = testing.stream(40, columns=types, seed=4, domain=6, nulls=0.3, time_type=pa.int64(), start=0)
    l, r = whole.slice(3, 17), whole.slice(11, 13)
    for name in types:
        arguments: dict[str, Any] = {"on": f"l.{name} = r.{name}", "window": 50, "order": "sorted"}
        copies = [pa.Table.from_pylist(t.to_pylist(), schema=t.schema) for t in (l, r)]
        testing.assert_same_rows(sj.join(l, r, **arguments), sj.join(*copies, **arguments), ordered=True)
        assert sj.join(l, r, **arguments).num_rows > 0


def test_columns_that_arrow_cannot_make_empty_travel_along() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["x"])]
    )
    left, right = pa.table({"k": [1, 2, 3], "v": union}), pa.table({"k": [1, 2, 9]})
    assert sj.join(left, right, on="l.k = r.k", window=3)["v"].to_pylist() == [1, "x"]


def test_aliases_and_time_pair() -> None:
    l = pa.table({"at": [1, 5], "price": [10, 20]})
    r = pa.table({"when": [1, 5], "bid": [10, 20]})
    out = sj.join(
        l, r, on="trades.price = quotes.bid", window=sj.TimeWindow(3), time=("at", "when"), aliases=("trades", "quotes")
    )
    assert out.num_rows == 2
    assert sj.join(l, r, on="price = bid", window=5).num_rows == 2
    with pytest.raises(sj.PredicateError, match="trades"):
        sj.join(l, r, on="l.price = r.bid", window=5, aliases=("trades", "quotes"))


# --- Results -----------------------------------------------------------------------------------------


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


def test_rows_pushed_one_by_one() -> None:
    l = testing.stream(150, columns={"k": "int32"}, seed=1, domain=9, time_type=pa.int64(), start=0, interval=3)
    r = testing.stream(150, columns={"k": "int32"}, seed=2, domain=9, time_type=pa.int64(), start=0, interval=3)
    arguments: dict[str, Any] = {"on": "l.k = r.k", "window": sj.TimeWindow(40), "time": "ts", "order": "sorted"}
    parts = []
    with sj.WindowJoin(l.schema, r.schema, **arguments) as join:
        for i in range(150):
            join.push_left(l.slice(i, 1))
            join.push_right(r.slice(i, 1))
            parts.append(join.poll())
        parts.append(join.finish())
    assert sum(part.num_rows > 0 for part in parts) > 20
    assert pa.concat_tables(parts).equals(sj.join(l, r, **arguments))


# --- Resources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "order", "window", "time"),
    [
        ("inner", "none", sj.TimeWindow(2000), "ts"),
        ("inner", "sorted", sj.TimeWindow(2000), "ts"),
        ("full", "punctuated", sj.TimeWindow(2000), "ts"),
        ("left", "sorted", (500, sj.TimeWindow(2000)), "ts"),
        ("inner", "none", 500, "ts"),
        ("semi", "none", 500, None),
    ],
)
def test_memory_stays_flat(how: Any, order: Any, window: Any, time: Any) -> None:
    """300,000 rows per side in small batches through a window of some hundreds."""
    batch, rounds, every = 1000, 300, 50
    rng = np.random.default_rng(1)
    schema = pa.schema({"ts": pa.int64(), "k": pa.int32(), "text": pa.string()})
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
                    push(pa.table([ts, pa.array(rng.integers(0, 1000, batch), pa.int32()), text], schema=schema))
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


_CHILD = """
import sys, time
import pyarrow as pa, streamjoin as sj
from streamjoin.compile import cache
t = pa.table({"k": [1, 2, 3], "x": [1.5, 2.5, 3.5]})
started = time.perf_counter()
out = sj.join(t, t, on="l.k < r.k AND l.x * r.x > 4.25 AND l.k + r.k <> 77", window=5)
hits = 0
for name, module in list(sys.modules.items()):
    if name.startswith("streamjoin_kernel_"):
        hits += sum(module.scan.stats.cache_hits.values())
print(out.num_rows, hits, cache.cache_directory())
"""


def test_kernels_are_kept_in_the_cache_directory(tmp_path: Path) -> None:
    def run(directory: Path) -> list[str]:
        environment = {**os.environ, "STREAMJOIN_CACHE_DIR": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    rows, hits, directory = run(tmp_path)
    assert (rows, hits) == ("2", "0")
    assert Path(directory).parent == tmp_path
    files = sorted(Path(directory).rglob("*.nbi"))
    assert files
    written = [file.stat().st_mtime_ns for file in files]
    rows, hits, _ = run(tmp_path)
    assert rows == "2"
    assert int(hits) >= 1
    assert [file.stat().st_mtime_ns for file in files] == written


def test_a_cache_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    environment = {**os.environ, "STREAMJOIN_CACHE_DIR": str(blocked / "x"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _CHILD], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "STREAMJOIN_CACHE_DIR" in done.stderr.splitlines()[-1]
