"""Rows without a timestamp: an error, or left out and counted as if they had never been there."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.testing import assert_same_rows

from .. import interpreted
from ..pairwise import pairwise

ON = "l.k = r.k"
CHOICES = {
    "how": ["inner", "left", "full", "anti"],
    "order": ["none", "sorted"],
    "window": [sj.TimeWindow(6), (3, sj.TimeWindow(4)), 5],
}


@pytest.fixture(autouse=True)
def without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests prove the machine code."""
    interpreted.install(monkeypatch)


def stream(seed: int, rows: int = 60) -> pa.Table:
    """Rows in time order, of which every few have no timestamp."""
    rng = random.Random(seed)
    times = [None if rng.random() < 0.3 else at // 2 for at in range(rows)]
    tags = [[row] * (row % 3) for row in range(rows)]
    return pa.table({"t": pa.array(times, pa.int64()), "k": [rng.randrange(4) for _ in range(rows)], "tags": tags})


def with_times(table: pa.Table) -> pa.Table:
    return table.filter(table["t"].is_valid())


@pytest.mark.parametrize("case", pairwise(CHOICES), ids=str)
def test_dropped_rows_take_part_in_nothing(case: dict) -> None:
    left, right = stream(1), stream(2)
    arguments = dict(on=ON, window=case["window"], time="t", how=case["how"], order=case["order"])
    expected = sj.join(with_times(left), with_times(right), **arguments)
    found = sj.join(left, right, **arguments, null_time="drop")
    assert_same_rows(found, expected, context=case)
    readers = [pa.RecordBatchReader.from_batches(t.schema, t.to_batches(max_chunksize=7)) for t in (left, right)]
    assert_same_rows(sj.join_batches(*readers, **arguments, null_time="drop").read_all(), expected, context=case)
    with sj.WindowJoin(left.schema, right.schema, **arguments, null_time="drop") as join:
        pieces = []
        for start in range(0, 60, 5):
            join.push_left(left.slice(start, 5))
            join.push_right(right.slice(start, 5))
            pieces.append(join.poll())
        pieces.append(join.finish())
        assert_same_rows(pa.concat_tables(pieces), expected, context=case)
        figures = join.metrics()
    nulls = [table["t"].null_count for table in (left, right)]
    assert [figures[side]["null_time"] for side in ("left", "right")] == nulls
    assert figures["null_time"] == sum(nulls) > 0
    assert figures["left"]["in"] == figures["right"]["in"] == 60
    assert figures["late"] == 0


@pytest.mark.parametrize("match", ["latest", "nearest"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_as_of(match: str, how: str) -> None:
    left, right = stream(3), stream(4)
    arguments = dict(on=ON, window=sj.TimeWindow(9), time="t", how=how, match=match)
    expected = sj.join(with_times(left), with_times(right), **arguments)
    assert expected.num_rows
    assert_same_rows(sj.join(left, right, **arguments, null_time="drop"), expected)
    nobody = right.set_column(0, "t", pa.nulls(60, pa.int64()))
    expected = sj.join(with_times(left), nobody.slice(0, 0), **arguments)
    assert_same_rows(sj.join(left, nobody, **arguments, null_time="drop"), expected)


def test_a_batch_without_any_timestamp() -> None:
    left = pa.table({"t": pa.nulls(3, pa.int64()), "k": [1, 1, 1]})
    right = pa.table({"t": [1], "k": [1]})
    with sj.WindowJoin(left.schema, right.schema, on=ON, window=9, time="t", how="full", null_time="drop") as join:
        join.push_left(left)
        join.push_right(right)
        assert join.finish().to_pylist() == [{"t": None, "k": None, "t_right": 1, "k_right": 1}]
        assert join.metrics()["left"] | {"in": 3, "null_time": 3} == join.metrics()["left"]


def test_by_default_it_is_an_error_that_says_what_to_do() -> None:
    left = stream(1)
    for call in (sj.join, lambda *a, **kw: sj.join_batches(*a, **kw).read_all()):
        with pytest.raises(sj.DataError, match=r"time column 't' is NULL in row .* null_time=.drop."):
            call(left, left, on=ON, window=3, time="t")
    with pytest.raises(sj.ArgumentError, match="null_time: 'skip' is not valid"):
        sj.join(left, left, on=ON, window=3, time="t", null_time="skip")
    with pytest.raises(sj.ArgumentError, match="null_time: there is no time column"):
        sj.join(left, left, on=ON, window=3, null_time="drop")
