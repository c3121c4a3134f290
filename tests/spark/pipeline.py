"""Queries from files through `stream_join` to files, also as a program that may be killed and started again:

    python -m tests.spark.pipeline '{"queries": [["/tmp/somewhere", "bands", "hash"]]}'

All queries run at the same time. Each has a directory of its own: the streams' files in `left` and `right`, the query's
`checkpoint` and `output`, the workers' `cache`, and, once all input has been read, `result.parquet`.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import streamjoin as sj
from streamjoin.side import SIDES
from streamjoin.testing import START, stream

from .sessions import QUICK
from .simulated import dealt

DISORDER = 200_000
FAR = START + 10**12
JOINS: dict[str, dict[str, Any]] = {
    "keys": dict(on="l.k = r.k", window=("1 second", "3 seconds")),
    "bands": dict(on="l.k = r.k AND l.x BETWEEN r.x - 60 AND r.x + 60", window=("4 seconds", "2 seconds")),
    "ranges": dict(on="l.x BETWEEN r.x - 2 AND r.x + 2", window="2 seconds"),
    "alone too": dict(on="l.k = r.k AND l.x BETWEEN r.x - 9 AND r.x + 9", window=("1 second", "2 seconds"), how="full"),
    "closest": dict(
        on="l.k = r.k AND l.x BETWEEN r.x - 90 AND r.x + 90", window="2 seconds", how="left", match="nearest"
    ),
    "last rows": dict(on="l.k = r.k AND l.x < r.x AND l.name <> r.name", window=(300, 200)),
    "last rows and time": dict(on="l.k = r.k AND l.x BETWEEN r.x - 90 AND r.x + 90", window=(200, "1 second")),
}
"""Arguments of joins over the streams that `write_input` makes; all of them give some thousand pairs."""
for _arguments in JOINS.values():
    _arguments.update(time="ts", lateness=f"{DISORDER} us")
NOT_POSSIBLE = {("keys", "range"), ("keys", "blocks"), ("ranges", "hash"), ("ranges", "split"), ("last rows", "blocks")}
ROUTINGS = [
    (join, routing)
    for join in JOINS
    for routing in ("broadcast", "hash", "split", "range", "blocks")
    if (join, routing) not in NOT_POSSIBLE
]
"""Joins with the routings that they allow."""


def write_input(directory: Path, seed: int, *, rows: int = 2_000, batches: int = 8, files: int = 2) -> None:
    """Both streams, out of order, `files` files per micro-batch. No two rows of a stream have the same timestamp, and
    the last row lies so far ahead that all others are ready, and that all windows but its own have closed."""
    rng = random.Random(seed)
    for side in SIDES:
        columns = {"id": "int64", "k": "int32", "x": "float64", "name": "string"}
        table = stream(
            rows, columns=columns, seed=rng.randrange(2**32), interval=10_000, disorder=DISORDER, domain=500, nulls=0.05
        )
        keys = pa.array([rng.choice([None, *range(12)]) for _ in range(rows)], pa.int32())
        table = table.set_column(1, "id", pa.array(range(rows))).set_column(2, "k", keys)
        far = pa.table({"ts": [FAR], "id": [rows], "k": [None], "x": [None], "name": [None]}, table.schema)
        pieces = [table.slice(rows * b // batches, rows * (b + 1) // batches - rows * b // batches)
                  for b in range(batches)]  # fmt: skip
        write_files(directory / side, [dealt(rng, piece, files) for piece in pieces] + [[far, far.slice(1)]])


def write_files(directory: Path, batches: list[list[pa.Table]]) -> None:
    """Files that Spark reads in this order, for it goes by when they were written."""
    directory.mkdir(parents=True)
    for number, table in enumerate(table for batch in batches for table in batch):
        path = directory / f"{number:04}.parquet"
        pq.write_table(table, path)
        os.utime(path, (START // 10**6 + number, START // 10**6 + number))


def expected(directory: Path, join: str) -> pa.Table:
    left, right = (pq.read_table(directory / side) for side in SIDES)
    found = sj.join(left, right, **JOINS[join])
    ends = (pc.fill_null(pc.equal(found[name].cast("int64"), FAR), False) for name in ("ts", "ts_right"))
    return found.filter(pc.invert(pc.or_(*ends)))


def start(spark: Any, directory: Path, join: str, routing: str, files: int = 2) -> Any:
    """The query, from where its checkpoint stands to the end of the input."""
    from streamjoin.spark import stream_join

    left, right = (read(spark, directory / side, files) for side in SIDES)
    joined = stream_join(left, right, routing=routing, cache_dir=str(directory / "cache"), **JOINS[join])
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(directory / "output"))


def read(spark: Any, directory: Path, files: int) -> Any:
    """A stream of the directory's files, so many per micro-batch, each of them a partition."""
    from pyspark.sql.pandas.types import from_arrow_schema

    spark.conf.set("spark.sql.files.minPartitionNum", files)
    schema = from_arrow_schema(pq.read_schema(min(directory.iterdir())), prefer_timestamp_ntz=True)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(directory))


def result(spark: Any, directory: Path) -> pa.Table:
    """What the file sink says was written; files of batches that were not committed are no part of it."""
    return spark.read.parquet(str(directory / "output")).toArrow()


def main(queries: list[tuple[str, str, str]], master: str = "local[2]", conf: dict[str, str] | None = None) -> None:
    """Run queries, each given as its directory, join and routing, until all input has been read."""
    from streamjoin.spark import session

    spark = session(master, **{"spark.sql.shuffle.partitions": 2, **QUICK, **(conf or {})})
    running = [start(spark, Path(directory), join, routing) for directory, join, routing in queries]
    for query in running:
        query.awaitTermination()
    for directory, *_ in queries:
        pq.write_table(result(spark, Path(directory)), Path(directory) / "result.parquet")
    spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
