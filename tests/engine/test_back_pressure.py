"""Results that nobody fetches stop the work, and nothing is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamjoin as sj
from streamjoin.store.registry import INDEXES

from .. import constants
from ..predicates import BAND, KEY
from ..streams import pairs, stream

USABLE = (*(name for name, index in INDEXES.items() if index.needs != "equality"), "auto")


@pytest.mark.parametrize("index", USABLE)
@pytest.mark.parametrize("algorithm", ["three-step", "panjoin"])
def test_nothing_is_lost_when_the_reader_is_slow(algorithm: str, index: str) -> None:
    """Pushes are refused while too many results wait; the same pushes work after a poll, and memory stays bounded."""
    left, right = stream(6000, 400, 1), stream(6000, 400, 2)
    expected = pairs(sj.join(left, right, on=BAND, window=2000, index="scan", algorithm="three-step"))
    found, refused = [], 0
    with sj.WindowJoin(
        left.schema,
        right.schema,
        on=BAND,
        window=2000,
        algorithm=algorithm,
        index=index,
        workers=2,
        max_pending=5000,
        max_batch=1000,
    ) as join:
        for push, table in ((join.push_left, left), (join.push_right, right)):
            for start in range(0, 6000, 1500):
                while True:
                    try:
                        push(table.slice(start, 1500))
                        break
                    except sj.BackPressure:
                        refused += 1
                        found.append(join.poll())
        found.append(join.finish())
    assert pairs(pa.concat_tables(found)) == expected
    assert refused > 2


@pytest.mark.parametrize("order", ["none", "punctuated", "sorted"])
@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_a_slow_reader_changes_nothing(order: str, how: str) -> None:
    """Whatever the order and kind of join, a limit of one result gives the rows that no limit gives."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    tables = []
    for max_pending in (10**6, 1):
        found = []
        with sj.WindowJoin(
            schema,
            schema,
            on="l.k = r.k AND l.t > 3",
            window=3,
            time="t",
            order=order,
            how=how,
            max_pending=max_pending,
            max_wait=0,
        ) as join:
            for start in range(0, 60, 5):
                batch = pa.table({"k": [1, 2, 1, 1, 3], "t": list(range(start, start + 5))}, schema=schema)
                for push in (join.push_left, join.push_right):
                    while True:
                        try:
                            push(batch)
                            break
                        except sj.BackPressure:
                            found.append(join.poll())
            found.append(join.finish())
        tables.append(pa.concat_tables(table.replace_schema_metadata(None) for table in found).to_pylist())
    key = repr if order != "sorted" else None
    assert tables[0]
    assert (sorted(tables[0], key=key) if key else tables[0]) == (sorted(tables[1], key=key) if key else tables[1])


def push_without_polling(join: sj.WindowJoin, schema: pa.Schema) -> None:
    for start in range(0, 6000, 5):
        batch = pa.table({"k": [1] * 5, "t": list(range(start, start + 5))}, schema=schema)
        join.push_left(batch)
        join.push_right(batch)


def test_nobody_polls_until_the_end() -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    options: dict[str, Any] = {"window": 3, "time": "t", "order": "sorted", "max_pending": 1, "max_wait": 0}
    with sj.WindowJoin(schema, schema, on=KEY, **options) as join:
        with pytest.raises(sj.BackPressure, match="results wait to be polled"):
            push_without_polling(join, schema)
        assert join.finish().num_rows > 0


