"""What a DataFrame may bring along: odd column names, time zones, collations."""

from __future__ import annotations

from typing import Any

import pytest

import streamjoin as sj
from streamjoin.spark import stream_join

WINDOW = {"window": sj.TimeWindow(5), "time": "t"}


def test_odd_column_names(spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS t, 5 AS `a.b`, 6 AS `a b`, 7 AS `c``d`, 8 AS Upper, 9 AS worker, 'x' AS body")
    joined = stream_join(frame, frame, on="l.`a.b` = r.`a.b` AND l.`a b` = r.`a b`", **WINDOW)
    assert joined.columns == [*frame.columns, *(f"{name}_right" for name in frame.columns)]
    assert [tuple(row) for row in joined.collect()] == [(1, 5, 6, 7, 8, 9, "x") * 2]


def test_names_that_differ_in_case_only(spark: Any) -> None:
    left, right = spark.sql("SELECT 1 AS t, 2 AS X"), spark.sql("SELECT 1 AS t, 3 AS x")
    with pytest.raises(sj.ArgumentError, match="the result would have the columns 'X' and 'x', which are one to Spark"):
        stream_join(left, right, on="l.X < r.x", **WINDOW)


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
    assert stream_join(frame, frame, on="l.a = r.a", **WINDOW).count() == 1


@pytest.mark.parametrize(("argument", "value"), [("name", ""), ("name", 5), ("cache_dir", 5)])
def test_arguments_of_the_wrong_kind(spark: Any, argument: str, value: object) -> None:
    frame = spark.sql("SELECT 1 AS t, 1 AS a")
    with pytest.raises(sj.ArgumentError, match=f"^{argument}: "):
        stream_join(frame, frame, on="l.a = r.a", **WINDOW, **{argument: value})
