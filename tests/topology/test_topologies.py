"""The topologies made of nodes on several threads: repeated runs, one sequence, bursts, figures."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.side import SIDES
from streamjoin.store import Batch
from streamjoin.topology.ledger import Ledger
from streamjoin.topology.registry import ALGORITHMS

from .. import constants
from ..long import LONG
from ..predicates import BAND

NODES = ("handshake", "low-latency-handshake", "splitjoin", "scalejoin")

RUNS = 1_000 if LONG else 12
"""Twelve have every combination of windows, workers and sizes of steps that there is."""


@pytest.fixture(autouse=True)
def always_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to do and however few cores there are."""
    constants.replace(monkeypatch, SMALL_STEP=-1, FEW_SECONDS=0.0, PLENTY_SECONDS=0.0, CORES=lambda: 4)


def stream(rng: np.random.Generator, count: int, domain: int = 50) -> pa.Table:
    return pa.table({"ts": np.cumsum(rng.integers(0, 2, count)), "k": rng.integers(0, domain, count)})


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
        constants.replace(monkeypatch, SMALL_STEP=1_500 if seed % 3 == 2 else -1)
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
    for number, algorithm in enumerate(ALGORITHMS):
        for workers in (1, 3):
            found = joined(left, right, number, algorithm=algorithm, workers=workers, lateness=10_000, **options)
            assert found.equals(wanted), (algorithm, workers)


def test_handshake_join_finds_pairs_when_they_meet() -> None:
    """Two young tuples are far apart. They meet when half a window has followed, and no watermark comes before."""
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


@pytest.mark.parametrize("index", ["scan", "hash", "bi-sort"])
@pytest.mark.parametrize("workers", [2, 16])
@pytest.mark.parametrize("algorithm", [*NODES, "celljoin"])
def test_results_beyond_max_pending_wait(
    algorithm: str, workers: int, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pair matches: a million results from two thousand rows, taken in pieces in the middle of a step."""
    constants.replace(monkeypatch, QUOTA=1000, BUFFER=8192, SPARE_BUFFERS=[], PAIRS=1 << 15, LEAST_ROOM=1 << 15)
    table = pa.table({"k": np.zeros(1000, np.int64)})
    options = {"on": "l.k = r.k", "window": 1000, "algorithm": algorithm, "workers": workers, "index": index}
    with sj.WindowJoin(table.schema, table.schema, max_pending=10_000, **options) as join:
        join.push_left(table)
        join.push_right(table)
        total = 0
        for _ in range(100_000):
            found = join.poll().num_rows
            assert found < 300_000
            total += found
            if total >= 1_000_000 or (not found and join.metrics()["pending"] == 0):
                break
        total += join.finish().num_rows
    assert total == 1_000_000


@pytest.mark.parametrize("algorithm", NODES)
def test_windows_are_let_go_and_work_is_shared(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, FORGET_ROWS=1)
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
        steps = join._steps
        assert steps is not None
        stored = {side: steps.topology.occupancy(side) for side in SIDES}
    assert len(metrics["workers"]) == 4
    for side in SIDES:
        assert metrics[side]["window"] == 500
        assert 500 <= stored[side] <= 1500
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
        keep = ledger.within(rows, np.roll(rows, 3))
        assert np.array_equal(keep, np.abs(rows - np.roll(rows, 3)) == 3)
        assert np.count_nonzero(keep) == 997
        assert ledger.within(rows, rows) is None, "all of them"
