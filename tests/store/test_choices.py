"""Which index and which key a window gets, and keys at the ends of their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

from .. import interpreted
from ..long import LONG
from ..predicates import BAND, NO_KEY, TWO_BANDS
from ..streams import fill, stream


def test_auto_follows_the_data() -> None:
    """Many candidates: scan. Few: BI-Sort. It switches when a new subwindow is opened, and says why."""
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=20_000) as join:
        fill(join, lambda n, seed: stream(n, 1_000_000, seed), 150, 300)
        chosen = join.metrics()["indexes"]["left"]
        assert chosen["index"] == "bi-sort"
        assert "candidates" in chosen["why"]
        assert chosen["key"] == "l.k"
        fill(join, lambda n, seed: stream(n, 4, seed), 12, 600)
        chosen = join.metrics()["indexes"]["left"]
        assert chosen["index"] == "scan"
        assert "reach" in chosen["why"]
        assert chosen["switches"] >= 1


def test_auto_scans_what_is_small_or_has_no_key() -> None:
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=100) as join:
        fill(join, lambda n, seed: stream(n, 50, seed), 40, 20)
        assert join.metrics()["index"] == "scan"
        assert set(join.metrics()["indexes"]["right"]["estimates"]) >= {"scan", "bi-sort"}
    with sj.WindowJoin(schema, schema, on=NO_KEY, window=100) as join:
        fill(join, lambda n, seed: stream(n, 50, seed), 3, 20)
        assert join.metrics()["indexes"]["left"]["why"] == "the predicate has no key to sort by"


def test_auto_compares_few_stored_tuples_with_many_probing_ones() -> None:
    """A window that all tuples of a push share is scanned the other way round: cheaper than looking up keys."""
    schema = stream(1, 1).schema
    with sj.WindowJoin(schema, schema, on=BAND, window=50) as join:
        fill(join, lambda n, seed: stream(n, 50, seed), 8)
        metrics = join.metrics()
        assert metrics["index"] == "scan"
        for side in ("left", "right"):
            estimates = metrics["indexes"][side]["estimates"]
            assert estimates["scan"] < estimates["bi-sort"]


def test_auto_sees_that_windows_hold_more_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when as many tuples are stored: a push may span many windows, and later only one."""
    monkeypatch.setattr("streamjoin.store.side_window.REVIEW", 1 << 15)
    monkeypatch.setattr("streamjoin.store.side_window.ENOUGH_SEEN", 1 << 12)
    schema, now = stream(1, 1, t=[0]).schema, 0

    def ticks(count: int, step: int) -> pa.Table:
        return stream(count, 1_000_000, now, t=now + step * np.arange(count))

    with sj.WindowJoin(schema, schema, on=BAND, window=sj.TimeWindow(4000), time="t") as join:
        for step in [400] * 12 + [1] * 24:
            join.push_left(ticks(4096, step))
            join.push_right(ticks(4096, step))
            join.poll()
            now += 4096 * step
            if step == 400:
                assert join.metrics()["indexes"]["left"]["reach"] < 30
        assert join.metrics()["indexes"]["left"]["reach"] > 1000


def compared_per_tuple(
    on: str, left: pa.Table, right: pa.Table, index: str, batch: int = 2048
) -> tuple[float, int, Any]:
    out = 0
    with sj.WindowJoin(left.schema, right.schema, on=on, window=30_000, index=index, workers=2) as join:
        for start in range(0, left.num_rows, batch):
            join.push_left(left.slice(start, batch))
            join.push_right(right.slice(start, batch))
            out += join.poll().num_rows
        metrics = join.metrics()
    return metrics["comparisons"] / (2 * left.num_rows), out, metrics["indexes"]["left"]["key"]


@pytest.mark.parametrize("index", ["bi-sort", "rap-table", "wib-tree"])
def test_neither_equality_nor_band_degrades_to_a_scan(index: str) -> None:
    """100 symbols, prices over a wide range: either condition alone leaves hundreds of candidates, both a few."""
    rng = np.random.default_rng(5)

    def quotes(name: str) -> pa.Table:
        symbols = pa.array([f"S{n}" for n in rng.integers(0, 100, 40_000)])
        return pa.table({"s": symbols, name: rng.uniform(0, 1000, 40_000)})

    on = "l.s = r.s AND l.p BETWEEN r.q - 1.5 AND r.q + 1.5"
    compared, found, key = compared_per_tuple(on, quotes("p"), quotes("q"), index)
    assert found > 40_000 / 4
    assert compared < 1500
    assert key == "equality, then l.p"


