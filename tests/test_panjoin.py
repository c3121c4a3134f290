"""PanJoin as its users see it: back-pressure, batches, the choice of index and key, workers, belated tuples."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamjoin as sj
from streamjoin.parallel.crew import Crew
from streamjoin.store import chain
from streamjoin.store.subwindow import Subwindow

RNG = np.random.default_rng(7)


def stream(count: int, span: int, seed: int = 0, **more: Any) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"k": rng.integers(0, span, count).astype(np.int32), "n": np.arange(count)}
    return pa.table({**columns, **more})


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["n"].to_pylist(), table["n_right"].to_pylist(), strict=True))


BAND = "l.k BETWEEN r.k - 1 AND r.k + 1"
ENGINES = [(a, i) for a in ("three-step", "panjoin") for i in ("scan", "bi-sort", "rap-table", "wib-tree", "auto")]


# --- Back-pressure -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "index"), ENGINES)
def test_nothing_is_lost_when_the_reader_is_slow(algorithm: str, index: str) -> None:
    """Pushes are refused while too many results wait; the same pushes work after a poll, and memory stays bounded."""
    left, right = stream(6000, 40, 1), stream(6000, 40, 2)
    expected = pairs(sj.join(left, right, on=BAND, window=2000, index="scan", algorithm="three-step"))
    found, refused = [], 0
    with sj.WindowJoin(
        left.schema,
        right.schema,
        on=BAND,
        window=2000,
        algorithm=algorithm,
        index=index,
        workers=2,
        max_pending=5000,
        max_batch=1000,
    ) as join:
        for push, table in ((join.push_left, left), (join.push_right, right)):
            for start in range(0, 6000, 1500):
                while True:
                    try:
                        push(table.slice(start, 1500))
                        break
                    except sj.BackPressure:
                        refused += 1
                        found.append(join.poll())
        found.append(join.finish())
    assert pairs(pa.concat_tables(found)) == expected
    assert refused > 2


@pytest.mark.parametrize("order", ["none", "punctuated", "sorted"])
@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_a_slow_reader_changes_nothing(order: str, how: str) -> None:
    """Whatever the order and kind of join, a limit of one result gives the rows that no limit gives."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    tables = []
    for max_pending in (10**6, 1):
        found = []
        with sj.WindowJoin(
            schema,
            schema,
            on="l.k = r.k AND l.t > 3",
            window=3,
            time="t",
            order=order,
            how=how,
            max_pending=max_pending,
            max_wait=0,
        ) as join:
            for start in range(0, 60, 5):
                batch = pa.table({"k": [1, 2, 1, 1, 3], "t": list(range(start, start + 5))}, schema=schema)
                for push in (join.push_left, join.push_right):
                    while True:
                        try:
                            push(batch)
                            break
                        except sj.BackPressure:
                            found.append(join.poll())
            found.append(join.finish())
        tables.append(pa.concat_tables(table.replace_schema_metadata(None) for table in found).to_pylist())
    key = repr if order != "sorted" else None
    assert tables[0]
    assert (sorted(tables[0], key=key) if key else tables[0]) == (sorted(tables[1], key=key) if key else tables[1])


def push_without_polling(join: sj.WindowJoin, schema: pa.Schema) -> None:
    for start in range(0, 6000, 5):
        batch = pa.table({"k": [1] * 5, "t": list(range(start, start + 5))}, schema=schema)
        join.push_left(batch)
        join.push_right(batch)


def test_nobody_polls_until_the_end() -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    options: dict[str, Any] = {"window": 3, "time": "t", "order": "sorted", "max_pending": 1, "max_wait": 0}
    with sj.WindowJoin(schema, schema, on="l.k = r.k", **options) as join:
        with pytest.raises(sj.BackPressure, match="results wait to be polled"):
            push_without_polling(join, schema)
        assert join.finish().num_rows > 0


