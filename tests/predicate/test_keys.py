"""Range keys of decimals: moving terms must change nothing, also at the ends of their types."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.predicate import plan_for
from streamjoin.predicate.lower import lower

from .. import interpreted

SCHEMA = pa.schema({"d": pa.decimal128(14, 2), "w": pa.decimal128(38, 2), "i": pa.int32()})
NEAR = "abs(l.d - r.d) <= 0.05"


@pytest.mark.parametrize(
    ("on", "has_keys"),
    [
        (NEAR, True),
        ("l.d - r.d BETWEEN -5 AND 5", True),
        ("abs(l.w - r.w) <= 5", False),  # the difference may have lost digits
        ("abs(l.i + r.i - l.d) <= 5", False),  # the sum of integers may wrap
    ],
)
def test_differences_of_decimals_are_keys_if_they_are_exact(on: str, has_keys: bool) -> None:
    keys = lower(plan_for(on, SCHEMA, SCHEMA)).range_keys
    assert (bool(keys.left), bool(keys.right)) == (has_keys, has_keys)


@pytest.mark.parametrize("index", ["auto", "bi-sort"])
def test_pairs_are_those_of_the_definition(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    rng, largest = np.random.default_rng(3), 10**14 - 1
    ends = [-largest, -largest + 3, largest - 5, largest, None]
    tables = []
    for _ in range(2):
        cents = [*rng.integers(-20, 20, 60).tolist(), *ends]
        tables.append(
            pa.table({"d": pa.array([None if c is None else Decimal(c) / 100 for c in cents], SCHEMA[0].type)})
        )
    left, right = ([value for value in table["d"].to_pylist() if value is not None] for table in tables)
    expected = sorted((a, b) for a in left for b in right if abs(a - b) <= Decimal("0.05"))
    found = sj.join(*tables, on=NEAR, window=100, index=index)  # type: ignore[arg-type]
    assert sorted(zip(found["d"].to_pylist(), found["d_right"].to_pylist(), strict=True)) == expected
