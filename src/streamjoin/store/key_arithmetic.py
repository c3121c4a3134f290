"""Arithmetic on keys: fitting them into the bits of a word, and distances between them.

A float is stored as *ordered bits*: an integer of the same width whose order is that of the floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Words
from ..compile.cache import compiled


@dataclass(frozen=True, slots=True)
class Reduction:
    """A monotone map of integers onto [0, 2**bits): value -> (value - base) >> shift, cut off at both ends."""

    base: int
    shift: int
    bits: int

    def __post_init__(self) -> None:
        assert 0 <= self.shift < 64
        assert 0 <= self.bits < 64

    @property
    def last(self) -> int:
        """The largest value that is not cut off."""
        return self.base + ((1 << self.bits) << self.shift) - 1

    def __call__(self, values: Array) -> tuple[Words, bool]:
        """The reduced values, and whether some were cut off."""
        return _reduced(values, self.base, self.shift, (1 << self.bits) - 1)


@compiled
def _reduced(values, base, shift, top):  # type: ignore[no-untyped-def]
    out = np.empty(len(values), np.uint64)
    start, by, most = np.uint64(np.int64(base)), np.uint64(shift), np.uint64(top)
    cut = False
    for i in range(len(values)):
        value = np.int64(values[i])
        below = value < base
        distance = np.uint64(0) if below else (np.uint64(value) - start) >> by
        above = distance > most
        out[i] = most if above else distance
        cut |= below | above
    return out, cut


NO_BITS = Reduction(0, 0, 0)


def floats(bits: Array, width: int) -> Array:
    """The doubles whose ordered bits these are; `width` 32: whose 32-bit form has these ordered bits."""
    integer, real = (np.int32, np.float32) if width == 32 else (np.int64, np.float64)
    raw = np.where(bits < 0, bits ^ np.iinfo(integer).max, bits).astype(integer, copy=False)
    return raw.view(real).astype(np.float64)


def lowered_by(values: Array, distance: float, float_bits: int | None) -> Array:
    """values - distance, or a little less, as values of the same kind."""
    if float_bits is None:
        return _integer_lowered(values, int(distance))
    if float_bits == 32:
        return _float_lowered(values, distance, np.empty(len(values), np.float32), np.int32(np.iinfo(np.int32).max))
    return _float_lowered(values, distance, np.empty(len(values), np.float64), np.int64(INT64_MAX))


@compiled
def integer_distance(low, high):  # type: ignore[no-untyped-def]
    """high - low as a double that is not smaller; 0 where it is negative."""
    out = np.empty(len(low), np.float64)
    for i in range(len(low)):
        a, b = np.int64(low[i]), np.int64(high[i])
        distance = np.float64(np.uint64(b) - np.uint64(a))
        out[i] = 0.0 if b < a else (distance if distance < 2.0**52 else distance * (1 + 2.0**-50))
    return out


@compiled
def extent(distance, limit):  # type: ignore[no-untyped-def]
    """The smallest distance, the largest one within the limit, and whether all are within it."""
    least, most, fit = np.inf, 0.0, True
    for i in range(len(distance)):
        least = min(least, distance[i])
        inside = distance[i] <= limit
        fit &= inside
        most = max(most, distance[i] if inside else 0.0)
    return least, most, fit


@compiled
def _float_lowered(bits, distance, lower, most):  # type: ignore[no-untyped-def]
    """The floats with these ordered bits, less `distance` and rounded down, again as ordered bits.

    A result that is no number becomes the largest one, as everywhere in this order.
    """
    raw = np.empty(len(bits), bits.dtype)
    for i in range(len(bits)):
        raw[i] = bits[i] ^ most if bits[i] < 0 else bits[i]
    values = raw.view(lower.dtype)
    for i in range(len(bits)):
        less = np.float64(values[i]) - distance
        lower[i] = less
        lower[i] = np.nextafter(lower[i], lower.dtype.type(-np.inf)) + lower.dtype.type(0)
    found = lower.view(bits.dtype)
    for i in range(len(bits)):
        if lower[i] != lower[i]:
            raw[i] = most
        else:
            raw[i] = found[i] ^ most if found[i] < 0 else found[i]
    return raw


@compiled
def _integer_lowered(values, distance):  # type: ignore[no-untyped-def]
    out = np.empty(len(values), np.int64)
    for i in range(len(values)):
        value = np.int64(values[i])
        out[i] = np.int64(INT64_MIN) if value < np.int64(INT64_MIN) + distance else value - distance
    return out
