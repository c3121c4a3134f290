"""Order-preserving integers: values of any type as int32 or int64 such that comparing integers compares values.

A comparison between one expression of each stream needs no arithmetic per pair: each operand is computed once per
tuple and encoded into a common *domain*, an ordered set embedded in the integers. Where only one operand lies in
the (narrower) domain by itself, the other is rounded into it so that the answer stays the same: for a float column x,
`x <= d` with a double d holds iff `x <= floor(d)`, the largest float that is not above d. So 32-bit columns are
compared in 32 bits, exactly. A bound that no value can satisfy is marked invalid; its comparison is then false, as
with NULL.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ..arrays import Array, Mask
from ..arrow.tables import valid_rows
from ..compile.cache import compiled_with
from .types import Type
from .wide_vector import wratio

Mode = Literal["exact", "floor", "ceil", "below", "above"]
"""How a value enters the domain: as it is, or as the nearest element not above / not below / below / above it."""
Domain = Literal["i32", "i64", "f32", "f64", "decimal", "hash", "prefix", "approximate", "high", "low", "validity"]

_INTS: dict[str, Any] = {"i32": np.int32, "i64": np.int64, "f32": np.int32, "f64": np.int64}
_ENDS = {np.dtype(type_): (np.iinfo(type_).min, np.iinfo(type_).max) for type_ in (np.int32, np.int64)}


def encode(
    values: Array, valid: Mask | None, source: Type, domain: Domain, mode: Mode, scale: int = 0
) -> tuple[Array, Mask | None]:
    """Encoded values and their validity. `scale` is the decimal domain's."""
    if domain == "decimal":
        encoded = _saturated_product(values.astype(np.int64), 10 ** (scale - source.scale))
        return _step(encoded, valid, mode, exact=None)
    if domain in ("f32", "f64"):
        return _to_float(values, valid, domain, mode)
    if source.is_float or source.kind == "decimal":
        return _round_to_int(values, valid, source, domain, mode)
    if domain == "i64" or values.dtype.itemsize <= 4:
        return _step(values.astype(_INTS[domain], copy=False), valid, mode, exact=None)
    return _clip(*_step(values, valid, mode, exact=None), mode)


def _step(encoded: Array, valid: Mask | None, mode: Mode, exact: Mask | None) -> tuple[Array, Mask | None]:
    """Make strict bounds closed: one down for "below", one up for "above", where the value was hit exactly."""
    if mode not in ("below", "above"):
        return encoded, valid
    first, last = _ENDS[encoded.dtype]
    at_end = encoded == (first if mode == "below" else last)
    by = encoded.dtype.type(1) if exact is None else exact
    moved = encoded - by if mode == "below" else encoded + by  # what wraps at the end is not valid
    if exact is not None:
        at_end &= exact
    if np.count_nonzero(at_end):
        valid = ~at_end if valid is None else valid & ~at_end
    return moved, valid


def _clip(wide: Array, valid: Mask | None, mode: Mode) -> tuple[Array, Mask | None]:
    """Bring whole numbers into 32 bits; a bound beyond the end is no bound or cannot be met."""
    narrow = wide.astype(np.int32)
    if np.count_nonzero(narrow == wide) == len(wide):
        return narrow, valid
    first, last = _ENDS[narrow.dtype]
    narrow = np.clip(wide, first, last).astype(np.int32)
    impossible = wide < first if mode in ("floor", "below") else wide > last
    if mode == "exact":
        impossible = impossible | (wide < first)
    if impossible.any():
        valid = ~impossible if valid is None else valid & ~impossible
    return narrow, valid


def _round_to_int(
    values: Array, valid: Mask | None, source: Type, domain: Domain, mode: Mode
) -> tuple[Array, Mask | None]:
    """Doubles or decimals among whole numbers of 32 bits."""
    assert domain == "i32"
    with np.errstate(invalid="ignore"):
        if source.kind == "decimal":
            unit = np.int64(10**source.scale)
            whole = values // unit
            is_whole = whole * unit == values
        else:
            # NaN is above all numbers: as large as infinity for bounds from above, never met from below.
            real = np.where(np.isnan(values), np.inf, values.astype(np.float64))
            lowest = np.floor(np.clip(real, -(2.0**40), 2.0**40))
            whole = lowest.astype(np.int64)
            is_whole = lowest == values
    if mode in ("ceil", "above"):
        whole = whole + (~is_whole if mode == "ceil" else np.ones_like(is_whole)).astype(np.int64)
    elif mode == "below":
        whole = whole - is_whole.astype(np.int64)
    elif mode == "exact":
        valid = is_whole if valid is None else valid & is_whole
    return _clip(whole, valid, mode)


