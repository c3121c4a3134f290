"""The pipeline uses nothing but the public DataFrame API, so it runs on Spark Connect too: here on a local server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import streamjoin as sj
from streamjoin.spark.session import CHANGELOG, PROVIDER, ROCKSDB, SHUFFLE
from streamjoin.testing import trades_and_quotes

from .sessions import LOCAL_FILES, QUICK

pytestmark = pytest.mark.spark
ON = "l.symbol = r.symbol AND l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"
SETTINGS = {PROVIDER: ROCKSDB, CHANGELOG: "true", SHUFFLE: "1", "spark.ui.enabled": "false", **QUICK, **LOCAL_FILES}
SCHEMAS = ["ts timestamp_ntz, symbol string, price double", "ts timestamp_ntz, symbol string, bid double, ask double"]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from streamjoin.spark import stream_join
from streamjoin.spark.progress import Progress

directory = sys.argv[1]
settings, schemas = map(json.loads, sys.argv[2:])
builder = SparkSession.builder.remote("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
reader = spark.readStream
frames = [reader.schema(schema).parquet(f"{directory}/{side}") for side, schema in zip(("left", "right"), schemas)]
left, right = frames
on = (left.symbol == right.symbol) & F.col("l.price").between(right.bid - 0.01, right["ask"] + 0.01)
frames[0] = left.where("price > 0")  # its columns are still those of `left`
joined = stream_join(*frames, on=on, window=("2 seconds", "5 seconds"), time="ts")
query = (
    joined.writeStream.format("memory").queryName("joined").option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
batches = [Progress.of(progress) for progress in query.recentProgress]
marked = reader.schema("ts timestamp, k int").parquet(f"{directory}/left").withWatermark("ts", "3 seconds")
twice = stream_join(marked, marked, on="l.k = r.k", window="1 second", time="ts")
thrice = stream_join(twice, twice, on="l.k = r.k", window="1 second", time="result_time", suffix="_r")
print(json.dumps({
    "kind": type(spark).__module__,
    "rows": spark.table("joined").count(),
    "in": sum(batch.left_in for batch in batches if batch is not None),
    "columns": thrice.columns,
    "lateness": thrice.schema["result_time_2"].metadata["spark.watermarkDelayMs"],
    "out": sum(worker.out for batch in batches if batch is not None for worker in batch.workers),
}))
spark.stop()
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_on_a_connect_server(tmp_path: Path) -> None:
    tables = trades_and_quotes(500)
    for side, table in zip(("left", "right"), tables, strict=True):
        (tmp_path / side).mkdir()
        pq.write_table(table, tmp_path / side / "rows.parquet")
    expected = sj.join(*tables, on=ON, window=("2 seconds", "5 seconds"), time="ts")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(SETTINGS), json.dumps(SCHEMAS)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert "connect" in found["kind"]
    assert found["rows"] == found["out"] == expected.num_rows > 0
    assert found["in"] == 500
    assert found["columns"][-1] == "result_time_2"
    assert found["lateness"] == 5_000  # the delay and both joins' windows
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
