"""Casts that Spark has not or does otherwise; `test_values` holds Spark's own answers."""

from __future__ import annotations

from typing import Any

import pytest

from streamjoin.predicate.casts import can_cast, cast
from streamjoin.predicate.literals import date_text, days_of
from streamjoin.predicate.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, TINYINT, Type

NS = Type("timestamp", unit="ns")


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (1, Type("timestamp"), NS, 1000),
        (-1, NS, TIMESTAMP, -1),
        (2**62, TIMESTAMP, NS, 2**63 - 1),
        (-(2**62), TIMESTAMP, NS, -(2**63)),
        (2932896, DATE, NS, 2**63 - 1),
        (10, BIGINT, NS, 10**10),
        (1_500_000_000, NS, DOUBLE, 1.5),
        (-1, NS, BIGINT, -1),
        (-1, NS, DATE, -1),
        (1_000_000_001, NS, STRING, "1970-01-01 00:00:01.000000001"),
        (300 * 10**9, NS, TINYINT, None),
        ("9999-12-31", STRING, NS, 2**63 - 1),
        ("2024-01-01 00:00:00.123456789", STRING, NS, 1_704_067_200_123_456_789),
        (1.5, FLOAT, NS, 1_500_000_000),
        (True, BOOLEAN, FLOAT, 1.0),
        (None, INT, STRING, None),
    ],
)
def test_casts_beyond_spark(value: Any, source: Type, target: Type, expected: Any) -> None:
    assert can_cast(source, target)
    assert cast(value, source, target) == expected


def test_casts_that_are_always_null_in_spark_are_refused() -> None:
    assert not can_cast(DATE, INT)
    assert not can_cast(DOUBLE, DATE)
    assert not can_cast(BIGINT, Type("interval"))


def test_every_date_of_32_bits_has_a_text() -> None:
    for days in (-(2**31), -719_529, -719_528, -1, 0, 2_932_896, 2_932_897, 2**31 - 1):
        text = date_text(days)
        year, month, day = text.rsplit("-", 2)
        assert days_of(int(year), int(month), int(day)) == days
        assert cast(cast(days, DATE, STRING), STRING, DATE) == days
    assert [date_text(d) for d in (-719_529, -719_528, 2_932_897)] == ["-0001-12-31", "0000-01-01", "+10000-01-01"]


def test_every_timestamp_of_64_bits_has_a_text() -> None:
    for ticks in (-(2**63), -1, 2**63 - 1):
        assert cast(cast(ticks, TIMESTAMP, STRING), STRING, TIMESTAMP) == ticks
