"""On real Spark the join gives the pairs of `join` on the same rows, however they are cut, dealt out and routed.

STREAMJOIN_TORTURE=1 runs many more rounds; STREAMJOIN_SEED=<number> repeats a run's choices.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.predicate import plan_for
from streamjoin.side import SIDES
from streamjoin.spark import Progress, stream_join
from streamjoin.testing import assert_same_rows

from ..conformance.predicates import Writer, values
from ..long import LONG
from .pipeline import read, write_files
from .simulated import cut, dealt

pytestmark = pytest.mark.spark
TYPES = {
    "tiny": pa.int8(), "small": pa.int16(), "int": pa.int32(), "big": pa.int64(), "single": pa.float32(),
    "double": pa.float64(), "cents": pa.decimal128(12, 3), "huge": pa.decimal128(38, 10), "flag": pa.bool_(),
    "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "text": pa.string(),
}  # fmt: skip
"""What predicates may read; `stream` adds columns that only travel along."""
CONSTANT_BANDS = [
    "l.int BETWEEN r.int - 1 AND r.int + 1",
    "l.big BETWEEN r.big - 1 AND r.big + 1",
    "l.double BETWEEN r.double - 0.5 AND r.double + 0.5",
    "abs(l.double - r.double) <= 0.5",
    "l.cents - r.cents BETWEEN -1 AND 1",
    "l.day BETWEEN r.day AND r.day + 1",
    "l.at BETWEEN r.at - INTERVAL 1 SECOND AND r.at",
]
BANDS = [
    "l.text <= r.text",
    "l.cents <= r.cents",
    *CONSTANT_BANDS,
]
TIME_WINDOWS = [(sj.TimeWindow(30), sj.TimeWindow(30)), (sj.TimeWindow(5), sj.TimeWindow(80))]
OTHER_WINDOWS = [(25, 40), (10, sj.TimeWindow(25)), (sj.TimeWindow(9), 15)]
FAR = 10**6


def stream(rng: random.Random, rows: int, *, disorder: int = 0, ties: bool = False) -> pa.Table:
    """Rows of all types with hard values, at most `disorder` behind the furthest before them."""
    times = np.cumsum([rng.randrange(1, 4) for _ in range(rows)], dtype=np.int64) // (3 if ties else 1)
    order = np.argsort(times + np.array([rng.randrange(disorder + 1) for _ in range(rows)]), kind="stable")
    travelling = {
        "raw": pa.array([rng.choice([None, b"", b"\0\xff", bytes(100)]) for _ in range(rows)], pa.binary()),
        "list": pa.array([rng.choice([None, [], [1, None, 3]]) for _ in range(rows)], pa.list_(pa.int16())),
        "pair": pa.array(
            [rng.choice([None, {"a": None, "b": "b"}, {"a": 1, "b": None}]) for _ in range(rows)],
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
        ),
        "map": pa.array([rng.choice([None, [], [("a", 1), ("b", None)]]) for _ in range(rows)],
                        pa.map_(pa.string(), pa.int64())),
    }  # fmt: skip
    columns = {name: values(rng, type_, rows) for name, type_ in TYPES.items()}
    return pa.table({"ts": times[order], "id": range(rows), **columns, **travelling})


def far_row(table: pa.Table) -> pa.Table:
    """A row so late that all others are ready, with nothing in it that matches."""
    return pa.table([pa.array([FAR]), *(pa.nulls(1, field.type) for field in list(table.schema)[1:])], table.schema)


def predicate(rng: random.Random, routing: str) -> str:
    """A random one that this routing allows and that matches nothing in a row of NULLs."""
    while True:
        written = Writer(rng, TYPES, TYPES).predicate()
        if routing in ("hash", "split"):
            keys = rng.sample(sorted(TYPES), rng.choice([1, 1, 2]))
            written = " AND ".join([*(f"l.{key} = r.{key}" for key in keys), *rng.choice([[], [f"({written})"]])])
        elif routing in ("range", "blocks"):
            bands = BANDS if routing == "range" else CONSTANT_BANDS
            written = " AND ".join([rng.choice(bands), *rng.choice([[], [f"({written})"]])])
        on = f"({written}) AND l.id >= 0 AND r.id >= 0"
        try:
            plan_for(on, *(pa.schema([("id", pa.int64()), *TYPES.items()]) for _ in SIDES))
        except sj.PredicateError:
            continue
        return on


def random_join(rng: random.Random, routing: str, disorder: int) -> tuple[str, Any, list[pa.Table], pa.Table]:
    """A predicate, windows, two streams and their join, which is not empty."""
    while True:
        on, window = predicate(rng, routing), rng.choice([*TIME_WINDOWS, *OTHER_WINDOWS])
        tables = [stream(rng, rng.choice([20, 120]), disorder=disorder, ties=window in TIME_WINDOWS) for _ in SIDES]
        want = sj.join(*tables, on=on, window=window, time="ts")
        if want.num_rows:
            return on, window, tables, want


def streamed(
    spark: Any, directory: Path, left: list[list[pa.Table]], right: list[list[pa.Table]], **arguments: Any
) -> tuple[pa.Table, list[Any]]:
    """The result and the progress of a query over micro-batches, each given as the tables of its partitions."""
    for side, batches in zip(SIDES, (left, right), strict=True):
        write_files(directory / side, batches)
    streams = [read(spark, directory / side, len(left[0])) for side in SIDES]
    joined = stream_join(*streams, time="ts", cache_dir=str(directory / "cache"), **arguments)
    name = f"out_{random.getrandbits(64)}"
    writer = joined.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    query.awaitTermination()
    found = spark.table(name).toArrow()
    spark.catalog.dropTempView(name)
    return found, query.recentProgress


def frames(spark: Any, directory: Path, tables: list[pa.Table]) -> list[Any]:
    """The tables as DataFrames of two partitions each, with the types that they have as files."""
    for side, table in zip(SIDES, tables, strict=True):
        write_files(directory / side, [[table.slice(0, table.num_rows // 2), table.slice(table.num_rows // 2)]])
    return [spark.read.parquet(str(directory / side)) for side in SIDES]


def check(found: pa.Table, want: pa.Table, context: Any) -> None:
    assert_same_rows(found.cast(want.schema), want, context=context)


MOST_BATCHES = 4 if LONG else 2
ROUTINGS = ("broadcast", "hash", "split", "range", "blocks")
HOWS = ("left", "right", "full", "semi", "anti")
DEALT = [("broadcast", 2), ("hash", 3), ("range", 2), ("blocks", 3)]


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize(("routing", "partitions"), list(product(ROUTINGS, (1, 2, 5))) if LONG else DEALT)
def test_streams_and_tables(spark: Any, routing: str, partitions: int, tmp_path: Path, rng: random.Random) -> None:
    """The same rows as streams and as DataFrames that are no streams: these end, so every row is ready."""
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    for number in range(10 if LONG else 1):
        disorder, batches, files = rng.choice([0, 5, 40]), rng.choice([1, 2, 3]) if LONG else 1, rng.choice([1, 2, 3])
        on, window, tables, want = random_join(rng, routing, disorder)
        context = on, window, disorder, batches, files
        left, right = frames(spark, tmp_path / f"tables-{number}", tables)
        joined = stream_join(left, right, on=on, window=window, time="ts", routing=routing)
        check(joined.toArrow(), want, context)
        cuts = [[dealt(rng, piece, files) for piece in cut(rng, table, batches)] for table in tables]
        for table, pieces in zip(tables, cuts, strict=True):
            pieces.append([far_row(table), *[table.slice(table.num_rows)] * (files - 1)])
        found, _ = streamed(
            spark, tmp_path / f"streams-{number}", *cuts, on=on, window=window, lateness=disorder, routing=routing
        )
        check(found, want, context)


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize(
    ("how", "match", "routing"),
    [*product(HOWS, ["all"], ROUTINGS), *product(["inner", "left"], ["latest", "nearest"], ROUTINGS)]
    if LONG
    else [
        ("full", "all", "broadcast"),
        ("anti", "all", "range"),
        ("semi", "all", "split"),
        ("left", "latest", "blocks"),
    ],
)
def test_every_how(spark: Any, how: str, match: str, routing: str, tmp_path: Path, rng: random.Random) -> None:
    """On tables, whose windows all close. Of closest partners at the same time, the partitions' order chooses one."""
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    on, window, tables, _ = random_join(rng, routing, 5)
    while match != "all" and window in TIME_WINDOWS:  # rows with equal times
        on, window, tables, _ = random_join(rng, routing, 5)
    left, right = frames(spark, tmp_path / "tables", tables)
    arguments: dict[str, Any] = dict(on=on, window=window, time="ts", how=how, match=match)
    want = sj.join(*tables, **arguments)
    assert want.num_rows
    check(stream_join(left, right, routing=routing, **arguments).toArrow(), want, arguments)


