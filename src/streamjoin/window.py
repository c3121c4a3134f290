"""How long a tuple stays joinable: `TimeWindow`, `CountWindow`, and reading "15 minutes", "900 ticks" or 1_000_000.

Invariant: a window that exists is valid. It is positive, fits into 64 bits, and its duration, if it has
one, is an exact number of nanoseconds. All arithmetic here is on integers; nothing is ever rounded
except in `ticks`, where rounding provably does not change which pairs join.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from streamjoin.errors import ArgumentError

Duration: TypeAlias = "str | timedelta | np.timedelta64"
TimeUnit: TypeAlias = Literal["int", "day", "s", "ms", "us", "ns"]
"""What one step of a time column is; "int" for an integer column, which has no unit but its own."""

NANOSECONDS_PER_TICK: Mapping[TimeUnit, int] = {
    "day": 86_400_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""Of every unit that is a duration: all but "int"."""

_LARGEST = 2**63 - 1
_A_DURATION = 'a duration such as "15 minutes" or timedelta(minutes=15)'
_A_SIZE = f"a positive int in the time column's own unit, or {_A_DURATION}"
_A_ROW_COUNT = f"a positive number of rows, or {_A_DURATION}"
_A_WINDOW = (
    f'{_A_DURATION}, a row count, "900 ticks" of an integer time column, a TimeWindow or CountWindow, or a pair '
    "(left's, right's) of these"
)
_NO_LENGTH = "months and years have no fixed length; count days or weeks"


@dataclass(frozen=True)
class TimeWindow:
    """A tuple stays joinable for `size`: a duration, or an int (or "900 ticks") in the time column's own unit.

    Two windows are equal if they last equally long, however they were spelled.
    """

    size: int | Duration = field(compare=False)
    amount: int = field(init=False, repr=False)
    """The size as a number, of `unit`."""
    unit: Literal["tick", "ns"] = field(init=False, repr=False)
    """Whether `amount` counts the time column's own ticks or nanoseconds."""

    def __post_init__(self) -> None:
        if (count := _counted(self.size, "tick")) is not None:
            object.__setattr__(self, "size", _positive(count, "size", _A_SIZE))
            object.__setattr__(self, "amount", count)
            object.__setattr__(self, "unit", "tick")
        elif isinstance(self.size, str | timedelta | np.timedelta64):
            object.__setattr__(self, "amount", parse_duration(self.size, "size"))
            object.__setattr__(self, "unit", "ns")
        else:
            object.__setattr__(self, "size", _positive(self.size, "size", _A_SIZE))
            object.__setattr__(self, "amount", self.size)
            object.__setattr__(self, "unit", "tick")


@dataclass(frozen=True)
class CountWindow:
    """A tuple stays joinable until `rows` younger tuples of its own stream have come."""

    rows: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _positive(self.rows, "rows", "a positive number of rows"))


Window: TypeAlias = "TimeWindow | CountWindow"