def test_steps_that_wait_refuse_further_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push of sorted rows becomes several steps; while results stop some of them, no further rows pile up."""
    monkeypatch.setattr("streamjoin.flow.front.LARGEST_STEP", 100)
    tables = [pa.table({"t": np.arange(6000) // 3, "k": np.arange(6000) // 2}) for _ in range(2)]
    options: dict[str, Any] = {"on": "abs(l.k - r.k) <= 2", "window": 20, "time": "t", "order": "sorted"}
    found, refused = [], 0
    with sj.WindowJoin(tables[0].schema, tables[1].schema, max_pending=50, max_wait=0, **options) as join:
        for start in range(0, 6000, 1000):
            for push, table in zip((join.push_left, join.push_right), tables, strict=True):
                while True:
                    try:
                        push(table.slice(start, 1000))
                        break
                    except sj.BackPressure:
                        refused += 1
                        found.append(join.poll())
                assert len(join._steps._queue) <= 21  # those of one push
        found.append(join.finish())
    assert refused > 40
    assert pa.concat_tables(found).equals(sj.join(*tables, **options))


def test_unmatched_rows_that_nobody_fetches() -> None:
    """Rows without a partner fill the limit too, while later tuples wait: nothing they need is let go of."""
    schema = pa.schema({"t": pa.int64(), "k": pa.int32(), "s": pa.string()})

    def rows(t: list[int], k: list[int]) -> pa.Table:
        return pa.table({"t": t, "k": pa.array(k, pa.int32()), "s": [f"x{i}" for i in t]}, schema=schema)

    found = []
    options: dict[str, Any] = {"how": "right", "max_pending": 3, "max_batch": 1, "order": "punctuated"}
    with sj.WindowJoin(schema, schema, on="l.k = r.k", window=sj.TimeWindow(10), time="t", **options) as join:
        pushes = [
            (join.push_right, rows([0] * 4, [1, 2, 3, 4])),
            (join.push_left, rows([100], [9])),
            (join.push_left, rows(list(range(200, 100_200)), [7] * 100_000)),
            (join.push_right, rows([100_199], [7])),
            (join.push_left, rows(list(range(100_200, 200_200)), [7] * 100_000)),
            (join.push_left, rows([10**7], [0])),
            (join.push_right, rows([10**7], [1])),
        ]
        promised = -1
        for push, table in pushes:
            while True:
                try:
                    push(table)
                    break
                except sj.BackPressure:
                    found.append(join.poll())
                    assert min([*found[-1]["t_right"].to_pylist(), 10**9]) >= promised
                    promised = max(promised, -1 if join.watermark is None else join.watermark)
        found.append(join.finish())
    table = pa.concat_tables(t.replace_schema_metadata(None) for t in found)
    assert table.num_rows == 4 + 20 - 1 + 1
    assert table.filter(pc.equal(table["t_right"], 100_199))["s"].to_pylist() == [
        f"x{i}" for i in range(100_190, 100_209)
    ]


def test_a_poll_continues_where_work_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch may make far more results than may wait: they come poll by poll."""
    monkeypatch.setattr("streamjoin.store.batch.QUOTA", 1000)
    monkeypatch.setattr("streamjoin.store.batch.BUFFER", 8192)
    monkeypatch.setattr("streamjoin.store.batch.PairSink._spare", [])
    left, right = stream(3000, 1, 1), stream(3000, 1, 2)
    with sj.WindowJoin(left.schema, right.schema, on=BAND, window=3000, max_pending=10_000, workers=2) as join:
        join.push_left(left)
        join.push_right(right)
        sizes = []
        while sum(sizes) < 9_000_000:
            table = join.poll()
            sizes.append(table.num_rows)
        assert len(sizes) > 20
        assert max(sizes) < 200_000
        assert join.finish().num_rows == 0


def test_punctuation_waits_for_unfinished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """While work is suspended nothing is promised, since the rest of it may bring results of any time."""
    monkeypatch.setattr("streamjoin.store.batch.QUOTA", 1000)
    left = stream(2000, 1, 1, ts=np.arange(2000))
    right = stream(2000, 1, 2, ts=np.arange(2000))
    options: dict[str, Any] = {"order": "punctuated", "max_pending": 1, "algorithm": "three-step"}
    with sj.WindowJoin(left.schema, right.schema, on=BAND, window=sj.TimeWindow(2000), time="ts", **options) as join:
        join.push_left(left)
        join.push_right(right)
        unpromised = 0
        while True:
            rows = join.poll().num_rows
            if join.watermark is not None:
                break
            unpromised += rows
        assert unpromised > 1_000_000
        assert join.watermark == 1999
        assert join.finish().num_rows == 0