def test_steps_that_wait_refuse_further_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push of sorted rows becomes several steps; while results stop some of them, no further rows pile up."""
    constants.replace(monkeypatch, LARGEST_STEP=100)
    tables = [pa.table({"t": np.arange(6000) // 3, "k": np.arange(6000) // 2}) for _ in range(2)]
    options: dict[str, Any] = {"on": BAND, "window": 20, "time": "t", "order": "sorted"}
    found, refused = [], 0
    with sj.WindowJoin(tables[0].schema, tables[1].schema, max_pending=50, max_wait=0, **options) as join:
        for start in range(0, 6000, 1000):
            for push, table in zip((join.push_left, join.push_right), tables, strict=True):
                while True:
                    try:
                        push(table.slice(start, 1000))
                        break
                    except sj.BackPressure:
                        refused += 1
                        found.append(join.poll())
                assert len(join._steps._queue) <= 21  # those of one push
        found.append(join.finish())
    assert refused > 40
    assert pa.concat_tables(found).equals(sj.join(*tables, **options))


def test_unmatched_rows_that_nobody_fetches() -> None:
    """Rows without a partner count towards the limit too. Later tuples wait, and what they need is kept."""
    schema = pa.schema({"t": pa.int64(), "k": pa.int32(), "s": pa.string()})

    def rows(t: list[int], k: list[int]) -> pa.Table:
        return pa.table({"t": t, "k": pa.array(k, pa.int32()), "s": [f"x{i}" for i in t]}, schema=schema)

    found = []
    options: dict[str, Any] = {"how": "right", "max_pending": 3, "max_batch": 1, "order": "punctuated"}
    with sj.WindowJoin(schema, schema, on=KEY, window=sj.TimeWindow(10), time="t", **options) as join:
        pushes = [
            (join.push_right, rows([0] * 4, [1, 2, 3, 4])),
            (join.push_left, rows([100], [9])),
            (join.push_left, rows(list(range(200, 100_200)), [7] * 100_000)),
            (join.push_right, rows([100_199], [7])),
            (join.push_left, rows(list(range(100_200, 200_200)), [7] * 100_000)),
            (join.push_left, rows([10**7], [0])),
            (join.push_right, rows([10**7], [1])),
        ]
        promised = -1
        for push, table in pushes:
            while True:
                try:
                    push(table)
                    break
                except sj.BackPressure:
                    found.append(join.poll())
                    assert min([*found[-1]["t_right"].to_pylist(), 10**9]) >= promised
                    promised = max(promised, -1 if join.watermark is None else join.watermark)
        found.append(join.finish())
    table = pa.concat_tables(t.replace_schema_metadata(None) for t in found)
    assert table.num_rows == 4 + 20 - 1 + 1
    assert table.filter(pc.equal(table["t_right"], 100_199))["s"].to_pylist() == [
        f"x{i}" for i in range(100_190, 100_209)
    ]


def test_a_poll_continues_where_work_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch may make far more results than may wait: they come poll by poll."""
    constants.replace(monkeypatch, QUOTA=1000, BUFFER=8192, SPARE_BUFFERS=[], PAIRS=1 << 15, LEAST_ROOM=1 << 15)
    left, right = stream(1500, 1, 1), stream(1500, 1, 2)
    with sj.WindowJoin(left.schema, right.schema, on=BAND, window=1500, max_pending=10_000, workers=2) as join:
        join.push_left(left)
        join.push_right(right)
        sizes = []
        while sum(sizes) < 1500 * 1500:
            table = join.poll()
            sizes.append(table.num_rows)
        assert len(sizes) > 20
        assert max(sizes) < 200_000
        assert join.finish().num_rows == 0


def test_punctuation_waits_for_unfinished_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """While work is suspended nothing is promised, since the rest of it may bring results of any time."""
    constants.replace(monkeypatch, QUOTA=1000)
    left = stream(1000, 1, 1, ts=np.arange(1000))
    right = stream(1000, 1, 2, ts=np.arange(1000))
    options: dict[str, Any] = {"order": "punctuated", "max_pending": 1, "algorithm": "three-step"}
    with sj.WindowJoin(left.schema, right.schema, on=BAND, window=sj.TimeWindow(1000), time="ts", **options) as join:
        join.push_left(left)
        join.push_right(right)
        unpromised = 0
        while True:
            rows = join.poll().num_rows
            if join.watermark is not None:
                break
            unpromised += rows
        assert unpromised > 250_000
        assert join.watermark == 999
        assert join.finish().num_rows == 0


@pytest.mark.parametrize(
    ("name", "value"), [("max_pending", 0), ("max_batch", "x"), ("max_wait", -1), ("max_wait", "5")]
)
def test_limits_are_checked(name: str, value: Any) -> None:
    schema = stream(1, 1).schema
    with pytest.raises(sj.ArgumentError, match=name):
        sj.WindowJoin(schema, schema, on=BAND, window=5, **{name: value})
