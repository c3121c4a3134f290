"""The test kit: seeded streams that keep their promises, and a comparison that notices everything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamjoin import testing as kit
from streamjoin.errors import ArgumentError
from streamjoin.oracle import late_rows

KINDS = {
    "i8": "int8",
    "u64": "uint64",
    "f32": "float32",
    "f16": "float16",
    "s": "string",
    "b": "bool",
    "d": "date32",
    "t": pa.timestamp("ns", "UTC"),
    "m": pa.decimal128(10, 2),
}


def ticks(table: pa.Table) -> Any:
    return table["ts"].cast(pa.int64()).to_numpy()


@pytest.mark.parametrize("skew", ["uniform", "zipf", "one-key", "increasing", "multimodal"])
def test_streams_are_seeded_and_typed(skew: Any) -> None:
    one = kit.stream(200, columns=KINDS, seed=1, skew=skew, nulls=0.1)
    assert one.equals(kit.stream(200, columns=KINDS, seed=1, skew=skew, nulls=0.1))
    assert not one.equals(kit.stream(200, columns=KINDS, seed=2, skew=skew, nulls=0.1))
    assert one.num_rows == 200
    assert one.schema.field("ts").type == pa.timestamp("us")
    assert one.schema.field("m").type == pa.decimal128(10, 2)
    assert one["ts"].null_count == 0
    assert 0 < one["s"].null_count < 60


def test_skews() -> None:
    def distinct(skew: Any) -> int:
        return pc.count_distinct(kit.stream(1_000, skew=skew, domain=500)["k"]).as_py()

    assert distinct("one-key") == 1
    assert 1 < distinct("zipf") < distinct("uniform")
    increasing = kit.stream(1_000, skew={"k": "increasing"})["k"].to_numpy()
    assert (np.diff(increasing) >= 0).all()


def test_timestamps() -> None:
    assert (np.diff(ticks(kit.stream(500))) > 0).all()
    assert (np.diff(ticks(kit.stream(500, ties=0.5))) == 0).sum() > 150
    steps = np.diff(ticks(kit.stream(1_000, bursts=10, interval=100)))
    assert (steps == 1).sum() >= 890
    assert 50 < steps.mean() < 200
    assert kit.stream(3, time_type=pa.int64(), start=0, time="n")["n"][0].as_py() == 0
    assert kit.stream(0).num_rows == 0


def test_disorder_is_bounded_so_that_lateness_loses_nothing() -> None:
    arrived = ticks(kit.stream(1_000, interval=10, disorder=300))
    one_by_one = [[int(t)] for t in arrived]
    assert late_rows(one_by_one, 0)
    assert not late_rows(one_by_one, 300)


def test_workloads() -> None:
    trades, quotes = kit.trades_and_quotes(100, seed=3)
    assert trades.column_names == ["ts", "symbol", "price"]
    assert quotes.column_names == ["ts", "symbol", "bid", "ask"]
    assert pc.all(pc.less(quotes["bid"], quotes["ask"])).as_py()
    left, right = kit.celljoin(100, seed=3)
    assert [str(t) for t in left.schema.types] == ["timestamp[us]", "int32", "float", "string"]
    assert [str(t) for t in right.schema.types] == ["timestamp[us]", "int32", "float", "double", "bool"]
    assert set(pc.utf8_length(left["z"]).to_pylist()) == {20}
    assert left.equals(kit.celljoin(100, seed=3)[0])


@pytest.mark.parametrize(("sizes", "lengths"), [(4, [4, 4, 2]), ([3, 0], [3, 0, 3, 0, 3, 0, 1]), ([10], [10])])
def test_batches(sizes: Any, lengths: list[int]) -> None:
    cut = kit.batches(kit.stream(10), sizes)
    assert [batch.num_rows for batch in cut] == lengths
    assert pa.concat_tables(cut).equals(kit.stream(10))


def test_random_batches_and_interleavings_keep_each_streams_order() -> None:
    left, right = kit.stream(50, seed=1), kit.stream(40, seed=2)
    pushes = list(kit.interleave(kit.batches(left, seed=5), kit.batches(right, seed=6), seed=7))
    for side, table in (("left", left), ("right", right)):
        assert pa.concat_tables([batch for name, batch in pushes if name == side]).equals(table)
    assert [side for side, _ in pushes] != sorted(side for side, _ in pushes)


def test_wrong_arguments() -> None:
    for call in (
        lambda: kit.batches(kit.stream(3), [0]),
        lambda: kit.stream(3, skew="odd"),  # type: ignore[arg-type]
        lambda: kit.stream(3, ties=2),
        lambda: kit.stream(3, columns={"x": pa.list_(pa.int8())}),
        lambda: kit.hard_values(pa.list_(pa.int8())),
    ):
        with pytest.raises(ArgumentError):
            call()


@pytest.mark.parametrize(
    "name",
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "string", "large_string", "binary", "large_binary"),
        *("date32", "date64", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"),
    ],
)
def test_hard_values_have_their_type_and_a_null(name: str) -> None:
    arrow_type = pa.type_for_alias(name)
    values = kit.hard_values(arrow_type)
    assert values.type == arrow_type
    assert values.null_count == 1
    values.validate(full=True)


def test_hard_values() -> None:
    ints = kit.hard_values(pa.int64()).to_pylist()
    assert {2**63 - 1, -(2**63), 2**53 + 1} <= set(ints)
    floats = kit.hard_values(pa.float32()).to_pylist()
    assert any(value is not None and math.isnan(value) for value in floats)
    assert any(value == 0 and math.copysign(1, value) < 0 for value in floats)
    decimals = kit.hard_values(pa.decimal128(38, 10)).to_pylist()
    assert str(max(v for v in decimals if v is not None)).replace(".", "") == "9" * 38


def test_same_rows_are_the_same() -> None:
    kit.assert_same_rows([(1, 2), (1, 2), (3, None)], [(3, None), (1, 2), (1, 2)])
    kit.assert_same_rows(np.array([[1, 2]]), [(1, 2)], ordered=True)
    values = pa.table({"x": [math.nan, -0.0], "y": [[1, 2], None]})
    kit.assert_same_rows(values, pa.table({"x": [0.0, math.nan], "y": [None, [1, 2]]}))
    late = pa.table({"t": pa.array([2**63 - 1, None], pa.timestamp("ns"))})
    kit.compare(late, late, ordered=True)


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        ([(1, 2)], [(1, 2), (3, 4)], "1 missing:\n  (3, 4)"),
        ([(1, 2), (5, 6)], [(1, 2)], "1 extra:\n  (5, 6)"),
        ([(1, 2), (1, 2)], [(1, 2)], "(1, 2) 2 times instead of 1"),
        ([(1, 2), (3, 4)], [(3, 4), (1, 2)], "diverge at index 0:\n-> 0: (1, 2)   expected (3, 4)"),
        (pa.table({"x": [1]}), pa.table({"x": [2]}), "(x=2)"),
        (pa.table({"x": [1]}), pa.table({"y": [1]}), "x: int64\nexpected: y: int64"),
        (pa.table({"x": [1]}), pa.table({"x": [1.0]}), "x: int64\nexpected: x: double"),
    ],
)
def test_differences_are_explained(actual: Any, expected: Any, says: str) -> None:
    with pytest.raises(AssertionError) as error:
        kit.assert_same_rows(actual, expected, ordered=True, context="seed 7")
    assert says in str(error.value)
    assert "[seed 7]" in str(error.value)