_WIDTHS: dict[int, tuple[Any, Any, int]] = {
    32: (np.float32, np.int32, 2**31 - 1), 64: (np.float64, np.int64, 2**63 - 1)
}  # fmt: skip
_ROUNDED: dict[Mode, int] = {"exact": 0, "floor": -1, "below": -1, "ceil": 1, "above": 1}


def _to_float(values: Array, valid: Mask | None, domain: Domain, mode: Mode) -> tuple[Array, Mask | None]:
    bits, exact = ordered_bits(values, 32 if domain == "f32" else 64, _ROUNDED[mode])
    if mode == "exact" and np.count_nonzero(exact) < len(exact):
        valid = exact if valid is None else valid & exact
    return _step(bits, valid, mode, exact)


def ordered_bits(values: Array, width: int, rounded: int = 0) -> tuple[Array, Mask]:
    """Floats as integers in Spark's order: -inf < ... < 0 (of both signs) < ... < inf < NaN, and which of them are
    floats of this width; the others become the nearest, or the nearest that is not above (-1) or not below (1)."""
    real, integer, largest = _WIDTHS[width]
    floats: Array = np.empty(len(values), real)
    bits, exact = floats.view(integer), np.empty(len(values), np.bool_)
    # Numba would compile anew for arrays that are read-only or not aligned, as Arrow's may be.
    values = values if values.flags.carray else np.require(values, requirements=["C", "A", "W"])
    _ordered_bits(values, floats, bits, largest, rounded, exact)
    return bits, exact


def _ordered_bits_in_numpy(values: Array, floats: Array, bits: Array, largest: int, rounded: int, exact: Mask) -> None:
    with np.errstate(all="ignore"):
        floats[:] = values
    floats[np.isnan(floats)] = np.nan
    floats[floats == 0] = 0.0
    exact[:] = (floats == values) | np.isnan(values)
    over, under = ~exact & (floats > values), ~exact & (floats < values)
    bits[bits < 0] ^= bits.dtype.type(largest)
    if rounded < 0:
        bits[over] -= np.where(bits[over] == 0, 2, 1).astype(bits.dtype)
    elif rounded > 0:
        bits[under] += np.where(bits[under] == -2, 2, 1).astype(bits.dtype)


@compiled_with(_ordered_bits_in_numpy)
def _ordered_bits(values, floats, bits, largest, rounded, exact):  # type: ignore[no-untyped-def]
    """`bits` and `floats` are the same memory. The next float is the next integer, except that -1, which would be
    -0.0, is skipped."""
    for i in range(len(values)):
        floats[i] = values[i]
        if floats[i] != floats[i]:
            floats[i] = np.nan
        elif floats[i] == 0:
            floats[i] = 0.0
        exact[i] = floats[i] == values[i] or values[i] != values[i]
    for i in range(len(values)):
        nearest = floats[i]
        word = bits[i]
        if word < 0:
            word ^= largest
        if not exact[i]:
            if rounded < 0 and nearest > values[i]:
                word -= 2 if word == 0 else 1
            elif rounded > 0 and nearest < values[i]:
                word += 2 if word == -2 else 1
        bits[i] = word


def _saturated_product(values: Array, factor: int) -> Array:
    """values * factor, stopping at the ends of 64 bits. The other operand has at most 18 digits, so it never gets
    there, and comparisons stay right."""
    if factor == 1:
        return values
    info = np.iinfo(np.int64)
    if factor > info.max:
        return np.where(values > 0, info.max, np.where(values < 0, info.min, 0))
    edge = info.max // factor
    product = np.clip(values, -edge, edge) * np.int64(factor)
    return np.where(values > edge, info.max, np.where(values < -edge, info.min, product))


