"""Grids: candidates that are grouped by key for one batch, with keys at the ends of their types and of any skew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.predicate import plan_for
from streamjoin.predicate.encode import ordered_bits
from streamjoin.predicate.keys import RangeKey
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.side import Side
from streamjoin.store import Batch, PairSink, Probing, SideWindow
from streamjoin.store.costs import Costs
from streamjoin.store.grid import Grid, GridKey, GridKeys, grid_keys
from streamjoin.tasks import one_after_another

from .. import constants, interpreted

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int32()), ("s", pa.string()), ("f", pa.float64())])
FREE = Costs(grid_step=0, grid_stored=0, grid_far=0, grid_probe=0, grid_candidate=0)
INT64 = (-(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 2**31, 2**62, 2**63 - 2, 2**63 - 1)
KEYS = st.one_of(st.sampled_from(INT64), st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1))


def lowered(on: str) -> Lowered:
    return lower(plan_for(on, SCHEMA, SCHEMA))


def batch(slots: list[Any], low: int = 0, high: int = 2**40) -> Batch:
    rows = np.arange(len(slots[0]))
    return Batch(rows, rows, np.full_like(rows, low), np.full_like(rows, high), slots)


@pytest.mark.parametrize("stored", ["left", "right"])
@pytest.mark.parametrize(
    ("on", "has_one"),
    [
        ("l.k = r.k", False),
        ("l.s = r.s AND l.k BETWEEN r.k - 3 AND r.k + 3", False),
        ("l.k BETWEEN r.k - 3 AND r.k + 3", True),
        ("l.f BETWEEN r.f - 1 AND r.f + 1", True),
        ("l.k < r.k", False),
        ("abs(l.n - r.n) <= 2", True),
        ("l.k <= r.k AND l.n >= r.n", False),
        ("l.k * r.k > 5", False),
    ],
)
def test_bands_have_grids(on: str, has_one: bool, stored: Side) -> None:
    assert (grid_keys(lowered(on), stored) is not None) == has_one


@settings(deadline=None, max_examples=200)
@given(
    keys=st.lists(KEYS, min_size=1, max_size=200),
    asked=st.lists(st.tuples(KEYS, KEYS), max_size=30),
    above=st.one_of(st.integers(0, 50), st.integers(0, 2**64)),
)
def test_every_match_is_a_candidate_once(keys: list[int], asked: list[tuple[int, int]], above: int) -> None:
    """A stored tuple matches if its key is at most `high` and its top at least `low`, which may be above `high`: stored
    intervals that contain the probing one."""
    keys_ = grid_keys(lowered("l.k >= r.k AND l.f > 0 AND l.n <= r.n AND l.k + 1 <= r.k + 9"), "right")
    assert keys_ is not None
    key = keys_.columns.key
    assert key.width is not None
    own, top = np.array(keys, np.int64), np.array([min(k + above, 2**63 - 1) for k in keys], np.int64)
    low, high = (np.array([bounds[k] for bounds in asked], np.int64) for k in (0, 1))
    ((low_slot, high_slot),) = key.intervals
    assert low_slot != high_slot
    slots: Any = {key.key: own, key.width: top}
    probing: list[Any] = [None] * (max(low_slot or 0, high_slot or 0) + 1)
    probing[low_slot or 0], probing[high_slot or 0] = low, high
    begin = len(keys) // 3
    asking = Batch(low, low, low, low, probing)
    grid = Grid(GridKeys(GridKey(key)), slots, begin, len(keys), asking)
    grid.grouping()
    found = grid.candidates(asking)
    total = 0
    for i in range(len(low)):
        candidates = (begin + grid.order[found.first[i] : found.last[i]]).tolist()
        total += len(candidates)
        assert len(set(candidates)) == len(candidates)
        assert all(begin <= place < len(keys) for place in candidates)
        matches = np.flatnonzero((own <= high[i]) & (top >= low[i]))
        assert set(matches[matches >= begin].tolist()) <= set(candidates)
    assert found.count == total


PLANES = [
    "l.k BETWEEN r.k - 3 AND r.k + 3 AND l.f BETWEEN r.f - 2 AND r.f + 2",
    "l.k BETWEEN r.k - 3 AND r.m + 3 AND l.f BETWEEN r.f - 1 AND r.f + 1",
    "l.k BETWEEN r.k AND r.m AND r.f BETWEEN l.f - 1 AND l.f + 1",
]
"""Predicates with two bands over different columns."""


@pytest.mark.parametrize("stored", ["left", "right"])
@pytest.mark.parametrize("on", PLANES)
def test_two_bands_make_rows_and_columns(on: str, stored: Side) -> None:
    schema = pa.schema([("k", pa.int64()), ("m", pa.int64()), ("f", pa.float64())])
    condition = lower(plan_for(on, schema, schema))
    keys = grid_keys(condition, stored)
    assert keys is not None
    assert keys.rows is not None
    assert keys.rows.key.key != keys.columns.key.key
    assert {keys.rows.float_bits, keys.columns.float_bits} == {None, 64}


@settings(deadline=None, max_examples=200)
@given(
    tuples=st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=150),
    asked=st.lists(st.tuples(KEYS, KEYS, KEYS, KEYS), max_size=30),
    above=st.tuples(*[st.one_of(st.integers(0, 50), st.integers(0, 2**64))] * 2),
)
def test_every_match_in_two_keys_is_a_candidate_once(
    tuples: list[tuple[int, int]], asked: list[tuple[int, int, int, int]], above: tuple[int, int]
) -> None:
    columns, rows = RangeKey(0, ((0, 1),), width=1), RangeKey(2, ((2, 3),), width=3)
    keys = GridKeys(GridKey(columns), GridKey(rows))
    own = np.array(tuples, np.int64).reshape(-1, 2)
    tops = [np.array([min(k + above[d], 2**63 - 1) for k in own[:, d].tolist()], np.int64) for d in (0, 1)]
    bounds = np.array(asked, np.int64).reshape(-1, 4)
    probing = Batch(*[bounds[:, 0]] * 4, list(bounds.T.copy()))
    grid = Grid(keys, [own[:, 0], tops[0], own[:, 1], tops[1]], 0, len(own), probing)
    grid.grouping()
    found = grid.candidates(probing)
    total = 0
    for i, (low, high, row_low, row_high) in enumerate(asked):
        runs = [grid.order[found.first[k] : found.last[k]].tolist() for k in (2 * i, 2 * i + 1)]
        candidates = runs[0] + runs[1]
        total += len(candidates)
        assert len(set(candidates)) == len(candidates)
        assert all(0 <= place < len(own) for place in candidates)
        matches = (own[:, 0] <= high) & (tops[0] >= low) & (own[:, 1] <= row_high) & (tops[1] >= row_low)
        assert set(np.flatnonzero(matches).tolist()) <= set(candidates)
    assert found.count == total


@pytest.mark.parametrize("spread", [1, 3, 1000, 2**62])
@pytest.mark.parametrize("on", ["l.k BETWEEN r.k - 1 AND r.k + 1", "abs(l.k - r.k) <= 1"])
def test_pairs_are_those_of_a_scan(on: str, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many candidates there are: outputs fill up, and the kernel goes on where it stopped."""
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, FEW_PROBES=0)
    monkeypatch.setattr("streamjoin.store.grid_kernels.CHUNK", 16)
    condition, rng = lowered(on), np.random.default_rng(spread)
    sides: dict[str, Batch] = {}
    for side, count in (("left", 90), ("right", 70)):
        keys = rng.integers(-spread, spread, count)
        slots = condition.sides[side].columns  # type: ignore[index]
        assert list(slots) == ["k"]
        table = pa.table({"k": keys, "n": keys.astype(np.int32), "s": [""] * count, "f": keys.astype(float)})
        values = condition.sides[side].run(_frame(table, side))  # type: ignore[index]
        sides[side] = batch(values.columns, 10, 80)
    found = []
    for index, known in (("scan", Costs()), ("auto", FREE)):
        monkeypatch.setattr("streamjoin.store.grid_probe.costs", lambda known=known: known)
        made: list[Grid] = []
        monkeypatch.setattr(
            "streamjoin.store.grid_probe.Grid", lambda *given, made=made: made.append(Grid(*given)) or made[-1]
        )
        window = SideWindow(condition, "left", index, one_after_another)
        window.insert(sides["left"])
        pairs = []
        for share in Probing(sides["right"]).split(3):
            sink = PairSink(left_probes=False)
            for _ in window.probe(share, sink):
                pass
            for left, right in zip(*sink.take(), strict=True):
                pairs += zip(left.tolist(), right.tolist(), strict=True)
        found.append(sorted(pairs))
        is_regular = "abs" not in on or spread < 2**60  # the difference may wrap around
        assert len(made) == (index == "auto" and is_regular), "all shares of a batch use one grid"
    assert found[0] == found[1]


