"""`streamjoin run`: files in, files out, exactly once; a failure and a clean stop; what Spark and the join refuse."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.console import Console

import streamjoin as sj
from streamjoin.errors import ArgumentError
from streamjoin.spark import ConsoleListener, Progress
from streamjoin.spark.job import start
from streamjoin.spark.jobfile import Job
from streamjoin.spark.secrets import SPARK_REDACTS
from streamjoin.spark.session import SHUFFLE
from streamjoin.spark.watch import Screen, watch
from streamjoin.testing import assert_same_rows, trades_and_quotes

from ..long import LONG
from .job_files import FILES_JOB, JOIN, ROOT, RUN, job_file, replaced, temporary, with_quick_session

pytestmark = pytest.mark.spark
GENERATED_JOB = ROOT / "examples" / "trades-and-quotes.toml"
TWO_RUNS = """
import sys
from streamjoin.cli import main

assert main(["run", sys.argv[1], "--once"]) == 2
sys.exit(main(["run", sys.argv[2]]))
"""
"""Both runs share a JVM: the first must fail, the second goes on until it is stopped."""
ROWS, FILES = 2_000, 4


def write_files(directory: Path, table: pa.Table, numbers: range) -> None:
    """Some of the table's `FILES` parts, each in a file that is younger than the one before."""
    directory.mkdir(exist_ok=True, parents=True)
    size = table.num_rows // FILES
    for number in numbers:
        file = directory / f"{number}.parquet"
        parquet.write_table(table.slice(number * size, size), file)
        os.utime(file, (1_700_000_000 + number,) * 2)


