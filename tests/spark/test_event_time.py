"""Event time behind the join: watermarks, windows, duplicates and a further join in one query, as on tables."""

from __future__ import annotations

import logging
import random
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import streamjoin as sj
from streamjoin.side import SIDES
from streamjoin.spark import stream_join
from streamjoin.spark.outputs import COUNTS
from streamjoin.spark.progress import Advice
from streamjoin.testing import START, assert_same_rows

from .pipeline import read, write_files
from .simulated import Simulated, cut, dealt, make_spec, stream

pytestmark = pytest.mark.spark
SECOND = 1_000_000
LATENESS = 5
ON, WINDOWS = "l.k = r.k AND l.x < r.x + 30", (20, 10)
JOIN = dict(on=ON, window=tuple(f"{seconds} seconds" for seconds in WINDOWS), time="ts")
FAR, CUTS = 5_000, [(25, 130), (70, 80), (50, 100)]


def rows(rng: random.Random, count: int = 150) -> pa.Table:
    """About a row a second, with ties, at most `LATENESS` seconds out of order; then one far ahead, which matches that
    of another stream and so closes all windows before it."""
    times = np.sort([rng.randrange(count) for _ in range(count)])
    order = np.argsort(times + np.array([rng.randrange(LATENESS) for _ in range(count)]), kind="stable")
    seconds = [*times[order], FAR]
    ts = pa.array([START + int(second) * SECOND for second in seconds], pa.timestamp("us", "UTC"))
    keys, numbers = [rng.randrange(4) for _ in range(count)], [rng.randrange(60) for _ in range(count)]
    return pa.table({"ts": ts, "k": [*keys, 0], "x": [*numbers, 0]})


def streams(spark: Any, directory: Path, tables: list[pa.Table], missing: slice) -> list[Any]:
    """The tables as streams, of which these files are missing. Each file is a micro-batch; they do not go on evenly."""
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    found = []
    for number, table in enumerate(tables):
        first, second = CUTS[number]
        pieces = [table.slice(0, first), table.slice(first, second - first), table.slice(second)]
        place = directory / str(number)
        if not place.exists():
            write_files(place, [[piece] for piece in pieces])
            for file in sorted(place.iterdir())[missing]:
                file.rename(directory / f"{number}-{file.name}")
        else:
            for file in directory.glob(f"{number}-*.parquet"):
                file.rename(place / file.name.partition("-")[2])
        found.append(read(spark, place, 1))
    return found


def run(result: Any, directory: Path) -> None:
    writer = result.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(directory / "output"))
    query.awaitTermination()
    operators = [operator for progress in query.recentProgress for operator in progress["stateOperators"]]
    assert operators
    assert not any(operator["numRowsDroppedByWatermark"] for operator in operators)


def run_twice(spark: Any, directory: Path, tables: list[pa.Table], query: Any) -> pa.Table:
    """What a query writes over the first micro-batches, and then in another run over the others."""
    for missing in (slice(2, None), slice(0)):
        run(query(*streams(spark, directory, tables, missing)), directory)
    return spark.read.parquet(str(directory / "output")).toArrow()


def later(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.greater(one, other), one, other)


def per_window(at: pa.ChunkedArray, seconds: int) -> pa.Table:
    """How many rows lie in each window of so many seconds, but for that of far rows, which stays open."""
    start = pc.floor_temporal(at, seconds, unit="second", calendar_based_origin=False)
    near = pc.less(at, pa.scalar(START + FAR * SECOND, pa.timestamp("us", "UTC")))
    return pa.table({"start": start}).filter(near).group_by("start").aggregate([([], "count_all")])


def counted(frame: Any, column: str, seconds: int) -> Any:
    windows = frame.groupBy(F.window(column, f"{seconds} seconds")).agg(F.count("*").alias("count_all"))
    return windows.select(F.col("window.start").alias("start"), "count_all")


def without_far_rows(table: pa.Table, *names: str) -> pa.Table:
    for name in names:
        table = table.filter(pc.less(table[name], pa.scalar(START + FAR * SECOND, pa.timestamp("us", "UTC"))))
    return table


@pytest.mark.usefixtures("few_kernels")
def test_duplicates_and_windows_behind_the_join(spark: Any, tmp_path: Path, rng: random.Random) -> None:
    """The watermark is put on the result; the delay is the lateness and both windows."""
    tables = [rows(rng) for _ in SIDES]

    def query(left: Any, right: Any) -> Any:
        joined = stream_join(left, right, lateness=f"{LATENESS} seconds", **JOIN)
        marked = joined.withWatermark("ts", f"{LATENESS + sum(WINDOWS)} seconds")
        return counted(marked.dropDuplicates(["ts", "k"]), "ts", 7)

    joined = sj.join(*tables, **JOIN)
    distinct = joined.group_by(["ts", "k"]).aggregate([])
    assert 20 < distinct.num_rows < joined.num_rows
    found = run_twice(spark, tmp_path, tables, query)
    want = per_window(distinct["ts"], 7)
    assert_same_rows(without_far_rows(found, "start").cast(want.schema), want)


