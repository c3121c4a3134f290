"""Columns of texts that are read as values, by machine code and without: what `casts` reads, one text at a time."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.predicate import text_to_value
from streamjoin.predicate.casts import cast
from streamjoin.predicate.dialect import column_dtype
from streamjoin.predicate.text_to_value import read
from streamjoin.predicate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
)

from ..long import LONG

DECIMALS = [Type("decimal", *size) for size in ((5, 2), (18, 0), (18, 18), (19, 3), (38, 0), (38, 18), (38, 38))]
NUMBERS = [TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, *DECIMALS]
MOMENTS = [DATE, TIMESTAMP, TIMESTAMP_NTZ, Type("timestamp", unit="ns"), Type("timestamp_ntz", unit="ns")]
HARD = [
    None, "", " ", ".", "+", "-", "-.", "+-1", "--1", "1 2", "e", "1e", "1e+", "e5", "1e5", "1E-5", "1_0", "0x10",
    "\0", "nan", "NaN", "-nan", "+-nan", "-+inf", "inf", "-inf", "Infinity", "+infinity", "infinityf", "NaNd", "none",
    "1d", "1.d",
    ".d", "1e5f", "5 d", "٣", "１２", "1é", "\u00a01", " 1\t", "\x7f1\x00", "-0", "0", "+0.0", "00012", "1.", ".5",
    "-.5", "0e100", "0e-100", "1e400", "-1e400", "1e-400", "1e60", "1e61", "1e-61", "5e-324",
    "1.7976931348623157e308", "3.5e38", "1e39", "0.1", "0.30000000000000004", "0.5", "0.005", "0.015", "-0.005",
    "999.994", "999.995", "127", "128", "-128", "-129", "127.9", "32767", "32768", "-32768", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "999999999999999999", "1000000000000000000", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9223372036854775807.9",
    "0009223372036854775807", "12345678901234567890.5", "123456789012345678.99", "1234567890123456789.99", "9" * 36,
    "9" * 37, "9" * 38, "9" * 39, "0." + "9" * 38, "0." + "9" * 39, "9" * 20 + "." + "9" * 16,
    "4" * 20 + "." + "4" * 17, "0." + "0" * 40 + "5", "9007199254740993", "9007199254740992e22",
    "9007199254740993e22", "1.5e22", "1.5e23", "123456789012345678901e-5", "true", "T", " yes\x00", "tRuE", "f", "No",
    "n", "y", "on", "ſ", "1.0", "2024", "+2024", "202", "20240", "1234567-01-01", "12345678-01-01", "2024-", "2024-1",
    "2024-1-5", "2024-01-05", "2024-13-01", "2024-00-01", "2024-01-00", "2024-02-29", "2023-02-29", "1900-02-29",
    "2000-02-29", "2024-04-31", "2024-02-30x", "2024-02-28T", "2024-02-28 é", "2024-02-28T1", "2024-02-28 1:2:3",
    "2024-02-28t01:02:03", "2024-02-28 24:00:00", "2024-02-28 00:60:00", "2024-02-28 00:00:60", "2024-02-28 12:",
    "2024-02-28 12:30", "2024-02-28 12:30.5", "2024-02-28  12:30", "2024-02-28 001:00", "2024-02-28 12:30:45.",
    "2024-02-28 12:30:45.1", "2024-02-28 12:30:45.1234567891234", "2024-02-28 12:30:45.x", "2024-02-28 12:30:45Z",
    "2024-02-28T12:30:45.5Z", "2024-02-28 12:30:45z", "2024-02-28 12:30:45ZZ", "2024-02-28 12Z", "2024-02-28Z",
    "2024-02-28 12:30:45+02:00", "2024-02-28 12:30:45-02:30", "2024-02-28 12:30:45+02", "2024-02-28 12:30:45+2",
    "2024-02-28 12:30:45+0230", "2024-02-28 12:30:45+23001", "2024-02-28 12:30:45+02:", "2024-02-28 12:30:45+02:60",
    "2024-02-28 12:30:45+18:00", "2024-02-28 12:30:45-18:01", "2024-02-28 12:30:45 UTC",
    "2024-02-28 12:30:45GMT-01", "2024-02-28 12:30:45 UTCZ", "2024-02-28 12:30:45 UT", "2024-02-28 12:30:45\tZ",
    "2024-02-28 12:30:45+023", "2024-02-28 12:30:45 +", "2024-02-28 12:30:45x02:00",
    "2024-02-28 12:30:45UTC+01:00:30", "2024-02-28 12:30:45 Europe/Berlin", "9999-12-31 23:59:59.999999999",
    "0000-01-01", "-0001-12-31", "-0000-01-01", "+10000-01-01", "2262-04-11 23:47:16.854775807",
    "2262-04-11 23:47:16.854775808", "1677-09-21 00:12:43.145224192", "1677-09-21 00:12:43.1",
    "294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808", "-290308-12-21 19:59:05.224192",
    "-290308-12-21 19:59:05.224191", "5881580-07-11", "5881580-07-12", "-5877641-06-23", "-5877641-06-22",
]  # fmt: skip


def check(texts: list[str | None], type_: Type) -> None:
    column = pa.array(["1", *texts, "1"], pa.large_string()).slice(1, len(texts))
    values, valid = read(column, type_, column_dtype(type_))
    assert values.dtype == column_dtype(type_)
    for text, value, known in zip(texts, values.tolist(), valid, strict=True):
        assert same(value if known else None, cast(text, STRING, type_)), (text, value, known)


def same(a: Any, b: Any) -> bool:
    """Equal to the bit: NaN equals NaN, but 0.0 is not -0.0."""
    if a is None or b is None:
        return a is b
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.fixture(params=["machine code", "row by row"])
def _world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "row by row":
        for name in ("read_integers", "read_floats", "read_decimals", "read_moments"):
            monkeypatch.setattr(text_to_value, name, getattr(text_to_value, name)._plain)


@pytest.mark.usefixtures("_world")
@pytest.mark.parametrize("type_", [*NUMBERS, *MOMENTS, BOOLEAN], ids=str)
def test_hard_texts(type_: Type) -> None:
    check([*HARD], type_)
    check([], type_)


def test_a_text_behind_a_null_is_not_read() -> None:
    """Bytes may lie under a NULL."""
    texts = pa.array(["12345678901234567890123", "x", "0.5"], pa.large_string())
    masked = pa.Array.from_buffers(texts.type, 3, [pa.py_buffer(b"\x04"), *texts.buffers()[1:]])
    for type_ in (DOUBLE, BIGINT, Type("decimal", 38, 2), TIMESTAMP, BOOLEAN):
        assert read(masked, type_, column_dtype(type_))[1].tolist()[:2] == [False, False]


_digits = st.text("0123456789", max_size=25)
_numbers = st.builds(
    "{}{}{}{}{}{}{}".format,
    st.sampled_from(["", "", "-", "+", " "]), st.sampled_from(["", "0", "00"]), _digits,
    st.sampled_from(["", ".", ".0", ".000"]), st.one_of(st.just(""), _digits),
    st.one_of(st.just(""), st.integers(-70, 70).map("e{}".format)),
    st.sampled_from(["", "", "", "d", "F", " ", "x"]),
)  # fmt: skip
_moments = st.builds(
    "{}{}{}{}".format,
    st.dates().map(str),
    st.one_of(st.just(""), st.times().map(" {}".format), st.times().map("T{}".format)),
    st.sampled_from(["", "", ".5", "Z", "+02:00", "-1130", "+7", " UTC", "GMT+1:00", "UT-3", "+02:00:30", "+2:300"]),
    st.sampled_from(["", " ", "x"]),
)
_letters = st.text("0123456789-+:. TZeE", max_size=22)


@pytest.mark.parametrize("type_", [*NUMBERS, *MOMENTS], ids=str)
@settings(max_examples=2000 if LONG else 60)
@given(data=st.data())
def test_random_texts(type_: Type, data: st.DataObject) -> None:
    usual = _numbers if type_ in NUMBERS else _moments
    check(data.draw(st.lists(st.one_of(usual, usual, _letters, st.text(max_size=5)), max_size=20)), type_)