@pytest.mark.parametrize("routing", ROUTINGS if LONG else ["hash"])
def test_left_join_of_streams_with_late_rows(spark: Any, routing: str, tmp_path: Path, rng: random.Random) -> None:
    """Rows come when their windows have closed; late rows are none of them; the figures tell them apart."""
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    on, window = "l.tiny = r.tiny AND l.int BETWEEN r.int - 2 AND r.int + 2", sj.TimeWindow(40)
    batches = [cut(rng, stream(rng, 100, disorder=60), 2) for _ in SIDES]
    for pieces in batches:
        pieces.append(far_row(pieces[0]))
    arguments: dict[str, Any] = dict(on=on, window=window, lateness=10, late="keep", how="left")
    parts = [[dealt(rng, piece, 2) for piece in pieces] for pieces in batches]
    found, progress = streamed(spark, tmp_path, *parts, routing=routing, name="figures", **arguments)
    with sj.WindowJoin(batches[0][0].schema, batches[1][0].schema, time="ts", **arguments) as join:
        for left, right in zip(*batches, strict=True):
            join.push_left(left)
            join.push_right(right)
        want, late = join.poll(), join.late()
    check(found.filter(pa.compute.is_null(found["late"])).drop_columns("late"), want, "results")
    assert sum(rows.num_rows for rows in late) == len(found) - len(want) > 0
    figures = [Progress.of(step, "figures") for step in progress if step["numInputRows"]]
    assert sum(step.out for step in figures) == want.num_rows
    assert sum(step.unmatched for step in figures) == want["ts_right"].null_count > 0


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize(
    "keys",
    [[key] for key in TYPES] if LONG else [["text", "day"], ["cents", "flag"], ["at", "tiny"], ["double", "huge"]],
)
def test_keys_of_all_types(spark: Any, keys: list[str], tmp_path: Path, rng: random.Random) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    tables = [stream(rng, 200) for _ in SIDES]
    arguments = dict(on=" AND ".join(f"l.{key} = r.{key}" for key in keys), window=sj.TimeWindow(100), time="ts")
    joined = stream_join(*frames(spark, tmp_path, tables), routing="hash", **arguments)
    check(joined.toArrow(), sj.join(*tables, **arguments), keys)


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize("type_", [pa.int32(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_times_of_all_types(spark: Any, type_: pa.DataType, tmp_path: Path, rng: random.Random) -> None:
    """Also where the session's time zone is not UTC."""
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    whole = pa.int64() if pa.types.is_timestamp(type_) else pa.int32()
    columns = [pa.array([rng.randrange(300) for _ in range(60)], whole).cast(type_) for _ in SIDES]
    tables = [pa.table({"ts": column, "id": range(60)}) for column in columns]
    unit = {"int32": None, "date32[day]": "days"}.get(str(type_), "microseconds")
    arguments = dict(on="l.id <> r.id", window=sj.TimeWindow(20 if unit is None else f"20 {unit}"), time="ts")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = stream_join(*frames(spark, tmp_path, tables), **arguments).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    check(found, sj.join(*tables, **arguments), type_)


@pytest.mark.parametrize("routing", ROUTINGS if LONG else ["range"])
def test_late_rows(spark: Any, routing: str, tmp_path: Path, rng: random.Random) -> None:
    """They are counted and, on request, kept; all others are joined."""
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    on, window, lateness = "l.tiny = r.tiny AND l.int BETWEEN r.int - 2 AND r.int + 2", sj.TimeWindow(40), 10
    streams = [stream(rng, 200, disorder=60, ties=True) for _ in SIDES]
    batches = [[piece for piece in cut(rng, table, MOST_BATCHES) if piece.num_rows] for table in streams]
    parts = [[dealt(rng, piece, 2) for piece in pieces] for pieces in batches]
    arguments = dict(on=on, window=window, lateness=lateness, late="keep")
    found, progress = streamed(spark, tmp_path, *parts, routing=routing, name="figures", **arguments)

    with sj.WindowJoin(batches[0][0].schema, batches[1][0].schema, time="ts", **arguments) as join:
        for left, right in zip(*batches, strict=True):
            join.push_left(left)
            join.push_right(right)
        want = join.finish()
        late = join.late()
    check(found.filter(pa.compute.is_null(found["late"])).drop_columns("late"), want, "pairs")
    for side, rows in zip(SIDES, late, strict=True):
        names = want.column_names[: rows.num_columns] if side == "left" else want.column_names[-rows.num_columns :]
        kept = found.filter(pa.compute.equal(found["late"], side)).select(names).rename_columns(rows.column_names)
        assert rows.num_rows
        check(kept, rows, side)
        figures = [step["observedMetrics"]["figures"] for step in progress if step["numInputRows"]]
        assert sum(step[f"{side}_late"] for step in figures) == rows.num_rows
        assert sum(step[f"{side}_in"] for step in figures) == 200
    assert sum(step["out"] for step in figures) == want.num_rows
    assert figures[-1]["routing"].startswith(f"{routing}: asked for")


@pytest.mark.parametrize("window", [sj.TimeWindow(100), 40] if LONG else [40], ids=str)
def test_state_stays_flat(spark: Any, window: Any, tmp_path: Path, rng: random.Random) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    batches, rows = 32 if LONG else 12, 20
    times = [
        pa.table({"ts": np.arange(n * rows, (n + 1) * rows) * 3, "k": np.arange(rows) % 7}) for n in range(batches)
    ]
    steps = [[table] for table in times]
    found, progress = streamed(spark, tmp_path, steps, steps, on="l.k = r.k", window=window)
    stream = pa.concat_tables(times)
    assert found.num_rows >= 0.9 * sj.join(stream, stream, on="l.k = r.k", window=window, time="ts").num_rows
    stored = [step["stateOperators"][0]["numRowsTotal"] for step in progress]
    assert len(stored) >= batches
    assert max(stored[batches // 2 :]) <= max(stored[: batches // 2]), stored
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(kept) <= max(stored), kept


def test_output_modes(spark: Any, tmp_path: Path) -> None:
    """Append and update say the same of rows that never change; there is no complete result to write."""
    from pyspark.errors import AnalysisException

    spark.conf.set("spark.sql.shuffle.partitions", 2)
    table = pa.table({"ts": range(20), "id": range(20)})
    write_files(tmp_path / "files", [[table]])
    files = read(spark, tmp_path / "files", 1)
    joined = stream_join(files, files, on="l.id = r.id", window=sj.TimeWindow(1), time="ts")
    writer = joined.writeStream.format("memory")
    with pytest.raises(AnalysisException, match=r"(?i)complete"):
        writer.queryName("complete").outputMode("complete").start()
    writer.queryName("updates").outputMode("update").trigger(availableNow=True).start().awaitTermination()
    assert_same_rows(spark.table("updates").select("id").toArrow(), table.select(["id"]))
