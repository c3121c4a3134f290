"""Sorting of pairs by their result timestamp, then the left row, then the right row.

Within a step these numbers lie close together. What distinguishes them fits into few bits, so a pair, or what is to be
sorted of it, becomes one word, and words are sorted digit by digit.
"""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers, Rows, Words
from ..compile.cache import compiled, has_machine_code
from ..store.sorting import sort_words

MISSING = INT64_MAX
"""The row number of a partner that is not there, for sorting: it comes last."""
WORD = 64


def in_order(key: Integers, left: Rows, right: Rows) -> tuple[Rows, Rows]:
    """The rows of both sides in order; MISSING stays as it is."""
    if not has_machine_code(unpack):  # it is called last, so whatever else is called has some too
        return _lexsorted(key, left, right)
    columns = [key, left, right]
    spans = [_span(column) for column in columns]
    if sum(bits for _, bits in spans) <= WORD:
        words = sort_words(_packed(columns, spans), 0)
        (first_left, left_bits), (first_right, right_bits) = spans[1:]
        return (
            unpack(words, right_bits, left_bits, first_left, np.empty_like(left)),
            unpack(words, 0, right_bits, first_right, np.empty_like(right)),
        )
    order = _order([left, right], spans[1:])
    by_key = None if order is None else _order([key[order]], spans[:1])
    if order is None or by_key is None:
        return _lexsorted(key, left, right)
    return left[order[by_key]], right[order[by_key]]


def _lexsorted(key: Integers, left: Rows, right: Rows) -> tuple[Rows, Rows]:
    order = np.lexsort((right, left, key))
    return left[order], right[order]


def _order(columns: list[Integers], spans: list[tuple[int, int]]) -> Rows | None:
    """Which place comes where when columns are sorted, equal ones as they are; None: it takes more than a word."""
    places = np.arange(len(columns[0]))
    low_bit = len(places).bit_length()
    if sum(bits for _, bits in spans) + low_bit > WORD:
        return None
    words = sort_words(_packed([*columns, places], [*spans, (0, low_bit)]), low_bit)
    return unpack(words, 0, low_bit, 0, places)


def _span(column: Integers) -> tuple[int, int]:
    """The smallest number, and how many bits tell all from each other; a number of ones only is a missing one."""
    smallest, largest = _extremes(column)
    return int(smallest), (int(largest) - int(smallest) + 1).bit_length() if largest >= smallest else 1


def _packed(columns: list[Integers], spans: list[tuple[int, int]]) -> Words:
    words = np.zeros(len(columns[0]), np.uint64)
    for column, (first, bits) in zip(columns, spans, strict=True):
        pack(words, column, first, bits)
    return words


@compiled
def _extremes(column):  # type: ignore[no-untyped-def]
    """The smallest and the largest number, without missing ones."""
    smallest, largest = INT64_MAX, INT64_MIN
    for number in column:
        smallest = min(smallest, number)
        largest = max(largest, number if number != MISSING else INT64_MIN)
    return smallest, largest


@compiled
def pack(words, column, first, bits):  # type: ignore[no-untyped-def]
    """Append a number of so many bits to each word; a missing one as ones."""
    by = np.uint64(bits)
    none = (~np.uint64(0)) >> np.uint64(WORD - bits)
    for i in range(len(words)):
        number = none if column[i] == MISSING else np.uint64(column[i] - first)
        words[i] = (words[i] << by if bits < WORD else np.uint64(0)) | number


@compiled
def unpack(words, shift, bits, first, out):  # type: ignore[no-untyped-def]
    """The reverse, for `bits` bits above the lowest `shift`."""
    none = (~np.uint64(0)) >> np.uint64(WORD - bits)
    for i in range(len(words)):
        number = (words[i] >> np.uint64(shift)) & none
        out[i] = MISSING if number == none else np.int64(number) + first
    return out
