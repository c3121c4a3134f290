"""The threads under the topologies: where they run, how they end, what they report."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.parallel.crew import Crew
from streamjoin.store.scan import ScanIndex
from streamjoin.tasks import Job
from streamjoin.topology.ledger import Ledger

from .. import constants
from .test_board import fail

NODES = ("handshake", "low-latency-handshake", "splitjoin", "scalejoin")


ALL = (*NODES, "panjoin", "celljoin")


@pytest.fixture(autouse=True)
def always_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads, however little there is to do and however few cores there are."""
    constants.replace(monkeypatch, SMALL_STEP=-1, FEW_SECONDS=0.0, PLENTY_SECONDS=0.0, CORES=lambda: 4)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("streamjoin_")]


def wait_for_their_end() -> None:
    deadline = time.monotonic() + 20
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not threads()


@pytest.mark.parametrize("algorithm", ALL)
def test_closing_with_results_on_the_way(algorithm: str) -> None:
    table = pa.table({"k": np.zeros(3000, np.int64)})
    join = sj.WindowJoin(
        table.schema, table.schema, on="l.k <= r.k", window=3000, algorithm=algorithm, workers=3, max_pending=1
    )
    join.push_left(table)
    join.push_right(table)
    assert join.poll().num_rows
    assert threads()
    join.close()
    assert not threads()


@pytest.mark.parametrize("algorithm", ALL)
def test_a_dropped_join_takes_its_threads_along(algorithm: str) -> None:
    """Without the help of Python's garbage collector."""
    table = pa.table({"k": np.arange(5000)})
    join = sj.WindowJoin(table.schema, table.schema, on="l.k = r.k", window=3000, algorithm=algorithm, workers=4)
    gc.disable()
    try:
        join.push_left(table)
        join.push_right(table)
        join.poll()
        assert threads()
        del join
        wait_for_their_end()
    finally:
        gc.enable()


@pytest.mark.parametrize("algorithm", ALL)
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
    wait_for_their_end()


@pytest.mark.parametrize("algorithm", NODES)
def test_more_nodes_than_cores_need_no_more_threads(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, CORES=lambda: 2)
    table = pa.table({"k": np.arange(8000)})
    options = {"on": "l.k = r.k", "window": 8000, "algorithm": algorithm, "workers": 16, "index": "scan"}
    with sj.WindowJoin(table.schema, table.schema, **options) as join:
        found = 0
        for start in range(0, 8000, 500):
            join.push_left(table.slice(start, 500))
            join.push_right(table.slice(start, 500))
            found += join.poll().num_rows
        assert len(threads()) == 1, "beside the caller's"
        workers = join.metrics()["workers"]
        assert [worker["worker"] for worker in workers] == list(range(16))
        assert all(worker["comparisons"] > 0 and worker["busy_s"] > 0 for worker in workers)
        assert sum(worker["left_window"] for worker in workers) == 8000
        assert found + join.finish().num_rows == 8000


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("algorithm", [*NODES, "celljoin"])
def test_an_error_in_a_kernel_reaches_the_caller(algorithm: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScanIndex, "scan_jobs", lambda *_: [Job(fail, np.zeros(1, np.int64), 8)])
    monkeypatch.setattr(ScanIndex, "probe", lambda *_: Crew(1).share([Job(fail, np.zeros(1, np.int64), 8)]))
    table = pa.table({"k": np.arange(3000)})
    options = {"on": "l.k = r.k", "window": 3000, "algorithm": algorithm, "workers": workers, "index": "scan"}
    with sj.WindowJoin(table.schema, table.schema, **options) as join:
        with pytest.raises(RuntimeError, match="failed"):
            push_both(join, table)
        with pytest.raises(sj.StreamJoinError, match="failed half way"):
            join.poll()
    assert not threads()


def push_both(join: sj.WindowJoin, table: pa.Table) -> None:
    join.push_left(table)
    join.push_right(table)
    join.finish()


@pytest.mark.parametrize("algorithm", NODES)
def test_an_error_in_a_round_reaches_the_caller(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