@pytest.mark.parametrize("on", [TWO_BANDS, "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10"] if LONG else [TWO_BANDS])
def test_bands_in_two_dimensions_use_both(on: str) -> None:
    rng = np.random.default_rng(6)

    def points() -> pa.Table:
        return pa.table({"x": rng.integers(0, 10_000, 40_000), "y": rng.uniform(0, 10_000, 40_000).astype(np.float32)})

    compared, found, key = compared_per_tuple(on, points(), points(), "bi-sort")
    assert found > 1000
    assert "cells of" in key
    assert compared < 1500


def test_the_better_column_is_found() -> None:
    """The first band lets everything through, the second hardly anything."""
    rng = np.random.default_rng(6)

    def points() -> pa.Table:
        return pa.table({"x": rng.integers(0, 5, 40_000), "y": rng.uniform(0, 1e6, 40_000).astype(np.float32)})

    compared, _, key = compared_per_tuple(TWO_BANDS, points(), points(), "bi-sort")
    assert key.endswith("l.y")
    assert compared < 1500


def test_keys_that_drift_move_the_key_space() -> None:
    """64-bit keys that grow without end stay selective: the space moves with them at the subwindows' borders."""
    schema = pa.schema({"k": pa.int64(), "n": pa.int64()})
    position = 0

    def increasing(count: int, seed: int) -> pa.Table:
        nonlocal position
        position += count // 2
        keys = (np.arange(count) + position) * 10**11
        return pa.table({"k": keys, "n": np.arange(count)}, schema=schema)

    with sj.WindowJoin(schema, schema, on=BAND, window=20_000, index="bi-sort") as join:
        fill(join, increasing, 16)
        before = join.metrics()["comparisons"]
        fill(join, increasing, 4)
        metrics = join.metrics()
        assert metrics["indexes"]["left"]["key_changes"] >= 1
        assert (metrics["comparisons"] - before) / (8 * 4096) < 4000


BIG, INF = 2**63 - 1, float("inf")

ENDS = [
    ("l.a <= r.x AND l.b >= r.x", {"a": [-BIG] * 3000, "b": [BIG] * 3000}, {"x": [10]}, pa.int64()),
    ("l.a <= r.x AND l.b >= r.x", {"a": [0.0] * 3000, "b": [1.7e308, INF] * 1500}, {"x": [INF]}, pa.float64()),
    (lambda l, r: abs(l.a - r.x) <= 2.5, {"a": [2**31 - 1] * 3000}, {"x": [-(2**31) + 1]}, pa.int32()),
    (lambda l, r: abs(l.a - r.x) <= 2.5, {"a": [127] * 3000}, {"x": [-127]}, pa.int8()),
    ("l.a + l.a - r.x <= 3 AND l.a + l.a - r.x >= 0", {"a": [2**30] * 3000}, {"x": [-(2**31)]}, pa.int32()),
]  # fmt: skip


@pytest.mark.parametrize("index", ["bi-sort", "rap-table", "wib-tree", "auto"])
@pytest.mark.parametrize("number", range(len(ENDS)))
def test_keys_at_the_ends_of_their_types(number: int, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short run compiles the two widest types for BI-Sort; of the others it tests the keys alone."""
    if not LONG and (index != "bi-sort" or number > 1):
        interpreted.install(monkeypatch)
    on, left, right, type_ = ENDS[number]
    tables = [pa.table({name: pa.array(values, type_) for name, values in side.items()}) for side in (left, right)]
    scanned = sj.join(*tables, on=on, window=10**6, index="scan")
    assert scanned.num_rows or number == 4
    assert sj.join(*tables, on=on, window=10**6, index=index).num_rows == scanned.num_rows


def test_nanoseconds_of_today_are_regular() -> None:
    """Differences of timestamps in nanoseconds are searched, not scanned."""
    rng = np.random.default_rng(1)
    times = (1_790_000_000 * 10**9 + rng.integers(0, 3000, 30_000) * 10**9).astype("datetime64[ns]")
    table = pa.table({"x": times})
    on = "l.x - r.x <= INTERVAL '1' SECOND AND r.x - l.x <= INTERVAL '1' SECOND"
    compared, found, _ = compared_per_tuple(on, table, table, "bi-sort")
    assert found > 30_000
    assert compared < 2000
