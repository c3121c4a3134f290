"""Closing a join frees what it holds, at once and not only when Python's collector runs."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.topology.registry import ALGORITHMS

ROWS = pa.table({"ts": range(500), "k": range(500)})


def opened(algorithm: str) -> sj.WindowJoin:
    join = sj.WindowJoin(
        ROWS.schema, ROWS.schema, on="l.k BETWEEN r.k - 1 AND r.k + 1", window=sj.TimeWindow(100), time="ts",
        algorithm=algorithm, workers=2,
    )  # fmt: skip
    join.push_left(ROWS)
    join.push_right(ROWS)
    assert join.poll().num_rows
    return join


def parts(join: sj.WindowJoin) -> list[Any]:
    """Whatever holds tuples: the payload, and all subwindows."""
    steps = join._steps
    assert steps is not None
    found: list[Any] = [*steps.payload.values(), steps]
    seen, waiting = set[int](), [steps.topology]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and type(one).__module__.startswith("streamjoin."):
            seen.add(id(one))
            found += getattr(one, "subwindows", [])
            waiting += vars(one).values() if hasattr(one, "__dict__") else []
        elif isinstance(one, (list, tuple, dict)):
            waiting += one.values() if isinstance(one, dict) else one
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_everything_goes_with_close(algorithm: str) -> None:
    join = opened(algorithm)
    held = [weakref.ref(part) for part in parts(join)]
    assert len(held) > 3, "the test finds the subwindows"
    gc.disable()
    try:
        join.close()
        assert [type(part()).__name__ for part in held if part() is not None] == []
    finally:
        gc.enable()
