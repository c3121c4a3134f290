"""Slots of columns and of sums with a constant: the values, wherever they lie in Arrow's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.arrow.tables import valid_rows
from streamjoin.predicate import plan_for
from streamjoin.predicate.frames import Frame
from streamjoin.predicate.lower import lower
from streamjoin.predicate.values import wrap

BITS = {pa.int32(): 32, pa.int64(): 64}
SUMS = {"x - 7": -7, "x + 7": 7, "9 + x": 9, "x": 0}


def programs(type_: pa.DataType, sums: list[str]) -> Any:
    left = pa.schema([("a", type_)])
    right = pa.schema([("x", type_), ("y", type_)])
    on = " AND ".join(f"l.a >= {text.replace('x', 'r.x').replace('y', 'r.y')}" for text in sums)
    lowered = lower(plan_for(on, left, right, None), with_keys=False)
    assert len(lowered.slots.right) == len(sums)
    return lowered.sides.right


def run(program: Any, x: pa.Array, y: pa.Array) -> Any:
    return program.run(Frame(len(x), {("right", "x"): x, ("right", "y"): y}))


@pytest.mark.parametrize("type_", BITS)
def test_sums_wrap(type_: pa.DataType) -> None:
    bits = BITS[type_]
    end = 1 << (bits - 1)
    numbers = [-end, -end + 6, -end + 7, -1, 0, 1, end - 8, end - 7, end - 1]
    smallest = f"(x + (-{end - 1} - 1))"
    program = programs(type_, [*SUMS, smallest, "y + 1"])
    given = pa.array([5, *numbers, 5], type_).slice(1, len(numbers))
    others = pa.array(range(len(numbers)), type_)
    found = run(program, given, others)
    assert found.live is None
    wanted = [[wrap(n + by, bits) for n in numbers] for by in (*SUMS.values(), -end)]
    assert [column.tolist() for column in found.columns] == [*wanted, [n + 1 for n in range(len(numbers))]]
    for column in found.columns:
        assert column.flags.carray
        assert column.dtype == f"int{bits}"


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    "terms",
    [
        ["x"],
        ["x - 10.", "x + 10."],
        ["x + 0.1", "y - 1e308D", "y + CAST('inf' AS DOUBLE)"],
        ["x", "x + CAST(3 AS float)"],
    ],
)
def test_sums_of_floats_are_those_of_other_layouts(type_: pa.DataType, terms: list[str]) -> None:
    program = programs(type_, terms)
    numbers = [0.0, -0.0, 1.5, -1.5, 3e38, -3e38, 1e-45, float("nan"), float("inf"), float("-inf"), 10.0, 9.999999]
    given = pa.array([7.0, *numbers], type_).slice(1)
    plain, holed = (
        run(program, given, given),
        run(program, pa.array([None, *numbers], type_), pa.array([0, *numbers], type_)),
    )
    assert plain.live is None
    assert holed.live.tolist() == [False] + [True] * len(numbers)
    for column, behind in zip(plain.columns, holed.columns, strict=True):
        np.testing.assert_array_equal(column, behind[1:])
        assert column.flags.carray
        assert column.dtype == behind.dtype


@pytest.mark.parametrize("type_", BITS)
def test_other_layouts_give_the_same(type_: pa.DataType) -> None:
    program = programs(type_, [*SUMS, "y + 1"])
    plain = pa.array(range(-5, 6), type_)
    wanted = run(program, plain, plain)
    encoded = run(program, plain.dictionary_encode(), plain)
    holes = pa.array([None, *range(-5, 6)], type_)
    with_null = run(program, holes, pa.array([0, *range(-5, 6)], type_))
    assert with_null.live.tolist() == [False] + [True] * len(plain)
    for column, again, behind in zip(wanted.columns, encoded.columns, with_null.columns, strict=True):
        np.testing.assert_array_equal(column, again)
        np.testing.assert_array_equal(column, behind[1:])
    assert [len(column) for column in run(program, plain[:0], plain[:0]).columns] == [0] * 5


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_wherever_they_lie(type_: pa.DataType) -> None:
    schema = pa.schema([("s", type_)])
    program = lower(plan_for("l.s = r.s", schema, schema, None), with_keys=False).sides.left
    texts = ["", "a", "a longer text than a word", "é", None, "a"]
    plain = pa.array(["before", *texts, "behind"])
    column = (plain.dictionary_encode() if pa.types.is_dictionary(type_) else plain).cast(type_).slice(1, len(texts))
    found = program.run(Frame(len(column), {("left", "s"): column}))
    assert found.live.tolist() == [text is not None for text in texts]
    assert found.long_text
    words = dict(zip(texts, found.columns[0].tolist(), strict=True))
    assert len({word for text, word in words.items() if text is not None}) == 4
    assert words["a"] == found.columns[0][1]
    assert not program.run(Frame(2, {("left", "s"): column[:2]})).long_text


def test_valid_rows_of_slices() -> None:
    numbers = [None if k % 3 == 0 else k for k in range(40)]
    for start in (0, 1, 7, 8, 9, 17):
        found = valid_rows(pa.array(numbers).slice(start, 20))
        assert found is not None
        assert found.tolist() == [number is not None for number in numbers[start : start + 20]]
    assert valid_rows(pa.array(numbers).slice(1, 2)) is None
    nulls = valid_rows(pa.nulls(3))
    assert nulls is not None
    assert nulls.tolist() == [False] * 3
