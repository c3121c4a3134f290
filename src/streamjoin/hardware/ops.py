"""The functions that emitted predicates call, as circuits: the same text runs on NumPy, Numba and Amaranth values.

Amaranth's integers are exact (a sum is one bit wider than its operands). Only conversions cut: `i32(a + b)` is the sum
in 32 bits, wrapped as on every other target. Each name has a twin in `predicate.ops_scalar`.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Mux, Value, signed

from ..arrays import INT64_MAX, INT64_MIN


def _signed(value: Any, bits: int) -> Value:
    """The value in `bits` bits of two's complement: cut, or extended by its sign."""
    if isinstance(value, int):
        return Const(value, signed(bits))
    value = Value.cast(value)
    missing = bits - len(value)
    if missing > 0:
        sign = value[-1] if value.shape().signed else Const(0, 1)
        value = Cat(value, sign.replicate(missing))
    return value[:bits].as_signed()


def b1(value: Any) -> Value:
    return Value.cast(value)[0]


def i8(value: Any) -> Value:
    return _signed(value, 8)


def i16(value: Any) -> Value:
    return _signed(value, 16)


def i32(value: Any) -> Value:
    return _signed(value, 32)


def i64(value: Any) -> Value:
    return _signed(value, 64)


def not_(value: Any) -> Value:
    return ~Value.cast(value)[0]


def pick(condition: Any, yes: Any, no: Any) -> Value:
    return Mux(condition, yes, no)


def abs_(value: Any) -> Value:
    """Wraps: the smallest integer has no positive twin."""
    return _signed(Mux(value < 0, -value, value), len(value))


def _saturated(exact: Value) -> Value:
    return Mux(exact < INT64_MIN, i64(INT64_MIN), Mux(exact > INT64_MAX, i64(INT64_MAX), i64(exact)))


def add64(a: Any, b: Any) -> Value:
    return i64(a + b)


def sub64(a: Any, b: Any) -> Value:
    return i64(a - b)


def mul64(a: Any, b: Any) -> Value:
    return i64(a * b)


def addsat(a: Any, b: Any) -> Value:
    return _saturated(a + b)


def subsat(a: Any, b: Any) -> Value:
    return _saturated(a - b)


def mulsat(a: Any, b: Any) -> Value:
    return _saturated(a * b)


def times(value: Any, factor: Any) -> Value:
    return _saturated(value * factor)


def floordiv(a: Any, b: Any) -> Value:
    return a // b


def floormod(a: Any, b: Any) -> Value:
    return a % b


def intdiv(a: Any, b: Any) -> Value:
    """Towards zero."""
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def rem(a: Any, b: Any) -> Value:
    """With the sign of the dividend."""
    rest = a % b
    return Mux((rest != 0) & ((a < 0) != (b < 0)), rest - b, rest)


def floor_unit(a: Any, unit: Any) -> Value:
    return a // unit


def ceil_unit(a: Any, unit: Any) -> Value:
    return -((-a) // unit)
