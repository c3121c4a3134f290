"""Whole numbers of over 64 bits in columns: NumPy's arrays of Python's own integers, which have no limit.

Each name has a twin in `wide_scalar`. Columns are computed once per tuple, or on the candidates that compiled code
could not decide, so exactness counts for more here than speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array, Mask
from . import values

_WORD = (1 << 64) - 1


def w2(x: Any) -> Any:
    return np.asarray(x).astype(object)[()]


w4 = w2


def w1(x: Any) -> Any:
    """The lowest 64 bits."""
    wrapped = (w2(x) + (1 << 63)) % (1 << 64) - (1 << 63)
    return np.asarray(wrapped).astype(np.int64)[()]


def wjoin(high: Any, low: Any) -> Any:
    return w2(high) * (1 << 64) + w2(low) % (1 << 64)


def split(numbers: Array, valid: Mask | None) -> tuple[Array, Array]:
    """The high and low words of numbers that fit into 128 bits; zero under NULL."""
    if valid is not None:
        numbers = np.where(valid, numbers, 0)
    return (numbers >> 64).astype(np.int64), (numbers & _WORD).astype(np.uint64).view(np.int64)


def wadd(a: Any, b: Any) -> Any:
    return a + b


def wsub(a: Any, b: Any) -> Any:
    return a - b


def wmul(a: Any, b: Any) -> Any:
    return a * b


def wneg(a: Any) -> Any:
    return -a


wabs = abs


def weq(a: Any, b: Any) -> Any:
    return np.asarray(a == b, np.bool_)[()]


def wlt(a: Any, b: Any) -> Any:
    return np.asarray(a < b, np.bool_)[()]


def wle(a: Any, b: Any) -> Any:
    return np.asarray(a <= b, np.bool_)[()]


def wpick(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition, np.asarray(yes, object), np.asarray(no, object))[()]


def _function(function: Callable[[int, int], Any]) -> Callable[[Any, Any], Any]:
    return np.frompyfunc(function, 2, 1)


wdiv = _function(values.truncated_division)
wrem = _function(values.truncated_remainder)
wround = wnear = _function(values.round_half_up)
wcut = wdiv


def wfloordiv(a: Any, b: Any) -> Any:
    return a // b


def wfloormod(a: Any, b: Any) -> Any:
    return a % b


def wratio(a: Any, digits: int) -> Any:
    """The double nearest to a / 10**digits."""
    return np.asarray(_quotient(a, 10**digits)).astype(np.float64)[()]


_quotient = _function(lambda a, b: a / b)
