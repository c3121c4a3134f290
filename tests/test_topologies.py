"""The topologies made of nodes on real threads: repeated runs, endings, errors, figures."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.parallel import threads
from streamjoin.parallel.threads import neighbouring_cores
from streamjoin.store import Batch
from streamjoin.topology import driver
from streamjoin.topology.node_window import Ledger

NODES = ("handshake", "low-latency-handshake", "splitjoin", "scalejoin")
ALL = ("three-step", "celljoin", *NODES, "panjoin")
RUNS = 1_000 if "STREAMJOIN_TORTURE" in os.environ else 25
BAND = "l.k BETWEEN r.k - 1 AND r.k + 1"


@pytest.fixture(autouse=True)
def always_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to do."""
    monkeypatch.setattr(driver, "SMALL", -1)


def stream(rng: np.random.Generator, count: int, domain: int = 50) -> pa.Table:
    return pa.table({"ts": np.cumsum(rng.integers(0, 2, count)), "k": rng.integers(0, domain, count)})


def node_threads() -> int:
    return sum(thread.name.startswith("streamjoin-") for thread in threading.enumerate())


def joined(left: pa.Table, right: pa.Table, seed: int, **options) -> pa.Table:
    """Pushed in random pieces, polled now and then."""
    turn = random.Random(seed)
    places, tables = [0, 0], (left, right)
    found = []
    with sj.WindowJoin(left.schema, right.schema, **options) as join:
        while any(place < table.num_rows for place, table in zip(places, tables, strict=True)):
            side = turn.randrange(2)
            piece = tables[side].slice(places[side], turn.randint(1, 90))
            (join.push_left, join.push_right)[side](piece)
            places[side] += piece.num_rows
            if turn.random() < 0.3:
                found.append(join.poll())
        found.append(join.finish())
    return pa.concat_tables(found)


