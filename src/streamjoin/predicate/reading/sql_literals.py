"""SQL's written values: numbers with and without suffix, dates and timestamps, lengths of time."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ...errors import PredicateError
from ..expr import Constant
from ..literals import constant, decimal_constant, integer, parse_date, parse_timestamp
from ..render import shown
from ..types import DATE, DOUBLE, FLOAT, Type

_SECOND = 1_000_000_000
_UNITS = {  # in nanoseconds
    "week": 604_800 * _SECOND, "day": 86_400 * _SECOND, "hour": 3600 * _SECOND, "minute": 60 * _SECOND,
    "second": _SECOND, "millisecond": 1_000_000, "microsecond": 1000, "nanosecond": 1,
}  # fmt: skip
_FIELDS = ("day", "hour", "minute", "second")
_LIMITS = {"hour": 24, "minute": 60, "second": 60}
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_AMOUNT = re.compile(r"\s*([+-]?)\s*(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\s*([a-z]+?)s?(?![a-z])")


def number(text: str) -> Constant:
    """A number without suffix: int, bigint or decimal by its digits, double with an exponent."""
    if len(text) > 100:
        raise PredicateError(f"on: the number {shown(text)} has too many digits; a decimal holds 38")
    if not _NUMBER.fullmatch(text):
        raise PredicateError(f"on: {shown(text)} is no number; write it like 10.5 or 1e3")
    if re.fullmatch(r"-?\d+", text):
        return integer(int(text))
    if "e" in text.lower():
        return floating(text, DOUBLE)
    return decimal_constant(Decimal(text))


def floating(text: str, type_: Type) -> Constant:
    if not _NUMBER.fullmatch(text):
        raise PredicateError(f"on: {shown(text)} is no number; write it like 10.5 or 1e3")
    with np.errstate(over="ignore"):
        number = np.float32(text) if type_ == FLOAT else np.float64(text)
    if not np.isfinite(number):
        raise PredicateError(f"on: the number {shown(text)} does not fit {type_}")
    return constant(number)


def suffixed(text: str, type_: Type) -> Constant | None:
    """A number cast to the type that a suffix names: 5L, 5D; None where the cast has to compute something."""
    if type_.is_float:
        return floating(text, type_)
    if type_.is_integer and text.isdigit():
        if len(text) > 19 or int(text) >= 2 ** (type_.bits - 1):
            raise PredicateError(f"on: the number {shown(text)} does not fit {type_}; bigint or decimal may do")
        return Constant(int(text), type_)
    return None


def moment(text: str, type_: Type) -> Constant:
    """DATE '...', TIMESTAMP '...': what Spark refuses is refused; more than six digits make nanoseconds."""
    if type_ != DATE and re.search(r"\.\d{7,}", text):
        type_ = Type(type_.kind, unit="ns")
    zoned = type_.kind == "timestamp_ntz" and re.search(r":.*(Z|UTC|GMT|[+-][\d:]+)$", text.strip())
    value = parse_date(text) if type_ == DATE else parse_timestamp(text, type_.unit)
    if value is None or zoned:
        example = "2026-01-31" if type_ == DATE else "2026-01-31 12:30:00"
        raise PredicateError(f"on: {shown(text)} is no {type_}; write {type_.kind.upper()} '{example}'")
    return Constant(value, type_)


def sum_of_units(text: str) -> int | None:
    """'1 hour 30 minutes' in nanoseconds."""
    total, at, text = Fraction(0), 0, text.strip().lower()
    while at < len(text):
        match = _AMOUNT.match(text, at)
        if match is None or match[3] not in _UNITS:
            return None
        total += Fraction(match[1] + match[2]) * _UNITS[match[3]]
        at = match.end()
    return int(total) if at and total.denominator == 1 else None


def span(text: str, first: str, last: str) -> int | None:
    """'1 02:03:04' DAY TO SECOND in nanoseconds."""
    if first not in _FIELDS or last not in _FIELDS:
        return None
    units = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    parts = re.split(r"\s+|:", text.lstrip("+-"))
    if len(parts) != len(units) or not all(re.fullmatch(r"\d{1,18}(\.\d{1,9})?", part) for part in parts):
        return None
    if any(Fraction(part) >= _LIMITS[unit] for part, unit in zip(parts[1:], units[1:], strict=True)):
        return None
    total = sum(Fraction(part) * _UNITS[unit] for part, unit in zip(parts, units, strict=True))
    return (-int(total) if text.startswith("-") else int(total)) if total.denominator == 1 else None
