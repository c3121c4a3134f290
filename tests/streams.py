"""Small streams and joins that tests of several rooms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

from .predicates import KEY

LEFT = pa.schema({"ts": pa.int64(), "k": pa.int64(), "x": pa.int32(), "s": pa.string()})
RIGHT = pa.schema({"ts": pa.int64(), "k": pa.int64(), "a": pa.int32(), "t": pa.string()})


def left(ts: list[int], k: list[int] | None = None) -> pa.Table:
    n = len(ts)
    return pa.table([ts, k or [1] * n, pa.array(range(n), pa.int32()), ["left"] * n], schema=LEFT)


def right(ts: list[int], k: list[int] | None = None) -> pa.Table:
    n = len(ts)
    return pa.table([ts, k or [1] * n, pa.array(range(n), pa.int32()), ["right"] * n], schema=RIGHT)


def opened(**changes: Any) -> sj.WindowJoin:
    """A join of `left` and `right` on their keys; `changes` replace its arguments."""
    arguments: dict[str, Any] = {"on": KEY, "window": sj.TimeWindow(10), "time": "ts", **changes}
    return sj.WindowJoin(arguments.pop("left", LEFT), arguments.pop("right", RIGHT), **arguments)


def refused(join: sj.WindowJoin, push: Callable[[Any], None], batch: Any, *words: str) -> None:
    """The push raises DataError or SchemaError and leaves the join as it was."""
    before = join.metrics()
    with pytest.raises((sj.DataError, sj.SchemaError)) as caught:
        push(batch)
    for word in (push.__name__, *words):
        assert word in str(caught.value)
    assert join.metrics() == before


def stream(count: int, span: int, seed: int = 0, **more: Any) -> pa.Table:
    """Random keys `k` below `span`, and the number of each row as `n`."""
    columns = {"k": np.random.default_rng(seed).integers(0, span, count), "n": np.arange(count)}
    return pa.table({**columns, **more})


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    """The numbers of both rows of every result, sorted."""
    return sorted(zip(table["n"].to_pylist(), table["n_right"].to_pylist(), strict=True))


def fill(join: sj.WindowJoin, make: Callable[[int, int], pa.Table], rounds: int, size: int = 4096) -> None:
    """Push to both sides what `make(size, seed)` gives, and poll."""
    for number in range(rounds):
        join.push_left(make(size, 2 * number))
        join.push_right(make(size, 2 * number + 1))
        join.poll()
