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
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.side import Side
from streamjoin.store import Batch, PairSink, Probing, SideWindow
from streamjoin.store.costs import Costs
from streamjoin.store.grid import Grid, grid_key
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
    assert (grid_key(lowered(on), stored) is not None) == has_one


@settings(deadline=None, max_examples=200)
@given(
    keys=st.lists(KEYS, min_size=1, max_size=200),
    asked=st.lists(st.tuples(KEYS, KEYS), max_size=30),
    above=st.one_of(st.integers(0, 50), st.integers(0, 2**64)),
)
def test_every_match_is_a_candidate_once(keys: list[int], asked: list[tuple[int, int]], above: int) -> None:
    """A stored tuple matches if its key is at most `high` and its top at least `low`, which may be above `high`: stored
    intervals that contain the probing one."""
    key = grid_key(lowered("l.k >= r.k AND l.f > 0 AND l.n <= r.n AND l.k + 1 <= r.k + 9"), "right")
    assert key is not None
    assert key.width is not None
    own, top = np.array(keys, np.int64), np.array([min(k + above, 2**63 - 1) for k in keys], np.int64)
    low, high = (np.array([bounds[k] for bounds in asked], np.int64) for k in (0, 1))
    ((low_slot, high_slot),) = key.intervals
    assert low_slot != high_slot
    slots: Any = {key.key: own, key.width: top}
    probing: list[Any] = [None] * (max(low_slot or 0, high_slot or 0) + 1)
    probing[low_slot or 0], probing[high_slot or 0] = low, high
    begin = len(keys) // 3
    grid = Grid(key, slots, begin, len(keys))
    found = grid.candidates(Batch(low, low, low, low, probing))
    total = 0
    for i in range(len(low)):
        candidates = (begin + grid.order[found.first[i] : found.last[i]]).tolist()
        total += len(candidates)
        assert len(set(candidates)) == len(candidates)
        assert all(begin <= place < len(keys) for place in candidates)
        matches = np.flatnonzero((own <= high[i]) & (top >= low[i]))
        assert set(matches[matches >= begin].tolist()) <= set(candidates)
    assert found.count == total


@pytest.mark.parametrize("spread", [1, 3, 1000, 2**62])
@pytest.mark.parametrize("on", ["l.k BETWEEN r.k - 1 AND r.k + 1", "abs(l.k - r.k) <= 1"])
def test_pairs_are_those_of_a_scan(on: str, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many candidates there are: outputs fill up, and the kernel goes on where it stopped."""
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, FEW_PROBES=0)
    monkeypatch.setattr("streamjoin.store.grid.CHUNK", 16)
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
        monkeypatch.setattr("streamjoin.store.subwindow.costs", lambda known=known: known)
        made: list[Grid] = []
        monkeypatch.setattr(
            "streamjoin.store.subwindow.Grid", lambda *given, made=made: made.append(Grid(*given)) or made[-1]
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
            f = np.where(rng.random(count) < 0.1, np.nan, k / 3)
            tables.append(pa.table({"k": k, "m": m, "f": f}))
        found = []
        for index, known in (("scan", Costs()), ("auto", FREE)):
            monkeypatch.setattr("streamjoin.store.subwindow.costs", lambda known=known: known)
            joined = sj.join(*tables, on=on, window=50, index=index)  # type: ignore[arg-type]
            found.append(sorted(map(str, joined.to_pylist())))
        assert found[0] == found[1]