@pytest.mark.parametrize(
    ("name", "value"), [("max_pending", 0), ("max_batch", "x"), ("max_wait", -1), ("max_wait", "5")]
)
def test_limits_are_checked(name: str, value: Any) -> None:
    schema = stream(1, 1).schema
    with pytest.raises(sj.ArgumentError, match=name):
        sj.WindowJoin(schema, schema, on=BAND, window=5, **{name: value})


# --- Batches -----------------------------------------------------------------------------------------


def steps_of(join: sj.WindowJoin) -> list[int]:
    """The sizes of the batches that reach the topology."""
    sizes: list[int] = []
    step = join._steps.topology.step

    def noted(batches: Any, chores: Any = ()) -> Any:
        sizes.append(sum(len(batch) for batch in batches.values()))
        return step(batches, chores)

    join._steps.topology.step = noted  # type: ignore[method-assign]
    return sizes


def test_pushes_are_collected_until_somebody_asks() -> None:
    left, right = stream(100, 5, 1), stream(100, 5, 2)
    with sj.WindowJoin(left.schema, right.schema, on=BAND, window=50, max_wait=3600) as join:
        sizes = steps_of(join)
        for row in range(100):
            join.push_left(left.slice(row, 1))
            join.push_right(right.slice(row, 1))
        assert not sizes
        late = join.poll()
        assert sizes == [200]
        join.push_left(left.slice(0, 1))
        join.poll()
        assert sizes == [200, 1]
    with sj.WindowJoin(left.schema, right.schema, on=BAND, window=50) as join:
        early = []
        for row in range(100):
            join.push_left(left.slice(row, 1))
            early.append(join.poll())
            join.push_right(right.slice(row, 1))
            early.append(join.poll())
    assert pairs(late) == pairs(pa.concat_tables(early))


def test_a_batch_is_full_or_has_waited() -> None:
    left = stream(100, 5, 1)
    with sj.WindowJoin(left.schema, left.schema, on=BAND, window=50, max_batch=30, max_wait=3600) as join:
        sizes = steps_of(join)
        for row in range(100):
            join.push_left(left.slice(row, 1))
        assert sizes == [30, 30, 30]
    with sj.WindowJoin(left.schema, left.schema, on=BAND, window=50, max_wait=0.02) as join:
        sizes = steps_of(join)
        join.push_left(left.slice(0, 1))
        assert not sizes
        time.sleep(0.03)
        join.push_left(left.slice(1, 1))
        assert sizes == [2]


# --- The choice of index and key ---------------------------------------------------------------------


def fill(join: sj.WindowJoin, make: Any, rounds: int, size: int = 4096) -> None:
    for number in range(rounds):
        join.push_left(make(size, 2 * number))
        join.push_right(make(size, 2 * number + 1))
        join.poll()


def test_auto_follows_the_data() -> None:
    """Many candidates: scan. Few: BI-Sort. It switches when a new subwindow is opened, and says why."""
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=20_000) as join:
        fill(join, lambda n, seed: stream(n, 1_000_000, seed), 12)
        chosen = join.metrics()["indexes"]["left"]
        assert chosen["index"] == "bi-sort"
        assert "candidates" in chosen["why"]
        assert chosen["key"] == "l.k"
        fill(join, lambda n, seed: stream(n, 4, seed), 12, 600)
        chosen = join.metrics()["indexes"]["left"]
        assert chosen["index"] == "scan"
        assert "of the window" in chosen["why"]
        assert chosen["switches"] >= 1


