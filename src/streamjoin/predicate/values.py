"""What single values do: Spark SQL's arithmetic and comparison with `spark.sql.ansi.enabled=false`.

Values are Python ints, floats, bools, strings or None; dates, timestamps, intervals and decimals are whole numbers
(see `Constant`). Every function is total: an overflow wraps, a division by zero is NULL. This module and `casts` are
the meaning; the vectorised and compiled forms in `ops_vector` and `ops_scalar` are tested against them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN
from .types import Type


def wrap(value: int, bits: int) -> int:
    """Two's complement, as Java's integer types."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def bounded(value: int) -> int:
    """Stopping at the ends of 64 bits, as Java's conversions between units of time."""
    return max(INT64_MIN, min(INT64_MAX, value))


def to_float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def fit(value: Any, type_: Type) -> Any:
    """Bring the exact result of an operation into its type."""
    if type_.kind in ("int", "bigint", "smallint", "tinyint"):
        return wrap(value, type_.bits)
    if type_.kind == "date":
        return wrap(value, 32)
    if type_.kind in ("timestamp", "timestamp_ntz", "interval"):
        return bounded(value)  # time stops at its ends: an open-ended sentinel stays the latest
    return to_float32(value) if type_.kind == "float" else value


def round_half_up(numerator: int, denominator: int) -> int:
    """The whole number nearest to a fraction, halves away from zero: Java's HALF_UP."""
    quotient, rest = divmod(abs(numerator), abs(denominator))
    quotient += 2 * rest >= abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def to_decimal(numerator: int, denominator: int, type_: Type) -> int | None:
    """A fraction as an unscaled decimal; NULL when it has too many digits."""
    unscaled = round_half_up(numerator * 10**type_.scale, denominator)
    return unscaled if abs(unscaled) < 10**type_.precision else None


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1. NaN equals NaN and is larger than every other number; -0.0 equals 0.0."""
    if isinstance(a, float) or isinstance(b, float):
        a_nan, b_nan = a != a, b != b
        if a_nan or b_nan:
            return int(a_nan) - int(b_nan)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return (a > b) - (a < b)


def compare_exact(a: int, a_scale: int, b: int, b_scale: int) -> int:
    """Compare integers and decimals of any scale exactly."""
    scale = max(a_scale, b_scale)
    return compare(a * 10 ** (scale - a_scale), b * 10 ** (scale - b_scale))


def truncated_division(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncated_remainder(a: Any, b: Any) -> Any:
    """Java's %: the sign of the dividend."""
    if isinstance(a, float):
        return math.nan if math.isinf(a) or a != a or b != b else math.fmod(a, b)
    return a - truncated_division(a, b) * b


def floored_division(a: Any, b: Any) -> Any:
    """Python's //."""
    return a // b


def floored_remainder(a: Any, b: Any) -> Any:
    """Python's %: the sign of the divisor."""
    if not isinstance(a, float):
        return a % b
    rest = truncated_remainder(a, b)
    return rest + b if rest != 0 and (rest < 0) != (b < 0) else rest


def divide(a: float, b: float) -> float | None:
    return None if b == 0 else a / b


def power(a: float, b: float) -> float:
    """Java's Math.pow, which has no errors."""
    if abs(a) == 1 and (math.isinf(b) or b != b):
        return math.nan
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
        return math.nan


def float_function(name: str, x: float) -> float | None:
    """The functions of one double; NaN where mathematics has no answer, NULL for the logarithm of x <= 0."""
    if name == "ln" and x <= 0:
        return None
    try:
        return float(getattr(math, "log" if name == "ln" else name)(x))
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def saturate(value: float, bits: int) -> int:
    """Java's cast of a floating-point number to an int or long: towards zero, NaN is 0, too large stops at the end."""
    if value != value:
        return 0
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return low if value <= low else high if value >= high else int(value)
