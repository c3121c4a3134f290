"""Whole columns of numbers, dates and timestamps as text. `casts` says what each of them looks like.

Arrow finds the digits: its texts of decimals are those of `casts`, and its texts of floats have the fewest digits that
are read as the same float, as Java's have. Compiled loops bring these into Java's form, and write dates and times.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numba import njit

from ..arrays import Array, Mask
from ..compile.cache import compiled_with
from .casts import cast, java_form
from .dialect import is_wide
from .texts import TEXT, text_bytes, text_of_bytes
from .types import DATE, STRING, TICKS_PER_DAY, Type
from .wide_vector import split

_MOST_BYTES = 40
"""No text of a float, date or timestamp is longer."""
_ZERO, _MINUS, _PLUS, _POINT = ord("0"), ord("-"), ord("+"), ord(".")
_BLANK, _COLON, _CAPITAL_E, _SMALL_E = ord(" "), ord(":"), ord("E"), ord("e")
_NAN, _INFINITY = np.frombuffer(b"NaN", np.uint8), np.frombuffer(b"Infinity", np.uint8)

_inline = njit(nogil=True)


def text_of(values: Array, valid: Mask | None, type_: Type) -> pa.Array:
    """The texts of values of any type but text."""
    if type_.kind == "decimal":
        return _decimals(values, valid, type_).cast(TEXT)
    if type_.is_float:
        shortest = shortest_text(values, valid)
        ends, out = _room(len(values))
        _write_floats(*text_bytes(shortest), ends, out)
        return text_of_bytes(ends, out, valid)
    if type_.kind == "date" or type_.is_timestamp:
        ends, out = _room(len(values))
        per_second = TICKS_PER_DAY[type_.unit] // 86_400 if type_.is_timestamp else 0
        _write_moments(np.array(values, np.int64), per_second, ends, out)
        return text_of_bytes(ends, out, valid)
    return _array(values, valid).cast(TEXT)


def shortest_text(values: Array, valid: Mask | None) -> pa.Array:
    """Floats with the fewest digits that are read as the same float of their width."""
    return _array(values, valid).cast(TEXT)


def _array(values: Array, valid: Mask | None) -> pa.Array:
    return pa.array(values, mask=None if valid is None else ~valid)


def _decimals(values: Array, valid: Mask | None, type_: Type) -> pa.Array:
    words = np.empty((len(values), 2), np.int64)
    if is_wide(type_):
        words[:, 1], words[:, 0] = split(values, valid)
    else:
        words[:, 0], words[:, 1] = values, values >> 63
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.decimal128(38, type_.scale), len(values), [bits, pa.py_buffer(words)])


def _room(count: int) -> tuple[Array, Array]:
    """Where the texts end, and their bytes, one text behind the other."""
    return np.zeros(count + 1, np.int64), np.empty(max(count, 1) * _MOST_BYTES, np.uint8)


def _write_row_by_row(texts: Iterable[str], ends: Array, out: Array) -> None:
    end = 0
    for i, text in enumerate(texts):
        content = text.encode()
        out[end : end + len(content)] = np.frombuffer(content, np.uint8)
        ends[i + 1] = end = end + len(content)


def _write_floats_row_by_row(starts: Array, content: Array, ends: Array, out: Array) -> None:
    shortest = content.tobytes()
    texts = (shortest[starts[i] : starts[i + 1]].decode() for i in range(len(ends) - 1))
    _write_row_by_row((java_form(text) if text else "" for text in texts), ends, out)


def _write_moments_row_by_row(values: Array, per_second: int, ends: Array, out: Array) -> None:
    type_ = Type("timestamp", unit="us" if per_second == 1_000_000 else "ns") if per_second else DATE
    _write_row_by_row((cast(value, type_, STRING) for value in values.tolist()), ends, out)


@_inline
def _put(out, end, byte):  # type: ignore[no-untyped-def]
    """Write one byte; where the text ends now."""
    out[end] = byte
    return end + 1


@_inline
def _put_all(out, end, content, first, last):  # type: ignore[no-untyped-def]
    for place in range(first, last):
        out[end] = content[place]
        end += 1
    return end


@_inline
def _put_number(out, end, number, width):  # type: ignore[no-untyped-def]
    """A whole number that is not negative, with zeros before it up to a width."""
    size, rest = 1, number // 10
    while rest > 0:
        size, rest = size + 1, rest // 10
    size = max(size, width)
    for place in range(end + size - 1, end - 1, -1):
        out[place] = _ZERO + number % 10
        number //= 10
    return end + size


@_inline
def _put_date(out, end, days):  # type: ignore[no-untyped-def]
    """A day of the Gregorian calendar. Years are counted from March, in eras of 400 years."""
    era = (days + 719_468) // 146_097
    day = days + 719_468 - era * 146_097
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era + (month >= 10)
    if year < 0:
        end = _put(out, end, _MINUS)
    elif year > 9999:
        end = _put(out, end, _PLUS)
    end = _put(out, _put_number(out, end, abs(year), 4), _MINUS)
    end = _put(out, _put_number(out, end, month + 3 if month < 10 else month - 9, 2), _MINUS)
    return _put_number(out, end, day + 1, 2)


@compiled_with(_write_moments_row_by_row)
def _write_moments(values, per_second, ends, out):  # type: ignore[no-untyped-def]
    """Ticks of which a second has so many, or days where a second has none."""
    end = 0
    for i in range(len(values)):
        if per_second == 0:
            ends[i + 1] = end = _put_date(out, end, values[i])
            continue
        seconds = values[i] // per_second
        ticks = values[i] - seconds * per_second
        days = seconds // 86_400
        seconds -= days * 86_400
        end = _put(out, _put_date(out, end, days), _BLANK)
        end = _put(out, _put_number(out, end, seconds // 3600, 2), _COLON)
        end = _put(out, _put_number(out, end, seconds // 60 % 60, 2), _COLON)
        end = _put_number(out, end, seconds % 60, 2)
        if ticks > 0:
            # A one before the fraction keeps its zeros, and gives way to the point.
            point = end
            end = _put_number(out, end, per_second + ticks, 1)
            out[point] = _POINT
            while out[end - 1] == _ZERO:
                end -= 1
        ends[i + 1] = end


@compiled_with(_write_floats_row_by_row)
def _write_floats(starts, content, ends, out):  # type: ignore[no-untyped-def]
    """Arrow's texts of floats in Java's form (`casts.java_form`)."""
    end = 0
    digits = np.empty(_MOST_BYTES, np.uint8)
    for i in range(len(ends) - 1):
        place, last = starts[i], starts[i + 1]
        if place < last and content[place] == _MINUS:
            end = _put(out, end, _MINUS)
            place += 1
        if place == last:  # NULL
            ends[i + 1] = end
            continue
        if content[place] > _CAPITAL_E:
            word = _INFINITY if content[place] == ord("i") else _NAN
            ends[i + 1] = end = _put_all(out, end, word, 0, len(word))
            continue
        # The digits from the first that is not zero on, and where among them the point is.
        count, point, behind = 0, 0, False
        while place < last and content[place] != _SMALL_E:
            if content[place] == _POINT:
                behind = True
            elif count > 0 or content[place] != _ZERO:
                digits[count] = content[place]
                count += 1
                point += not behind
            else:
                point -= behind
            place += 1
        if place < last:
            negative, exponent = content[place + 1] == _MINUS, 0
            for k in range(place + 2 if negative or content[place + 1] == _PLUS else place + 1, last):
                exponent = 10 * exponent + content[k] - _ZERO
            point += -exponent if negative else exponent
        while count > 0 and digits[count - 1] == _ZERO:
            count -= 1
        if count == 0:
            point = 1
        if -3 < point <= 0:
            end = _put(out, _put(out, end, _ZERO), _POINT)
            for _ in range(-point):
                end = _put(out, end, _ZERO)
            ends[i + 1] = end = _put_all(out, end, digits, 0, count)
            continue
        before = point if 0 < point <= 7 else 1
        for k in range(before):
            end = _put(out, end, digits[k] if k < count else _ZERO)
        end = _put(out, end, _POINT)
        end = _put_all(out, end, digits, before, count) if count > before else _put(out, end, _ZERO)
        if before != point:
            end = _put(out, end, _CAPITAL_E)
            if point < 1:
                end = _put(out, end, _MINUS)
            end = _put_number(out, end, abs(point - 1), 1)
        ends[i + 1] = end
