"""The bands that analysis finds are true of every pair."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.predicate import plan_for
from streamjoin.predicate.coerce import typed_call
from streamjoin.predicate.expr import Expr
from streamjoin.predicate.plan import Band
from streamjoin.predicate.vector import Frame, Program
from streamjoin.side import Side

LEFT = pa.schema({"a": pa.int32(), "b": pa.int64(), "x": pa.float64()})
RIGHT = pa.schema(
    {"a": pa.int32(), "b": pa.int64(), "y": pa.float64(), "w": pa.int32(), "lo": pa.int32(), "hi": pa.int32()}
)
PREDICATES = [
    "l.a BETWEEN r.lo AND r.hi",
    "l.a BETWEEN r.a - 10 AND r.a + 10",
    "l.x BETWEEN r.y - 1.5 AND r.y + 1.5",
    "abs(l.a - r.a) <= 3",
    "3 > abs(r.a - l.a)",
    "NOT abs(l.x - r.y) > 3",
    "l.a - r.a <= 3 AND r.a - l.a <= 4",
    "l.a - r.a BETWEEN -3 AND 3",
    "l.a > r.lo AND NOT (l.a >= r.hi)",
    "NOT (l.a < r.lo OR l.a > r.hi)",
    "abs(l.a - r.a) <= r.w",
    "abs(l.a - r.a) <= l.b",
    "l.a BETWEEN r.lo AND r.b",
    "l.a BETWEEN 2 * r.w AND 3 * r.w",
    "l.a IN (r.lo, r.hi)",
    "r.a IN (l.a, l.b)",
    "l.a BETWEEN r.lo AND r.hi OR l.a BETWEEN r.lo + 100 AND r.hi + 100",
    "abs(r.lo - l.a) <= 3 OR abs(r.hi - l.a) <= 3",
    "abs(l.a - r.a) >= 9",
    "l.a < r.a",
    "l.x - 1 >= r.y",
]


def truth(expr: Expr, frame: Frame) -> np.ndarray:
    return Program([expr]).true_rows(frame)


def inside(band: Band, frame: Frame) -> np.ndarray:
    """Whether the key lies in one of the intervals, for each pair."""
    hit = np.zeros(frame.length, bool)
    for interval in band.intervals:
        within = np.ones(frame.length, bool)
        for bound, op in (
            (interval.low, "ge" if interval.low_closed else "gt"),
            (interval.high, "le" if interval.high_closed else "lt"),
        ):
            if bound is not None:
                within &= truth(typed_call(op, (band.key, bound)), frame)
        hit |= within
    return hit


@pytest.mark.parametrize("on", PREDICATES)
def test_bands_are_necessary_and_exact_ones_sufficient(on: str) -> None:
    """On values without rounding or overflow, for every pair of a small cross product."""
    rng, n = np.random.default_rng(1), 60
    pairs: dict[Side, np.ndarray] = {"left": np.repeat(np.arange(n), n), "right": np.tile(np.arange(n), n)}
    columns = {}
    for side, schema in (("left", LEFT), ("right", RIGHT)):
        for field in schema:
            values = pa.array(rng.integers(-12, 13, n)).cast(pa.int64())
            quarters = pa.types.is_floating(field.type)
            column = pa.array(np.asarray(values) / 4) if quarters else values
            columns[side, field.name] = column.cast(field.type).take(pa.array(pairs[side]))
    frame = Frame(n * n, columns)
    plan = plan_for(on, LEFT, RIGHT)
    matching = truth(plan.predicate, frame)
    assert plan.bands
    assert matching.any()
    assert not matching.all()
    for band in plan.bands:
        hit = inside(band, frame)
        assert not (matching & ~hit).any(), band
        if band.exact:
            sources = np.logical_and.reduce([truth(source, frame) for source in band.sources])
            assert (hit == sources).all(), band
