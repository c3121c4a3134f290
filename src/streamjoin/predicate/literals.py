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
)  # fmt: skip

EPOCH = dt.date(1970, 1, 1)
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
        f"on: a predicate cannot hold the value {value!r} of type {type(value).__name__}; numbers, booleans, strings, "
        "dates, datetimes, timedeltas, Decimal and None will do"
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


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01, or None where Spark's CAST(text AS DATE) gives NULL."""
    match = re.fullmatch(r"(\d{4,5})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", text.strip())
    if not match:
        return None
    try:
        return (dt.date(int(match[1]), int(match[2] or 1), int(match[3] or 1)) - EPOCH).days
    except ValueError:
        return None


_TIMESTAMP = re.compile(
    r"(\d{4,5})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?"
)


def parse_timestamp(text: str, unit: str = "us") -> int | None:
    """Ticks since 1970-01-01 00:00 UTC, or None where Spark's CAST(text AS TIMESTAMP) gives NULL."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if not match:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = (dt.date(int(year), int(month or 1), int(day or 1)) - EPOCH).days
        clock = dt.time(int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    seconds = days * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second
    if zone and zone[0] in "+-":
        hours, minutes = (zone[1:].split(":") + ["0"])[:2] if ":" in zone else (zone[1:3], zone[3:] or "0")
        if int(hours) > 18 or int(minutes) > 59:
            return None
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds -= offset if zone[0] == "+" else -offset
    digits = 9 if unit == "ns" else 6
    return int(seconds * 10**digits) + int((fraction or "").ljust(digits, "0")[:digits])
