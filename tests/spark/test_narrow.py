"""Columns that were made narrow are as they were, and numbers near each other take few bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.spark.messages import from_bytes, to_bytes
from streamjoin.spark.narrow import narrowed, widened

TYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("us", "UTC"), pa.timestamp("s"),
    pa.duration("ms"),
]  # fmt: skip


def column(type_: pa.DataType, values: list[int | None]) -> pa.Array:
    """An array of a type whose bits are those of the numbers, cut off to its width."""
    bits = type_.bit_width
    wrapped = [None if v is None else (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for v in values]
    return pa.array(wrapped, f"int{bits}").view(type_)


@settings(max_examples=60)
@given(
    st.sampled_from(TYPES),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.none() | st.integers(0, 300) | st.integers(0, 2**64)) | st.lists(st.integers(0, 70_000)).map(sorted),
)
def test_whatever_the_values(type_: pa.DataType, base: int, steps: list[int | None]) -> None:
    array = column(type_, [None if step is None else base + step for step in steps])
    table = pa.table({"n": array, "sliced": pa.concat_arrays([array[:1], array]).slice(min(len(array), 1))})
    table = table.replace_schema_metadata({"of": "the table"})
    read = widened(from_bytes(to_bytes(narrowed(table))))
    assert read.schema.equals(table.schema, check_metadata=True)
    assert [c.combine_chunks().view(f"int{type_.bit_width}").to_pylist() for c in read.columns] == [
        c.combine_chunks().view(f"int{type_.bit_width}").to_pylist() for c in table.columns
    ]


def test_other_columns_stay() -> None:
    table = pa.table(
        {
            "text": ["a", None],
            "tags": pa.array([[1], []], pa.list_(pa.int64())),
            "x": [0.5, float("inf")],
            "flag": [True, None],
        }
    )
    assert widened(narrowed(table)).equals(table)
    assert narrowed(table).columns == table.columns
    assert widened(table) is table


@pytest.mark.parametrize(("bits", "step"), [(8, 1), (8, 255), (16, 70_00), (32, 70_000), (64, 2**40)])
def test_bits_of_a_timestamp(bits: int, step: int) -> None:
    times = pa.array([10**15 + step * n for n in range(200)], pa.timestamp("us"))
    for column_ in (times, times.take(pa.array(range(199, -1, -1)))):
        narrow = narrowed(pa.table({"ts": column_}))
        assert widened(narrow).column("ts").combine_chunks().equals(column_)
    assert narrowed(pa.table({"ts": times})).column("ts").type.bit_width == bits
