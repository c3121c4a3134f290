"""PanJoin: workers, belated tuples, subwindows that expire as a whole, threads that end."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.store import Batch, chain
from streamjoin.store.batch import LARGEST_PART
from streamjoin.store.subwindow import Subwindow

from .. import constants
from ..predicates import BAND
from ..streams import fill, pairs, stream


@pytest.mark.parametrize("workers", [1, 2])
def test_auto_algorithm_uses_the_workers(workers: int) -> None:
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=100, workers=workers) as join:
        metrics = join.metrics()
        assert metrics["algorithm"] == ("panjoin" if workers == 2 else "three-step")
        assert metrics["algorithm_why"] == ("2 workers" if workers == 2 else "1 worker")


@pytest.mark.parametrize("tuples", [LARGEST_PART, LARGEST_PART + 1, 3 * LARGEST_PART])
def test_every_worker_gets_a_part_of_a_large_batch(tuples: int) -> None:
    schema = stream(1, 1).schema
    numbers = np.arange(tuples)
    batch = Batch(numbers, numbers, numbers, numbers + 1, [numbers])
    with sj.WindowJoin(schema, schema, on=BAND, window=100, workers=4) as join:
        window = join._steps.topology._windows["left"]
        sizes = [probing.share_of_batch for probing in window.shares(batch, 4, 4)]
        assert len(sizes) >= 4
        assert sum(sizes) == tuples
        assert max(sizes) - min(sizes) <= 4


@pytest.mark.parametrize("index", ["bi-sort", "rap-table", "wib-tree"])
def test_belated_tuples_wait_in_a_small_buffer(index: str) -> None:
    """A few tuples far behind the others, in whatever subwindow, are found by tuples that are as far behind."""
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
        assert metrics["left"]["window"] == 10_000
        steps = join._steps
        assert steps is not None
        assert 10_000 <= steps.topology.occupancy("left") <= 10_000 * (1 + 2 / chain.PER_WINDOW)
        assert metrics["left"]["payload_rows"] <= 10_000 * (1 + 2 / chain.PER_WINDOW) + 3 * 65536


@pytest.mark.parametrize("algorithm", ["panjoin", "celljoin", "three-step"])
@pytest.mark.parametrize("size", [3_000, 40_000])
def test_pushes_that_span_many_windows_are_not_kept(algorithm: Any, size: int) -> None:
    """A few tuples of each push are stored, and none of them may hold on to the columns of all others."""
    schema, rounds = stream(1, 1).schema, 300_000 // size
    with sj.WindowJoin(schema, schema, on="l.k = r.k", window=5, algorithm=algorithm, workers=2) as join:
        for number in range(rounds):
            join.push_left(stream(size, 100, number))
            join.push_right(stream(size, 100, number))
            join.poll()
        assert all(join.metrics()[side]["payload_rows"] < 2 * size + 80_000 for side in ("left", "right"))


@pytest.mark.parametrize("index", ["hash", "bi-sort", "scan"])
@pytest.mark.parametrize("algorithm", ["panjoin", "celljoin"])
def test_more_pairs_than_slots_hold(algorithm: str, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(
        monkeypatch, PAIRS=1 << 15, LEAST_ROOM=1 << 15, ALONE=8, FEW_SECONDS=0.0, PLENTY_SECONDS=0.0, CORES=lambda: 3
    )
    rows = pa.table({"k": np.arange(1200) % 2, "n": np.arange(1200)})
    with sj.WindowJoin(
        rows.schema, rows.schema, on="l.k = r.k", window=1200, algorithm=algorithm, index=index, workers=3
    ) as join:
        join.push_left(rows)
        join.push_right(rows)
        found = join.finish()
    left, right = (found.column(name).to_numpy() for name in ("n", "n_right"))
    assert len(np.unique(left * 1200 + right)) == found.num_rows == 1200 * 600
    assert not ((left - right) % 2).any()