def approximate(values: Array, valid: Mask | None, scale: int) -> tuple[Array, Mask | None]:
    """Wide decimals as the nearest doubles. Rounding keeps order but makes equals, so it decides nothing alone."""
    if valid is not None:
        values = np.where(valid, values, 0)
    return ordered_bits(wratio(values, scale), 64)[0], valid


LONG_TEXT = np.int64(1) << 62
"""This bit is set in the hash of a text of over 7 bytes, whose equality must be rechecked. A shorter text is its own
hash."""


OFFSETS = {pa.string().id: np.int32, pa.large_string().id: np.int64}
"""The types of text whose bytes lie one after another, and how they say where each text begins."""


def text_words(text: pa.Array, domain: Domain) -> tuple[Array, Mask | None]:
    """One int64 per text, which are of a type in `OFFSETS`. "hash": equal texts have equal words. "prefix": a larger
    word is a larger text."""
    valid = valid_rows(text)
    words = np.zeros(len(text), np.int64)
    if len(text):
        _, offsets, data = text.buffers()
        starts = np.frombuffer(offsets, OFFSETS[text.type.id])[text.offset : text.offset + len(text) + 1]
        starts = starts.astype(np.int64, copy=False)
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.frombuffer(b"\0", np.uint8)
        (_hash_words if domain == "hash" else _prefix_words)(starts, content, words)
    return words, valid


def _hash_words_in_numpy(starts: Array, content: Array, words: Array) -> None:
    lengths = np.diff(starts)
    small = lengths <= 7
    word = np.where(small, lengths, 0).astype(np.uint64)
    word[~small] = 0xCBF29CE484222325
    for k in range(int(lengths.max(initial=0))):
        here = lengths > k
        byte = content[starts[:-1][here] + k].astype(np.uint64)
        word[here] = np.where(
            small[here], (word[here] << np.uint64(8)) | byte, (word[here] ^ byte) * np.uint64(0x100000001B3)
        )
    long = ((word ^ (word >> np.uint64(32))) & np.uint64(0x3FFFFFFFFFFFFFFF)) | np.uint64(0x4000000000000000)
    words[:] = np.where(small, word & np.uint64(0x07FFFFFFFFFFFFFF), long).astype(np.int64)


@compiled_with(_hash_words_in_numpy)
def _hash_words(starts, content, words):  # type: ignore[no-untyped-def]
    """Up to 7 bytes: their number and the bytes themselves. More: a hash (FNV-1a), and the bit of `LONG_TEXT`."""
    for i in range(len(words)):
        start, end = starts[i], starts[i + 1]
        if end - start <= 7:
            word = np.uint64(end - start)
            for k in range(start, end):
                word = (word << np.uint64(8)) | np.uint64(content[k])
            words[i] = np.int64(word & np.uint64(0x07FFFFFFFFFFFFFF))
        else:
            word = np.uint64(0xCBF29CE484222325)
            for k in range(start, end):
                word = (word ^ np.uint64(content[k])) * np.uint64(0x100000001B3)
            word ^= word >> np.uint64(32)
            words[i] = np.int64((word & np.uint64(0x3FFFFFFFFFFFFFFF)) | np.uint64(0x4000000000000000))


def _prefix_words_in_numpy(starts: Array, content: Array, words: Array) -> None:
    lengths = np.diff(starts)
    word = np.zeros(len(words), np.uint64)
    for k in range(8):
        here = lengths > k
        word <<= np.uint64(8)
        word[here] |= content[starts[:-1][here] + k].astype(np.uint64)
    words[:] = (word ^ np.uint64(0x8000000000000000)).astype(np.int64)


@compiled_with(_prefix_words_in_numpy)
def _prefix_words(starts, content, words):  # type: ignore[no-untyped-def]
    """The first 8 bytes, big-endian; the flipped sign bit makes signed words sort as bytes do."""
    for i in range(len(words)):
        start = starts[i]
        length = min(starts[i + 1] - start, 8)
        word = np.uint64(0)
        for k in range(8):
            word = (word << np.uint64(8)) | np.uint64(content[start + k] if k < length else 0)
        words[i] = np.int64(word ^ np.uint64(0x8000000000000000))