@pytest.mark.parametrize("algorithm", NODES)
def test_many_runs_on_real_threads(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads than cores, random pieces: always the same sequence, and never a hang. In every third run the driver
    does small steps itself."""
    rng = np.random.default_rng(5)
    left, right = stream(rng, 500), stream(rng, 400)
    for seed in range(RUNS):
        monkeypatch.setattr(driver, "SMALL", 1_500 if seed % 3 == 2 else -1)
        options = {
            "on": BAND,
            "window": (sj.TimeWindow(40), 30) if seed % 2 else sj.TimeWindow(35),
            "time": "ts",
            "lateness": 10_000,
            "order": "sorted",
        }
        wanted = sj.join(left, right, algorithm="three-step", **options)
        found = joined(left, right, seed, algorithm=algorithm, workers=(1, 2, 3, 8)[seed % 4], **options)
        assert found.equals(wanted), f"seed {seed}"


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_sorted_results_are_one_sequence(how: str) -> None:
    rng = np.random.default_rng(7)
    left, right = stream(rng, 3000, 400), stream(rng, 2500, 400)
    options = {"on": BAND, "window": (200, sj.TimeWindow(150)), "time": "ts", "order": "sorted", "how": how}
    wanted = sj.join(left, right, algorithm="three-step", index="scan", **options)
    for number, algorithm in enumerate(ALL):
        for workers in (1, 3):
            found = joined(left, right, number, algorithm=algorithm, workers=workers, lateness=10_000, **options)
            assert found.equals(wanted), (algorithm, workers)


def test_handshake_join_finds_pairs_when_they_meet() -> None:
    """Two young tuples are far apart: they meet when half a window has followed, and its watermark knows."""
    left, right = pa.table({"ts": [0], "k": [1]}), pa.table({"ts": [0], "k": [1]})
    options = {"on": "l.k = r.k", "window": sj.TimeWindow(1000), "time": "ts", "workers": 4, "order": "punctuated"}
    with sj.WindowJoin(left.schema, right.schema, algorithm="handshake", **options) as join:
        late = 0
        for ts in range(400):
            join.push_left(pa.table({"ts": [ts], "k": [ts]}))
            join.push_right(pa.table({"ts": [ts], "k": [ts]}))
            found = join.poll()
            late += any(when < ts for when in found["ts"].to_pylist())
            assert join.watermark is not None
            assert join.watermark <= ts
        assert late > 0, "with a window that fills, pairs must be found late"
        total = join.metrics()["out"] + join.finish().num_rows
    assert total == 400
    with sj.WindowJoin(left.schema, right.schema, algorithm="low-latency-handshake", **options) as join:
        join.push_left(left)
        join.push_right(right)
        assert join.poll().num_rows == 1


@pytest.mark.parametrize("algorithm", NODES)
def test_a_burst_does_not_hold_up_what_follows(algorithm: str) -> None:
    """Thousands of rows at once, then single ones: watermarks keep their promise, and follow the stream."""
    ticks = np.arange(20_000) // 20
    burst = pa.table({"ts": ticks, "k": np.arange(20_000)})
    options = {"on": "l.k = r.k", "window": sj.TimeWindow(10), "time": "ts", "order": "punctuated"}
    with sj.WindowJoin(burst.schema, burst.schema, algorithm=algorithm, workers=8, **options) as join:
        join.push_left(burst)
        join.push_right(burst)
        found, promised = join.poll().num_rows, join.watermark
        for ts in range(2_000, 2_300):
            row = pa.table({"ts": [ts], "k": [ts * 100]})
            join.push_left(row)
            join.push_right(row)
            table = join.poll()
            found += table.num_rows
            assert not table.num_rows or min(table["ts"].to_pylist()) >= promised, "a broken promise"
            assert join.watermark >= promised
            promised = join.watermark
        assert promised >= 2_270, "far behind the stream"
        assert join.metrics()["left"]["window"] < 200
        assert found >= 20_000 + 250
        assert found + join.finish().num_rows == 20_300


@pytest.mark.parametrize("algorithm", NODES)
def test_a_row_that_waits_long_is_not_forgotten(algorithm: str) -> None:
    """The first row of a stream has a late timestamp: when it is ready, thousands of later rows have come and gone."""
    rng = np.random.default_rng(3)
    left, right = stream(rng, 6000), stream(rng, 6000)
    last = int(left["ts"][-1].as_py())
    left = pa.concat_tables([pa.table({"ts": [last], "k": [7]}), left])
    options = {"on": BAND, "window": 20, "time": "ts", "lateness": 10_000, "order": "sorted"}
    wanted = sj.join(left, right, algorithm="three-step", **options)
    with sj.WindowJoin(left.schema, right.schema, algorithm=algorithm, workers=3, **options) as join:
        found = []
        join.push_left(left.slice(0, 1))
        for start in range(0, 6000, 300):
            join.push_left(left.slice(1 + start, 300))
            join.push_right(right.slice(start, 300))
            found.append(join.poll())
        found.append(join.finish())
    assert pa.concat_tables(found).equals(wanted)


@pytest.mark.parametrize("algorithm", [*NODES, "celljoin"])
def test_results_beyond_max_pending_wait(algorithm: str) -> None:
    """Every pair matches: a million results from two thousand rows, taken in pieces."""
    table = pa.table({"k": np.zeros(1000, np.int64)})
    with sj.WindowJoin(
        table.schema, table.schema, on="l.k = r.k", window=1000, algorithm=algorithm, workers=2, max_pending=10_000
    ) as join:
        join.push_left(table)
        join.push_right(table)
        total = 0
        for _ in range(100_000):
            found = join.poll().num_rows
            total += found
            if total >= 1_000_000 or (not found and join.metrics()["pending"] == 0):
                break
        total += join.finish().num_rows
    assert total == 1_000_000


@pytest.mark.parametrize("algorithm", NODES)
def test_closing_with_results_on_the_way(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "REPORTS", 2)
    table = pa.table({"k": np.zeros(3000, np.int64)})
    before = threading.active_count()
    join = sj.WindowJoin(
        table.schema, table.schema, on="l.k <= r.k", window=3000, algorithm=algorithm, workers=3, max_pending=1
    )
    join.push_left(table)
    join.push_right(table)
    join.poll()
    join.close()
    assert threading.active_count() <= before


@pytest.mark.parametrize("algorithm", NODES)
def test_threads_end_when_a_join_is_forgotten(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even without `close`; and a join that was only quiet goes on."""
    monkeypatch.setattr(threads, "IDLE", 0.05)
    table = pa.table({"k": [1, 2, 3]})
    join = sj.WindowJoin(table.schema, table.schema, on="l.k = r.k", window=10, algorithm=algorithm, workers=3)
    join.push_left(table)
    join.poll()
    assert node_threads() >= 3
    deadline = time.monotonic() + 20
    while node_threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert node_threads() == 0
    join.push_right(table)
    assert join.poll().num_rows + join.finish().num_rows == 3


@pytest.mark.parametrize("algorithm", NODES)
def test_a_join_dropped_half_way_through_a_step_is_collected(algorithm: str) -> None:
    table = pa.table({"k": np.zeros(3000, np.int64)})
    join = sj.WindowJoin(
        table.schema, table.schema, on="l.k <= r.k", window=3000, algorithm=algorithm, workers=3, max_pending=1
    )
    join.push_left(table)
    join.push_right(table)
    assert join.poll().num_rows
    left = weakref.ref(join)
    del join
    gc.collect()
    assert left() is None
    deadline = time.monotonic() + 20
    while node_threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert node_threads() == 0


@pytest.mark.parametrize("algorithm", ["panjoin", "celljoin"])
def test_a_dropped_join_takes_its_threads_along(algorithm: str) -> None:
    """Without the help of Python's garbage collector."""
    before = set(threading.enumerate())
    table = pa.table({"k": np.arange(5000)})
    join = sj.WindowJoin(table.schema, table.schema, on="l.k = r.k", window=3000, algorithm=algorithm, workers=4)
    gc.disable()
    try:
        join.push_left(table)
        join.push_right(table)
        assert join.poll().num_rows
        assert set(threading.enumerate()) > before
        del join
        deadline = time.monotonic() + 20
        while set(threading.enumerate()) - before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not set(threading.enumerate()) - before
    finally:
        gc.enable()


@pytest.mark.parametrize("algorithm", NODES)
def test_an_error_on_a_thread_reaches_the_caller(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Ledger, left: object, right: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(Ledger, "within", fail)
    table = pa.table({"k": [1, 2, 3]})
    with sj.WindowJoin(table.schema, table.schema, on="l.k = r.k", window=10, algorithm=algorithm, workers=2) as join:
        join.push_left(table)
        join.push_right(table)
        with pytest.raises(MemoryError, match="no room"):
            join.finish()
        with pytest.raises(sj.StreamJoinError, match="failed half way"):
            join.poll()


@pytest.mark.parametrize("algorithm", NODES)
def test_windows_are_let_go_and_work_is_shared(algorithm: str) -> None:
    rng = np.random.default_rng(1)
    with sj.WindowJoin(
        stream(rng, 1).schema, stream(rng, 1).schema,
        on=BAND, window=500, algorithm=algorithm, workers=4, index="scan",
    ) as join:  # fmt: skip
        for _ in range(60):
            for push in (join.push_left, join.push_right):
                push(stream(rng, 200, 10_000))
                join.poll()
        metrics = join.metrics()
    assert len(metrics["workers"]) == 4
    for side in ("left", "right"):
        assert 500 <= metrics[side]["window"] <= 1500
        assert metrics[side]["payload_rows"] < 100_000
    if algorithm in ("splitjoin", "scalejoin"):
        work = [worker["comparisons"] for worker in metrics["workers"]]
        assert max(work) - min(work) <= 0.01 * max(work)
    assert sum(worker["comparisons"] for worker in metrics["workers"]) <= metrics["comparisons"]


def test_ledger_forgets_and_grows() -> None:
    ledger = Ledger()
    for start in range(50_000, 70_000, 1000):
        rows = np.arange(start, start + 1000)
        for side in ("left", "right"):
            ledger.forget(side, start - 500 if start % 3000 else None)
            ledger.add(side, Batch(rows, rows, rows - 10, rows + 10, []))
        left, right = ledger.within(rows, np.roll(rows, 3))
        assert len(left) == 997
        assert np.array_equal(np.abs(left - right), np.full(997, 3))


def test_cores_are_laid_out_along_their_neighbours(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two NUMA nodes of two cores: workers fill one before the other, and with more workers than cores they spread."""
    for node, cpus in enumerate(("0-1", "2,3")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cpus + "\n")
    monkeypatch.setattr(threads, "NUMA", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    assert neighbouring_cores(3) == [{0, 1}, {0, 1}, {2, 3}]
    assert neighbouring_cores(8) == [{0, 1}] * 4 + [{2, 3}] * 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert neighbouring_cores(2) == [None, None]