def test_auto_scans_what_is_small_or_has_no_key() -> None:
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=100) as join:
        fill(join, lambda n, seed: stream(n, 50, seed), 40, 20)
        assert join.metrics()["index"] == "scan"
        assert "faster than searched" in join.metrics()["indexes"]["right"]["why"]
    with sj.WindowJoin(schema, schema, on="l.k * r.k % 7 = 3", window=100) as join:
        fill(join, lambda n, seed: stream(n, 50, seed), 3, 20)
        assert join.metrics()["indexes"]["left"]["why"] == "the predicate has no key to sort by"


@pytest.mark.parametrize("workers", [1, 2])
def test_auto_algorithm_uses_the_workers(workers: int) -> None:
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=100, workers=workers) as join:
        metrics = join.metrics()
        assert metrics["algorithm"] == ("panjoin" if workers == 2 else "three-step")
        assert metrics["algorithm_why"] == ("2 workers" if workers == 2 else "1 worker")


def compared_per_tuple(
    on: str, left: pa.Table, right: pa.Table, index: str, batch: int = 2048
) -> tuple[float, int, Any]:
    out = 0
    with sj.WindowJoin(left.schema, right.schema, on=on, window=30_000, index=index, workers=2) as join:
        for start in range(0, left.num_rows, batch):
            join.push_left(left.slice(start, batch))
            join.push_right(right.slice(start, batch))
            out += join.poll().num_rows
        metrics = join.metrics()
    return metrics["comparisons"] / (2 * left.num_rows), out, metrics["indexes"]["left"]["key"]


@pytest.mark.parametrize("index", ["bi-sort", "rap-table", "wib-tree"])
def test_neither_equality_nor_band_degrades_to_a_scan(index: str) -> None:
    """100 symbols, prices over a wide range: either condition alone leaves hundreds of candidates, both a few."""
    rng = np.random.default_rng(5)

    def quotes(name: str) -> pa.Table:
        symbols = pa.array([f"S{n}" for n in rng.integers(0, 100, 40_000)])
        return pa.table({"s": symbols, name: rng.uniform(0, 1000, 40_000)})

    on = "l.s = r.s AND l.p BETWEEN r.q - 1.5 AND r.q + 1.5"
    compared, found, key = compared_per_tuple(on, quotes("p"), quotes("q"), index)
    assert found > 40_000 / 4
    assert compared < 1500
    assert key == "equality, then l.p"


@pytest.mark.parametrize(
    "on",
    [
        "l.x BETWEEN r.x - 10 AND r.x + 10 AND l.y BETWEEN r.y - 10 AND r.y + 10",
        "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10",
    ],
)
def test_bands_in_two_dimensions_use_both(on: str) -> None:
    rng = np.random.default_rng(6)

    def points() -> pa.Table:
        return pa.table({"x": rng.integers(0, 10_000, 40_000), "y": rng.uniform(0, 10_000, 40_000).astype(np.float32)})

    compared, found, key = compared_per_tuple(on, points(), points(), "bi-sort")
    assert found > 1000
    assert "cells of" in key
    assert compared < 1500


def test_the_better_column_is_found() -> None:
    """The first band lets everything through, the second hardly anything."""
    rng = np.random.default_rng(6)

    def points() -> pa.Table:
        return pa.table({"x": rng.integers(0, 5, 40_000), "y": rng.integers(0, 1_000_000, 40_000)})

    on = "l.x BETWEEN r.x - 9 AND r.x + 9 AND l.y BETWEEN r.y - 9 AND r.y + 9"
    compared, _, key = compared_per_tuple(on, points(), points(), "bi-sort")
    assert key.endswith("l.y")
    assert compared < 1500


def test_keys_that_drift_move_the_key_space() -> None:
    """64-bit keys that grow without end stay selective: the space moves with them at the subwindows' borders."""
    schema = pa.schema({"k": pa.int64(), "n": pa.int64()})
    position = 0

    def increasing(count: int, seed: int) -> pa.Table:
        nonlocal position
        position += count // 2
        keys = (np.arange(count) + position) * 10**11
        return pa.table({"k": keys, "n": np.arange(count)}, schema=schema)

    on = "l.k BETWEEN r.k - 100000000000 AND r.k + 100000000000"
    with sj.WindowJoin(schema, schema, on=on, window=20_000, index="bi-sort") as join:
        fill(join, increasing, 40)
        before = join.metrics()["comparisons"]
        fill(join, increasing, 10)
        metrics = join.metrics()
        assert metrics["indexes"]["left"]["key_changes"] >= 1
        assert (metrics["comparisons"] - before) / (20 * 4096) < 4000


