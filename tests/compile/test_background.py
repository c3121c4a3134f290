"""A join runs from its first row on, while its kernels are compiled in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.compile.generic import BLOCK, extremes, is_ascending, survey
from streamjoin.flow import order
from streamjoin.predicate import encode, texts
from streamjoin.store import hashing

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12).map(lambda values: np.array(values, np.int64))
FLOATS = st.lists(st.floats(width=64), max_size=12).map(lambda values: np.array(values, np.float64))
TEXTS = st.lists(st.binary(max_size=20), max_size=12)


def both(function: Any, *args: Any) -> None:
    """Machine code and NumPy give the same, written arrays included."""
    copies = [[arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args] for _ in range(2)]
    results = [run(*own) for run, own in zip((function._machine_code, function._plain), copies, strict=True)]
    assert results[0] == results[1]
    for machine, plain in zip(*copies, strict=True):
        np.testing.assert_array_equal(machine, plain)


@given(INTEGERS)
def test_integers(values: Any) -> None:
    both(extremes, values)
    both(survey, values)
    both(survey, np.sort(values))
    both(is_ascending, values)
    both(is_ascending, np.sort(values))
    both(hashing._mix, values.view(np.uint64))
    none = np.zeros(len(values), np.int64)
    for back, ahead in ((0, 1), (-5, 7), (-(2**63), 2**63 - 1)):
        both(order._reach, values, back, ahead, none, none)


@pytest.mark.parametrize("place", [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1])
def test_one_value_out_of_order_is_seen_in_any_block(place: int) -> None:
    values = np.arange(2 * BLOCK + 2)
    values[place] = -1
    assert is_ascending(values) == (place == 0)
    both(is_ascending, values)


@given(TEXTS)
def test_texts(values: list[bytes]) -> None:
    starts = np.cumsum([0, *map(len, values)])
    content = np.frombuffer(b"".join(values) or b"\0", np.uint8)
    for function in (encode._hash_words, encode._prefix_words):
        both(function, starts, content, np.zeros(len(values), np.int64))


POSITIONS = st.one_of(st.integers(-6, 6), st.sampled_from([-(2**31), 2**31 - 1]))


@given(st.lists(st.tuples(st.text(max_size=5), POSITIONS, POSITIONS), max_size=6))
def test_parts_of_texts(rows: list[tuple[str, int, int]]) -> None:
    encoded = [text.encode() for text, _, _ in rows]
    starts = np.cumsum([0, *map(len, encoded)])
    content = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
    begins, lengths = (np.array([row[place] for row in rows], np.int64) for place in (1, 2))
    first, ends = np.zeros(len(rows), np.int64), np.zeros(len(rows) + 1, np.int64)
    both(texts._find_parts, starts, content, begins, lengths, first, ends)
    texts._find_parts._plain(starts, content, begins, lengths, first, ends)
    both(texts._copy_parts, content, first, ends, np.zeros(int(ends[-1]), np.uint8))


@pytest.mark.parametrize("width", [32, 64])
@given(values=FLOATS, rounded=st.sampled_from([-1, 0, 1]))
def test_floats(width: int, values: Any, rounded: int) -> None:
    found = []
    for run in (encode._ordered_bits._machine_code, encode._ordered_bits._plain):
        real, integer, largest = encode._WIDTHS[width]
        floats = np.empty(len(values), real)
        exact = np.empty(len(values), np.bool_)
        with np.errstate(all="ignore"):
            run(values, floats, floats.view(integer), largest, rounded, exact)
        found.append((floats.view(integer).tolist(), exact.tolist()))
    assert found[0] == found[1]


def test_an_unknown_mode_is_refused() -> None:
    environment = os.environ | {"STREAMJOIN_COMPILE": "soon"}
    program = (
        "import streamjoin as sj, pyarrow as pa; t = pa.table({'a': [1]}); sj.join(t, t, on='l.a = r.a', window=1)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "STREAMJOIN_COMPILE: 'soon' is not valid" in done.stderr
