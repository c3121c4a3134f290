"""What is refused at the call, and what DataFrames may bring along: odd column names, time zones, collations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.spark import python_workers, stream_join
from streamjoin.spark.checkpoint import file_of
from streamjoin.spark.metric_names import unused_name
from streamjoin.spark.session import SHUFFLE

pytestmark = pytest.mark.spark
WINDOW = {"window": sj.TimeWindow(5), "time": "t"}


def test_a_misspelt_argument() -> None:
    with pytest.raises(sj.ArgumentError, match=r"^windw: stream_join has no such argument \(did you mean 'window'\?\)"):
        stream_join(None, None, on="TRUE", windw=5, **WINDOW)


def test_odd_column_names(spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS t, 5 AS `a.b`, 6 AS `a b`, 7 AS `c``d`, 8 AS Upper, 9 AS worker, 'x' AS body")
    joined = stream_join(frame, frame, on="l.`a.b` = r.`a.b` AND l.`a b` = r.`a b`", **WINDOW)
    assert joined.columns == [*frame.columns, *(f"{name}_right" for name in frame.columns)]
    assert [tuple(row) for row in joined.collect()] == [(1, 5, 6, 7, 8, 9, "x") * 2]


def test_structs_that_are_null_though_their_fields_may_not_be(spark: Any) -> None:
    """The result of an outer join has such structs."""
    some = "CASE WHEN id <> 1 THEN named_struct('k', 'a', 'of', array(named_struct('n', id))) END AS s"
    frame = spark.range(3).selectExpr("id AS t", some)
    joined = stream_join(frame, frame, on="l.t = r.t", **WINDOW)
    assert [row["s"] is None for row in joined.sort("t").collect()] == [False, True, False]


def test_names_that_differ_in_case_only(spark: Any) -> None:
    left, right = spark.sql("SELECT 1 AS t, 2 AS X"), spark.sql("SELECT 1 AS t, 3 AS x")
    with pytest.raises(sj.ArgumentError, match="the result would have the columns 'X' and 'x', which are one to Spark"):
        stream_join(left, right, on="l.X < r.x", **WINDOW)


def test_names_in_another_case(spark: Any) -> None:
    """Where the session ignores case, so do the names of columns and streams, but for names that would be ambiguous."""
    left, right = spark.sql("SELECT 1 AS t, 2 AS X, 5 AS x_"), spark.sql("SELECT 1 AS u, 3 AS y")
    for on in ("l.x < r.Y", "L.X < R.Y", "x < Y"):
        joined = stream_join(left, right, on=on, window=sj.TimeWindow(5), time=("T", "U"))
    assert joined.count() == 1
    setting = "spark.sql.caseSensitive"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(sj.PredicateError, match="unknown column 'x'"):
            stream_join(left, right, on="l.x < r.y", window=sj.TimeWindow(5), time=("t", "u"))
        twice = spark.sql("SELECT 1 AS t, 2 AS X, 5 AS x")
    finally:
        spark.conf.set(setting, "false")
    with pytest.raises(sj.StreamJoinError, match="the columns 'X' and 'x', which are one to Spark"):
        stream_join(twice, right, on="l.t = r.y", window=sj.TimeWindow(5), time=("t", "u"))


def test_columns_that_the_result_adds(spark: Any) -> None:
    left, right = spark.sql("SELECT 1 AS t, 2 AS x"), spark.sql("SELECT 3 AS t, 2 AS x")
    joined = stream_join(left, right, on="l.x = r.x", suffix="_2", result_time="at", late="keep", **WINDOW)
    assert joined.columns == ["t", "x", "t_2", "x_2", "late", "at"]
    assert [tuple(row) for row in joined.collect()] == [(1, 2, 3, 2, None, 3)]
    with pytest.raises(sj.ArgumentError, match="result_time: the result already has a column 'X_Right'"):
        stream_join(left, right, on="l.x = r.x", result_time="X_Right", **WINDOW)


def test_two_joins_in_one_query(spark: Any) -> None:
    """The figures of the second one have a name of their own."""
    frame = spark.sql("SELECT 1 AS t, 2 AS x")
    once = stream_join(frame, frame, on="l.x = r.x", **WINDOW)
    assert unused_name(frame, frame) == "streamjoin"
    assert unused_name(frame, once.select("t").where("t > 0")) == "streamjoin_2"
    twice = stream_join(once, frame, on="l.x = r.x", suffix="_3", **WINDOW)
    assert unused_name(twice, once) == "streamjoin_3"


def test_python_workers_without_the_package(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.sql("SELECT 1 AS t, 2 AS x")
    monkeypatch.setattr(python_workers, "_FIT", set())
    monkeypatch.setattr(python_workers, "__version__", "77.0")
    with pytest.raises(
        sj.StateError, match=r"workers \(.*python.*\) have streamjoin 0\..*, and the driver 77\.0; install"
    ):
        stream_join(frame, frame, on="l.x = r.x", **WINDOW)
    monkeypatch.setattr(python_workers, "MODULE", "streamjoin_nowhere")
    with pytest.raises(sj.StateError, match="cannot import streamjoin: No module named 'streamjoin_nowhere'; install"):
        stream_join(frame, frame, on="l.x = r.x", **WINDOW)


def test_many_shuffle_partitions(spark: Any, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "files"))
    files = spark.readStream.schema("id long").parquet(str(tmp_path / "files"))
    before = spark.conf.get(SHUFFLE)
    spark.conf.set(SHUFFLE, 200)
    try:
        with pytest.warns(UserWarning, match="200 shuffle partitions and 2 cores; .*shuffle.partitions") as warned:
            stream_join(files, files, on="l.id = r.id", window=1, time="id", lateness=1)
    finally:
        spark.conf.set(SHUFFLE, before)
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)]


def test_time_zones(spark: Any) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        frame = spark.sql("SELECT TIMESTAMP '2024-03-10 23:30:00' AS ts, DATE '2024-03-10' AS d, 1 AS a")
        moments = {"window": "45 minutes", "time": "ts"}
        for on in ("CAST(l.ts AS DATE) = r.d", "l.a = r.a AND l.ts = TIMESTAMP '2024-03-10 23:30:00'", "l.ts = r.d"):
            with pytest.raises(sj.ArgumentError, match="the session's time zone is America/New_York"):
                stream_join(frame, frame, on=on, **moments)
        assert stream_join(frame, frame, on="l.ts = r.ts AND l.d = r.d", **moments).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_collations(spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS t, 1 AS a, 'x' COLLATE UTF8_LCASE AS k")
    with pytest.raises(sj.StreamJoinError, match="column 'k' of the left stream has the collation UTF8_LCASE"):
        stream_join(frame, frame, on="l.k = r.k", **WINDOW)
    within = spark.sql("SELECT 1 AS t, 1 AS a, STRUCT('x' COLLATE UTF8_LCASE AS k, 1 AS n) AS s")
    with pytest.raises(sj.StreamJoinError, match=r"column 's\.k' of the left stream has the collation UTF8_LCASE"):
        stream_join(within, frame, on="l.S.K = r.k", **WINDOW)
    assert stream_join(within, frame, on="l.S.N = r.a", **WINDOW).count() == 1


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", ""),
        ("name", 5),
        ("cache_dir", 5),
        ("result_time", ""),
        ("suffix", ""),
        ("suffix", 2),
        ("idle_timeout", 0),
        ("idle_timeout", "often"),
    ],
)
def test_arguments_of_the_wrong_kind(spark: Any, argument: str, value: object) -> None:
    frame = spark.sql("SELECT 1 AS t, 1 AS a")
    with pytest.raises(sj.ArgumentError, match=f"^{argument}: "):
        stream_join(frame, frame, on="l.a = r.a", **WINDOW, **{argument: value})


def test_wrong_arguments(spark: Any, tmp_path: Path) -> None:
    """Each is refused at the call, and the message names the argument and what would do."""
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    table = spark.createDataFrame(pa.table({"ts": [1, 2], "k": [1, 2], "x": [0.5, 1.5]}))
    table.write.parquet(str(tmp_path / "files"))
    files = spark.readStream.schema(table.schema).parquet(str(tmp_path / "files"))
    good = dict(on="l.k = r.k", window=sj.TimeWindow(5), time="ts")
    for wrong, kind, says in [
        (dict(on="l.nothing = r.k"), sj.PredicateError, r"nothing.*ts, k, x"),
        (dict(on="l.k ="), sj.PredicateError, "on"),
        (dict(on=table.k == table.x), sj.PredicateError, "on: the column `k` belongs to both DataFrames"),
        (dict(time="when"), sj.ArgumentError, r"time.*when.*ts"),
        (dict(time="x"), sj.ArgumentError, r"time.*x"),
        (dict(time=None), sj.ArgumentError, "time"),
        (dict(window="5 minutes"), sj.ArgumentError, "window"),
        (dict(window=0), sj.ArgumentError, "window"),
        (dict(lateness=-1), sj.ArgumentError, "lateness"),
        (dict(routing="nowhere"), sj.ArgumentError, r"routing.*nowhere.*broadcast"),
        (dict(routing="hash", on="l.k < r.k"), sj.ArgumentError, r"routing.*equality"),
        (dict(routing="range", on="l.k <> r.k"), sj.ArgumentError, r"routing.*band"),
        (dict(partitions=3), sj.ArgumentError, r"partitions: 3 .*spark.sql.shuffle.partitions"),
        (dict(partitions=0), sj.ArgumentError, "partitions: 0"),
        (dict(how="sideways"), sj.ArgumentError, r"how: 'sideways'.*'anti'"),
        (dict(match="last"), sj.ArgumentError, r"match: 'last'.*'latest'"),
        (dict(match="latest", how="full"), sj.ArgumentError, r"match: 'latest'.*how='full'"),
        (dict(late="often"), sj.ArgumentError, "late"),
        (dict(index="card"), sj.ArgumentError, "index"),
        (dict(order="sorted"), sj.ArgumentError, "order: stream_join has no such argument; .*sort them where"),
        (dict(workers=2), sj.ArgumentError, "workers: .*give partitions"),
        (dict(checkpoint=5), sj.ArgumentError, "checkpoint: 5"),
        (dict(bogus=1), TypeError, "bogus"),
    ]:
        with pytest.raises(kind, match=f"(?s){says}"):
            stream_join(table, table, **{**good, **wrong})
    with pytest.raises(sj.ArgumentError, match="right: the left DataFrame is a stream and this one is not"):
        stream_join(files, table, **good)
    with pytest.raises(sj.ArgumentError, match="left: the right DataFrame is a stream and this one is not"):
        stream_join(table, files, **good)
    with pytest.raises(sj.ArgumentError, match="right: DataStreamWriter is not a Spark DataFrame"):
        stream_join(files, files.writeStream, **good)
    with pytest.raises(sj.SchemaError, match="left: there are several columns 'k'"):
        stream_join(table.select("*", "k"), table, **good)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "false"),
        (
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        ),
    ],
)
def test_wrong_settings(spark: Any, setting: str, value: str, tmp_path: Path) -> None:
    frame = spark.createDataFrame(pa.table({"ts": [1, 2]}))
    frame.write.parquet(str(tmp_path / "files"))
    files = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "files"))
    good = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        with pytest.raises(sj.ArgumentError, match=f'spark.conf.set."{setting}", "{good}"'):
            stream_join(files, files, on="TRUE", window=1, time="ts")
    finally:
        spark.conf.set(setting, good)


@pytest.mark.parametrize("name", ["trades:quotes", "trades/quotes"])
def test_any_name_of_a_join_is_one_of_a_file(name: str) -> None:
    file = file_of(name)
    assert not {":", "/"} & set(file)
    assert file_of("streamjoin_2") == "streamjoin-streamjoin_2.json"
