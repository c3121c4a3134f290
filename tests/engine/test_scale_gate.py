"""ScaleGate over Arrow data: one sequence, however the sources interleave, and nothing before it is ready."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.testing import assert_same_rows

from .. import constants

SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.int32()), ("name", pa.string()), ("tags", pa.list_(pa.int8()))])


def stream(rng: random.Random, rows: int, source: int) -> pa.Table:
    """Sorted, with ties within and between sources."""
    times = sorted(rng.randrange(40) for _ in range(rows))
    columns = {
        "ts": times, "id": [100 * source + k for k in range(rows)],
        "name": [rng.choice([None, "", f"{source} {k}"]) for k in range(rows)],
        "tags": [rng.choice([None, [], [source]]) for _ in range(rows)],
    }  # fmt: skip
    return pa.table(columns, schema=SCHEMA)


def merged(streams: list[pa.Table]) -> pa.Table:
    everything = pa.concat_tables(
        table.append_column("source", pa.repeat(number, table.num_rows)) for number, table in enumerate(streams)
    )
    order = [("ts", "ascending"), ("source", "ascending"), ("id", "ascending")]
    return everything.sort_by(order).drop_columns("source")


@given(seed=st.integers(0, 2**32 - 1))
def test_one_sequence(seed: int) -> None:
    rng = random.Random(seed)
    streams = [stream(rng, rng.choice([0, 1, 7, 30]), number) for number in range(rng.choice([1, 2, 5]))]
    with pytest.MonkeyPatch.context() as patch:
        constants.replace(patch, GATE_CAPACITY=rng.choice([1, 4, 4096]))
        gate = sj.ScaleGate(SCHEMA, len(streams), time="ts")
    found, at = [], [0] * len(streams)
    while any(at[number] is not None for number in range(len(streams))):
        number = rng.choice([n for n in range(len(streams)) if at[n] is not None])
        count = rng.choice([0, 1, 3, 10])
        gate.add(streams[number].slice(at[number], count), number)
        at[number] += count
        if at[number] >= streams[number].num_rows:
            gate.end(number)
            at[number] = None
        elif rng.random() < 0.3:
            gate.heartbeat(number, streams[number]["ts"][at[number]])
        if rng.random() < 0.5:
            found.append(gate.ready())
            check_ready(gate, streams, at, found)
    found.append(gate.ready())
    assert len(gate) == 0
    assert_same_rows(pa.concat_tables(found), merged(streams), ordered=True)


def check_ready(gate: Any, streams: list[pa.Table], at: list[int | None], found: list[pa.Table]) -> None:
    """No row that is still to come is earlier than one that came out."""
    times = [t for table in found for t in table["ts"].to_pylist()]
    for number, place in enumerate(at):
        if times and place is not None:
            assert streams[number]["ts"][place].as_py() >= times[-1]
    brought = sum(table.num_rows if place is None else place for table, place in zip(streams, at, strict=True))
    assert len(gate) == brought - len(times)


def test_a_silent_source_holds_up_the_others_until_it_speaks() -> None:
    gate = sj.ScaleGate(pa.schema([("at", pa.timestamp("ms"))]), 2, time="at")
    moments = [datetime(2026, 1, 1, 0, 0, second) for second in range(4)]
    gate.add(pa.table({"at": pa.array(moments, pa.timestamp("ms"))}), 0)
    assert gate.ready().num_rows == 0
    gate.heartbeat(1, moments[2])
    assert gate.ready()["at"].to_pylist() == moments[:3], "of equal times, the first source's comes first"
    gate.heartbeat(1, moments[0])
    assert gate.ready().num_rows == 0, "a promise is not taken back"
    gate.end(1)
    assert gate.ready()["at"].to_pylist() == moments[3:]
    gate.end(0)
    assert gate.ready().num_rows == len(gate) == 0


def test_joined_sources_give_one_result() -> None:
    """Four physical streams, far apart in time, joined in time order without a late row."""
    on, options = "l.id % 10 = r.id % 10", {"window": 30, "time": "ts", "order": "sorted", "algorithm": "scalejoin"}
    results = []
    for seed in range(3):
        rng = random.Random(seed)
        sides = [[stream(random.Random(10 * side + n), 50, n) for n in range(2 + side)] for side in range(2)]
        gates = [sj.ScaleGate(SCHEMA, len(tables), time="ts") for tables in sides]
        with sj.WindowJoin(SCHEMA, SCHEMA, on=on, workers=2, **options) as join:
            pushes = [(side, n) for side, tables in enumerate(sides) for n in range(len(tables))]
            for side, number in rng.sample(pushes, len(pushes)):
                gates[side].add(sides[side][number], number)
                gates[side].end(number)
                (join.push_left, join.push_right)[side](gates[side].ready())
            assert join.metrics()["late"] == 0
            results.append(join.finish())
    assert results[0].num_rows > 100
    assert all(result.equals(results[0]) for result in results)


def test_bad_input() -> None:
    for arguments, says in [
        ((SCHEMA, 0), "sources: 0 is not valid"), ((SCHEMA, True), "sources: True"), ((5, 1), "schema: int"),
    ]:  # fmt: skip
        with pytest.raises(sj.ArgumentError, match=says):
            sj.ScaleGate(*arguments, time="ts")
    with pytest.raises(sj.ArgumentError, match="time: there is no column 'when'; there are: ts, id"):
        sj.ScaleGate(SCHEMA, 1, time="when")
    with pytest.raises(sj.ArgumentError, match="does not tell time"):
        sj.ScaleGate(SCHEMA, 1, time="name")
    gate = sj.ScaleGate(SCHEMA.remove(3), 2, time="ts")
    good = pa.table({"ts": [3, 3, 5], "id": [1, 2, 3], "name": ["a", "b", None]}, schema=gate.schema)
    gate.add(good, 0)
    for table, says in [
        (good, "row 0 of the batch is earlier than what source 0 brought"),
        (good.set_column(0, "ts", pa.array([9, 8, 9])), "row 1 of the batch is earlier"),
        (good.set_column(0, "ts", pa.array([9, None, 9])), "'ts' is NULL in row 1"),
        (good.set_column(0, "ts", pa.array(["a", "b", "c"])), "column 'ts' is string"),
        (good.drop_columns("id"), "lacks"),
    ]:
        with pytest.raises((sj.DataError, sj.SchemaError), match=says):
            gate.add(table, 0)
    for source in (2, -1, "0", True):
        with pytest.raises(sj.ArgumentError, match="source: there is no"):
            gate.add(good, source)
    with pytest.raises(sj.ArgumentError, match="time: 'noon' is no int64"):
        gate.heartbeat(0, "noon")
    ends = pa.table({"ts": [2 - 2**63, 2**63 - 2]}, schema=pa.schema([("ts", pa.int64())]))
    far = sj.ScaleGate(ends.schema, 1, time="ts")
    far.add(ends, 0)
    assert far.ready().equals(ends)
    gate.end(1)
    with pytest.raises(sj.StateError, match="source 1 has ended"):
        gate.add(good, 1)
    assert_same_rows(gate.ready(), good, ordered=True)


def test_memory_is_given_back() -> None:
    gate = sj.ScaleGate(SCHEMA, 2, time="ts")
    for turn in range(40):
        table = pa.table({"ts": [turn] * 1000, "id": range(1000), "name": ["x"] * 1000, "tags": [[1]] * 1000}, SCHEMA)
        for source in range(2):
            gate.add(table, source)
        assert gate.ready().num_rows in (1000, 2000)
        assert len(gate) <= 1000
    assert gate._payload.rows < 40_000