# --- Order, workers, threads -------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["bi-sort", "rap-table", "wib-tree"])
def test_belated_tuples_wait_in_a_small_buffer(index: str) -> None:
    """A few tuples far behind the others are found by those that are as far behind, whatever subwindow they came to."""
    rng = np.random.default_rng(3)
    ts = np.arange(30_000)
    ts[rng.integers(20_000, 30_000, 200)] -= 9_000
    left = stream(30_000, 3000, 1, ts=ts)
    right = stream(30_000, 3000, 2, ts=ts)
    options: dict[str, Any] = {"on": BAND, "window": sj.TimeWindow(3000), "time": "ts"}
    expected = pairs(sj.join(left, right, index="scan", **options))
    with sj.WindowJoin(left.schema, right.schema, index=index, lateness=10_000, workers=2, **options) as join:
        found = []
        for start in range(0, 30_000, 1000):
            join.push_left(left.slice(start, 1000))
            join.push_right(right.slice(start, 1000))
            found.append(join.poll())
        belated = [s._belated.count for s in join._steps.topology._windows["left"]._chain.subwindows if s._belated]
        found.append(join.finish())
    assert sum(belated) > 20
    assert pairs(pa.concat_tables(found)) == expected


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("index", ["scan", "hash", "bi-sort", "rap-table", "wib-tree"])
def test_any_number_of_workers(index: str, workers: int) -> None:
    left, right = stream(20_000, 3000, 1), stream(20_000, 3000, 2)
    expected = sj.join(left, right, on="l.k = r.k", window=4000, index="scan", algorithm="three-step", order="sorted")
    found = sj.join(
        left, right, on="l.k = r.k", window=4000, index=index, algorithm="panjoin", workers=workers, order="sorted"
    )
    assert found.equals(expected)


def test_metrics_per_worker() -> None:
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=20_000, workers=2) as join:
        fill(join, lambda n, seed: stream(n, 60_000, seed), 10, 8192)
        workers = join.metrics()["workers"]
    assert 1 <= len(workers) <= 2
    assert sum(worker["busy_s"] for worker in workers) > 0
    assert workers[0]["commands"]["insert"] == 20
    assert workers[0]["commands"]["probe"] >= 20
    assert workers[0]["commands"]["create"] >= 4
    assert workers[0]["commands"]["expire"] >= 1


def test_crew_runs_everything_and_raises_the_first_error() -> None:
    crew = Crew(3)
    assert crew.run([lambda n=n: n * n for n in range(50)]) == [n * n for n in range(50)]

    def nested(n: int) -> list[int]:
        return crew.run([lambda k=k: n * k for k in range(5)])

    assert crew.run([lambda n=n: nested(n) for n in range(20)]) == [[n * k for k in range(5)] for n in range(20)]
    done: list[int] = []

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        crew.run([fails, *(lambda n=n: done.append(n) for n in range(20))])
    assert sorted(done) == list(range(20))
    crew.close()


@pytest.mark.parametrize("index", ["scan", "hash", "bi-sort", "rap-table", "wib-tree"])
def test_expired_subwindows_are_let_go(index: str) -> None:
    """A long run keeps only the subwindows of its window alive."""
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on="l.k = r.k", window=2000, index=index) as join:
        fill(join, lambda n, seed: stream(n, 10_000, seed), 20, 2000)
        gc.collect()
        before = sum(issubclass(type(thing), Subwindow) for thing in gc.get_objects())
        fill(join, lambda n, seed: stream(n, 10_000, seed), 40, 2000)
        gc.collect()
        assert sum(issubclass(type(thing), Subwindow) for thing in gc.get_objects()) <= before + 6


