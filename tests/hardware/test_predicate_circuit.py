"""Predicates as circuits against the row-wise judge: the papers' kinds, hard values, and random expressions."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from streamjoin import PredicateError, col
from streamjoin.hardware.predicate import NO_CIRCUIT, Circuit, circuit_of
from streamjoin.hardware.simulate import column_fields, pack
from streamjoin.predicate import plan_for
from streamjoin.predicate.evaluate import is_true, table_rows
from streamjoin.side import Side
from streamjoin.testing import hard_values

from ..conformance.predicates import FAMILIES, Writer, values
from ..long import LONG

pytestmark = pytest.mark.hardware

WHOLE = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(), "u32": pa.uint32(),
    "day": pa.date32(), "ts": pa.timestamp("us"), "ns": pa.timestamp("ns"), "d9": pa.decimal128(9, 2), "b": pa.bool_(),
}  # fmt: skip


class Matcher(wiring.Component):
    """Nothing but the predicate."""

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        super().__init__({
            "left": In(circuit.entering("left")), "right": In(circuit.entering("right")), "match": Out(1)
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m, c = Module(), self._circuit
        accepted = c.accepts(m, "left", self.left) & c.accepts(m, "right", self.right)
        m.d.comb += self.match.eq(accepted & c.matches(m, self.left, self.right))
        return m


def agrees(on: Any, left: pa.Table, right: pa.Table, pairs: int, seed: int = 0) -> bool:
    """Whether the predicate has a circuit; if so, it must be true for the same pairs of rows as the judge."""
    plan = plan_for(on, left.schema, right.schema)
    tables: dict[Side, pa.Table] = {"left": left, "right": right}
    nullable = [(side, name) for side, table in tables.items() for name in table.column_names]
    try:
        circuit = circuit_of(plan, nullable, 8)  # type: ignore[arg-type]
    except PredicateError as error:
        if NO_CIRCUIT in str(error):
            return False
        raise
    rows = {side: table_rows(table, table.column_names) for side, table in tables.items()}
    packed = {
        side: pack(circuit.entering(side), column_fields(circuit, side, tables[side])) for side in ("left", "right")
    }  # type: ignore[arg-type]
    true = is_true(plan.predicate)
    matcher = Matcher(circuit)
    rng = random.Random(seed)

    async def bench(context: Any) -> None:
        for _ in range(pairs):
            l, r = rng.randrange(left.num_rows), rng.randrange(right.num_rows)
            context.set(matcher.left.as_value(), packed["left"][l])
            context.set(matcher.right.as_value(), packed["right"][r])
            await context.delay(1e-9)
            expected = true(rows["left"][l], rows["right"][r])
            assert bool(context.get(matcher.match)) == expected, (on, rows["left"][l], rows["right"][r], expected)

    simulator = Simulator(matcher)
    simulator.add_testbench(bench)
    simulator.run()
    return True


def hard_table(seed: int) -> pa.Table:
    rng = random.Random(seed)
    columns = {}
    for name, type_ in WHOLE.items():
        pool = hard_values(type_)
        columns[name] = pool.take(pa.array([rng.randrange(len(pool)) for _ in range(24)]))
    return pa.table(columns)


PREDICATES: list[Any] = [
    "l.i32 = r.i32",
    "l.i64 = r.i64 AND l.i8 <> r.i8",
    "l.i32 BETWEEN r.i32 - 10 AND r.i32 + 10",
    "abs(l.i32 - r.i32) <= 10",
    "abs(l.i8 - r.i8) < 100 OR -l.i64 = r.i64",
    "l.i64 + r.i64 > l.i64 - r.i64",
    "l.i8 * r.i8 < l.i16 * r.i16 OR l.i64 * r.i64 > 0",
    "l.i32 div r.i32 = -1 OR l.i64 % r.i64 < 0 OR l.i8 % r.i8 = 0",
    (col("l.i32") // col("r.i32") <= col("l.i32") % col("r.i32")) | (col("l.i64") // col("r.i64") == -1),
    "l.i32 IN (1, -1, 0, r.i8) OR r.i16 NOT IN (0, 5)",
    "CASE WHEN l.i8 > r.i8 THEN l.i64 ELSE r.i64 END > coalesce(l.i32, r.i32, 3)",
    "least(l.i32, r.i32) = greatest(l.i8, r.i8) OR l.b AND NOT r.b OR l.i8 IS NULL",
    "l.i32 <=> r.i32",
    "CAST(l.i64 AS tinyint) = CAST(r.i32 AS tinyint) OR CAST(l.i8 AS boolean) = r.b",
    "l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ns + INTERVAL 7 NANOSECONDS",
    "l.day - r.day > INTERVAL 100 DAYS OR l.day + 1 <= r.ts",
    "l.d9 + 1.5 > r.d9 OR l.d9 * 2 = r.i32",
    "l.u32 = r.i64 OR l.u32 + r.u32 > 4294967295",
    lambda l, r: abs(l.i32 - r.i32) <= 3 and l.i64 < r.i64,
    "l.i8 > 3 AND r.i8 < 100",
    "TRUE",
    "FALSE",
]  # fmt: skip


@pytest.mark.parametrize("on", PREDICATES, ids=lambda on: on if isinstance(on, str) else type(on).__name__)
def test_hard_values(on: Any) -> None:
    assert agrees(on, hard_table(1), hard_table(2), 150)


@pytest.mark.parametrize("family", ["integers", "moments"])
def test_random_predicates(family: str) -> None:
    """Those that the circuit cannot compute are refused with the reason; enough of them can be computed."""
    computed = 0
    for seed in range(400 if LONG else 16):
        rng = random.Random(f"{family}{seed}")
        names = rng.sample(sorted(FAMILIES[family]), 3)
        types = {name: FAMILIES[family][name] for name in names}
        left, right = (pa.table({name: values(rng, type_, 12) for name, type_ in types.items()}) for _ in "lr")
        on = Writer(rng, types, types).predicate()
        try:
            computed += agrees(on, left, right, 30, seed)
        except PredicateError:
            continue
    assert computed > 3


@pytest.mark.parametrize(
    ("on", "why"),
    [
        ("l.f = r.f", "l.f is float"),
        ("l.k / 2 = r.k", "is double"),
        ("l.s = r.s", "l.s is string"),
        ("l.d + r.d = l.d", "is decimal(38"),
        ("sqrt(l.k) > r.k", "is double"),
    ],
)
def test_what_has_no_circuit_is_refused(on: str, why: str) -> None:
    schema = pa.schema({"k": pa.int32(), "f": pa.float32(), "s": pa.string(), "d": pa.decimal128(38, 2)})
    with pytest.raises(PredicateError, match=r"the circuit computes with whole numbers") as error:
        circuit_of(plan_for(on, schema, schema), (), 32)
    assert why in str(error.value)