@pytest.mark.usefixtures("few_kernels")
def test_inputs_with_watermarks_and_a_third_stream(spark: Any, tmp_path: Path, rng: random.Random) -> None:
    """The lateness is the watermarks' delay. The result's time carries the watermark through a second join, whose
    figures have a name of their own, to windows."""
    tables = [rows(rng) for _ in range(3)]
    second = dict(on="l.x = r.x", window="15 seconds", time=("result_time", "ts"), suffix="_3")
    names = []

    def query(*inputs: Any) -> Any:
        left, right, third = (frame.withWatermark("ts", f"{LATENESS} seconds") for frame in inputs)
        pairs = stream_join(left, right, **JOIN)
        triples = stream_join(pairs, third, **second)
        names.extend([pairs.columns, triples.columns])
        return counted(triples, "result_time_2", 7)

    found = run_twice(spark, tmp_path, tables, query)
    assert names[0] == ["ts", "k", "x", "ts_right", "k_right", "x_right", "result_time"]
    assert names[1] == [*names[0], "ts_3", "k_3", "x_3", "result_time_2"]
    pairs = sj.join(*tables[:2], **JOIN)
    pairs = pairs.append_column("result_time", later(pairs["ts"], pairs["ts_right"]))
    triples = sj.join(pairs, tables[2], **second)
    assert triples.num_rows > 20
    want = per_window(later(triples["result_time"], triples["ts_3"]), 7)
    assert_same_rows(without_far_rows(found, "start").cast(want.schema), want)


@pytest.mark.parametrize(
    ("window", "behind"),
    [((20, 8), {"ts": 28, "ts_right": 28, "at": 20}), ((6, 30), {"ts": 36, "ts_right": 36, "at": 30}), (9, {"at": 0})],
    ids=str,
)
@pytest.mark.usefixtures("few_kernels")
def test_how_far_results_are_behind(window: Any, behind: dict[str, int], tmp_path: Path) -> None:
    """However unevenly the streams go on: at most the lateness and the longer window, or for the timestamps of one
    stream both windows; where order counts, nothing at all."""
    lengths = tuple(map(sj.TimeWindow, window)) if isinstance(window, tuple) else window
    for seed in range(12):
        rng = random.Random(seed)
        tables = [stream(rng, 120, 10) for _ in SIDES]
        schema = tables[0].schema
        spec = make_spec(
            schema, schema, on="l.k = r.k", window=lengths, time="ts", lateness=14, workers=2, cache=str(tmp_path)
        )
        run, reached = Simulated(spec), dict.fromkeys(behind, -(10**6))
        for left, right in zip(*(cut(rng, table, 8) for table in tables), strict=True):
            found = run.step(dealt(rng, left, 2), dealt(rng, right, 1))
            found = found.append_column("at", later(found["ts"], found["ts_right"]))
            for name, most in behind.items():
                if found.num_rows:
                    extremes = pc.min_max(found[name])
                    assert extremes["min"].as_py() >= reached[name] - most - (14 if most else 0), (seed, name)
                    reached[name] = max(reached[name], extremes["max"].as_py())


@pytest.mark.parametrize(("delay", "given"), [(5, {}), (9, {}), (5, {"lateness": "5 seconds"})])
def test_ordered_results_that_the_watermark_would_drop(spark: Any, delay: int, given: dict[str, str]) -> None:
    """They wait for the lateness. Where the watermark does not, the result must not carry it on."""

    def rate(delay: int) -> Any:
        return spark.readStream.format("rate").load().withWatermark("timestamp", f"{delay} seconds")

    arguments = dict(on="l.value = r.value", time="timestamp", **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert "result_time" in stream_join(rate(5), rate(delay), window="5 seconds", **arguments).columns
    if delay == 5 and not given:
        assert "result_time" in stream_join(rate(5), rate(delay), window=5, **arguments).columns
        return
    with pytest.warns(UserWarning, match="lateness: with count windows") as warned:
        joined = stream_join(rate(5), rate(delay), window=5, **arguments)
    assert "result_time" not in joined.columns
    assert warned[0].filename == __file__


def test_advice_on_skew() -> None:
    """Once a run, where one worker keeps far more than its share of many rows."""

    def told(rows: list[int]) -> int:
        caught: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = caught.append  # type: ignore[method-assign]
        logging.getLogger("streamjoin").addHandler(handler)
        workers = [{"left_window": count, "right_window": count} for count in rows]
        figures = dict.fromkeys(COUNTS, 0) | {"routing": "blocks: l.x", "workers": workers}
        progress = {"runId": "run", "batchId": 3, "observedMetrics": {"mine": figures, "other": {"workers": 1}}}
        advice = Advice()
        try:
            for _ in range(2):
                advice.onQueryProgress(SimpleNamespace(progress=progress))
        finally:
            logging.getLogger("streamjoin").removeHandler(handler)
        assert all("mine: in micro-batch 3, one of" in record.getMessage() for record in caught)
        return len(caught)

    assert told([30_000, 2_000]) == told([20_000, 30_000, 200_000, 0]) == 1
    assert told([30_000, 20_000]) == told([300, 0]) == told([]) == 0


def test_late_rows_are_told_once(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    table = pa.table({"ts": range(100), "k": [1] * 100})
    for side in SIDES:
        write_files(tmp_path / side, [[table]] * 3)
    arguments = dict(on="l.k = r.k", window=sj.TimeWindow(1), time="ts")
    caplog.set_level(logging.WARNING, "streamjoin")
    for told, lateness in ((1, {}), (0, {"lateness": 0})):
        caplog.clear()
        left, right = (read(spark, tmp_path / side, 1) for side in SIDES)
        joined = stream_join(left, right, **lateness, **arguments)
        joined.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        messages = [record.getMessage() for record in caplog.records if record.name == "streamjoin"]
        assert len(messages) == told, messages