def test_several_threads_may_use_a_join() -> None:
    left, right = stream(20_000, 500, 1, t=np.arange(20_000)), stream(20_000, 500, 2, t=np.arange(20_000))
    options: dict[str, Any] = {"on": BAND, "window": sj.TimeWindow(3000), "time": "t"}
    expected = pairs(sj.join(left, right, **options))
    found: list[pa.Table] = []
    with sj.WindowJoin(left.schema, right.schema, workers=2, lateness=20_000, **options) as join:
        done = threading.Event()

        def push(method: Any, table: pa.Table) -> None:
            for start in range(0, 20_000, 500):
                method(table.slice(start, 500))

        def read() -> None:
            while not done.is_set():
                found.append(join.poll())

        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=push, args=a) for a in ((join.push_left, left), (join.push_right, right))]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        reader.join()
        found.append(join.finish())
    assert pairs(pa.concat_tables(found)) == expected


def test_closing_lets_the_threads_go() -> None:
    before = threading.active_count()
    schema = stream(1, 1).schema
    for _ in range(5):
        with sj.WindowJoin(schema, schema, on=BAND, window=20_000, workers=4) as join:
            fill(join, lambda n, seed: stream(n, 60_000, seed), 2, 8192)
    assert threading.active_count() <= before + 1


def test_subwindows_expire_as_a_whole() -> None:
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=10_000, index="bi-sort") as join:
        fill(join, lambda n, seed: stream(n, 60_000, seed), 30, 2048)
        metrics = join.metrics()
        assert 10_000 <= metrics["left"]["window"] <= 10_000 * (1 + 2 / chain.PER_WINDOW)
        assert metrics["left"]["payload_rows"] <= 10_000 * (1 + 2 / chain.PER_WINDOW) + 3 * 65536


# --- Keys at the ends of their types -----------------------------------------------------------------

BIG, INF = 2**63 - 1, float("inf")
ENDS = [
    ("l.a <= r.x AND l.b >= r.x", {"a": [-BIG] * 3000, "b": [BIG] * 3000}, {"x": [10]}, pa.int64()),
    ("l.a <= r.x AND l.b >= r.x", {"a": [0.0] * 3000, "b": [1.7e308, INF] * 1500}, {"x": [INF]}, pa.float64()),
    (lambda l, r: abs(l.a - r.x) <= 2.5, {"a": [2**31 - 1] * 3000}, {"x": [-(2**31) + 1]}, pa.int32()),
    (lambda l, r: abs(l.a - r.x) <= 2.5, {"a": [127] * 3000}, {"x": [-127]}, pa.int8()),
    ("l.a + l.a - r.x <= 3 AND l.a + l.a - r.x >= 0", {"a": [2**30] * 3000}, {"x": [-(2**31)]}, pa.int32()),
]  # fmt: skip


@pytest.mark.parametrize("index", ["bi-sort", "rap-table", "wib-tree", "auto"])
@pytest.mark.parametrize("number", range(len(ENDS)))
def test_keys_at_the_ends_of_their_types(number: int, index: str) -> None:
    on, left, right, type_ = ENDS[number]
    tables = [pa.table({name: pa.array(values, type_) for name, values in side.items()}) for side in (left, right)]
    scanned = sj.join(*tables, on=on, window=10**6, index="scan")
    assert scanned.num_rows or number == 4
    assert sj.join(*tables, on=on, window=10**6, index=index).num_rows == scanned.num_rows


def test_nanoseconds_of_today_are_regular() -> None:
    """Differences of timestamps in nanoseconds are searched, not scanned."""
    rng = np.random.default_rng(1)
    times = (1_790_000_000 * 10**9 + rng.integers(0, 3000, 30_000) * 10**9).astype("datetime64[ns]")
    table = pa.table({"x": times})
    on = "l.x - r.x <= INTERVAL '1' SECOND AND r.x - l.x <= INTERVAL '1' SECOND"
    compared, found, _ = compared_per_tuple(on, table, table, "bi-sort")
    assert found > 30_000
    assert compared < 2000
