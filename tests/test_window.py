"""Windows: what can be written, what it means in ticks, and what a wrong one says."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.errors import ArgumentError
from streamjoin.window import (
    NANOSECONDS_PER_TICK,
    CountWindow,
    TimeWindow,
    check_windows,
    lateness_ticks,
    parse_duration,
    parse_window,
    ticks,
    time_unit,
)

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("15 minutes", 900 * SECOND),
        ("1 minute", 60 * SECOND),
        ("15min", 900 * SECOND),
        ("15m", 900 * SECOND),
        ("1 hour 30 minutes", 5_400 * SECOND),
        ("1 hour, 30 minutes", 5_400 * SECOND),
        ("1h30m", 5_400 * SECOND),
        ("1h", 3_600 * SECOND),
        ("90s", 90 * SECOND),
        ("10 SECONDS", 10 * SECOND),
        ("250 ms", 250 * 10**6),
        ("500 microseconds", 500_000),
        ("500µs", 500_000),
        ("100 ns", 100),
        ("1.5 seconds", 1_500_000_000),
        ("0.000000001 s", 1),
        (".5 s", SECOND // 2),
        ("2 days", 172_800 * SECOND),
        ("1 week", 604_800 * SECOND),
        ("1_000 ms", SECOND),
        ("INTERVAL 15 minutes", 900 * SECOND),
        ("interval '15' MINUTES", 900 * SECOND),
        ("  10   seconds  ", 10 * SECOND),
        ("9223372036854775807 ns", 2**63 - 1),
    ],
)
def test_durations_are_read_exactly(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "cannot be read"),
        ("15", "cannot be read"),
        ("minutes", "cannot be read"),
        ("15 minutes ago 3", "cannot be read"),
        ("15 parsecs", "unknown unit 'parsecs'"),
        ("1e3 s", "unknown unit"),
        ("1 month", "no fixed length"),
        ("1 M", "no fixed length"),
        ("2 years", "no fixed length"),
        ("-5 seconds", "negative"),
        ("1 hour -5 minutes", "negative"),
        ("0 seconds", "zero"),
        ("0.5 ns", "whole number of nanoseconds"),
        ("9223372036854775808 ns", "64 bits"),
        ("300 years", "no fixed length"),
        ("200000 days", "64 bits"),
        ("9" * 5_000 + " s", "longer than"),
        ("٣ seconds", "cannot be read"),
        (timedelta(seconds=-1), "negative"),
        (timedelta(0), "zero"),
        (timedelta.max, "64 bits"),
        (np.timedelta64("NaT"), "NaT"),
        (np.timedelta64(3, "M"), "no fixed length"),
        (np.timedelta64(3), "without a unit"),
        (np.timedelta64(1, "ps"), "whole number of nanoseconds"),
        (15, "(a int)"),
        (None, "(a NoneType)"),
    ],
)
def test_wrong_durations_say_what_would_do(value: Any, says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_duration(value, "lateness")
    message = str(error.value)
    assert message.startswith("lateness: got ")
    assert says in message
    assert "15 minutes" in message
    assert len(message) < 400


def test_timedeltas_of_every_make() -> None:
    pandas = pytest.importorskip("pandas")
    assert parse_duration(timedelta(days=1, microseconds=1)) == 86_400 * SECOND + 1_000
    assert parse_duration(np.timedelta64(15, "m")) == 900 * SECOND
    assert parse_duration(np.timedelta64(2, "D")) == 172_800 * SECOND
    assert parse_duration(np.timedelta64(3_000, "ps")) == 3
    assert parse_duration(pandas.Timedelta("1s 7ns")) == SECOND + 7
    assert parse_duration("0 s", zero=True) == 0


@given(st.integers(1, 2**63 - 1))
def test_every_number_of_nanoseconds_survives_as_decimal_seconds(nanoseconds: int) -> None:
    whole, fraction = divmod(nanoseconds, SECOND)
    assert parse_duration(f"{whole}.{fraction:09d} seconds") == nanoseconds


def test_windows_of_every_make() -> None:
    quarter = TimeWindow("15 minutes")
    assert parse_window("15 minutes") == (quarter, quarter)
    assert parse_window(timedelta(minutes=15)) == (quarter, quarter)
    assert parse_window(np.timedelta64(15, "m")) == (quarter, quarter)
    assert parse_window(1_000) == (CountWindow(1_000), CountWindow(1_000))
    assert parse_window(np.int32(7)) == (CountWindow(7), CountWindow(7))
    assert parse_window(("15 minutes", 10)) == (quarter, CountWindow(10))
    assert parse_window([TimeWindow(900), CountWindow(3)]) == (TimeWindow(900), CountWindow(3))
    assert type(parse_window(np.int32(7))[0].rows) is int  # type: ignore[union-attr]
    assert hash(quarter) == hash(TimeWindow(timedelta(minutes=15)))
    assert repr(quarter) == "TimeWindow(size='15 minutes')"
    assert TimeWindow(900) != TimeWindow("900 ns")


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        True,
        np.True_,
        2**63,
        1.5,
        None,
        "",
        "100",
        "0 s",
        timedelta(0),
        (),
        (1,),
        (1, 2, 3),
        {},
        b"1 s",
    ],
)
def test_wrong_windows(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^window: got .*; give "):
        parse_window(value)


def test_a_wrong_half_of_a_pair_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"^window\[1\]: got 0 "):
        parse_window((5, 0))
    with pytest.raises(ArgumentError, match=r"^window\[0\]: got \(1, 2\)"):
        parse_window(((1, 2), 3))


@pytest.mark.parametrize("make", [lambda: TimeWindow(0), lambda: TimeWindow(True), lambda: TimeWindow("0 s")])
def test_wrong_time_window(make: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^size: got "):
        make()


@pytest.mark.parametrize("rows", [0, -3, True, 2.0, "7", None])
def test_wrong_count_window(rows: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^rows: got "):
        CountWindow(rows)


def test_time_windows_need_a_time_column() -> None:
    check_windows((CountWindow(1), CountWindow(2)), has_time=False)
    check_windows((TimeWindow(1), CountWindow(2)), has_time=True)
    with pytest.raises(ArgumentError, match=r"the right stream's window is a time window.*time="):
        check_windows((CountWindow(1), TimeWindow("1 s")), has_time=False)
    for written, shown in (
        (TimeWindow(5), r"TimeWindow\(size=5\)"),
        ("15 minutes", "'15 minutes'"),
        ((3, timedelta(1)), r"datetime.timedelta\(days=1\)"),
    ):
        with pytest.raises(ArgumentError, match=f"^window: got {shown} "):
            check_windows(parse_window(written), has_time=False, given=written)


def test_units_of_columns() -> None:
    assert time_unit(pa.uint16()) == "int"
    assert time_unit(pa.timestamp("us", "UTC")) == "us"
    assert time_unit(pa.date32()) == "day"
    assert time_unit(pa.date64()) == "ms"
    with pytest.raises(ArgumentError, match="time: column 'ts' of type string does not tell time"):
        time_unit(pa.string(), column="ts")


def test_ticks() -> None:
    assert ticks(TimeWindow("15 minutes"), "us") == 900_000_000
    assert ticks(TimeWindow("15 minutes"), "s") == 900
    assert ticks(TimeWindow("2 days"), "day") == 2
    assert ticks(TimeWindow("1500 ms"), "s") == 2
    assert ticks(TimeWindow("1500 ms"), "s", up=False) == 1
    assert ticks(TimeWindow("1 ns"), "day") == 1
    assert ticks(TimeWindow(900), "int") == 900
    with pytest.raises(ArgumentError, match=r'^window: got TimeWindow\(size=900\) .*"900 ms"'):
        ticks(TimeWindow(900), "us")
    with pytest.raises(ArgumentError, match=r"^window: got '15 minutes' .*integers.*TimeWindow\(900\)"):
        ticks(TimeWindow("15 minutes"), "int")


@given(st.integers(1, 10**10), st.sampled_from(["day", "s", "ms", "us", "ns"]), st.integers(-3, 3))
def test_rounding_to_ticks_changes_no_comparison(nanoseconds: int, unit: Any, offset: int) -> None:
    window = TimeWindow(f"{nanoseconds} ns")
    exact = Fraction(nanoseconds, NANOSECONDS_PER_TICK[unit])
    difference = int(exact) + offset
    assert (difference < exact) == (difference < ticks(window, unit))
    assert (difference > exact) == (difference > ticks(window, unit, up=False))


def test_lateness() -> None:
    assert lateness_ticks(0, None) == lateness_ticks(0, "us") == lateness_ticks("0 s", "int") == 0
    assert lateness_ticks("10 seconds", "ms") == 10_000
    assert lateness_ticks(timedelta(milliseconds=1_999), "s") == 1
    assert lateness_ticks(7, "int") == lateness_ticks(TimeWindow(7), "int") == 7
    assert lateness_ticks(np.int64(7), "int") == 7


@pytest.mark.parametrize(
    ("lateness", "unit", "says"),
    [
        (7, "us", "10 seconds"),
        (TimeWindow(7), "us", "7 seconds"),
        ("10 seconds", "int", "integers"),
        ("10 seconds", None, "time="),
        (7, None, "time="),
        (-1, "int", "negative"),
        ("-1 s", "us", "negative"),
        (True, "int", "(a bool)"),
        (1.5, "int", "(a float)"),
        (None, "us", "(a NoneType)"),
        (CountWindow(5), "us", "CountWindow"),
    ],
)
def test_wrong_lateness(lateness: Any, unit: Any, says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        lateness_ticks(lateness, unit)
    assert str(error.value).startswith("lateness: got ")
    assert says in str(error.value)
