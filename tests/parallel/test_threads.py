"""The threads under the topologies: where they run, how they end, what they report."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.parallel.threads import neighbouring_cores
from streamjoin.topology.node_window import Ledger

from .. import constants

NODES = ("handshake", "low-latency-handshake", "splitjoin", "scalejoin")


@pytest.fixture(autouse=True)
def always_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where a step is so small that the driver would do it alone."""
    constants.replace(monkeypatch, SMALL_STEP=-1)


def node_threads() -> int:
    return sum(thread.name.startswith("streamjoin-") for thread in threading.enumerate())


@pytest.mark.parametrize("algorithm", NODES)
def test_closing_with_results_on_the_way(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, REPORTS=2)
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
    constants.replace(monkeypatch, IDLE=0.05)
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
def test_a_dropped_join_takes_its_threads_along(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the help of Python's garbage collector."""
    constants.replace(monkeypatch, FEW_SECONDS=0.0, PLENTY_SECONDS=0.0, CORES=lambda: 4)
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


def test_cores_are_laid_out_along_their_neighbours(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two NUMA nodes of two cores: workers fill one before the other, and with more workers than cores they spread."""
    for node, cpus in enumerate(("0-1", "2,3")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cpus + "\n")
    constants.replace(monkeypatch, NUMA=tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    assert neighbouring_cores(3) == [{0, 1}, {0, 1}, {2, 3}]
    assert neighbouring_cores(8) == [{0, 1}] * 4 + [{2, 3}] * 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert neighbouring_cores(2) == [None, None]
