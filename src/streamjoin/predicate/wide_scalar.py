"""Whole numbers of over 64 bits inside compiled loops: the part of `ops_scalar` for wide decimals.

A wide number is a tuple of two or four 64-bit words in two's complement, the lowest word first. LLVM computes with
whole numbers of any width, so every operation here is LLVM's own, and the tuples never leave the registers. Only
division is spelled out: LLVM would call a library that compiled kernels are not linked with. `emit` chooses widths
such that no result overflows. Each name has a twin in `wide_vector`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "w1", "w2", "w4", "wabs", "wadd", "wcut", "wdiv", "weq", "wfloordiv", "wfloormod", "wjoin", "wle", "wlt", "wmul",
    "wnear", "wneg", "wpick", "wratio", "wrem", "wround", "wsub",
]  # fmt: skip

_TENS = np.array([10**digits for digits in range(19)], np.uint64)
_inline = njit(nogil=True, error_model="numpy")


def _type(words: int) -> Any:
    tuple_of: Any = types.UniTuple
    return types.int64 if words == 1 else tuple_of(types.int64, words)


def _words(type_: Any) -> int:
    return len(type_) if isinstance(type_, types.UniTuple) else 1


def _joined(builder: Any, type_: Any, value: Any) -> Any:
    """The words as one LLVM integer."""
    words = _words(type_)
    if words == 1:
        return value if value.type.width == 64 else builder.sext(value, ir.IntType(64))
    wide = ir.IntType(64 * words)
    total = builder.zext(builder.extract_value(value, 0), wide)
    for i in range(1, words):
        word = builder.zext(builder.extract_value(value, i), wide)
        total = builder.or_(total, builder.shl(word, ir.Constant(wide, 64 * i)))
    return total


def _split(context: Any, builder: Any, type_: Any, total: Any) -> Any:
    """One LLVM integer as words."""
    words = _words(type_)
    if words == 1:
        return total
    word = ir.IntType(64)
    parts = [builder.trunc(builder.lshr(total, ir.Constant(total.type, 64 * i)), word) for i in range(words)]
    return context.make_tuple(builder, type_, parts)


def _converter(words: int) -> Any:
    """To so many words; what does not fit is cut off."""

    @intrinsic
    def convert(typing_context, x):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = _joined(builder, signature.args[0], args[0])
            target = ir.IntType(64 * words)
            if value.type.width != target.width:
                value = (builder.sext if value.type.width < target.width else builder.trunc)(value, target)
            return _split(context, builder, signature.return_type, value)

        return _type(words)(x), code

    return convert


w1, w2, w4 = _converter(1), _converter(2), _converter(4)


def _operator(compute: Callable[[Any, Any, Any], Any], *, truth: bool = False) -> Any:
    """An operation on two wide numbers of the same width."""

    @intrinsic
    def operate(typing_context, a, b):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first, second = (_joined(builder, *each) for each in zip(signature.args, args, strict=True))
            result = compute(builder, first, second)
            return result if truth else _split(context, builder, signature.return_type, result)

        return (types.boolean if truth else a)(a, b), code

    return operate


wadd = _operator(lambda builder, a, b: builder.add(a, b))
wsub = _operator(lambda builder, a, b: builder.sub(a, b))
wmul = _operator(lambda builder, a, b: builder.mul(a, b))
weq = _operator(lambda builder, a, b: builder.icmp_unsigned("==", a, b), truth=True)
wlt = _operator(lambda builder, a, b: builder.icmp_signed("<", a, b), truth=True)
wle = _operator(lambda builder, a, b: builder.icmp_signed("<=", a, b), truth=True)


_shift_left = _operator(lambda builder, a, b: builder.shl(a, builder.zext(b, a.type)))
_shift_right = _operator(lambda builder, a, b: builder.lshr(a, builder.zext(b, a.type)))


def _zeros_counter() -> Any:
    @intrinsic
    def count(typing_context, a):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zeros = builder.ctlz(_joined(builder, signature.args[0], args[0]), ir.Constant(ir.IntType(1), 0))
            return builder.trunc(zeros, ir.IntType(64))

        return types.int64(a), code

    return count


_leading_zeros = _zeros_counter()


@_inline
def wjoin(high, low):  # type: ignore[no-untyped-def]
    return (np.int64(low), np.int64(high))


@_inline
def wpick(condition, yes, no):  # type: ignore[no-untyped-def]
    return yes if condition else no


@_inline
def wneg(a):  # type: ignore[no-untyped-def]
    return wsub(wsub(a, a), a)


@_inline
def wabs(a):  # type: ignore[no-untyped-def]
    return wneg(a) if a[-1] < 0 else a


# -- division ----------------------------------------------------------------------------------------------------------


@_inline
def _divide_word(high, low, divisor):  # type: ignore[no-untyped-def]
    """(high, low) / divisor for unsigned words, high < divisor: the quotient and the rest. Two digits of 32 bits, each
    estimated by the divisor's upper half and corrected at most twice (Knuth's algorithm D)."""
    if high == 0:
        return low // divisor, low % divisor
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    shift = np.uint64(0)
    while divisor >> np.uint64(63) == 0:
        divisor <<= np.uint64(1)
        shift += np.uint64(1)
    if shift:
        high = (high << shift) | (low >> (np.uint64(64) - shift))
        low <<= shift
    top, bottom = divisor >> half, divisor & mask
    quotient = np.uint64(0)
    for digit in (low >> half, low & mask):
        guess = high // top
        rest = high - guess * top
        while guess > mask or guess * bottom > ((rest << half) | digit):
            guess -= np.uint64(1)
            rest += top
            if rest > mask:
                break
        high = ((high << half) | digit) - guess * divisor
        quotient = (quotient << half) | guess
    return quotient, high >> shift


@_inline
def _divide_unsigned(a, b):  # type: ignore[no-untyped-def]
    """The quotient of two numbers of two words that are not negative; b is not zero."""
    low, high = np.uint64(a[0]), np.uint64(a[1])
    b_low, b_high = np.uint64(b[0]), np.uint64(b[1])
    if b_high == 0:
        upper, rest = high // b_low, high % b_low
        lower, rest = _divide_word(rest, low, b_low)
        return (np.int64(lower), np.int64(upper))
    shift = np.uint64(0)
    top = b_high
    while top >> np.uint64(63) == 0:
        top <<= np.uint64(1)
        shift += np.uint64(1)
    if shift:
        top |= b_low >> (np.uint64(64) - shift)
    half_low = (low >> np.uint64(1)) | (high << np.uint64(63))
    guess, rest = _divide_word(high >> np.uint64(1), half_low, top)
    guess >>= np.uint64(63) - shift
    if guess:
        guess -= np.uint64(1)
    quotient = (np.int64(guess), np.int64(0))
    if wle(b, wsub(a, wmul(quotient, b))):
        quotient = (np.int64(guess + np.uint64(1)), np.int64(0))
    return quotient


@_inline
def wdiv(a, b):  # type: ignore[no-untyped-def]
    """Towards zero; the divisor is not zero."""
    quotient = _divide_unsigned(wabs(a), wabs(b))
    return wneg(quotient) if (a[1] ^ b[1]) < 0 else quotient


@_inline
def wrem(a, b):  # type: ignore[no-untyped-def]
    """The sign of the dividend."""
    return wsub(a, wmul(wdiv(a, b), b))


@_inline
def wfloordiv(a, b):  # type: ignore[no-untyped-def]
    quotient = wdiv(a, b)
    inexact = (wrem(a, b) != (0, 0)) & ((a[1] ^ b[1]) < 0)
    return wsub(quotient, (np.int64(inexact), np.int64(0)))


@_inline
def wfloormod(a, b):  # type: ignore[no-untyped-def]
    rest = wrem(a, b)
    return wadd(rest, b) if (rest != (0, 0)) & ((a[1] ^ b[1]) < 0) else rest


@_inline
def wround(a, b):  # type: ignore[no-untyped-def]
    """The whole number nearest to a / b, halves away from zero."""
    dividend, divisor = wabs(a), wabs(b)
    quotient = _divide_unsigned(dividend, divisor)
    rest = wsub(dividend, wmul(quotient, divisor))
    up = wle(wsub(divisor, rest), rest)
    quotient = wadd(quotient, (np.int64(up), np.int64(0)))
    return wneg(quotient) if (a[1] ^ b[1]) < 0 else quotient


@_inline
def _divide_short(a, unit):  # type: ignore[no-untyped-def]
    """Four words that are not negative by one word: the quotient and the rest."""
    fourth, rest = _divide_word(np.uint64(0), np.uint64(a[3]), unit)
    third, rest = _divide_word(rest, np.uint64(a[2]), unit)
    second, rest = _divide_word(rest, np.uint64(a[1]), unit)
    first, rest = _divide_word(rest, np.uint64(a[0]), unit)
    return (np.int64(first), np.int64(second), np.int64(third), np.int64(fourth)), rest


@_inline
def wcut(a, unit):  # type: ignore[no-untyped-def]
    """Four words by one word, towards zero."""
    quotient, _ = _divide_short(wabs(a), np.uint64(unit))
    return wneg(quotient) if a[3] < 0 else quotient


@_inline
def wnear(a, unit):  # type: ignore[no-untyped-def]
    """Four words by one word: the nearest whole number, halves away from zero."""
    divisor = np.uint64(unit)
    quotient, rest = _divide_short(wabs(a), divisor)
    quotient = wadd(quotient, w4(np.int64(rest >= divisor - rest)))
    return wneg(quotient) if a[3] < 0 else quotient


@_inline
def wratio(a, digits):  # type: ignore[no-untyped-def]
    """The double nearest to a / 10**digits. Short numbers take one division of doubles, which rounds once.

    Others are shifted to the top of four words and divided. The upper 64 bits of the quotient are rounded; the last of
    them says whether anything else is left."""
    magnitude = wabs(a)
    sign = -1.0 if a[1] < 0 else 1.0
    if digits <= 22 and magnitude[1] == 0 and 0 <= magnitude[0] < 2**53:
        return sign * np.float64(magnitude[0]) / 10.0**digits
    wide = w4(magnitude)
    shift = _leading_zeros(wide) - 1
    wide = _shift_left(wide, shift)
    left = np.uint64(0)
    while digits > 0:
        step = min(digits, 18)
        wide, rest = _divide_short(wide, _TENS[step])
        left |= rest
        digits -= step
    beyond = 192 - _leading_zeros(wide)
    top = _shift_right(wide, beyond)
    last = (left != 0) | (not weq(_shift_left(top, beyond), wide))
    return sign * math.ldexp(np.float64(np.uint64(top[0]) | np.uint64(last)), beyond - shift)
