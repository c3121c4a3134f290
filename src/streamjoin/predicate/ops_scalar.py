"""The dialect of `emit` inside compiled loops: small functions that LLVM inlines, without branches where speed matters.

Each name has a twin in `ops_vector`; `values` says what both mean.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .wide_scalar import *  # noqa: F403 (kernels get all names of the dialect from here)

b1, i8, i16, i32, i64, f32, f64 = np.bool_, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64
NAN, INF, INT64_MIN = np.nan, np.inf, np.iinfo(np.int64).min
INT64_MAX, INT32_MIN, INT32_MAX = np.iinfo(np.int64).max, np.iinfo(np.int32).min, np.iinfo(np.int32).max

inline = njit(nogil=True, error_model="numpy")
sqrt, atan2, isnan, isfinite, exp, ln = math.sqrt, math.atan2, math.isnan, math.isfinite, math.exp, math.log
sin, cos, tan, asin, acos, atan = math.sin, math.cos, math.tan, math.asin, math.acos, math.atan
radians, degrees, floor, ceil = np.radians, np.degrees, np.floor, np.ceil
abs_ = abs


@inline
def not_(x):
    return not x


@inline
def pick(condition, yes, no):
    return yes if condition else no


@inline
def feq(a, b):
    return (a == b) | ((a != a) & (b != b))


@inline
def fle(a, b):
    return (a <= b) | (b != b)


@inline
def add64(a, b):
    """Unsigned inside: Numba tells LLVM that signed arithmetic never overflows, and LLVM relies on that."""
    return i64(np.uint64(a) + np.uint64(b))


@inline
def sub64(a, b):
    return i64(np.uint64(a) - np.uint64(b))


@inline
def mul64(a, b):
    return i64(np.uint64(a) * np.uint64(b))


@inline
def addsat(a, b):
    """Time stops at the ends of 64 bits."""
    total = add64(a, b)
    if ((a ^ total) & (b ^ total)) < 0:
        return i64(INT64_MIN) if a < 0 else i64(INT64_MAX)
    return total


@inline
def subsat(a, b):
    difference = sub64(a, b)
    if ((a ^ b) & (a ^ difference)) < 0:
        return i64(INT64_MIN) if a < 0 else i64(INT64_MAX)
    return difference


@inline
def mulsat(a, b):
    product = mul64(a, b)
    overflow = False
    if b == -1:
        overflow = a == INT64_MIN
    elif b != 0:
        overflow = product // b != a
    if overflow:
        return i64(INT64_MIN) if (a < 0) != (b < 0) else i64(INT64_MAX)
    return product


@inline
def intdiv(a, b):
    """Truncated division; the divisor is not zero. -1 apart: the smallest integer has no positive twin."""
    if b == -1:
        return sub64(0, a)
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


@inline
def rem(a, b):
    if b == -1:
        return a - a
    rest = a % b
    return rest - b if (rest != 0) & ((a < 0) != (b < 0)) else rest


@inline
def floordiv(a, b):
    return sub64(0, a) if b == -1 else a // b


@inline
def floormod(a, b):
    return a - a if b == -1 else a % b


@inline
def frem(a, b):
    return np.fmod(a, b)


@inline
def ffloordiv(a, b):
    return f64(a) // f64(b)


@inline
def ffloormod(a, b):
    rest = np.fmod(f64(a), f64(b))
    return rest + b if (rest != 0) & ((rest < 0) != (b < 0)) else rest


@inline
def floor_unit(a, unit):
    return a // unit


@inline
def ceil_unit(a, unit):
    return -((-a) // unit)


@inline
def sat32(x):
    if x != x:
        return i32(0)
    if x <= INT32_MIN:
        return i32(INT32_MIN)
    return i32(INT32_MAX) if x >= INT32_MAX else i32(i64(x))


@inline
def sat64(x):
    if x != x:
        return i64(0)
    if x <= -9223372036854775808.0:
        return i64(INT64_MIN)
    return i64(INT64_MAX) if x >= 9223372036854775808.0 else i64(x)


@inline
def times(x, factor):
    """To a finer unit of time, stopping at the ends of 64 bits."""
    edge = INT64_MAX // factor
    if x > edge:
        return i64(INT64_MAX)
    return i64(INT64_MIN) if x < -edge else i64(x * factor)


@inline
def power(a, b):
    """Java's Math.pow: unlike C, NaN for 1 to an infinite or unknown power."""
    if (abs(a) == 1.0) & ((b != b) | (abs(b) == INF)):
        return NAN
    return math.pow(a, b)
