"""Compiled comparison of texts where they lie: in the records and the segments of bytes of two sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Integers
from ..compile.cache import compiled
from ..compile.intrinsics import prefetch_at
from .gather import BLOCK, LENGTH_BITS, SEGMENT, SEGMENT_BITS
from .moves import word_at

_LENGTH = np.uint64((1 << LENGTH_BITS) - 1)


class TextPlace(NamedTuple):
    """Where the texts of one column lie: segments of records with the word of each text, and segments of bytes."""

    records: Integers
    first_record_segment: int
    width: int
    offset: int
    bytes: Integers
    first_byte_segment: int


@compiled
def _find(rows, start, stop, place, words, source):
    """The words of some rows' texts, and the addresses of their bytes, which start to be loaded."""
    base = place.first_record_segment << SEGMENT_BITS
    for i in range(stop - start):
        row = rows[start + i]
        address = place.records[(row - base) >> SEGMENT_BITS] + (row & (SEGMENT - 1)) * place.width + place.offset
        source[i] = address
        prefetch_at(address)
    for i in range(stop - start):
        words[i] = word_at(source[i])
        segment = (rows[start + i] >> SEGMENT_BITS) - place.first_byte_segment
        source[i] = place.bytes[segment] + np.int64(words[i] >> np.uint64(LENGTH_BITS))
        prefetch_at(source[i])


@compiled
def same_texts(left, left_place, right, right_place, same):
    """Whether the texts of pairs of rows are the same, byte by byte; returns how many are.

    No row is missing and no text is NULL. Up to 8 bytes behind a text may be read (see `gather.SLACK`).
    """
    count = np.int64(0)
    left_words, right_words = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    left_bytes, right_bytes = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for start in range(0, len(left), BLOCK):
        stop = min(start + BLOCK, len(left))
        _find(left, start, stop, left_place, left_words, left_bytes)
        _find(right, start, stop, right_place, right_words, right_bytes)
        for i in range(stop - start):
            length = left_words[i] & _LENGTH
            is_same = length == (right_words[i] & _LENGTH)
            if is_same:
                size, k = np.int64(length), np.int64(0)
                while is_same and k + 8 <= size:
                    is_same = word_at(left_bytes[i] + k) == word_at(right_bytes[i] + k)
                    k += 8
                if is_same and k < size:
                    different = word_at(left_bytes[i] + k) ^ word_at(right_bytes[i] + k)
                    is_same = (different << np.uint64(64 - 8 * (size - k))) == np.uint64(0)
            same[start + i] = is_same
            count += is_same
    return count
