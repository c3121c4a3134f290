"""Text functions on whole columns: Arrow's own where it has them, compiled loops over bytes where it has not.

`evaluate` says what each of them means. Every function takes and gives arrays of large_string, one text per row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import Array, Mask
from ..arrow.tables import decoded
from ..compile.cache import compiled_with

TEXT = pa.large_string()
NO_LENGTH = 2**31
Numbers = tuple[Array, "Mask | None"]
"""Whole numbers, and which of them are not NULL (None: all)."""


def plain_text(column: pa.Array) -> pa.Array:
    """Any Arrow text (string_view, dictionary, ...) as large_string."""
    column = decoded(column)
    return column if column.type == TEXT else column.cast(TEXT)


def concat(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar("", TEXT), null_handling="emit_null")


def upper(text: pa.Array) -> pa.Array:
    return pc.ascii_upper(text) if _is_ascii(text) else mapped(str.upper, text)


def lower(text: pa.Array) -> pa.Array:
    return pc.ascii_lower(text) if _is_ascii(text) else mapped(str.lower, text)


def trim(text: pa.Array) -> pa.Array:
    return pc.ascii_trim(text, characters=" ")


def substring(text: pa.Array, start: int, length: int = NO_LENGTH) -> pa.Array:
    """From a position that counts from 1, or from the end where negative."""
    if start >= 0:
        begin = max(start - 1, 0)
        return pc.utf8_slice_codeunits(text, begin, min(max(begin + length, begin), NO_LENGTH))
    if length == NO_LENGTH:
        return pc.utf8_slice_codeunits(text, start)
    return substring_of_each(text, (np.full(len(text), start), None), (np.full(len(text), length), None))


def substring_of_each(text: pa.Array, start: Numbers, length: Numbers | None = None) -> pa.Array:
    """The same with a position and a length for each text."""
    count = len(text)
    lengths, valid = (np.full(count, NO_LENGTH), None) if length is None else length
    first, ends = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    starts, content = text_bytes(text)
    if count:
        _find_parts(starts, content, start[0].astype(np.int64), lengths.astype(np.int64), first, ends)
    out = np.empty(max(int(ends[-1]), 1), np.uint8)
    _copy_parts(content, first, ends, out)
    valid = _both(_both(start[1], valid), np.asarray(text.is_valid()) if text.null_count else None)
    return text_of_bytes(ends, out, valid)


def text_of_bytes(ends: Array, content: Array, valid: Mask | None) -> pa.Array:
    """The texts that lie one behind the other; `ends` begins with 0."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(TEXT, len(ends) - 1, [bits, pa.py_buffer(ends), pa.py_buffer(content)])


def _both(a: Mask | None, b: Mask | None) -> Mask | None:
    return b if a is None else a if b is None else a & b


def length(text: pa.Array) -> pa.Array:
    return pc.utf8_length(text).cast(pa.int32())


def like(text: pa.Array, pattern: re.Pattern[str]) -> pa.Array:
    """The whole text against a pattern of `evaluate.like_pattern`."""
    return pc.match_substring_regex(text, rf"(?s)\A(?:{pattern.pattern})\z")


def mapped(function: Callable[[str], Any], text: pa.Array) -> pa.Array:
    """A function of one text in Python, once for each different text."""
    coded = text.dictionary_encode()
    results = pa.array([None if each is None else function(each) for each in coded.dictionary.to_pylist()], TEXT)
    return results.take(coded.indices)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "concat": concat,
    "upper": upper,
    "lower": lower,
    "trim": trim,
    "coalesce": pc.coalesce,
    "least": pc.min_element_wise,
    "greatest": pc.max_element_wise,
}
"""The functions of texts that give texts, by name."""
COMPARISONS = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip


def _is_ascii(text: pa.Array) -> bool:
    return pc.all(pc.string_is_ascii(text)).as_py() is not False


