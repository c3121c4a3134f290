"""Real streams with skew and disorder, judged by DuckDB: an oracle that shares no line with ours.

The data is not part of the project; without it these tests are skipped.
"""

from functools import cache
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import streamjoin as sj
from streamjoin.store.registry import INDEXES
from streamjoin.testing import assert_same_rows, batches, interleave

from .long import LONG
from .pairwise import pairwise

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
STREAMS = {"logistics": ("logistics-tr", "logistics-ts"), "stock": ("stock-cj", "stock-sb")}
STRIDE = 17
"""Every 17th tuple: a few thousand of each stream, over its whole length."""

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")


def arrivals(name: str) -> pa.Table:
    """A stream in the order in which its tuples arrived, with a row number of its own."""
    table = pyarrow.csv.read_csv(DATA / f"{name}.csv.gz")
    table = table.take(pa.array(range(0, table.num_rows, STRIDE)))
    table = table.append_column("id", pa.array(range(table.num_rows), pa.int64()))
    return table.take(pc.sort_indices(table, [("arrivalTime", "ascending"), ("id", "ascending")]))


@cache
def streams(name: str) -> tuple[pa.Table, pa.Table]:
    left, right = (arrivals(stream) for stream in STREAMS[name])
    return left, right


WAYS = {
    "name": tuple(STREAMS),
    "window": ((2, 1), (1, 4)),
    "index": (*(name for name, index in INDEXES.items() if index.needs != "nothing"), "auto"),
    "order": ("none", "sorted"),
}
ROWS = list(product(*WAYS.values())) if LONG else [tuple(row.values()) for row in pairwise(WAYS)]


@pytest.mark.parametrize(tuple(WAYS), ROWS)
def test_skewed_equality_with_a_band(name, window, index, order):
    left, right = streams(name)
    on = "l.key = r.key AND l.value BETWEEN r.value - 3 AND r.value + 3"
    with sj.WindowJoin(
        left.schema, right.schema, on=on, window=tuple(map(sj.TimeWindow, window)), time="eventTime",
        lateness=sj.TimeWindow(10**9), index=index, order=order,
    ) as join:  # fmt: skip
        out = []
        for side, batch in interleave(batches(left, 97), batches(right, 311), seed=7):
            (join.push_left if side == "left" else join.push_right)(batch)
            out.append(join.poll())
        out.append(join.finish())
        assert join.metrics()["late"] == 0
    found = pa.concat_tables(out).select(["id", "id_right"])
    expected = duckdb.sql(
        f"""SELECT l.id, r.id AS id_right FROM "left" l JOIN "right" r ON l.key = r.key
            AND l.value BETWEEN r.value - 3 AND r.value + 3
            AND l.eventTime - r.eventTime < {window[1]} AND r.eventTime - l.eventTime < {window[0]}"""
    ).to_arrow_table()
    assert found.num_rows > 1000
    by_numbers = [("id", "ascending"), ("id_right", "ascending")]
    if not found.sort_by(by_numbers).equals(expected.sort_by(by_numbers)):
        assert_same_rows(found, expected)  # says which are missing


@pytest.mark.parametrize("name", STREAMS)
def test_late_tuples_are_dropped_and_nothing_else(name):
    left, right = streams(name)
    with sj.WindowJoin(
        left.schema, right.schema, on="l.key = r.key", window=sj.TimeWindow(100), time="eventTime", late="keep"
    ) as join:
        furthest, late = None, []
        for batch in batches(left, 100):
            times = batch.column("eventTime").to_pylist()
            ids = batch.column("id").to_pylist()
            late += [i for i, t in zip(ids, times, strict=True) if furthest is not None and t < furthest]
            furthest = max([*times, *([] if furthest is None else [furthest])])
            join.push_left(batch)
        assert join.metrics()["left"]["late"] == len(late)
        assert join.late().left.column("id").to_pylist() == late
