"""Texts that are read as dates and timestamps, in compiled loops over their bytes. `literals` says what each means."""

from __future__ import annotations

from ..arrays import INT64_MAX
from .text_scanner import OPEN, READ, TENS, UNREADABLE, byte_at, inline, is_digit, reader, trimmed

DATE = -1
"""The digits of a second in a day: none are counted."""


@inline
def _digits(content, place, last, most):  # type: ignore[no-untyped-def]
    """The number that a text begins with, of so many digits at most, and where it ends."""
    number, end = 0, min(place + most, last)
    while place < end and is_digit(content[place]):
        number = 10 * number + content[place] - 48
        place += 1
    return number, place


@inline
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970-01-01. Years are counted from March, in eras of 400 years."""
    year -= month < 3
    era = year // 400
    year -= 400 * era
    day += (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 - 1
    return era * 146_097 + 365 * year + year // 4 - year // 100 + day - 719_468


@inline
def _last_day(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@inline
def _scan_date(content, place, last):  # type: ignore[no-untyped-def]
    """The days of [+-]y[-m[-d]], where they end, and whether all three parts are there. The end is negative where
    there is no such day."""
    negative = byte_at(content, place, last) == ord("-")
    if negative or byte_at(content, place, last) == ord("+"):
        place += 1
    year, end = _digits(content, place, last, 7)
    year, size, parts = -year if negative else year, end - place, 1
    month, day = 1, 1
    if size >= 4 and byte_at(content, end, last) == ord("-"):
        place, parts = end + 1, 2
        month, end = _digits(content, place, last, 2)
        size = 4 if end > place else 0
        if size >= 4 and byte_at(content, end, last) == ord("-"):
            place, parts = end + 1, 3
            day, end = _digits(content, place, last, 2)
            size = 4 if end > place else 0
    if size < 4 or not 1 <= month <= 12 or not 1 <= day <= _last_day(year, month):
        return 0, -1, parts
    return _days(year, month, day), end, parts


@inline
def _scan_clock(content, place, last):  # type: ignore[no-untyped-def]
    """The seconds of h[:m[:s]], where they end, and whether all three parts are there. The end is negative where there
    is no such time."""
    total, unit, parts = 0, 3600, 0
    while True:
        number, end = _digits(content, place, last, 2)
        if end == place or number > (23 if unit == 3600 else 59):
            return 0, -1, parts
        total += number * unit
        unit //= 60
        parts += 1
        if parts == 3 or byte_at(content, end, last) != ord(":"):
            return total, end, parts
        place = end + 1


@inline
def _behind_utc(content, place, last):  # type: ignore[no-untyped-def]
    """Where UTC, GMT or UT ends; the place itself where none of them begins."""
    a, b, c = byte_at(content, place, last), byte_at(content, place + 1, last), byte_at(content, place + 2, last)
    if a == ord("U") and b == ord("T"):
        return place + 3 if c == ord("C") else place + 2
    return place + 3 if a == ord("G") and b == ord("M") and c == ord("T") else place


@inline
def _scan_offset(content, place, last):  # type: ignore[no-untyped-def]
    """The seconds of Z or of [UTC][[+-]h[[:]m[[:]ss]]], and whether that is all of the text. Each part takes as many
    digits as it can. Where that leads nowhere, the text is left open."""
    while byte_at(content, place, last) == ord(" "):
        place += 1
    if byte_at(content, place, last) == ord("Z"):
        return 0, place + 1 == last
    sign_at = _behind_utc(content, place, last)
    if sign_at == last:
        return 0, True
    sign = content[sign_at]
    offset, end = _digits(content, sign_at + 1, last, 2)
    known = (sign == ord("+") or sign == ord("-")) and end > sign_at + 1
    offset, unit = offset * 3600, 60
    while known and end < last and unit > 0:
        start = end + (content[end] == ord(":"))
        number, end = _digits(content, start, last, 2)
        known = number < 60 and end > start + (unit == 1)
        offset += number * unit
        unit //= 60
    known = known and end == last and offset <= 18 * 3600
    return -offset if sign == ord("-") else offset, known


@reader()
def read_moments(starts, content, digits, zoned, numbers, state):  # type: ignore[no-untyped-def]
    """Dates, or timestamps in ticks of so many digits behind the point. Where not `zoned`, an offset is ignored."""
    for i in range(len(state)):
        first, last = trimmed(content, starts[i], starts[i + 1])
        state[i] = UNREADABLE
        days, end, parts = _scan_date(content, first, last)
        if end < 0:
            continue
        between = byte_at(content, end, last)
        if end < last and (parts < 3 or (between != ord(" ") and between != ord("T"))):
            continue
        if digits == DATE:
            if -(1 << 31) <= days < 1 << 31:
                numbers[i], state[i] = days, READ
            continue
        seconds, fraction = days * 86_400, 0
        if end < last:
            clock, end, parts = _scan_clock(content, end + 1, last)
            if end < 0 or (end < last and parts < 3):
                continue
            seconds += clock
            if byte_at(content, end, last) == ord("."):
                start = end + 1
                fraction, end = _digits(content, start, last, digits)
                fraction *= TENS[digits - (end - start)]
                while end < last and is_digit(content[end]):
                    end += 1
            if end < last:
                offset, known = _scan_offset(content, end, last)
                if not known:
                    state[i] = OPEN
                    continue
                seconds -= offset if zoned else 0
        if abs(seconds) >= INT64_MAX // TENS[digits]:
            state[i] = OPEN
            continue
        numbers[i], state[i] = seconds * TENS[digits] + fraction, READ
