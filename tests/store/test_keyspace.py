"""Key spaces lose no pair: the word of every matching tuple lies in exactly one of the probing tuple's ranges."""

from __future__ import annotations

import random
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin import testing
from streamjoin.predicate import plan_for
from streamjoin.predicate.evaluate import is_true, table_rows
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.predicate.vector import Frame
from streamjoin.side import SIDES, Side, other
from streamjoin.store.batch import Batch
from streamjoin.store.key_arithmetic import Reduction
from streamjoin.store.key_choice import KeyChooser
from streamjoin.store.keyspace import KeySpace
from streamjoin.store.words import PLACE_BITS

PREDICATES = [
    "l.a BETWEEN r.a - 3 AND r.a + 3",
    "l.a >= r.a AND l.a < r.b",
    "l.a BETWEEN r.a - 1 AND r.b + 1",
    "abs(l.a - r.a) <= 2",
    "abs(l.a - r.a) < 2 AND abs(l.b - r.b) <= 3",
    "l.a BETWEEN r.a - 3 AND r.a + 3 AND l.b BETWEEN r.b - 2 AND r.b + 2",
    "l.a = r.a AND l.b BETWEEN r.b - 2 AND r.b + 2",
    "l.a = r.a AND l.b = r.b",
    "l.a - r.a <= 1 AND r.a - l.a <= 2",
    "l.a BETWEEN r.a - 1 AND r.a + 1 OR l.a BETWEEN r.a + 1 AND r.a + 5 OR l.a = r.b",
    "l.a <= r.b AND l.b >= r.a",
    "l.a + l.b - r.a <= 4 AND l.a + l.b - r.a >= 0",
    "l.a < r.a",
    "l.a IN (r.a, r.b, r.a + 1)",
]
TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.timestamp("us"), pa.decimal128(9, 2)]


def column(rng: random.Random, type_: pa.DataType, count: int) -> pa.Array:
    hard = testing.hard_values(type_)
    spans = [3, 40, 10_000]
    near = pa.array([rng.randrange(-5, rng.choice(spans)) for _ in range(30)], pa.int64())
    near = near.filter(pa.array([abs(v) < 100 for v in near.to_pylist()])) if type_ == pa.int8() else near
    ordinary = near.cast(pa.decimal128(21, 2)).cast(type_) if pa.types.is_decimal(type_) else near.cast(type_)
    pool = pa.concat_arrays([ordinary, *([hard] if rng.random() < 0.5 else [])])
    return pool.take(pa.array([rng.randrange(len(pool)) for _ in range(count)], pa.int64()))


def batch_of(lowered: Lowered, side: Side, table: pa.Table) -> tuple[Batch, np.ndarray]:
    """The live tuples, and where they are in the table."""
    names = lowered.sides[side].columns
    frame = Frame(table.num_rows, {(side, name): table.column(name).combine_chunks() for name in names})
    values = lowered.sides[side].run(frame)
    live = np.arange(table.num_rows) if values.live is None else np.flatnonzero(values.live)
    return Batch(live, live, live, live, [slot[live] for slot in values.columns]), live


def check(lowered: Lowered, space: KeySpace, stored: Batch, probing: Batch, pairs: set[tuple[int, int]]) -> None:
    slots = dict(enumerate(stored.slots))
    words, regular = space.words(slots, 0, len(stored))
    ranges = space.ranges(probing)
    assert (np.diff(ranges.low.astype(object)) >= 0).all()
    assert not (ranges.low & np.uint64((1 << PLACE_BITS) - 1)).any()
    irregular = set() if ranges.irregular is None else set(ranges.irregular.row.tolist())
    found = set()
    for low, high, owner in zip(ranges.low, ranges.high, ranges.owner, strict=True):
        rests = words & space.rest_mask
        inside = (rests >= low & space.rest_mask) & (rests <= high & space.rest_mask)
        for place in np.flatnonzero((words >= low) & (words <= high) & inside):
            pair = int(stored.row[place]), int(probing.row[owner])
            assert pair not in found, "two ranges of one tuple overlap"
            found.add(pair)
    for s, p in pairs:
        place = int(np.flatnonzero(stored.row == s)[0])
        if p not in irregular and (regular is None or regular[place]):
            assert (s, p) in found, (space.why, s, p)
    if space.decides:
        regular_found = {(s, p) for s, p in found if p not in irregular}
        assert regular_found <= pairs, (space.why, regular_found - pairs)


@pytest.mark.parametrize("on", PREDICATES)
def test_no_pair_is_lost(on: str) -> None:
    @settings(max_examples=30)
    @given(st.integers(0, 2**32 - 1), st.sampled_from(TYPES), st.sampled_from(TYPES))
    def one(seed: int, a: pa.DataType, b: pa.DataType) -> None:
        rng = random.Random(seed)
        if "l.a + l.b" in on or " + 1" in on or "- " in on:  # dates and numbers do not mix in sums
            a, b = (pa.int64() if pa.types.is_timestamp(t) else t for t in (a, b))
        if any(pa.types.is_timestamp(t) for t in (a, b)):
            a = b = pa.timestamp("us")
        tables = {side: pa.table({"a": column(rng, a, 25), "b": column(rng, b, 25)}) for side in SIDES}
        plan = plan_for(on, tables["left"].schema, tables["right"].schema)
        lowered = lower(plan)
        true = is_true(plan.predicate)
        rows = {side: table_rows(table, table.column_names) for side, table in tables.items()}
        batches = {side: batch_of(lowered, side, tables[side])[0] for side in SIDES}
        matches = {
            (l, r)
            for l, r in product(batches["left"].row.tolist(), batches["right"].row.tolist())
            if true(rows["left"][l], rows["right"][r])
        }
        for stored in SIDES:
            keys = KeyChooser(lowered, stored)
            if not keys.usable:
                continue
            pairs = matches if stored == "left" else {(r, l) for l, r in matches}
            half = batches[stored].slice(0, rng.choice([1, 10, 25]))  # a sample that may not cover what comes later
            keys.observe_stored(half)
            if rng.random() < 0.8:
                keys.observe_probing(batches[other(stored)])
            if not len(half):
                continue
            keys.choose(rng.choice([10, 10_000]))
            for space in keys._candidates():
                check(lowered, space, batches[stored], batches[other(stored)], pairs)

    one()


@given(
    st.integers(-(2**63), 2**63 - 1), st.integers(0, 63), st.integers(1, 42), st.lists(st.integers(-(2**63), 2**63 - 1))
)
def test_reductions_are_monotone(base: int, shift: int, bits: int, values: list[int]) -> None:
    reduction = Reduction(base, shift, bits)
    ordered = np.array(sorted(values), np.int64)
    reduced, cut = reduction(ordered)
    assert all(int(a) <= int(b) for a, b in pairwise(reduced))
    assert all(0 <= int(x) < 1 << bits for x in reduced)
    assert cut == any(not base <= v <= reduction.last for v in values)
    for value, found in zip(sorted(values), reduced, strict=True):
        if base <= value <= reduction.last:
            assert int(found) == (value - base) >> shift
