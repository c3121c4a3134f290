"""Pushes are collected into batches until one is full, has waited, or somebody asks."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

import streamjoin as sj

from ..predicates import BAND
from ..streams import pairs, stream


def steps_of(join: sj.WindowJoin) -> list[int]:
    """The sizes of the batches that reach the topology."""
    sizes: list[int] = []
    step = join._steps.topology.step

    def noted(batches: Any, *rest: Any) -> Any:
        sizes.append(sum(len(batch) for batch in batches.values()))
        return step(batches, *rest)

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
