"""A rehearsal runs for every schema, and stays small whatever the predicate and the windows are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.compile.background import Rehearsals
from streamjoin.engine import as_of, rehearsal
from streamjoin.engine.planning import planned
from streamjoin.engine.rehearsal import made_up, rehearse
from streamjoin.predicate.lower import lower
from streamjoin.store import OrderedIndex, costs
from streamjoin.store.walk_back import WalkBack

from .. import constants, interpreted

TYPES: list[pa.DataType] = [
    pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.decimal128(3, 1), pa.decimal128(38, 10),
    pa.decimal256(60, 2), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.date32(), pa.date64(),
    pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time32("s"), pa.duration("ms"),
    pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64()), pa.list_(pa.int32()),
    pa.struct({"a": pa.int32()}), pa.month_day_nano_interval(), pa.binary(5),
]  # fmt: skip


@pytest.mark.parametrize("nullable", [True, False])
def test_rows_of_any_type_can_be_made_up(nullable: bool) -> None:
    for type_ in TYPES:
        schema = pa.schema([pa.field("a", type_, nullable=nullable or pa.types.is_nested(type_))])
        for with_nulls in (False, True):
            rows = made_up(schema, 40, np.random.default_rng(1), with_nulls)
            assert rows.schema == schema
            assert rows.num_rows == 40


@pytest.mark.parametrize(
    "arguments",
    [
        {"on": "l.k = r.k", "window": 10},
        {"on": "l.k <> r.k", "window": sj.TimeWindow(10**15), "time": "t", "how": "left", "order": "sorted"},
        {"on": "l.d * r.d > 5", "window": (10**9, sj.TimeWindow(10**15)), "time": "t", "how": "anti"},
        {"on": "l.k = r.k", "window": sj.TimeWindow(10**15), "time": "t", "algorithm": "handshake", "workers": 200},
        {"on": "l.k = r.k", "window": sj.TimeWindow(10**15), "time": "t", "match": "nearest"},
        {"on": "l.k = r.k", "window": 10**9, "time": "t", "algorithm": "scalejoin", "order": "sorted", "how": "full"},
    ],
)
def test_a_rehearsal_works_and_is_small(arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    monkeypatch.setattr(rehearsal, "ROUNDS", (60, 60, 40, 80, 60, 3, 90))
    monkeypatch.setattr(rehearsal, "COMPARED", (20, 5))
    monkeypatch.setattr(rehearsal, "calibrate", lambda: None)
    measured: dict[Any, float] = {}
    monkeypatch.setattr(costs, "_measured", measured)
    schema = pa.schema([("t", pa.int16()), ("k", pa.int32()), ("d", pa.decimal128(12, 2)), ("s", pa.string_view())])
    with sj.WindowJoin(schema, schema, **arguments) as join:
        rehearse(join.options, lower(join.plan), {"left": schema, "right": schema})
    assert len(measured) == ("*" in arguments["on"])  # what is computed for each pair is measured
    assert all(cost > 0 for cost in measured.values())


@pytest.mark.parametrize("on", ["l.k = r.k AND r.d > 1000", "l.k < r.k"])
def test_walks_back_are_rehearsed(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if no made-up row passes the filters."""
    walked: list[tuple[int, bool]] = []
    walk = WalkBack.last_partners

    def noted(self: WalkBack, stored: Any, *others: Any) -> Any:
        walked.append((len(stored.coordinate), others[-1]))
        return walk(self, stored, *others)

    interpreted.install(monkeypatch)
    monkeypatch.setattr(WalkBack, "last_partners", noted)
    schema = pa.schema([("t", pa.int16()), ("k", pa.int32()), ("d", pa.decimal128(12, 2)), ("s", pa.string_view())])
    plan = planned(
        schema, schema, on, None, window=sj.TimeWindow(10), time="t", lateness=0, how="left", match="nearest",
        algorithm="auto", index="auto", workers=1, order="none", late="drop",
    )  # fmt: skip
    as_of.rehearse(plan.options, plan.lowered, {"left": schema, "right": schema})
    assert walked[-2:] == [(as_of.MADE_UP, True)] * 2


def test_each_function_of_texts_is_rehearsed() -> None:
    """Joins that differ only in what is asked of candidate pairs call different functions."""
    schema, keys = pa.schema([("s", pa.string())]), {}
    for on in ("l.s || r.s = 'a'", "l.s || r.s = 'b'", "contains(l.s, r.s)", "upper(l.s || r.s) = 'a'"):
        with sj.WindowJoin(schema, schema, on=on, window=10) as join:
            keys[on] = rehearsal._key(join.options, lower(join.plan), {"left": schema, "right": schema})
    assert keys["l.s || r.s = 'a'"] == keys["l.s || r.s = 'b'"]  # a constant changes no function
    assert len(set(keys.values())) == 3


def test_what_is_asked_of_one_stream_is_rehearsed() -> None:
    """Joins that differ only in the condition on one stream call different functions too."""
    schema, keys = pa.schema([("k", pa.int64()), ("s", pa.string())]), []
    for more in ("", " AND CAST(l.s AS timestamp) > TIMESTAMP '2024-01-05'", " AND CAST(r.s AS double) > 5"):
        with sj.WindowJoin(schema, schema, on=f"l.k = r.k{more}", window=10) as join:
            keys.append(rehearsal._key(join.options, lower(join.plan), {"left": schema, "right": schema}))
    assert len(set(keys)) == 3


def test_a_rehearsal_seals_subwindows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a join would not store most tuples of pushes that span many windows."""
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, SMALLEST_SUBWINDOW=64, TAIL=4, WORTH_TRIMMING=2)
    monkeypatch.setattr(rehearsal, "ROUNDS", (60, 60, 40, 80, 60, 3, 90))
    monkeypatch.setattr(rehearsal, "WINDOW", 5)
    monkeypatch.setattr(rehearsal, "calibrate", lambda: None)
    sealed: list[int] = []

    def sealing(self: OrderedIndex) -> Iterator[list[Any]]:
        sealed.append(self.count)
        yield []

    monkeypatch.setattr(OrderedIndex, "sealing", sealing)
    schema = pa.schema([("k", pa.int32())])
    with sj.WindowJoin(schema, schema, on="l.k = r.k", window=10, index="bi-sort") as join:
        schemas: Any = {"left": schema, "right": schema}
        is_over = Rehearsals().begin("this", lambda: rehearse(join.options, lower(join.plan), schemas))
        for _ in range(1000):
            if is_over():
                break
            time.sleep(0.02)
    assert len(sealed) >= 2
