"""Columns of values as text, by machine code and without: the texts of `casts`, one by one."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.predicate import value_to_text
from streamjoin.predicate.casts import cast
from streamjoin.predicate.dialect import column_dtype
from streamjoin.predicate.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, STRING, TIMESTAMP, Type
from streamjoin.predicate.value_to_text import text_of

from ..long import LONG

NS = Type("timestamp_ntz", unit="ns")
POWERS = [2.0**k for k in range(-1074, 1024)]
HARD_FLOATS = [
    0.0, 1.0, 0.1, 0.3, 0.1 + 0.2, 1e-3, 9.999999999999999e-4, 1e7, 9999999.999999998, 1e-5, 1e-7, 1e6, 1e15, 1e16,
    1e21, 1e22, 1e23, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0, 1234567.0,
    12345678.0, 123456789.125, float("inf"), float("nan"), *POWERS, *(np.nextafter(POWERS, 0.0).tolist()),
    *(10.0**k for k in range(-20, 23)),
]  # fmt: skip
HARD: dict[Type, list[Any]] = {
    DOUBLE: [*HARD_FLOATS, *(-x for x in HARD_FLOATS)],
    FLOAT: [
        float(x) for x in np.array([1e-45, 3.4028235e38, 0.1, 1e7, 16777216, 1e-3, 1e10, -0.0, np.nan], np.float32)
    ],
    DATE: [0, -1, -719_528, -719_529, 2_932_896, 2_932_897, -(2**31), 2**31 - 1, *range(11_000, 12_600)],
    TIMESTAMP: [0, -1, 1, 10**6, 1_500_000, 2**63 - 1, -(2**63), 253_402_300_800_000_000, -62_167_219_200_000_001],
    NS: [0, -1, 1, 10**9, 1_500_000_000, 2**63 - 1, -(2**63)],
    Type("decimal", 18, 2): [0, 1, -1, 99, -100, 10**18 - 1, 1 - 10**18],
    Type("decimal", 18, 18): [0, 1, -1, 10**11, 10**12 - 1, 10**12, 10**18 - 1],
    Type("decimal", 38, 10): [0, 1, -1, 999, 1000, 10**38 - 1, 1 - 10**38, 2**63, -(2**63), 2**64],
    Type("decimal", 38, 38): [0, 1, 10**31, 10**32 - 1, 10**32, 1 - 10**38],
    Type("decimal", 20, 0): [0, -5, 2**64 - 1],
    BIGINT: [0, -1, 2**63 - 1, -(2**63)],
    BOOLEAN: [True, False],
}
RANDOM: dict[Type, st.SearchStrategy[Any]] = {
    DOUBLE: st.one_of(
        st.floats(), st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0]),
        st.floats(1e-4, 1e9), st.integers(-(10**9), 10**9).map(lambda number: number / 1000),
    ),
    FLOAT: st.floats(width=32),
    DATE: st.integers(-(2**31), 2**31 - 1),
    TIMESTAMP: st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31).map(lambda second: second * 10**6)),
    NS: st.integers(-(2**63), 2**63 - 1),
    Type("decimal", 18, 7): st.integers(1 - 10**18, 10**18 - 1),
    Type("decimal", 38, 12): st.integers(1 - 10**38, 10**38 - 1),
}  # fmt: skip


def check(values: list[Any], type_: Type) -> None:
    """The texts of values, NULLs among them."""
    valid = np.arange(len(values)) % 5 != 1
    column = np.array(values, column_dtype(type_))
    expected = [cast(value, type_, STRING) for value in values]
    assert text_of(column, None, type_).to_pylist() == expected
    masked = [text if known else None for text, known in zip(expected, valid, strict=True)]
    assert text_of(column, valid, type_).to_pylist() == masked


@pytest.fixture(params=["machine code", "row by row"])
def _world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "row by row":
        for name in ("_write_floats", "_write_moments"):
            monkeypatch.setattr(value_to_text, name, getattr(value_to_text, name)._plain)


@pytest.mark.usefixtures("_world")
@pytest.mark.parametrize("type_", HARD, ids=str)
def test_hard_values(type_: Type) -> None:
    check(HARD[type_], type_)
    check([], type_)


@pytest.mark.parametrize("type_", RANDOM, ids=str)
@settings(max_examples=2000 if LONG else 100)
@given(data=st.data())
def test_random_values(type_: Type, data: st.DataObject) -> None:
    check(data.draw(st.lists(RANDOM[type_], max_size=30)), type_)
