"""Python values and SQL text as constants of the expression tree.

Dates are days since 1970-01-01, timestamps and intervals whole ticks of their unit, decimals whole numbers of
10**-scale. Text is read as Spark reads it in a CAST; the session's time zone is UTC.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

from ..errors import PredicateError
from .expr import Constant
from .types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    MAX_PRECISION,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
)

EPOCH = dt.date(1970, 1, 1)
BLANKS = "".join(map(chr, range(33))) + "\x7f"
"""What a cast of text ignores at both ends: ASCII blanks and control characters."""
DAYS_OF_400_YEARS = 146_097
_YEAR_2000 = (dt.date(2000, 1, 1) - EPOCH).days
_MICROSECOND = dt.timedelta(microseconds=1)
_NUMPY_KINDS = {
    "int8": TINYINT, "int16": SMALLINT, "int32": INT, "int64": BIGINT, "uint8": SMALLINT, "uint16": INT,
    "uint32": BIGINT, "float16": FLOAT, "float32": FLOAT, "float64": DOUBLE, "bool": BOOLEAN, "str": STRING,
}  # fmt: skip


def constant(value: Any) -> Constant:
    """The constant that a Python value stands for."""
    if value is None:
        return Constant(None, NULL)
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "ndim", None) == 0:
        kind = _NUMPY_KINDS.get(getattr(dtype, "name", "").rstrip("0123456789") or "") or _NUMPY_KINDS.get(dtype.name)
        if kind is not None:
            return Constant(value.item(), kind)
        value = value.item()
    if isinstance(value, bool):
        return Constant(value, BOOLEAN)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return Constant(value, DOUBLE)
    if isinstance(value, str):
        return Constant(value, STRING)
    if isinstance(value, Decimal):
        return decimal_constant(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return Constant((value - dt.datetime(1970, 1, 1)) // _MICROSECOND, TIMESTAMP_NTZ)
        return Constant((value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // _MICROSECOND, TIMESTAMP)
    if isinstance(value, dt.date):
        return Constant((value - EPOCH).days, DATE)
    if isinstance(value, dt.timedelta):
        return Constant(value // _MICROSECOND, INTERVAL)
    raise PredicateError(
        f"on: a predicate cannot hold the value {value!r} of type {type(value).__name__}; give a number, boolean, "
        "string, date, datetime, timedelta, Decimal or None"
    )


def integer(value: int) -> Constant:
    """An integer literal: int if it fits 32 bits, bigint if 64, a decimal beyond, as in Spark."""
    if -(2**31) <= value < 2**31:
        return Constant(value, INT)
    if -(2**63) <= value < 2**63:
        return Constant(value, BIGINT)
    return decimal_constant(Decimal(value))


def decimal_constant(value: Decimal) -> Constant:
    """A decimal literal with exactly the digits written."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise PredicateError(f"on: {value} is no decimal number; write float('{value}') for the double")
    scale = max(-exponent, 0)
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0)
    precision = max(len(str(unscaled)), scale)
    if precision > MAX_PRECISION or scale > MAX_PRECISION:
        raise PredicateError(f"on: the number {value} has {precision} digits; a decimal holds {MAX_PRECISION} at most")
    return Constant(-unscaled if sign else unscaled, Type("decimal", precision, scale))


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 in the Gregorian calendar of any year, or None where there is no such day."""
    cycles = (year - 2000) // 400  # after 400 years the calendar repeats
    try:
        return (dt.date(year - 400 * cycles, month, day) - EPOCH).days + cycles * DAYS_OF_400_YEARS
    except ValueError:
        return None


def date_text(days: int) -> str:
    """A date as Spark prints it, also before year 1 and after 9999."""
    cycles, rest = divmod(days - _YEAR_2000, DAYS_OF_400_YEARS)
    date = EPOCH + dt.timedelta(days=_YEAR_2000 + rest)
    year = date.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


_DAY = r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE = re.compile(_DAY + r"(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    _DAY + r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?"
    r"(?:\s*(?:Z|(?:UTC|GMT|UT)?(?:([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{2}))?)?))?)?)?)?)?)?",
    re.ASCII,
)


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01, or None where Spark's CAST(text AS DATE) gives NULL."""
    match = _DATE.fullmatch(text.strip(BLANKS))
    days = match and days_of(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    return days if days is not None and -(2**31) <= days < 2**31 else None


def parse_timestamp(text: str, unit: str = "us", zoned: bool = True) -> int | None:
    """Ticks since 1970-01-01 00:00 UTC, or None where Spark's CAST(text AS TIMESTAMP) gives NULL.

    Where not `zoned` (TIMESTAMP_NTZ), an offset is ignored. Zones by name (Europe/Berlin) are not read. Nanoseconds,
    which Spark does not have, stop at the ends of 64 bits.
    """
    match = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part or 1 - (k > 2)) for k, part in enumerate(match.groups()[:6]))
    fraction, sign, *offset = match.groups()[6:]
    days = days_of(year, month, day)
    east = [int(part or 0) for part in offset]
    shift = east[0] * 3600 + east[1] * 60 + east[2]
    if days is None or hour > 23 or max(minute, second, *east[1:]) > 59 or shift > 18 * 3600:
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    if zoned and sign:
        seconds -= shift if sign == "+" else -shift
    digits = 9 if unit == "ns" else 6
    ticks = seconds * 10**digits + int((fraction or "").ljust(digits, "0")[:digits])
    if unit == "ns":
        return max(-(2**63), min(2**63 - 1, ticks))
    return ticks if -(2**63) <= ticks < 2**63 else None
