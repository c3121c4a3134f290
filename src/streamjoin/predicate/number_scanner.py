"""Texts that are read as numbers, in compiled loops over their bytes. `casts` says what each text means."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import Array
from .text_scanner import LONG, OPEN, READ, TENS, UNREADABLE, byte_at, inline, is_digit, reader, trimmed
from .texts import text_of_bytes

MOST_DIGITS = 36
"""A number is kept in two parts of 18 digits, which are 64 bits each."""
_LARGEST_POWER = 60
_FLOAT_TENS = np.array([10.0**power for power in range(23)])
"""The powers of ten that are doubles exactly."""


class _Number(NamedTuple):
    """The number that a text begins with. Its digits count from the first that is not zero on."""

    negative: Any
    head: Any
    """Its first 18 digits."""
    tail: Any
    """The next 18."""
    kept: Any
    """How many digits there are."""
    power: Any
    """The power of ten that they are multiplied with."""
    digits: Any
    """How many digits there are with the zeros before them."""
    point: Any
    exponent: Any
    end: Any
    """Where it ends."""


@inline
def _scan(content, place, last):  # type: ignore[no-untyped-def]
    """The number [+-]digits[.digits][e[+-]digits] that a text begins with."""
    negative = byte_at(content, place, last) == ord("-")
    if negative or byte_at(content, place, last) == ord("+"):
        place += 1
    head, tail, kept, power, digits, point = 0, 0, 0, 0, 0, False
    while place < last and (is_digit(content[place]) or (content[place] == ord(".") and not point)):
        if content[place] == ord("."):
            point = True
        else:
            digit = content[place] - 48
            digits += 1
            power -= point
            kept += kept > 0 or digit > 0
            if kept <= 18:
                head = 10 * head + digit
            elif kept <= MOST_DIGITS:
                tail = 10 * tail + digit
        place += 1
    exponent = digits > 0 and byte_at(content, place, last) | 32 == ord("e")
    if exponent:
        down = byte_at(content, place + 1, last) == ord("-")
        start = place + 2 if down or byte_at(content, place + 1, last) == ord("+") else place + 1
        end, shift = start, 0
        while end < last and is_digit(content[end]):
            shift = min(10 * shift + content[end] - 48, 1_000_000)
            end += 1
        if end > start:
            place = end
            power += -shift if down else shift
    return _Number(negative, head, tail, kept, power, digits, point, exponent, place)


def _read_by_arrow(starts: Array, content: Array, pattern: str, values: Array, state: Array) -> None:
    """The numbers that Arrow reads: those that match a pattern."""
    text = text_of_bytes(starts, content, None)
    plain = pc.match_substring_regex(text, pattern)
    is_plain = np.asarray(plain)
    values[is_plain] = np.asarray(text.filter(plain).cast(pa.from_numpy_dtype(values.dtype)))
    state[:] = np.where(is_plain, READ, OPEN)


def _read_short_integers(starts: Array, content: Array, smallest: int, numbers: Array, state: Array) -> None:
    digits = len(str(-smallest)) - 1
    _read_by_arrow(starts, content, rf"^-?[0-9]{{1,{digits}}}$", numbers, state)


def _read_short_floats(starts: Array, content: Array, floats: Array, state: Array) -> None:
    _read_by_arrow(starts, content, r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$", floats, state)


@reader(_read_short_integers)
def read_integers(starts, content, smallest, numbers, state):  # type: ignore[no-untyped-def]
    """Whole numbers of a type, by its smallest; what is behind a point is cut off."""
    for i in range(len(state)):
        first, last = trimmed(content, starts[i], starts[i + 1])
        number = _scan(content, first, last)
        state[i] = UNREADABLE
        if number.end < last or number.exponent or (number.digits == 0 and not number.point):
            continue
        if number.kept > MOST_DIGITS:
            state[i] = OPEN
            continue
        more = max(number.kept - 18, 0)
        behind = -number.power - more
        whole = number.head
        if behind >= 0:
            whole = whole // TENS[behind] if behind < 19 else 0
        elif behind == -1:  # 19 digits before the point
            next_ = number.tail // TENS[more - 1]
            largest = 7 + number.negative
            if whole > 922_337_203_685_477_580 or (whole == 922_337_203_685_477_580 and next_ > largest):
                continue
            whole = 10 * whole + next_  # the smallest wraps to itself
        else:
            continue
        whole = -whole if number.negative else whole
        if smallest <= whole <= -(smallest + 1):
            numbers[i], state[i] = whole, READ


@reader()
def read_decimals(  # type: ignore[no-untyped-def]
    starts, content, precision, scale, heads, tails, sizes, powers, state
):
    """Unscaled decimals as a number and a power of ten. Long ones are not rounded, and have a second part: its size is
    the number of its digits."""
    for i in range(len(state)):
        first, last = trimmed(content, starts[i], starts[i + 1])
        number = _scan(content, first, last)
        state[i] = UNREADABLE
        if number.end < last or number.digits == 0:
            for place in range(first, last):
                if content[place] > 127:  # there are other digits than ASCII's
                    state[i] = OPEN
            continue
        if number.kept > MOST_DIGITS or abs(number.power) > _LARGEST_POWER:
            state[i] = OPEN
            continue
        head, power = number.head, number.power + scale
        if number.kept > 18:
            heads[i], tails[i] = (-head, -number.tail) if number.negative else (head, number.tail)
            sizes[i], powers[i], state[i] = number.kept - 18, power, LONG
            continue
        if power < 0:
            unit = TENS[-power] if power > -19 else 0
            head = head // unit + (head % unit >= unit - head % unit) if unit > 0 else 0
        power = max(power, 0) if head > 0 else 0
        if power > precision or (precision - power < 19 and head >= TENS[precision - power]):
            continue
        heads[i], powers[i], state[i] = -head if number.negative else head, power, READ


@reader(_read_short_floats)
def read_floats(starts, content, floats, state):  # type: ignore[no-untyped-def]
    """Doubles: a short number times or by a power of ten that is exact is rounded once, and so is right. Long numbers
    are left to Arrow where they have a form that it reads."""
    for i in range(len(state)):
        first, last = trimmed(content, starts[i], starts[i + 1])
        number = _scan(content, first, last)
        state[i] = UNREADABLE
        letter = byte_at(content, number.end, last) | 32
        suffix = number.end == last - 1 and (letter == ord("d") or letter == ord("f"))
        if number.digits == 0:
            if not number.point and (letter == ord("n") or letter == ord("i")):  # NaN, infinity
                state[i] = OPEN
        elif number.end < last and not suffix:
            continue
        elif number.kept <= 18 and number.head <= 1 << 53 and abs(number.power) <= 22:
            power = abs(number.power)
            value = number.head / _FLOAT_TENS[power] if number.power < 0 else number.head * _FLOAT_TENS[power]
            floats[i], state[i] = -value if number.negative else value, READ
        else:
            plain = first == starts[i] and number.end == starts[i + 1] and content[first] != ord("+")
            state[i] = LONG if plain and abs(number.power) <= _LARGEST_POWER else OPEN
