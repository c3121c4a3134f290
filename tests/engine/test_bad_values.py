"""Values that a join cannot represent are refused at the push, and nothing else is lost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import TimeWindow

from .. import interpreted
from ..streams import refused

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64()})


@pytest.fixture(autouse=True)
def without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused never reaches a kernel."""
    interpreted.install(monkeypatch)


@pytest.mark.parametrize("order", ["none", "sorted"])
def test_timestamps_beyond_64_bits_of_microseconds(order: str) -> None:
    left = pa.schema({"x": pa.timestamp("s"), "n": pa.int64()})
    right = pa.schema({"x": pa.timestamp("us"), "n": pa.int64()})
    for on in ("l.x = r.x", "l.x > r.x", "l.x + INTERVAL 1 SECOND > r.x"):
        with sj.WindowJoin(left, right, on=on, window=9, order=order) as join:
            join.push_left(pa.table([pa.array([7, None], pa.timestamp("s")), [0, 1]], schema=left))
            for seconds in (18446744073710, 1700000000000000, -18446744073710, 2**63 - 1, -(2**63)):
                batch = pa.table([pa.array([1, seconds], pa.timestamp("s")), [2, 3]], schema=left)
                refused(join, join.push_left, batch, "x")
            join.push_right(pa.table([pa.array([7_000_000, 448384], pa.timestamp("us")), [4, 5]], schema=right))
            pairs = [(row["n"], row["n_right"]) for row in join.finish().to_pylist()]
            assert pairs == ([(0, 4)] if on == "l.x = r.x" else [(0, 5)] if on == "l.x > r.x" else [(0, 4), (0, 5)])


def test_timestamps_beyond_64_bits_travel_as_payload() -> None:
    table = pa.table({"k": [1], "x": pa.array([2**62], pa.timestamp("s"))})
    out = sj.join(table, table, on="l.k = r.k", window=9)
    assert out["x"].cast(pa.int64()).to_pylist() == [2**62]


def broken_text() -> pa.Array:
    offsets, letters = np.array([0, 2, 4], np.int32).tobytes(), b"ab\xff\xfe"
    return pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


@pytest.mark.parametrize(
    "on", ["l.s = r.s", "upper(l.s) = r.s", "concat(l.s, r.s) <> 'x'", "l.s < r.s", "length(l.s) = length(r.s)"]
)
def test_text_that_is_no_utf8(on: str) -> None:
    good = pa.table({"s": ["ab", "é"]})
    with sj.WindowJoin(good.schema, good.schema, on=on, window=9) as join:
        join.push_left(good)
        refused(join, join.push_left, pa.table({"s": broken_text()}), "s")
        refused(join, join.push_right, pa.table({"s": broken_text()}), "s")
        refused(join, join.push_left, pa.table({"s": broken_text().cast(pa.binary()).cast(pa.large_binary())}))
        join.push_right(good)
        assert join.finish().num_rows == sj.join(good, good, on=on, window=9).num_rows


def test_text_that_is_no_utf8_in_a_dictionary() -> None:
    good = pa.table({"s": pa.array(["ab"]).dictionary_encode()})
    bad = pa.table({"s": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), broken_text())})
    with sj.WindowJoin(good.schema, good.schema, on="l.s = r.s", window=9) as join:
        join.push_left(good)
        refused(join, join.push_left, bad, "s")
        join.push_right(good)
        assert join.finish().num_rows == 1


@pytest.mark.parametrize("on", ["l.x = r.x", "l.x < r.x", "l.x >= r.x + INTERVAL 1 DAY"])
def test_date64_between_two_days(on: str) -> None:
    day = 86_400_000
    schema = pa.schema({"x": pa.date64()})

    def dates(*milliseconds: int | None) -> pa.Table:
        return pa.table([pa.array(milliseconds, pa.int64()).view(pa.date64())], schema=schema)

    with sj.WindowJoin(schema, schema, on=on, window=9) as join:
        join.push_left(dates(0, day, -day, None))
        refused(join, join.push_left, dates(day, day + 1), "x")
        refused(join, join.push_right, dates(-1), "x")
        join.push_right(dates(0, day))
        assert join.finish().num_rows == {"l.x = r.x": 2, "l.x < r.x": 3}.get(on, 1)


def test_date64_between_two_days_as_time_column() -> None:
    schema = pa.schema({"x": pa.date64(), "k": pa.int64()})

    def dates(*milliseconds: int) -> pa.Table:
        return pa.table([pa.array(milliseconds, pa.int64()).view(pa.date64()), [1] * len(milliseconds)], schema=schema)

    with sj.WindowJoin(schema, schema, on="l.k = r.k", window="1 day", time="x") as join:
        join.push_left(dates(0))
        before = join.metrics()
        try:  # refused, or told apart to the millisecond
            join.push_left(dates(86_400_001))
        except (sj.DataError, sj.SchemaError):
            assert join.metrics() == before
        join.push_right(dates(86_400_000))
        assert join.finish().num_rows == int(join.metrics()["left"]["in"] == 2)


def test_null_where_the_schema_has_none() -> None:
    strict = SCHEMA.append(pa.field("p", pa.string(), nullable=False))
    loose = pa.schema([field.with_nullable(True) for field in strict])
    with sj.WindowJoin(strict, strict, on="l.k = r.k", window=TimeWindow(100), time="t", how="full") as join:
        for given in (loose, strict):
            batch = pa.Table.from_arrays(
                [pa.array([1, 2]), pa.array([1, 2]), pa.array(["a", None])],
                schema=given,
            )
            refused(join, join.push_left, batch, "'p'")
        join.push_left(pa.table([[1], [None], ["a"]], schema=loose))
        assert join.finish().num_rows == 1
