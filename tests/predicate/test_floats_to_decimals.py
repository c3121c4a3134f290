"""Floats that become decimals: what half up makes of their shortest decimal texts, whichever way it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.predicate.casts import cast
from streamjoin.predicate.expr import Cast, Column
from streamjoin.predicate.types import DOUBLE, FLOAT, Type
from streamjoin.predicate.vector import Frame, Program

from ..long import LONG

SIZES = (1, 0), (1, 1), (5, 2), (10, 2), (14, 0), (14, 4), (14, 14), (15, 2), (18, 6), (18, 18), (20, 0), (38, 18)
TARGETS = [Type("decimal", *size) for size in SIZES]


def check(floats: Any, source: Type, target: Type) -> None:
    program = Program([Cast(Column("x", side="left", type=source), target)])
    assert not program.slow
    ((values, valid),) = program.run(Frame(len(floats), {("left", "x"): pa.array(floats)}))
    for i, number in enumerate(floats.tolist()):
        found = values.item(i) if valid is None or valid[i] else None
        assert found == cast(number, source, target), (number, found)


def hard(target: Type) -> Any:
    """Halves between two decimals of a type, the doubles beside them, and the ends of the type."""
    digits = target.precision
    whole = [0, 1, 2, 4, 7, 10 ** (digits - 1), 10**digits - 1, 10**digits, 123_456_789_012 % 10**digits, 10**14 - 1]
    halves = [(10 * number + 5) / 10 ** (target.scale + 1) for number in whole]
    ends = [number / 10**target.scale for number in whole]
    near = np.array([*halves, *ends, 0.1, 0.3, 0.1 + 0.2, 1.005, 2.675, 5e-324, 1e308, 1e22, 1e23, 2.0**53 + 2, np.inf])
    all_ = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, np.inf), [np.nan]])
    return np.concatenate([all_, -all_])


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_hard_floats(target: Type) -> None:
    check(hard(target), DOUBLE, target)
    with np.errstate(over="ignore"):
        check(hard(target).astype(np.float32), FLOAT, target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@settings(max_examples=2000 if LONG else 40)
@given(data=st.data())
def test_random_floats(target: Type, data: st.DataObject) -> None:
    largest = 10.0 ** (target.precision - target.scale)
    halves = st.integers(-(10**15), 10**15).map(lambda number: (10 * number + 5) / 10 ** (target.scale + 1))
    numbers = st.one_of(st.floats(), st.floats(-largest, largest), st.decimals(0, 1, places=5).map(float), halves)
    check(np.array(data.draw(st.lists(numbers, max_size=30)), np.float64), DOUBLE, target)
