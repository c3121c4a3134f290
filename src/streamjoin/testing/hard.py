"""Hard values: those of a type at which joins go wrong."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ..errors import ArgumentError
from .exact import decimal


def hard_values(arrow_type: pa.DataType) -> pa.Array:
    """The values of a type at which joins go wrong, each once, and a null."""
    t = pa.types
    if t.is_boolean(arrow_type):
        return pa.array([False, True, None])
    if t.is_integer(arrow_type):
        bits, signed = arrow_type.bit_width, t.is_signed_integer(arrow_type)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        candidates = [low, low + 1, -1, 0, 1, high // 2, high // 2 + 1, high - 1, high]
        candidates += [2**24 + 1, 2**31, 2**32, 2**53, 2**53 + 1, -(2**53) - 1]  # floats cannot tell these apart
        return pa.array([*_distinct(v for v in candidates if low <= v <= high), None], arrow_type)
    if t.is_floating(arrow_type):
        info = np.finfo(arrow_type.to_pandas_dtype())
        tiny = [float(info.smallest_subnormal), float(info.tiny), float(info.eps), 1 + float(info.eps)]
        large = [float(info.max), -float(info.max), math.inf, -math.inf, math.nan]
        plain = np.array([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, *tiny, -tiny[0], *large], info.dtype)
        return pa.array([*plain, None], arrow_type)
    if t.is_decimal(arrow_type):
        most = 10**arrow_type.precision - 1
        return pa.array([*(decimal(v, arrow_type) for v in (-most, -1, 0, 1, most)), None], arrow_type)
    if t.is_string(arrow_type) or t.is_large_string(arrow_type):
        return pa.array([*_HARD_TEXTS, None], arrow_type)
    if t.is_binary(arrow_type) or t.is_large_binary(arrow_type):
        return pa.array([*(text.encode() for text in _HARD_TEXTS), b"\xff", b"\x80\x00", None], arrow_type)
    if t.is_date32(arrow_type):
        return pa.array([*_HARD_DATES, None], arrow_type)
    if t.is_timestamp(arrow_type) or t.is_date64(arrow_type):
        return _hard_timestamps(arrow_type)
    raise ArgumentError(f"arrow_type: got {arrow_type}; give a number, boolean, string, binary, date or timestamp")


_HARD_TEXTS = [
    *("", " ", "\0", "a", "A", "a ", "a\0", "ab", "10", "9", "NaN", "null", "'", "%", "_", "\\", "\n"),
    *("abcdefgh", "abcdefgha", "abcdefghb", "abcdefgh\0", "abcdefg"),  # the first 8 bytes tie, or nearly
    *("é", "e\u0301", "ß", "İ", "日本語", "🦆"),
    *("\uffff", "\U00010000"),  # UTF-8 and UTF-16 order these differently
    "x" * 1_000,
]
_HARD_DATES = [
    datetime.date(*ymd)
    for ymd in (
        (1, 1, 1),
        (1582, 10, 15),
        (1969, 12, 31),
        (1970, 1, 1),
        (2000, 2, 29),
        (2038, 1, 19),
        (9999, 12, 31),
    )
]


def _hard_timestamps(arrow_type: pa.DataType) -> pa.Array:
    """The years 1 to 9999 as far as 64 bits hold them; never the lowest int64, which is NaT to NumPy."""
    if pa.types.is_date64(arrow_type):
        days = pa.array(_HARD_DATES, pa.date32()).cast(arrow_type)
        return pa.concat_arrays([days, pa.nulls(1, arrow_type)])
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[arrow_type.unit]
    low, high = -62_135_596_800 * per_second, 253_402_300_800 * per_second - 1
    low, high = max(low, -(2**63) + 1), min(high, 2**63 - 1)
    values = [low, low + 1, -per_second, -1, 0, 1, per_second, 2**31 * per_second, high - 1, high]
    return pa.array([*_distinct(values), None], pa.int64()).cast(arrow_type)


def _distinct(values: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(values))