def _frame(table: pa.Table, side: str) -> Any:
    from streamjoin.predicate.vector import Frame

    return Frame(table.num_rows, {(side, "k"): table.column("k").chunk(0)})


@pytest.mark.parametrize(
    "on",
    [
        "l.k <= r.k AND l.m >= r.m",  # a stored interval contains the probing one, or is contained
        "l.k <= r.m AND l.m >= r.k",  # both overlap
        "l.k BETWEEN r.k AND r.m",
        "abs(l.k - r.k) <= 2",
        "l.f BETWEEN r.f - 1 AND r.f + 1",
        *PLANES,
        "abs(l.k - r.k) <= 2 AND abs(l.f - r.f) <= 40",
        "l.k <= r.k AND l.m >= r.m AND l.f BETWEEN r.f - 9 AND r.f + 9",
    ],
)
def test_joins_with_grids_are_those_without(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, FEW_PROBES=0)
    rng = np.random.default_rng(len(on))
    for number in range(12):
        spread = (3, 40, 2**40, 2**62)[number % 4]
        tables = []
        for count in rng.integers(1, 60, 2).tolist():
            k, m = np.sort(rng.integers(-spread, spread, (2, count)), axis=int(number % 3 == 0))
            f = np.where(rng.random(count) < 0.1, rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e300], count), k / 3)
            tables.append(pa.table({"k": k, "m": m, "f": f}))
        found = []
        for index, known in (("scan", Costs()), ("auto", FREE)):
            monkeypatch.setattr("streamjoin.store.grid_probe.costs", lambda known=known: known)
            joined = sj.join(*tables, on=on, window=50, index=index)  # type: ignore[arg-type]
            found.append(sorted(map(str, joined.to_pylist())))
        assert found[0] == found[1]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("far", [1e30, -1e30, 1e300, 2.0**40])
def test_a_few_far_floats_do_not_make_cells_wide(share: float, far: float) -> None:
    rng, count = np.random.default_rng(7), 20_000
    values = np.where(rng.random(count) < share, far, rng.random(count) * 1e4)
    asked = rng.random(1000) * 1e4
    ordered = [ordered_bits(x, 64)[0] for x in (values, asked - 20, asked + 20)]
    keys = GridKeys(GridKey(RangeKey(0, ((0, 1),)), 64))
    probing = Batch(*[np.arange(1000)] * 4, ordered[1:])
    grid = Grid(keys, ordered[:1], 0, count, probing)
    grid.grouping()
    candidates = grid.candidates(probing).count / 1000
    matches = np.mean([np.count_nonzero(abs(values - x) <= 20) for x in asked])
    assert matches <= candidates < 3 * matches
