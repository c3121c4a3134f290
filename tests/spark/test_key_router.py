"""Splitting: frequent keys are split, and what was spread is found until it expires."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.spark.key_router import STATES, KeyRouterState
from streamjoin.spark.sealed_values import opened
from streamjoin.testing import assert_same_rows

from .simulated import Simulated, make_spec

pytestmark = pytest.mark.usefixtures("few_kernels")
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("id", pa.int64())])
ROWS, WORKERS = 160, 4


def rows(rng: np.random.Generator, number: int, share: float, frequent: int = 7) -> pa.Table:
    """The rows of one micro-batch; so many of them have the frequent key."""
    others = 1_000 + rng.integers(0, 400, ROWS)
    keys = np.where(rng.random(ROWS) < share, frequent, others)
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.table([ids, keys, ids], schema=SCHEMA)


def kept(run: Simulated) -> list[KeyRouterState]:
    return [STATES.load(opened("router", state["router"])) for state in run.routers if state]


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_frequent_key_is_shared_out(how: str, tmp_path: Path) -> None:
    """Nine rows in ten have one key on the right, and hardly any on the left."""
    rng = np.random.default_rng(0)
    arguments: dict[str, Any] = dict(on="l.k = r.k", window=sj.TimeWindow(9 * ROWS), time="ts", how=how)
    run = Simulated(
        make_spec(SCHEMA, SCHEMA, workers=WORKERS, routing="split", cache=str(tmp_path), late="keep", **arguments)
    )
    sides, found = ([], []), []
    for number in range(6):
        for side, share in zip(sides, (0.02, 0.9), strict=True):
            side.append(rows(rng, number, share))
        run.figures.clear()
        found.append(run.step([sides[0][-1]], [sides[1][-1]]))
    windows = [figures["right_window"] for figures in run.figures if "seconds" in figures]
    assert max(windows) < 1.4 * np.mean(windows)
    out = [figures["out"] for figures in run.figures if "seconds" in figures]
    assert max(out) < 1.6 * np.mean(out)
    far = pa.table([[10**6], [-1], [-1]], schema=SCHEMA)
    found += [run.step([far], [far]), run.step([far.slice(1)], [far.slice(1)])]
    left, right = (pa.concat_tables([*side, far]) for side in sides)
    assert_same_rows(pa.concat_tables(found), sj.join(left, right, **arguments))


def test_keys_are_split_while_they_are_frequent(tmp_path: Path) -> None:
    """And are remembered until what was spread has expired; all routers know the same."""
    rng = np.random.default_rng(0)
    arguments: dict[str, Any] = dict(on="l.k = r.k", window=sj.TimeWindow(2 * ROWS), time="ts")
    run = Simulated(make_spec(SCHEMA, SCHEMA, workers=WORKERS, routing="split", cache=str(tmp_path), **arguments))
    batches = [rows(rng, number, 0.9 if number < 2 else 0.02 if number < 4 else 0, 7) for number in range(9)]
    batches[5] = batches[5].slice(0, 20)  # too few to say anything
    split, remembered, found = [], [], []
    for table in batches:
        found.append(run.step([table], [table]))
        states = kept(run)
        assert all(state == states[0] for state in states[1:])
        split.append(len(states[0].split))
        remembered.append(len(states[0].spread))
    assert split == [1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert remembered == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    stream = pa.concat_tables(batches)
    assert_same_rows(pa.concat_tables(found), sj.join(stream, stream, **arguments))


@pytest.mark.parametrize("window", [60, (sj.TimeWindow(50), 20)], ids=str)
def test_rows_that_wait_when_their_key_is_split(window: Any, tmp_path: Path) -> None:
    """In the merged order a row that came before the split may be later than one that comes after it."""
    rng = np.random.default_rng(0)
    arguments: dict[str, Any] = dict(on="l.k = r.k", window=window, time="ts", lateness=ROWS)
    run = Simulated(make_spec(SCHEMA, SCHEMA, workers=WORKERS, routing="split", cache=str(tmp_path), **arguments))
    lefts = [rows(rng, number, 0.9) for number in range(6)]
    rights = [rows(rng, number, 0.0 if number == 1 else 0.05) for number in range(6)]
    nothing = lefts[0].slice(0, 0)
    found = [run.step([nothing], [right]) for right in rights[:3]]
    found += [run.step([left], [right]) for left, right in zip(lefts, [*rights[3:], *[nothing] * 3], strict=True)]
    far = pa.table([[10**6], [-1], [-1]], schema=SCHEMA)
    found.append(run.step([far], [far]))
    assert all(state.split for state in kept(run))
    assert_same_rows(pa.concat_tables(found), sj.join(pa.concat_tables(lefts), pa.concat_tables(rights), **arguments))


def test_even_keys_are_not_split(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spec = make_spec(
        SCHEMA, SCHEMA, on="l.k = r.k", window=sj.TimeWindow(ROWS), time="ts", workers=WORKERS, routing="split",
        cache=str(tmp_path),
    )  # fmt: skip
    run = Simulated(spec, random.Random(0).shuffle)
    for number in range(4):
        run.step([rows(rng, number, 0.0)], [rows(rng, number, 0.0)])
    assert not any(state.split or state.spread for state in kept(run))
