"""Payload of every layout travels: small dictionaries, views, run-end encoding, nested types, nullability."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import TimeWindow

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64()})

TINY = pa.dictionary(pa.int8(), pa.string())


def words(batch: int, count: int) -> pa.Array:
    return pa.array([f"{batch}_{i}" for i in range(count)]).dictionary_encode().cast(TINY)


@pytest.mark.parametrize(("batches", "size"), [(70, 10), (130, 10), (4, 100), (200, 3), (64, 1), (300, 1)])
@pytest.mark.parametrize("matching", ["one of each batch", "one of one batch", "all"])
def test_many_small_dictionaries(batches: int, size: int, matching: str) -> None:
    """Their values together are more than the indices can number."""
    left, right = pa.schema({"k": pa.int64(), "c": TINY}), pa.schema({"k": pa.int64()})
    wanted = {
        "one of each batch": {(i * 1000, f"{i}_0") for i in range(batches)},
        "one of one batch": {(2000, "2_0")},
        "all": {(i * 1000 + j, f"{i}_{j}") for i in range(batches) for j in range(size)},
    }[matching]
    with sj.WindowJoin(left, right, on="l.k = r.k", window=10_000) as join:
        for i in range(batches):
            join.push_left(pa.table([[i * 1000 + j for j in range(size)], words(i, size)], schema=left))
        join.push_right(pa.table([[k for k, _ in sorted(wanted)]], schema=right))
        try:
            out = join.poll()
        except sj.StreamJoinError:  # more different values in one table than its type can number
            assert matching != "one of one batch"
            assert batches * size > 128
            assert join.metrics()["pending"] == len(wanted)  # nothing is lost
            assert join.metrics()["out"] == 0
        else:
            out.validate(full=True)
            assert sorted(zip(out["k"].to_pylist(), out["c"].to_pylist(), strict=True)) == sorted(wanted)
            assert out["c"].type == TINY
            join.push_right(pa.table([[2000]], schema=right))
            assert join.finish()["c"].to_pylist() == ["2_0"]


def test_small_dictionaries_as_keys() -> None:
    schema = pa.schema({"c": TINY, "n": pa.int64()})
    with sj.WindowJoin(schema, schema, on="l.c = r.c", window=10_000) as join:
        for i in range(70):
            join.push_left(pa.table([words(i, 10), range(10 * i, 10 * i + 10)], schema=schema))
        join.push_right(pa.table([words(69, 10), range(10)], schema=schema))
        out = join.finish()
        assert sorted(out["n"].to_pylist()) == list(range(690, 700))
        assert out["c"].to_pylist() == out["c_right"].to_pylist()


def test_nullability_may_differ() -> None:
    strict = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("t", "k")])
    mixed = pa.schema([pa.field("t", pa.int64()), pa.field("k", pa.int64(), nullable=False)])
    for schema in (SCHEMA, strict, mixed):
        for how in ("inner", "full"):
            with sj.WindowJoin(schema, schema, on="l.k = r.k", window=TimeWindow(100), time="t", how=how) as join:
                for i, given in enumerate((SCHEMA, strict, mixed)):
                    batch = pa.table([[i], [i]], schema=given)
                    join.push_left(batch)
                    join.push_right(batch.to_batches()[0])
                out = join.finish()
                assert out.schema == join.schema
                assert out.num_rows == 3
                out.validate(full=True)


def payloads() -> dict[str, pa.Array]:
    ends = pa.array([1, 2], pa.int32())
    views = pa.array(["a", "a text of many letters", "c", "d"], pa.string_view())
    return {
        "run-end-encoded": pa.RunEndEncodedArray.from_arrays(ends, pa.array([5, 6], pa.int64())),
        "run-end-encoded text": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int16()), pa.array(["a"])),
        "map of views": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), views.slice(0, 2), pa.array([1, 2])),
        "map to views": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([1, 2]), views.slice(0, 2)),
        "fixed-size list of views": pa.FixedSizeListArray.from_arrays(views, 2),
        "list of views": pa.ListArray.from_arrays(pa.array([0, 3, 4], pa.int32()), views),
        "struct of views": pa.StructArray.from_arrays([views.slice(0, 2), pa.array([1, 2])], ["a", "b"]),
        "views": views.slice(1, 2),
        "views of bytes": pa.array([b"a", b"more than twelve bytes"], pa.binary_view()),
    }


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@pytest.mark.parametrize("name", payloads())
def test_payload_of_every_layout_travels(name: str, how: str) -> None:
    values = payloads()[name]
    schema = pa.schema({"k": pa.int64(), "p": values.type})
    batch = pa.Table.from_arrays([pa.array([1, 2]), values], schema=schema)
    with sj.WindowJoin(schema, schema, on="l.k = r.k AND l.k > 1", window=1000, how=how, order="sorted") as join:
        for _ in range(70):  # so many small batches are merged
            join.push_left(batch)
        join.push_right(batch)
        out = join.finish()
    assert out.schema == join.schema
    out.validate(full=True)
    one, two = values.to_pylist()
    lonely = [(one, None)] * (70 * (how != "inner")) + [(None, one)] * (how == "full")  # these come first
    assert list(zip(out["p"].to_pylist(), out["p_right"].to_pylist(), strict=True)) == lonely + [(two, two)] * 70


def test_late_rows_of_every_layout_are_kept() -> None:
    for name, values in payloads().items():
        schema = pa.schema({"t": pa.int64(), "k": pa.int64(), "p": values.type})
        arguments: dict[str, Any] = {"on": "l.k = r.k", "window": TimeWindow(10), "time": "t", "late": "keep"}
        with sj.WindowJoin(schema, schema, **arguments) as join:
            join.push_left(pa.Table.from_arrays([pa.array([50, 51]), pa.array([1, 2]), values], schema=schema))
            join.push_left(pa.Table.from_arrays([pa.array([60, 1]), pa.array([1, 2]), values], schema=schema))
            assert join.late().left["p"].to_pylist() == values.to_pylist()[1:], name
