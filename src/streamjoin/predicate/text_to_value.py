"""Whole columns of texts that are read as numbers, dates, timestamps or booleans. `casts` says what each text means.

Compiled loops read the usual forms and find what cannot be read. The few texts that they leave open (numbers of over 36
digits, zones by name) are read by `casts`, once for each different text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import Array, Mask
from .casts import BOOLEAN_TEXTS, cast
from .dialect import is_wide
from .literals import BLANKS
from .moment_scanner import DATE, read_moments
from .number_scanner import read_decimals, read_floats, read_integers
from .text_scanner import LONG, OPEN, READ, TENS, UNREADABLE
from .texts import text_bytes
from .types import STRING, TICKS_PER_DAY, Type
from .wide_vector import wround

_ALL_TENS = np.array([10**power for power in range(100)], object)


def read(text: pa.Array, type_: Type, dtype: str) -> tuple[Array, Mask]:
    """Texts as values of another type, and which of them can be read."""
    if type_.kind == "boolean":
        return _booleans(text)
    values, state = _usual(text, type_)
    state[np.asarray(text.is_null())] = UNREADABLE
    valid, is_open = state == READ, state == OPEN
    with np.errstate(over="ignore"):  # a double may be too large for a float
        values = values.astype(dtype)
    if is_open.any():
        values[is_open], valid[is_open] = _one_by_one(text.filter(pa.array(is_open)), type_, dtype)
    return values, valid


def _usual(text: pa.Array, type_: Type) -> tuple[Array, Array]:
    """The values of texts in the usual forms, and what became of each text."""
    if type_.is_float:
        return _floats(text)
    if type_.kind == "decimal":
        return _decimals(text, type_)
    state, numbers = np.empty(len(text), np.uint8), np.zeros(len(text), np.int64)
    if type_.is_integer:
        read_integers(*text_bytes(text), -(1 << (type_.bits - 1)), numbers, state)
    else:
        digits = len(str(TICKS_PER_DAY[type_.unit] // 86_400)) - 1 if type_.is_timestamp else DATE
        read_moments(*text_bytes(text), digits, type_.kind == "timestamp", numbers, state)
    return numbers, state


def _floats(text: pa.Array) -> tuple[Array, Array]:
    state, floats = np.empty(len(text), np.uint8), np.zeros(len(text))
    read_floats(*text_bytes(text), floats, state)
    long = state == LONG
    if long.any():
        floats[long] = np.asarray(text.filter(pa.array(long)).cast(pa.float64()).fill_null(0))
        state[long] = READ
    return floats, state


def _decimals(text: pa.Array, type_: Type) -> tuple[Array, Array]:
    state = np.empty(len(text), np.uint8)
    heads, tails, sizes, powers = np.zeros((4, len(text)), np.int64)
    read_decimals(*text_bytes(text), type_.precision, type_.scale, heads, tails, sizes, powers, state)
    long = state == LONG
    short_powers = np.where(long, 0, powers)
    numbers = heads.astype(object) * _ALL_TENS[short_powers] if is_wide(type_) else heads * TENS[short_powers]
    if long.any():
        digits, power = heads[long].astype(object) * _ALL_TENS[sizes[long]] + tails[long], powers[long]
        rounded = wround(digits * _ALL_TENS[np.maximum(power, 0)], _ALL_TENS[np.maximum(-power, 0)])
        fits = (abs(rounded) < 10**type_.precision).astype(np.bool_)
        numbers[long], state[long] = np.where(fits, rounded, 0), np.where(fits, READ, UNREADABLE)
    return numbers, state


def _booleans(text: pa.Array) -> tuple[Array, Mask]:
    word = pc.ascii_lower(pc.ascii_trim(text, characters=BLANKS))
    true = [each for each, truth in BOOLEAN_TEXTS.items() if truth]
    is_true, is_known = (pc.is_in(word, value_set=pa.array(words, text.type)) for words in (true, [*BOOLEAN_TEXTS]))
    return np.asarray(is_true), np.asarray(is_known)


def _one_by_one(text: pa.Array, type_: Type, dtype: str) -> tuple[Array, Mask]:
    """Each different text by itself."""
    coded = text.dictionary_encode()
    values = [cast(each, STRING, type_) for each in coded.dictionary.to_pylist()]
    places = np.asarray(coded.indices)
    known = np.array([value is not None for value in values])
    return np.array([0 if value is None else value for value in values], dtype)[places], known[places]