def parse_window(value: Any, argument: str = "window") -> tuple[Window, Window]:
    """The windows of the left and of the right stream; one value given alone goes for both."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise _wrong(argument, value, _A_WINDOW, f"a pair has two windows, not {len(value)}")
        left, right = value
        return _one_window(left, f"{argument}[0]"), _one_window(right, f"{argument}[1]")
    window = _one_window(value, argument)
    return window, window


def described_windows(value: Any) -> Any:
    """Windows in the words in which they can be given: one for both, or a pair."""
    one, other = (f"{w.rows} rows" if isinstance(w, CountWindow) else _size(w) for w in parse_window(value))
    return one if one == other else (one, other)


def _size(window: TimeWindow) -> str:
    return f"{window.size} ticks" if window.unit == "tick" else str(window.size)


def check_windows(windows: tuple[Window, Window], has_time: bool, given: Any = None, argument: str = "window") -> None:
    """Refuse a time window where there is no time column to measure it on. `given`: how the user wrote the windows."""
    if has_time:
        return
    given = windows if given is None else given
    for number, (side, window) in enumerate(zip(("left", "right"), windows, strict=True)):
        if isinstance(window, TimeWindow):
            raise _wrong(
                argument,
                given[number] if isinstance(given, tuple | list) else given,
                'time="<name of the time column>", or a number of rows as the window',
                f"the {side} stream's window is a time window, but there is no time column",
            )


def parse_duration(value: Any, argument: str = "duration", *, zero: bool = False) -> int:
    """Nanoseconds in "1 hour 30 minutes", "250ms", "1.5 s" or a timedelta of any make: exact or refused.

    A day is 24 hours. `zero` allows a duration of nothing, as for lateness.
    """
    nanoseconds: int | Fraction
    if isinstance(value, str):
        nanoseconds = _nanoseconds_of_text(value, argument)
    elif isinstance(value, np.timedelta64):
        nanoseconds = _nanoseconds_of_timedelta64(value, argument)
    elif isinstance(value, timedelta):
        seconds = value.days * 86_400 + value.seconds
        # pandas.Timedelta is a timedelta that also counts the nanoseconds below its microseconds.
        nanoseconds = seconds * 10**9 + value.microseconds * 1_000 + int(getattr(value, "nanoseconds", 0))
    else:
        raise _wrong(argument, value, _A_DURATION)
    if nanoseconds < 0:
        raise _wrong(argument, value, _A_DURATION, "it cannot be negative")
    if nanoseconds == 0 and not zero:
        raise _wrong(argument, value, _A_DURATION, "it cannot be zero")
    if nanoseconds > _LARGEST:
        raise _wrong(argument, value, _A_DURATION, "longer than 64 bits of nanoseconds, about 292 years")
    if nanoseconds != int(nanoseconds):
        raise _wrong(argument, value, _A_DURATION, "not a whole number of nanoseconds")
    return int(nanoseconds)


def time_unit(column_type: pa.DataType, argument: str = "time", column: str = "") -> TimeUnit:
    """The unit that a time column of this Arrow type counts in."""
    if pa.types.is_integer(column_type):
        return "int"
    if pa.types.is_timestamp(column_type):
        unit: TimeUnit = column_type.unit
        return unit
    if pa.types.is_date32(column_type):
        return "day"
    if pa.types.is_date64(column_type):
        return "ms"
    what = f"column {column!r} of type {column_type}" if column else f"a column of type {column_type}"
    raise ArgumentError(f"{argument}: {what} does not tell time; give a timestamp, date or integer column")


def ticks(window: TimeWindow, unit: TimeUnit, argument: str = "window", *, up: bool = True) -> int:
    """The length of `window` in ticks of a time column.

    Differences d of timestamps are whole ticks, so where W falls between two ticks, `d < W` (inside a
    window) says the same as `d < ceil(W)`, and `d > W` (late) the same as `d > floor(W)`.
    """
    if window.unit == "tick":
        if unit != "int":
            would_do = f'a duration such as TimeWindow("{window.amount} seconds") or "{window.amount} ms"'
            raise _wrong(argument, window, would_do, "the time column counts time, and a plain int has no unit")
        return window.amount
    if unit == "int":
        would_do = f'"900 ticks" (or {argument}=TimeWindow(900)) for 900 of its own unit, or use a timestamp column'
        raise _wrong(argument, window.size, would_do, "the time column holds integers without a unit")
    tick = NANOSECONDS_PER_TICK[unit]
    return -(-window.amount // tick) if up else window.amount // tick


def lateness_ticks(lateness: Any, unit: TimeUnit | None, argument: str = "lateness") -> int:
    """How many ticks a tuple may be behind its stream; `unit` is None where there is no time column."""
    allowed = _lateness(lateness, unit, argument)
    if allowed is None:
        return 0
    if unit is None:
        would_do = 'time="<name of the time column>", or no lateness'
        raise _wrong(argument, lateness, would_do, "without a time column no tuple is ever late")
    return ticks(allowed, unit, argument, up=False)


def _lateness(value: Any, unit: TimeUnit | None, argument: str) -> TimeWindow | None:
    """The lateness as a length of time; None for zero, which is the same in every unit."""
    if isinstance(value, TimeWindow):
        return value
    if (number := _counted(value, "tick")) is not None:
        value = number
    if isinstance(value, str | timedelta | np.timedelta64):
        return TimeWindow(value) if parse_duration(value, argument, zero=True) else None
    would_do = 'a duration such as "10 seconds", or over an integer time column an int in the column\'s unit'
    count = _positive(value, argument, would_do, zero=True)
    if count and unit not in ("int", None):
        raise _wrong(argument, value, would_do, "an int does not say of what unit")
    return TimeWindow(count) if count else None


def _one_window(value: Any, argument: str) -> Window:
    if isinstance(value, TimeWindow | CountWindow):
        return value
    if _is_int(value):
        return CountWindow(_positive(value, argument, _A_ROW_COUNT))
    if (count := _counted(value, "tick")) is not None:
        return TimeWindow(_positive(count, argument, _A_SIZE))
    if (count := _counted(value, "row")) is not None:
        return CountWindow(_positive(count, argument, _A_ROW_COUNT))
    if isinstance(value, str | timedelta | np.timedelta64):
        parse_duration(value, argument)  # here, so that an error names the caller's argument
        return TimeWindow(value)
    raise _wrong(argument, value, _A_WINDOW)


_UNITS: dict[str, int] = {
    name: nanoseconds
    for names, nanoseconds in (
        ("ns nano nanos nanosecond nanoseconds", 1),
        # micro is spelled with the micro sign or the Greek letter; both look the same.
        ("us µs μs usec usecs micro micros microsecond microseconds", 10**3),
        ("ms msec msecs milli millis millisecond milliseconds", 10**6),
        ("s sec secs second seconds", 10**9),
        ("m min mins minute minutes", 60 * 10**9),
        ("h hr hrs hour hours", 3_600 * 10**9),
        ("d day days", 86_400 * 10**9),
        ("w week weeks", 7 * 86_400 * 10**9),
    )
    for name in names.split()
}
_LENGTHLESS = re.compile("mo|mons?|months?|q|quarters?|y|yrs?|years?")
_NUMBER = r"[0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+"
_TERM = re.compile(rf"\s*,?\s*(?P<sign>[+-]?)\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\W\d_]+)\s*")
_INTERVAL = re.compile(r"\s*interval\b(.*)", re.IGNORECASE | re.DOTALL)
_LONGEST_TEXT = 200
_COUNTED = re.compile(r"\s*([0-9][0-9_]*)\s*(tick|row)s?\s*", re.IGNORECASE)


def _nanoseconds_of_text(text: str, argument: str) -> Fraction:
    """The exact sum of the terms "<number> <unit>" that the whole text consists of."""
    if len(text) > _LONGEST_TEXT:
        raise _wrong(argument, text, _A_DURATION, f"longer than {_LONGEST_TEXT} characters")
    interval = _INTERVAL.match(text)
    body = interval[1].replace("'", " ") if interval else text  # SQL writes INTERVAL '15' MINUTES
    total, at = Fraction(0), 0
    while term := _TERM.match(body, at):
        number, unit = term["number"].replace("_", ""), term["unit"]
        if term["sign"] == "-":
            raise _wrong(argument, text, _A_DURATION, "it cannot be negative")
        if unit == "M" or _LENGTHLESS.fullmatch(unit.lower()):
            raise _wrong(argument, text, _A_DURATION, _NO_LENGTH)
        if unit.lower() not in _UNITS:
            would_do = f"{_A_DURATION}; units: ns, us, ms, seconds, minutes, hours, days, weeks"
            raise _wrong(argument, text, would_do, f"unknown unit {unit!r}")
        total += Fraction(number) * _UNITS[unit.lower()]
        at = term.end()
    if at == 0 or at != len(body):
        raise _wrong(argument, text, _A_DURATION, "cannot be read as numbers with their units")
    return total


def _nanoseconds_of_timedelta64(value: np.timedelta64, argument: str) -> Fraction:
    if np.isnat(value):
        raise _wrong(argument, value, _A_DURATION, "NaT is no duration")
    unit, multiple = np.datetime_data(value.dtype)
    per_second = {"ps": 10**12, "fs": 10**15, "as": 10**18}
    if unit in per_second:
        nanoseconds = Fraction(10**9, per_second[unit])
    elif unit in ("M", "Y"):
        raise _wrong(argument, value, _A_DURATION, _NO_LENGTH)
    elif unit == "generic":
        raise _wrong(argument, value, _A_DURATION, "a timedelta64 without a unit")
    else:
        nanoseconds = Fraction(_UNITS[unit.lower()])
    return nanoseconds * multiple * int(value.astype(np.int64))


def _counted(value: Any, noun: str) -> int | None:
    """The number in "900 ticks" or "900 rows", the texts for what an int says in Python; None for anything else."""
    match = _COUNTED.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST_TEXT else None
    return int(match[1].replace("_", "")) if match and match[2].lower() == noun else None


def _is_int(value: object) -> bool:
    """An int that counts: no bool and no timedelta64, though Python and numpy call these integers too."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def _positive(value: Any, argument: str, would_do: str, *, zero: bool = False) -> int:
    if not _is_int(value):
        raise _wrong(argument, value, would_do)
    if value < 0 or (value == 0 and not zero):
        raise _wrong(argument, value, would_do, "it cannot be " + ("negative" if value < 0 else "zero"))
    if value > _LARGEST:
        raise _wrong(argument, value, would_do, "does not fit into 64 bits")
    return int(value)


def _wrong(argument: str, given: object, would_do: str, why: str = "") -> ArgumentError:
    reason = f" ({why})" if why else f" (a {type(given).__name__})"
    return ArgumentError(f"{argument}: got {reprlib.repr(given)}{reason}; give {would_do}")
