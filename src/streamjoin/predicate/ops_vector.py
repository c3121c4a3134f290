"""The dialect of `emit` on NumPy columns. Each name has a twin in `ops_scalar`; `values` says what both mean.

Operands are arrays or NumPy scalars; floating-point warnings are switched off around the call (see `vector`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import values
from .wide_vector import (
    w1,
    w2,
    w4,
    wabs,
    wadd,
    wcut,
    wdiv,
    weq,
    wfloordiv,
    wfloormod,
    wjoin,
    wle,
    wlt,
    wmul,
    wnear,
    wneg,
    wpick,
    wratio,
    wrem,
    wround,
    wsub,
)

__all__ = [
    "INF",
    "INT64_MIN",
    "NAN",
    "abs_",
    "acos",
    "add64",
    "addsat",
    "asin",
    "atan",
    "atan2",
    "b1",
    "ceil",
    "ceil_unit",
    "cos",
    "degrees",
    "exp",
    "f32",
    "f64",
    "feq",
    "ffloordiv",
    "ffloormod",
    "fle",
    "floor",
    "floor_unit",
    "floordiv",
    "floormod",
    "frem",
    "i8",
    "i16",
    "i32",
    "i64",
    "intdiv",
    "isfinite",
    "isnan",
    "ln",
    "mul64",
    "mulsat",
    "not_",
    "pick",
    "power",
    "radians",
    "rem",
    "sat32",
    "sat64",
    "sin",
    "sqrt",
    "sub64",
    "subsat",
    "tan",
    "times",
    "w1",
    "w2",
    "w4",
    "wabs",
    "wadd",
    "wcut",
    "wdiv",
    "weq",
    "wfloordiv",
    "wfloormod",
    "wjoin",
    "wle",
    "wlt",
    "wmul",
    "wnear",
    "wneg",
    "wpick",
    "wratio",
    "wrem",
    "wround",
    "wsub",
]  # fmt: skip

NAN, INF, INT64_MIN = np.nan, np.inf, np.iinfo(np.int64).min


def _converter(type_: type) -> Callable[[Any], Any]:
    dtype = np.dtype(type_)

    def convert(x: Any) -> Any:
        array = np.asarray(x)
        return array if array.ndim and array.dtype == dtype else array.astype(dtype)[()]

    return convert


b1, i8, i16 = _converter(np.bool_), _converter(np.int8), _converter(np.int16)
i32, i64 = _converter(np.int32), _converter(np.int64)
f32, f64 = _converter(np.float32), _converter(np.float64)
not_ = np.logical_not
abs_ = np.abs
isnan, isfinite = np.isnan, np.isfinite
sqrt, floor, ceil = np.sqrt, np.floor, np.ceil
radians, degrees = np.radians, np.degrees


def pick(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition, yes, no)[()]


def feq(a: Any, b: Any) -> Any:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def fle(a: Any, b: Any) -> Any:
    return (a <= b) | np.isnan(b)


def add64(a: Any, b: Any) -> Any:
    return i64(a) + i64(b)


def sub64(a: Any, b: Any) -> Any:
    return i64(a) - i64(b)


def mul64(a: Any, b: Any) -> Any:
    return i64(a) * i64(b)


def _clamped(result: Any, overflow: Any, negative: Any) -> Any:
    info = np.iinfo(np.int64)
    return pick(overflow, pick(negative, info.min, info.max), result)


def addsat(a: Any, b: Any) -> Any:
    """Time stops at the ends of 64 bits."""
    total = add64(a, b)
    return _clamped(total, ((a ^ total) & (b ^ total)) < 0, a < 0)


def subsat(a: Any, b: Any) -> Any:
    difference = sub64(a, b)
    return _clamped(difference, ((a ^ b) & (a ^ difference)) < 0, a < 0)


def mulsat(a: Any, b: Any) -> Any:
    product = mul64(a, b)
    divisor = pick((b == 0) | (b == -1), np.int64(1), b)
    overflow = pick(b == -1, a == np.iinfo(np.int64).min, (b != 0) & (product // divisor != pick(b == 0, 0, a)))
    return _clamped(product, overflow, (a < 0) != (b < 0))


def intdiv(a: Any, b: Any) -> Any:
    """Truncated division; the divisor is not zero. -1 apart: the smallest integer has no positive twin."""
    quotient = a // pick(b == -1, b.dtype.type(1), b)
    rest = a - quotient * b
    quotient = quotient + ((rest != 0) & ((a < 0) != (b < 0)))
    return pick(b == -1, -a, quotient)


def rem(a: Any, b: Any) -> Any:
    return np.fmod(a, pick(b == -1, b.dtype.type(1), b))


def floordiv(a: Any, b: Any) -> Any:
    return pick(b == -1, -a, a // pick(b == -1, b.dtype.type(1), b))


def floormod(a: Any, b: Any) -> Any:
    return np.mod(a, pick(b == -1, b.dtype.type(1), b))


def frem(a: Any, b: Any) -> Any:
    return np.fmod(a, b)


def ffloordiv(a: Any, b: Any) -> Any:
    return np.floor_divide(f64(a), f64(b))


def ffloormod(a: Any, b: Any) -> Any:
    rest = np.fmod(f64(a), f64(b))
    return pick((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def floor_unit(a: Any, unit: Any) -> Any:
    return a // unit


def ceil_unit(a: Any, unit: Any) -> Any:
    return -((-a) // unit)


def _saturated(x: Any, dtype: Any) -> Any:
    info = np.iinfo(dtype)
    x = np.where(np.isnan(x), 0.0, np.trunc(f64(x)))
    inside = (x > float(info.min)) & (x < float(info.max))
    whole = np.where(inside, x, 0.0).astype(np.int64)
    return np.where(inside, whole, np.where(x > 0, info.max, np.where(x < 0, info.min, 0))).astype(dtype)[()]


def sat32(x: Any) -> Any:
    return _saturated(x, np.int32)


def sat64(x: Any) -> Any:
    return _saturated(x, np.int64)


def times(x: Any, factor: Any) -> Any:
    """To a finer unit of time, stopping at the ends of 64 bits."""
    info = np.iinfo(np.int64)
    edge = info.max // factor
    return pick(x > edge, info.max, pick(x < -edge, info.min, x * factor))


def _elementwise(function: Callable[..., Any], operands: int = 1) -> Callable[..., Any]:
    """Functions whose last bit differs between mathematical libraries: element by element through Python's own."""
    vector = np.frompyfunc(function, operands, 1)
    return lambda *args: np.asarray(vector(*args)).astype(np.float64)[()]


exp, ln, sin, cos, tan, asin, acos, atan = (
    _elementwise(lambda x, name=name: values.float_function(name, float(x)))
    for name in ("exp", "ln", "sin", "cos", "tan", "asin", "acos", "atan")
)
atan2 = _elementwise(math.atan2, 2)
power = _elementwise(lambda a, b: values.power(float(a), float(b)), 2)
