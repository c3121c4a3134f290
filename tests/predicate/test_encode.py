"""Comparing encoded integers compares the values: for every domain, every mode, all pairs of hard values."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.predicate import values as v
from streamjoin.predicate.emit import DTYPES
from streamjoin.predicate.encode import LONG_TEXT, Domain, Mode, approximate, encode, ordered_bits, text_words
from streamjoin.predicate.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, SMALLINT, TIMESTAMP, TINYINT, Type

I32, I64 = 2**31, 2**63
INTS = [-I32, -I32 + 1, -128, -1, 0, 1, 2, 127, 2**24 + 1, I32 - 2, I32 - 1]
LONGS = [*INTS, -I64, -I64 + 1, -I32 - 1, I32, 2**53 + 1, I64 - 2, I64 - 1]
TINY = float(np.finfo(np.float32).smallest_subnormal)
MOST = float(np.finfo(np.float32).max)
FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0**31, -(2.0**31), MOST, -MOST, TINY, -TINY]
FLOATS += [v.to_float32(0.1), v.to_float32(-1 / 3)]
DOUBLES = [
    *FLOATS, 0.1, -0.1, 5e-324, -5e-324, TINY / 2, TINY * 1.5, math.nextafter(MOST, math.inf), 1e308, -1e308, 1e39,
    -1e39, I32 - 1.0, I32 - 0.5, -I32 - 0.5, -I32 - 1.0, -I32 + 0.5, 2.0**40, -(2.0**41), 2.0**62, 1e18, 16777217.0,
    math.nextafter(1.0, 2), math.nextafter(1.0, 0), math.nextafter(float(np.float32(0.1)), 1),
]  # fmt: skip
WHOLE = 10**18 - 1
DECIMALS = [-WHOLE, -1, 0, 1, 99, 100, 101, 10_000, -10_000, -10_001, 15_000, WHOLE]
DECIMALS += [(I32 - 1) * 10**4, I32 * 10**4, -I32 * 10**4, -I32 * 10**4 - 1]
CENTS = [-99999, -101, -100, -1, 0, 1, 50, 100, 150, 99999]

HARD: dict[Type, list[Any]] = {
    BOOLEAN: [False, True],
    TINYINT: [-128, -1, 0, 1, 127],
    SMALLINT: [-(2**15), -1, 0, 1, 2**15 - 1],
    INT: INTS,
    DATE: INTS,
    BIGINT: LONGS,
    TIMESTAMP: LONGS,
    FLOAT: FLOATS,
    DOUBLE: DOUBLES,
    Type("decimal", 18, 4): DECIMALS,
    Type("decimal", 18, 0): DECIMALS,
    Type("decimal", 18, 18): DECIMALS,
    Type("decimal", 5, 2): CENTS,
}
D18, D180, D1818, D5 = list(HARD)[-4:]
CASES: list[tuple[Domain, Type, Type]] = [  # the domain, the operand that is at home in it, the other one
    *(
        ("i32", home, other)
        for home in (BOOLEAN, TINYINT, SMALLINT, INT)
        for other in (BIGINT, DOUBLE, D18, D180, D5, INT)
    ),
    ("i32", DATE, DATE),
    ("i64", BIGINT, BIGINT),
    ("i64", BIGINT, SMALLINT),
    ("i64", SMALLINT, BIGINT),
    ("i64", TIMESTAMP, TIMESTAMP),
    ("f32", FLOAT, DOUBLE),
    ("f32", FLOAT, FLOAT),
    ("f64", DOUBLE, DOUBLE),
    *(("decimal", a, b) for a in (D18, D5, D180) for b in (D18, D5, D180, BIGINT, INT)),
    ("decimal", BIGINT, D18),
    ("decimal", D1818, D180),
    ("decimal", D180, D1818),
]
TESTS: dict[str, tuple[Mode, Any, tuple[int, ...]]] = {  # home op other: other's mode, the closed test, wanted signs
    "eq": ("exact", np.equal, (0,)),
    "ne": ("exact", np.not_equal, (-1, 1)),
    "lt": ("below", np.less_equal, (-1,)),
    "le": ("floor", np.less_equal, (-1, 0)),
    "gt": ("above", np.greater_equal, (1,)),
    "ge": ("ceil", np.greater_equal, (0, 1)),
}


def encoded(type_: Type, domain: Domain, mode: Mode, scale: int) -> tuple[Any, Any]:
    """The type's hard values (and a NULL) in the domain, with their validity."""
    raw = np.array([*HARD[type_], 0], DTYPES[type_.kind])
    known = np.arange(len(raw)) < len(raw) - 1
    words, valid = encode(raw, known, type_, domain, mode, scale)
    assert words.dtype == (np.int32 if domain in ("i32", "f32") else np.int64)
    return words, known if valid is None else valid


