"""The public surface of the hardware: tables in and out, reports, Verilog, and errors at the call."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import ArgumentError, DataError, PredicateError, SchemaError
from streamjoin.hardware import simulate, verilog
from streamjoin.testing import stream

from ..long import LONG

pytestmark = pytest.mark.hardware

LEFT = stream(30, columns={"k": "int32", "v": "int16", "note": "string"}, seed=1, ties=0.3, nulls=0.2, domain=6)
RIGHT = stream(40, columns={"k": "int64", "w": "int8"}, seed=2, ties=0.3, nulls=0.2, domain=6)
SMALL = {"cores": 2, "segment": 3, "simulator": "amaranth"}


def rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


PREDICATES: dict[str, Any] = {
    "equality": "l.k = r.k",
    "band": "l.k BETWEEN r.k - 1 AND r.k + 1 AND l.v > 2",
    "nulls": "abs(l.v - r.w) <= 2 OR l.k IS NULL",
}
if LONG:  # each takes the engine seconds to compile
    PREDICATES |= {
        "expression": sj.col("l.k") + sj.col("r.w") > 7,
        "function": lambda l, r: l.k * 2 < r.k + r.w,
    }


@pytest.mark.parametrize("on", PREDICATES.values(), ids=PREDICATES)
def test_the_same_rows_as_the_engine(on: Any) -> None:
    out = simulate(LEFT, RIGHT, on=on, time="ts", **SMALL)
    expected = sj.join(LEFT, RIGHT, on=on, time="ts", window=6)
    assert out.schema == expected.schema
    assert expected.num_rows > 0
    assert rows(out) == rows(expected)


def test_anything_with_the_arrow_interface() -> None:
    polars = pytest.importorskip("polars")
    out = simulate(polars.from_arrow(LEFT), polars.from_arrow(RIGHT), on="l.k = r.k", time="ts", **SMALL)
    assert out.num_rows == sj.join(LEFT, RIGHT, on="l.k = r.k", time="ts", window=6).num_rows


def test_the_report() -> None:
    out, report = simulate(LEFT, RIGHT, on="l.k = r.k", time="ts", report=True, **SMALL)
    assert report.results == out.num_rows
    assert report["cycles"] == report.cycles > report.entered > 0
    assert len(report.accepted) == 70
    assert sorted(report.accepted.left) == list(range(30))
    assert not report.discarded
    with pytest.raises(KeyError, match="there are cycles"):
        report["speed"]


def test_discard_reports_which() -> None:
    left, right = (table.set_column(1, "k", pa.array([1] * table.num_rows)) for table in (LEFT, RIGHT))
    arguments = {"on": "l.k = r.k", "time": "ts", "admission": "discard", **SMALL}
    out, report = simulate(left, right, stall=0.7, report=True, **arguments)
    assert len(report.discarded) > 0
    kept = [table.take(pa.array(sorted(report.accepted[side]))) for side, table in (("left", left), ("right", right))]
    assert rows(out) == rows(sj.join(*kept, on="l.k = r.k", time="ts", window=6))


def test_slow_arrivals_are_not_discarded() -> None:
    _, report = simulate(LEFT, RIGHT, on="l.k = r.k", time="ts", admission="discard", interval=20, report=True, **SMALL)
    assert not report.discarded
    assert report.entered >= 69 * 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cores": 0}, r"cores: 0 is not valid; give a whole number from 1"),
        ({"cores": True}, r"cores: True is not valid"),
        ({"segment": 2.5}, r"segment: 2.5 is not valid"),
        ({"lanes": 3, "segment": 8}, r"lanes: 3 does not divide the segment of 8"),
        ({"ram": True, "segment": 2}, r"segment: 2 is not valid for 1 lanes in block RAM; give 3 for each lane"),
        ({"ram": "yes"}, r"ram: 'yes' is not valid"),
        ({"admission": "lossles"}, r"did you mean 'lossless'"),
        ({"merger": "fast"}, r"merger: 'fast'"),
        ({"scope": 1}, r"scope: 1"),
        ({"core_buffer": 2}, r"core_buffer: 2 is not valid; give a whole number from 3"),
        ({"window": 8}, r"window: there is no such argument; the design has cores, segment"),
        ({"simulator": "verilator"}, r"simulator: 'verilator'"),
        ({"stall": 1.0}, r"stall: 1.0 is not valid"),
        ({"gap": -1}, r"gap: -1 is not valid"),
        ({"interval": 1.5}, r"interval: 1.5 is not valid"),
        ({"seed": [1]}, r"seed: \[1\] is not valid"),
        ({"report": 1}, r"report: 1 is not valid"),
        ({"cores": 256, "segment": 64}, r"16384 tuples of a stream in registers, and 8192 is the most"),
        ({"cores": 1, "segment": 1 << 20, "ram": True}, r"take [0-9,]+ clocks, which takes too long"),
        ({"time": "when"}, r"time: the left stream has no column 'when'"),
    ],
    ids=str,
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        simulate(LEFT, RIGHT, on="l.k = r.k", **{"time": "ts", **arguments})


def test_wrong_data() -> None:
    with pytest.raises(PredicateError, match=r"l\.note is string"):
        simulate(LEFT, RIGHT, on="l.note = 'a' AND l.k = r.k", time="ts")
    with pytest.raises(PredicateError, match="unknown column 'x'"):
        simulate(LEFT, RIGHT, on="l.x = r.k", time="ts")
    with pytest.raises(DataError, match="is NULL in row 0"):
        simulate(LEFT.set_column(0, "ts", pa.nulls(30, LEFT["ts"].type)), RIGHT, on="l.k = r.k", time="ts")
    with pytest.raises(SchemaError, match="left: list is not Arrow data"):
        simulate([1, 2], RIGHT, on="l.k = r.k", time="ts")


def test_odd_names() -> None:
    """All in one circuit, simulated and as Verilog."""
    names = ["a b", "", "1", "日本", "values", "x\ny", "\\"]
    left = pa.table({**{name: [1, 2] for name in names}, "a_b": [1, 1]})
    right = pa.table({name: [2, 1, 2] for name in names})
    on = " AND ".join(f"l.`{name}` = r.`{name}`" for name in names) + " AND l.a_b = 1"
    out = simulate(left, right, on=on, cores=1, segment=2)
    for name in names:
        assert sorted(out[name].to_pylist()) == sorted(out[f"{name}_right"].to_pylist()) == [1, 2, 2]
    assert "module handshake_join" in verilog(left.schema, right.schema, on=on, cores=1, segment=2)


def test_names_that_become_alike_stay_apart() -> None:
    left = pa.table({"a b": [1, 2], "a_b": [2, 2]})
    on = "l.`a b` = r.k AND l.a_b = r.k"
    out = simulate(left, pa.table({"k": [2, 1]}), on=on, cores=1, segment=2)
    assert out.to_pylist() == [{"a b": 2, "a_b": 2, "k": 2}]


def test_column_names_must_be_unique() -> None:
    doubled = pa.table([[1], [2]], names=["k", "k"])
    with pytest.raises(ArgumentError, match="left: column names must be unique"):
        simulate(doubled, RIGHT, on="TRUE", cores=1, segment=1)


def test_verilog() -> None:
    """96-bit results of 64-bit tuples, as in the papers, and every field of the ports explained."""
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False)])
    text = verilog(schema, schema, on="l.k = r.k", cores=2, segment=2, name="my_join")
    assert re.search(r"^module my_join\(", text, re.MULTILINE)
    assert "// results__payload, 96 bits" in text
    assert "//   [32:1] values.k" in text
    assert re.search(r"output \[95:0\] results__payload;", text)
    assert ".py" not in text, "nothing of the machine that wrote it"


def test_a_name_that_is_no_verilog_identifier_is_refused() -> None:
    schema = pa.schema({"k": pa.int32()})
    with pytest.raises(ArgumentError, match="name: 'my join' is not valid"):
        verilog(schema, schema, on="l.k = r.k", name="my join")
    with pytest.raises(ArgumentError, match="payload: 0 is not valid"):
        verilog(schema, schema, on="l.k = r.k", payload=0)