def test_a_failure_a_clean_stop_and_files_joined_exactly_once(
    tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job fails over data that break their schema. Another is stopped after its first batch, and goes on later."""
    trades, quotes = trades_and_quotes(ROWS)
    expected = sj.join(trades, quotes, **JOIN)
    assert expected.num_rows > 1_000
    broken = tmp_path / "broken"
    write_files(broken / "trades", trades.set_column(0, "ts", pa.nulls(ROWS, pa.timestamp("us"))), range(1))
    write_files(broken / "quotes", quotes, range(1))
    half = FILES // 2
    for table, name in ((trades, "trades"), (quotes, "quotes")):
        write_files(tmp_path / name, table, range(half))
    file = job_file(tmp_path, with_quick_session(FILES_JOB))

    command = [sys.executable, "-c", TWO_RUNS, str(job_file(broken, with_quick_session(FILES_JOB))), str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=temporary(tmp_path)
    ) as process:
        before, joined, stopped = stopped_after_a_batch(process, signal.SIGINT)
        assert process.returncode == 130
        assert process.stderr is not None
        told = process.stderr.read()
    assert "failed: 0 batches, 0 rows in, 0 out, 0 late" in before
    says = re.fullmatch(r"streamjoin: (.*): the query failed: the left stream: (.*) \(Spark's log: (.*)\)\n", told)
    assert says
    assert says[1] == str(broken / "job.toml")
    assert "ts" in says[2]
    assert "Traceback" in Path(says[3]).read_text()
    assert list(tmp_path.glob("streamjoin-*.log")) == [Path(says[3])]  # the run that was stopped leaves none
    assert re.search(r"^batch 0: 2,000 in \(.*\), [\d,]+ out .*, 0 late; windows ", joined)
    first = int(re.search(r"stopped: 1 batch, 2,000 rows in, ([\d,]+) out", stopped)[1].replace(",", ""))

    for table, name in ((trades, "trades"), (quotes, "quotes")):
        write_files(tmp_path / name, table, range(half, FILES))
    spark.conf.set(SHUFFLE, 2)
    listener = ConsoleListener()
    spark.streams.addListener(listener)
    with watch(spark, Screen(Console(quiet=True), "job"), None) as until_the_end:
        query = start(Job(file), spark, once=True)
        assert until_the_end(query) is None
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(listener)
    assert_same_rows(spark.read.parquet(str(tmp_path / "joined")).toArrow(), expected)

    figures = [one for one in map(Progress.of, query.recentProgress) if one is not None]
    assert sum(one.left_in for one in figures) == sum(one.right_in for one in figures) == ROWS // 2
    assert first + sum(one.out for one in figures) == expected.num_rows
    last = figures[-1]
    assert last.left_window == sum(worker.left_window for worker in last.workers) > 0
    assert last.skew >= 1
    assert capsys.readouterr().out.splitlines() == [one.line() for one in figures]


def stopped_after_a_batch(process: subprocess.Popen[str], number: int) -> tuple[list[str], str, str]:
    """Send a signal after the first batch. Gives the lines before that batch, its line, and the last line."""
    assert process.stdout is not None
    before: list[str] = []
    for line in process.stdout:
        if line.startswith("batch 0: "):
            break
        before.append(line.rstrip("\n"))
    else:
        pytest.fail(f"there is no batch: {before} {process.stderr and process.stderr.read()}")
    process.send_signal(number)
    *_, last = process.stdout.readlines()
    process.wait(60)
    return before, line, last


@pytest.mark.usefixtures("java")
@pytest.mark.skipif(not LONG, reason="the long version stops generators with either signal")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_it_cleanly(number: int, status: int) -> None:
    with subprocess.Popen(
        [*RUN, str(GENERATED_JOB)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert stopped_after_a_batch(process, number)[-1].startswith("stopped: ")
        assert process.returncode == status
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_for_some_time(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with watch(spark, Screen(Console(), "job"), seconds=0.01) as until_the_end:
        query = start(Job(GENERATED_JOB), spark)
        assert until_the_end(query) is None
    assert not query.isActive
    assert capsys.readouterr().out.splitlines()[-1].startswith("stopped: ")


def test_other_formats(tmp_path: Path, spark: Any) -> None:
    """JSON and CSV, in and out, keep every microsecond; columns and a condition of a source."""
    trades, quotes = trades_and_quotes(400)
    (tmp_path / "trades").mkdir()
    (tmp_path / "quotes").mkdir()
    lines = [f'{{"ts": "{row["ts"].isoformat()}", "price": {row["price"]}}}' for row in trades.to_pylist()]
    (tmp_path / "trades" / "0.json").write_text("\n".join(lines))
    lines = [f"{row['ts'].isoformat()},{row['bid']},{row['ask']}" for row in quotes.to_pylist()]
    (tmp_path / "quotes" / "0.csv").write_text("\n".join(["ts,bid,ask", *lines]))
    text = """
        left = {format = "json", path = "trades", schema = "ts timestamp_ntz, price double", where = "price > 50"}
        right.format = "csv"
        right.path = "quotes"
        right.schema = "ts timestamp_ntz, bid double, ask double"
        right.columns = ["ts", "bid - 0.01 AS low", "ask + 0.01 AS high"]
        join = {on = "price BETWEEN low AND high", window = "1 second", time = "ts", partitions = 2}
        sink = {format = "%s", path = "joined-%s", checkpoint = "checkpoint-%s"}
    """
    left = trades.drop_columns("symbol").filter(pa.compute.greater(trades["price"], 50))
    right = pa.table(
        {
            "ts": quotes["ts"],
            "low": pa.compute.subtract(quotes["bid"], 0.01),
            "high": pa.compute.add(quotes["ask"], 0.01),
        }
    )
    expected = sj.join(left, right, on="price BETWEEN low AND high", window="1 second", time="ts")
    assert expected.num_rows > 100
    for kind in ("json", "csv"):
        start(Job(job_file(tmp_path, text % ((kind,) * 3))), spark, once=True).awaitTermination()
        schema = "ts timestamp_ntz, price double, ts_right timestamp_ntz, low double, high double"
        reader = spark.read.schema(schema).option("header", "true")
        assert_same_rows(reader.format(kind).load(str(tmp_path / f"joined-{kind}")).toArrow(), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replaced("price double", "price dubble"), 'line 4: [left] schema: [UNSUPPORTED_DATATYPE] '),
        (replaced('"trades"', '"nowhere"'), "line 3: [left] path: [PATH_NOT_FOUND] "),
        (replaced("max_files_per_trigger = 2", 'columns = "prise"'), "line 5: [left] columns: [UNRESOLVED_COLUMN"),
        (replaced("max_files_per_trigger = 2", 'where = "prise > 1"'), "line 5: [left] where: [UNRESOLVED_COLUMN"),
        (replaced("l.price", "l.prise"), "line 14: [join] on: unknown column 'prise'"),
        (replaced('"2 seconds"', '"2 secnds"'), "line 15: [join] window[0]: "),
        (replaced('["2 seconds", "5 seconds"]', "-1"), "line 15: [join] window: got -1 "),
        (replaced('time = "ts"', 'time = "at"'), "line 16: [join] time: the left stream has no column 'at'"),
        (replaced('time = "ts"', 'time = "ts"\nrouting = "hsah"'), "line 17: [join] routing: 'hsah' "),
    ],
)  # fmt: skip
def test_what_spark_and_the_join_refuse(text: str, message: str, tmp_path: Path, spark: Any) -> None:
    (tmp_path / "trades").mkdir()
    (tmp_path / "quotes").mkdir()
    with pytest.raises(ArgumentError) as error:
        start(Job(job_file(tmp_path, text)), spark)
    assert f"job.toml, {message}" in str(error.value)
    assert "\n" not in str(error.value)


def test_plans_and_progress_tell_no_secrets(spark: Any, tmp_path: Path) -> None:
    text = """
        left = {format = "rate", options = {"kafka.ssl.key.password" = "hunter2", "account.key" = "hunter2"}}
        right = {format = "rate"}
        join = {on = "l.value = r.value", window = "1 second", time = "timestamp", partitions = 2}
        sink = {format = "noop", options = {"sasl.jaas.config" = "%s password='hunter2';"}}
    """
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    query = start(Job(job_file(tmp_path, text % module)), spark, once=True)
    query.awaitTermination()
    assert query.exception() is None
    told = [query._jsq.explainInternal(True), *map(str, query.recentProgress)]
    assert "Scan" in told[0]
    assert not any("hunter2" in one for one in told)
    for name in SPARK_REDACTS:
        assert "jaas" in spark.conf.get(name)