@pytest.mark.parametrize(("domain", "home", "other"), CASES, ids=str)
def test_encoded_comparison_is_the_comparison_of_values(domain: Domain, home: Type, other: Type) -> None:
    scale = max(home.scale, other.scale)
    for op, (mode, test, wanted) in TESTS.items():
        if op == "ne" and domain in ("i32", "f32") and DTYPES[home.kind] != DTYPES[other.kind]:
            continue  # a value outside of the domain is unequal to all of it, which no element can say
        a, a_valid = encoded(home, domain, "exact", scale)
        b, b_valid = encoded(other, domain, mode, scale)
        for (i, x), (j, y) in product(enumerate([*HARD[home], None]), enumerate([*HARD[other], None])):
            actual = bool(test(a[i], b[j]) and a_valid[i] and b_valid[j])
            expected = x is not None and y is not None and sign(x, home, y, other) in wanted
            assert actual == expected, (op, x, y, a[i], b[j])


def sign(x: Any, home: Type, y: Any, other: Type) -> int:
    if "decimal" in (home.kind, other.kind):
        return v.compare_exact(int(x), home.scale, int(y), other.scale)
    return v.compare(x, y)


def test_without_nulls_nothing_needs_a_mask_unless_a_bound_cannot_be_met() -> None:
    ints = np.array([1, 2], np.int32)
    assert encode(ints, None, INT, "i32", "exact") == (ints, None)
    assert encode(np.array([3.5]), None, DOUBLE, "i32", "floor")[1] is None
    assert encode(np.array([-1e300]), None, DOUBLE, "i32", "floor")[1].tolist() == [False]
    assert encode(np.array([1e300]), None, DOUBLE, "i32", "floor")[1] is None


def test_ordered_bits_sort_floats_as_spark_does() -> None:
    for dtype, hard in ((np.float32, FLOATS), (np.float64, DOUBLES)):
        width = 8 * dtype().nbytes
        bits, _ = ordered_bits(np.array(hard, dtype), width)
        for (i, x), (j, y) in product(enumerate(hard), repeat=2):
            assert v.compare(int(bits[i]), int(bits[j])) == v.compare(float(dtype(x)), float(dtype(y))), (x, y)
        quiet, odd = (np.array([bits], f"u{dtype().nbytes}").view(dtype) for bits in NANS[dtype])
        assert ordered_bits(quiet, width)[0] == ordered_bits(odd, width)[0]


NANS: dict[Any, tuple[int, int]] = {
    np.float32: (0x7FC00000, 0xFFC00001),
    np.float64: (0x7FF8000000000000, 0xFFF8000000000001),
}


def test_approximate_decimals_never_swap() -> None:
    wide = [-(10**38) + 1, -(10**30) - 1, -(10**30), -1, 0, 1, 10**17, 10**17 + 1, 10**30, 10**30 + 1, 10**38 - 1]
    known = np.array([True] * len(wide) + [False])
    words, valid = approximate(np.array([*wide, None], object), known, 10)
    assert valid is known
    assert words[: len(wide)].tolist() == sorted(words[: len(wide)].tolist())
    other, _ = approximate(np.array([x * 10**3 for x in wide[3:8]], object), None, 13)
    assert other.tolist() == words[3:8].tolist()


TEXTS = ["", "\0", "\0\0", "a", "a\0", "ab", "abcdefg", "abcdefgh", "abcdefgha", "abcdefgh\0", "b", "x" * 100]
TEXTS += ["é", "🦆", "\uffff", "\U00010000"]


def test_words_of_texts() -> None:
    text = pa.array([*TEXTS, None, *TEXTS], pa.large_string()).slice(0, len(TEXTS) + 1)
    hashes, valid = text_words(text, "hash")
    prefixes, _ = text_words(text, "prefix")
    assert valid is not None
    assert valid.tolist() == [True] * len(TEXTS) + [False]
    for (i, x), (j, y) in product(enumerate(TEXTS), repeat=2):
        assert (hashes[i] == hashes[j]) == (x == y)
        if prefixes[i] < prefixes[j]:
            assert v.compare(x, y) == -1, (x, y)
    for x, word in zip(TEXTS, hashes.tolist(), strict=False):
        assert bool(word & int(LONG_TEXT)) == (len(x.encode()) > 7), x
    moved = text_words(pa.array(["?", *TEXTS], pa.large_string()).slice(1), "hash")[0]
    assert moved.tolist() == hashes[: len(TEXTS)].tolist()
    assert len(text_words(pa.array([], pa.large_string()), "hash")[0]) == 0
