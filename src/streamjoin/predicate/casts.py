"""What a cast makes of a single value: Spark SQL's CAST with `spark.sql.ansi.enabled=false`.

Like `values`, total: a cast that has no answer is NULL. Text is read and written as Spark does; Java's rules for
numbers apply.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN
from .literals import BLANKS, date_text, parse_date, parse_timestamp
from .types import DOUBLE, TICKS_PER_DAY, Type
from .values import bounded, saturate, to_decimal, to_float32, truncated_division, wrap


def cast(value: Any, source: Type, target: Type) -> Any:
    """CAST(value AS target). `can_cast` says which pairs of types there are."""
    if value is None or source == target:
        return value
    if source.kind == "string":
        return _from_string(value, target)
    if target.kind == "string":
        return _to_string(value, source)
    if target.kind == "boolean":
        return value != 0
    if source.kind == "boolean":
        value = int(value)
    if target.is_integer:
        return _to_integer(value, source, target)
    if target.is_float:
        number = _ratio(value, source.scale) if source.kind == "decimal" else float(value)
        if source.is_timestamp:
            number /= _per_second(source)
        elif target.kind == "float" and isinstance(value, int) and not source.scale:
            return _int_to_float32(value)
        return to_float32(number) if target.kind == "float" else number
    if target.kind == "decimal":
        if source.is_timestamp:
            return to_decimal(value, _per_second(source), target)
        if source.is_float:
            if math.isinf(value) or value != value:
                return None
            # Spark reads the shortest decimal text of the double, not its exact binary value; of a float, too.
            return _decimal_from_text(java_float(value, DOUBLE), target)
        return to_decimal(value, 10**source.scale, target)
    if target.is_timestamp:
        return _to_timestamp(value, source, target)
    return value // TICKS_PER_DAY[source.unit] if target.kind == "date" else _in_unit(value, source, target)


def _per_second(type_: Type) -> int:
    return TICKS_PER_DAY[type_.unit] // 86_400


def _in_unit(ticks: int, source: Type, target: Type) -> int:
    if source.unit == target.unit:
        return ticks
    return bounded(ticks * 1000) if target.unit == "ns" else ticks // 1000


def _to_timestamp(value: Any, source: Type, target: Type) -> int | None:
    """Numbers count seconds; true is one tick."""
    if source.is_timestamp:
        return _in_unit(value, source, target)
    if source.kind == "date":
        return bounded(value * TICKS_PER_DAY[target.unit])
    if source.is_float:
        return None if math.isinf(value) or value != value else saturate(value * float(_per_second(target)), 64)
    if source.kind == "decimal":
        return wrap(truncated_division(value * _per_second(target), 10**source.scale), 64)
    return int(value) if source.kind == "boolean" else bounded(value * _per_second(target))


def can_cast(source: Type, target: Type) -> bool:
    """Which explicit casts there are."""
    if source.kind == "null" or source == target:
        return True
    if "interval" in (source.kind, target.kind):
        return source.kind == target.kind
    if source.kind == "string" or target.kind == "string":
        return True
    if "date" in (source.kind, target.kind):
        return source.is_timestamp or target.is_timestamp
    return True


def _ratio(unscaled: int, scale: int) -> float:
    try:
        return unscaled / 10**scale
    except OverflowError:
        return math.inf if unscaled > 0 else -math.inf


def _int_to_float32(value: int) -> float:
    return float(np.float32(np.int64(value))) if INT64_MIN <= value <= INT64_MAX else to_float32(float(value))


def _to_integer(value: Any, source: Type, target: Type) -> int | None:
    if source.is_float:
        return wrap(saturate(value, 64 if target.bits == 64 else 32), target.bits)
    if source.kind == "decimal":
        value = truncated_division(value, 10**source.scale)
    elif source.is_timestamp:
        seconds = value // _per_second(source)
        return seconds if wrap(seconds, target.bits) == seconds else None
    return wrap(value, target.bits)


def _decimal_from_text(text: str, target: Type) -> int | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > 80 or number.adjusted() < -80:
        return 0 if number.is_finite() and number.adjusted() < -80 else None
    numerator, denominator = number.as_integer_ratio()
    return to_decimal(numerator, denominator, target)


BOOLEAN_TEXTS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}


def _from_string(text: str, target: Type) -> Any:
    text = text.strip(BLANKS)
    if target.kind == "boolean":
        return BOOLEAN_TEXTS.get(text.lower())
    if target.kind == "date":
        return parse_date(text)
    if target.is_timestamp:
        return parse_timestamp(text, target.unit, zoned=target.kind == "timestamp")
    if target.kind == "decimal":
        return None if "_" in text or text != text.strip() else _decimal_from_text(text, target)
    if target.is_integer:
        if not re.fullmatch(r"[+-]?(\d+|\d*\.\d*)", text, re.ASCII):
            return None
        whole = text.partition(".")[0]
        digits = whole.lstrip("+-").lstrip("0")
        if len(digits) > 19:
            return None
        number = int(whole[:1].replace("+", "").strip("0123456789") + (digits or "0"))
        return number if -(1 << (target.bits - 1)) <= number < 1 << (target.bits - 1) else None
    if "_" in text or not text.isascii():
        return None
    try:
        number_ = float(text[:-1] if re.search(r"[\d.][dfDF]$", text) else text)
    except ValueError:
        return None
    return to_float32(number_) if target.kind == "float" else number_


def java_float(value: float, type_: Type) -> str:
    """A float or double as Java prints it: 1.0, 1.0E10, NaN, Infinity."""
    return java_form(str(np.float32(value)) if type_.kind == "float" else repr(value))


def java_form(shortest: str) -> str:
    """The text of a float with the fewest digits, as Java lays them out."""
    number = Decimal(shortest)
    minus = "-" if number.is_signed() else ""
    if not number.is_finite():
        return "NaN" if number.is_nan() else f"{minus}Infinity"
    _, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(digits) + exponent
    if not number:
        return minus + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _to_string(value: Any, source: Type) -> str:
    if source.kind == "boolean":
        return "true" if value else "false"
    if source.is_float:
        return java_float(value, source)
    if source.kind == "decimal":
        return str(Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -source.scale)))
    if source.kind == "date":
        return date_text(value)
    if source.is_timestamp:
        per_second = _per_second(source)
        seconds, ticks = divmod(value, per_second)
        days, seconds = divmod(seconds, 86_400)
        fraction = str(ticks).rjust(len(str(per_second)) - 1, "0").rstrip("0")
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{date_text(days)} {clock}" + (f".{fraction}" if fraction else "")
    return str(value)
