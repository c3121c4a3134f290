"""Routing by ranges: splitters follow the keys, and generations of splitters come and go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.spark.messages import ChunkMessage
from streamjoin.spark.pack import Pack
from streamjoin.spark.router import STATES as ROUTERS
from streamjoin.spark.router import Router
from streamjoin.spark.sealed_values import opened
from streamjoin.spark.worker import Worker
from streamjoin.testing import assert_same_rows

from .simulated import Simulated, make_spec


def test_splitters_follow_the_data(tmp_path: Path) -> None:
    """Keys that drift: workers stay evenly loaded, and generations go when all that they stored has expired."""
    rng = np.random.default_rng(0)
    schema = pa.schema([("ts", pa.int64()), ("v", pa.float64())])
    on, window = "l.v BETWEEN r.v - 0.001 AND r.v + 0.001", sj.TimeWindow(6000)
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
        kept = ROUTERS.load(opened("router", run.routers[0]["router"]))
        living.append(len(kept.generations))
        windows = [figures["left_window"] for figures in run.figures]
    assert max(living) > 2, "no generation has followed the drift"
    assert living[-1] <= 5, "generations do not go"
    assert max(windows) < 2 * np.mean(windows), "one worker has piled up"
    expected = sj.join(pa.concat_tables(sides[0]), pa.concat_tables(sides[1]), on=on, window=window, time="ts")
    assert_same_rows(pa.concat_tables(found), expected)


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
    assert len(ROUTERS.load(opened("router", run.routers[0]["router"])).generations) <= 2


def _routed(run: Simulated, tables: list[pa.Table]) -> list:
    """What the first router sends on."""
    found = []
    for side, table in zip(("left", "right"), tables, strict=True):
        for batch in Pack(run.spec, side).messages(0, [table]):
            (row,) = batch.to_pylist()
            if row.pop("worker") == run.spec.workers[0]:
                found.append(ChunkMessage(**row))
    return list(Router(run.spec, run.routers[0]).step(found))


def test_routers_that_disagree_are_told(tmp_path: Path) -> None:
    """A worker must not go by the splitters of one of them."""
    schema = pa.schema([("ts", pa.int64()), ("v", pa.float64())])
    on, window = "l.v BETWEEN r.v - 1 AND r.v + 1", sj.TimeWindow(10)
    spec = make_spec(schema, schema, on=on, window=window, time="ts", workers=2, routing="range", cache=str(tmp_path))
    run = Simulated(spec)
    messages = []
    for values in ([1.0, 2.0, 3.0], [7.0, 8.0, 9.0]):
        table = pa.table({"ts": [1, 2, 3], "v": values}, schema)
        run.routers[0].clear()
        messages += [message for worker, message in _routed(run, [table, table]) if worker == spec.workers[0]]
    with pytest.raises(sj.StateError, match="the splitters differ; start the query again from its checkpoint"):
        list(Worker(spec, 0, run.states[0]).step(messages))
