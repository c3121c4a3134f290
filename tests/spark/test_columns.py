"""Conditions that are columns of PySpark: both kinds mean what their SQL text does."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.predicate import parse
from streamjoin.predicate.render import render
from streamjoin.spark import stream_join
from streamjoin.spark.columns import sql_of

Build = Callable[[Any], Any]
"""Makes a column with the functions of classic PySpark, or with those of Spark Connect."""
CONDITIONS: list[tuple[Build, str]] = [
    (lambda F: F.col("l.x") - F.col("r.x") <= 10, "l.x - r.x <= 10"),
    (lambda F: F.abs(F.col("l.x") - F.col("r.x")) < 1.5, "abs(l.x - r.x) < 1.5D"),
    (lambda F: F.col("l.x").between(F.col("r.x") - 1, 5), "l.x >= r.x - 1 AND l.x <= 5"),
    (lambda F: (F.col("l.k") == F.col("r.k")) & ~(F.col("l.x") != 3), "l.k = r.k AND NOT (NOT l.x = 3)"),
    (lambda F: F.col("l.k").isin(1, None, -2) | F.col("r.k").isNull(), "l.k IN (1, NULL, -2) OR r.k IS NULL"),
    (lambda F: F.col("l.k").isNotNull() & F.col("r.x").isNaN(), "l.k IS NOT NULL AND isnan(r.x)"),
    (lambda F: F.col("l.k").eqNullSafe(F.col("r.k")), "l.k <=> r.k"),
    (lambda F: F.when(F.col("l.x") > 1, 2).when(F.col("l.k") > 5, 7).otherwise(-F.col("r.k")) == 2,
     "CASE WHEN l.x > 1 THEN 2 WHEN l.k > 5 THEN 7 ELSE - r.k END = 2"),
    (lambda F: F.when(F.col("l.x") > 1, True), "CASE WHEN l.x > 1 THEN TRUE END"),
    (lambda F: F.col("l.t").like("a%") & F.col("l.t").startswith("b"), "l.t LIKE 'a%' AND startswith(l.t, 'b')"),
    (lambda F: F.col("l.t") == "it's \\ so", r"l.t = 'it\'s \\ so'"),
    (lambda F: F.col("l.s")["n"] == F.col("r.s.n"), "l.s.n = r.s.n"),
    (lambda F: F.col("l.`a.b`") == F.col("l.s").getField("a b"), "l.`a.b` = l.s.`a b`"),
    (lambda F: F.col("l.x").cast("bigint") == F.col("l.t").try_cast("int"),
     "CAST(l.x AS bigint) = TRY_CAST(l.t AS int)"),
    (lambda F: F.col("l.x").cast("decimal(9,2)") % 2 == Decimal("1.50"), "CAST(l.x AS decimal(9,2)) % 2 = 1.50BD"),
    (lambda F: F.col("l.d") == dt.date(2024, 1, 2), "l.d = DATE '2024-01-02'"),
    (
        lambda F: F.col("l.at") > dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC),
        "l.at > TIMESTAMP '2024-01-02 03:04:05.000006'",
    ),
    (lambda F: F.col("l.at") - F.col("r.at") < dt.timedelta(seconds=5.5), "l.at - r.at < INTERVAL '5.5' SECOND"),
    (lambda F: F.col("l.x") < F.lit(float("nan")), "l.x < CAST('nan' AS double)"),
    (lambda F: F.col("l.k") < 2**40, "l.k < 1099511627776"),
    (lambda F: F.expr("l.x BETWEEN r.x - 1 AND r.x + 1") & F.lit(True), "(l.x BETWEEN r.x - 1 AND r.x + 1) AND TRUE"),
    (lambda F: F.col("x").alias("y") < F.coalesce(F.col("z"), F.col("w")) ** 2, "x < power(coalesce(z, w), 2)"),
]  # fmt: skip


def check(functions: Any) -> None:
    for build, text in CONDITIONS:
        written = sql_of(build(functions), {}, ("l", "r"))
        assert render(parse(written)) == render(parse(text)), written
    chain = functions.col("l.k") == 0
    for number in range(1, 600):
        chain = chain | (functions.col("l.k") == number)
    assert render(parse(sql_of(chain, {}, ("l", "r")))).count(" OR ") == 599
    for wrong, says in [
        (functions.col("l.t").rlike("a"), "unknown function"),
        (
            functions.udf(lambda value: value)(functions.col("l.k")),
            r"a Column of PySpark with \w+ cannot be read",
        ),
        (functions.sum(functions.col("l.k")) > 1, "aggregate"),
        (functions.col("l.k") == functions.lit(b"ab"), "cannot be read|not"),
    ]:
        with pytest.raises(sj.PredicateError, match=says):
            parse(sql_of(wrong, {}, ("l", "r")))


def test_of_spark_connect() -> None:
    """These are Python objects, which need no server."""
    from pyspark.sql.connect import functions

    check(functions)


@pytest.mark.spark
def test_of_classic_spark(spark: Any) -> None:
    from pyspark.sql import functions

    check(functions)


@pytest.mark.spark
@pytest.mark.usefixtures("few_kernels")
def test_columns_of_the_dataframes(spark: Any) -> None:
    """They say themselves which stream they belong to."""
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    table = pa.table({"ts": range(20), "k": [row % 3 for row in range(20)], "a.b": range(20)})
    left, right, third = (spark.createDataFrame(table) for _ in range(3))
    left, window = left.selectExpr("*", "named_struct('n', k) AS s").where("ts >= 0"), {"window": 5, "time": "ts"}
    for on, text in [
        (left.k == right["k"], "l.k = r.k"),
        (left["`a.b`"] >= right.ts, "l.`a.b` >= r.ts"),
        (left.s.n == right.k, "l.s.n = r.k"),
        (left["s.n"] == right.k, "l.s.n = r.k"),
    ]:
        written = sql_of(on, {"left": left, "right": right}, ("l", "r"))
        assert render(parse(written)) == render(parse(text))
    near = stream_join(left, right, on=left.ts - right.ts == 1, aliases=("trades", "quotes"), **window)
    assert near.count() == 19
    for on, whose in [(left.k == third.k, "neither"), (left.k == left.ts, None)]:
        says = "reads only the left" if whose is None else f"k` belongs to {whose}.*F.col\\('l.k'\\)"
        with pytest.raises(sj.PredicateError, match=says):
            stream_join(left, right, on=on, **window)
    with pytest.raises(sj.PredicateError, match=re.escape("belongs to both DataFrames; name its stream, as in F.col")):
        stream_join(left, left, on=left.k == left.k, **window)