def found(op: str, text: pa.Array, part: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """STARTSWITH, ENDSWITH and CONTAINS of two columns, and where neither is NULL."""
    result = np.zeros(len(text), np.bool_)
    if len(text):
        _search(*text_bytes(text), *text_bytes(part), {"startswith": 0, "endswith": 1, "contains": 2}[op], result)
    if not (text.null_count or part.null_count):
        return result, None
    return result, np.asarray(text.is_valid()) & np.asarray(part.is_valid())


def text_bytes(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins and ends, and all bytes. Never writable: Numba would compile for both kinds of arrays."""
    starts, content = np.zeros(1, np.int64), np.zeros(1, np.uint8)
    if len(text):
        _, offsets, data = text.buffers()
        starts = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else content
    starts.flags.writeable = content.flags.writeable = False
    return starts, content


def _search_row_by_row(
    starts: np.ndarray, content: np.ndarray, part_starts: np.ndarray, part_content: np.ndarray, kind: int,
    result: np.ndarray,
) -> None:  # fmt: skip
    texts, parts = content.tobytes(), part_content.tobytes()
    for i in range(len(result)):
        text, part = texts[starts[i] : starts[i + 1]], parts[part_starts[i] : part_starts[i + 1]]
        result[i] = (text.startswith(part), text.endswith(part), part in text)[kind]


def _find_parts_row_by_row(
    starts: np.ndarray, content: np.ndarray, begins: np.ndarray, lengths: np.ndarray, first: np.ndarray,
    ends: np.ndarray,
) -> None:  # fmt: skip
    everything = content.tobytes()
    for i in range(len(first)):
        text = everything[starts[i] : starts[i + 1]].decode()
        begin = begins[i] - 1 if begins[i] > 0 else len(text) + begins[i] if begins[i] < 0 else 0
        stop = max(begin + lengths[i], 0)
        begin = max(begin, 0)
        first[i] = starts[i] + len(text[:begin].encode())
        ends[i + 1] = ends[i] + len(text[begin:stop].encode())


@compiled_with(_find_parts_row_by_row)
def _find_parts(starts, content, begins, lengths, first, ends):  # type: ignore[no-untyped-def]
    """Where the wanted part of each text begins, and where the parts end, one behind the other. A byte begins a
    character unless its two highest bits are 10."""
    for i in range(len(first)):
        begin, from_byte, to_byte = begins[i], starts[i], starts[i + 1]
        if begin > 0:
            begin -= 1
        elif begin < 0:
            for place in range(from_byte, to_byte):
                begin += (content[place] & 0xC0) != 0x80
        stop, begin = max(begin + lengths[i], 0), max(begin, 0)
        # The characters before the part, and then those of it.
        place, passed = from_byte, -1
        while place < to_byte:
            passed += (content[place] & 0xC0) != 0x80
            if passed >= begin:
                break
            place += 1
        first[i] = place
        while place < to_byte and passed < stop:
            place += 1
            if place < to_byte:
                passed += (content[place] & 0xC0) != 0x80
        ends[i + 1] = ends[i] + place - first[i]


def _copy_parts_in_numpy(content: np.ndarray, first: np.ndarray, ends: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(first)):
        size = ends[i + 1] - ends[i]
        out[ends[i] : ends[i + 1]] = content[first[i] : first[i] + size]


@compiled_with(_copy_parts_in_numpy)
def _copy_parts(content, first, ends, out):  # type: ignore[no-untyped-def]
    """The parts, one behind the other."""
    for i in range(len(first)):
        for k in range(ends[i + 1] - ends[i]):
            out[ends[i] + k] = content[first[i] + k]


@compiled_with(_search_row_by_row)
def _search(starts, content, part_starts, part_content, kind, result):  # type: ignore[no-untyped-def]
    """Bytes are enough: in UTF-8 no character begins inside another."""
    for i in range(len(result)):
        part = part_starts[i]
        size = part_starts[i + 1] - part
        first, last = starts[i], starts[i + 1] - size
        if kind == 0:
            last = min(first, last)
        elif kind == 1:
            first = max(first, last) if last >= first else last + 1
        hit = False
        for place in range(first, last + 1):
            k = 0
            while k < size and content[place + k] == part_content[part + k]:
                k += 1
            if k == size:
                hit = True
                break
        result[i] = hit
