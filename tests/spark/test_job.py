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
from streamjoin.spark.progress import size
from streamjoin.spark.python_workers import cache_roots
from streamjoin.spark.secrets import SPARK_REDACTS
from streamjoin.spark.session import SHUFFLE
from streamjoin.spark.watch import Screen, watch
from streamjoin.testing import assert_same_rows, trades_and_quotes

from ..long import LONG
from .job_files import FILES_JOB, JOIN, ROOT, RUN, job_file, replaced, temporary, with_quick_session

pytestmark = pytest.mark.spark
GENERATED_JOB = ROOT / "examples" / "trades-and-quotes.toml"
THREE_RUNS = """
import sys
from streamjoin.cli import main

assert main(["run", sys.argv[1], "--once"]) == 2
print(main(["run", sys.argv[2]]), flush=True)
sys.exit(main(["run", sys.argv[3]]))
"""
"""All share a JVM: the first must fail, the second goes on until it is stopped, the third until the JVM is killed."""
CHATTER = ("Streaming TransformWithState", "doesn't contain key", "Py4J", "py4j")
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
    """A job fails over data that break their schema. Another is stopped after its first batch, and goes on later, with
    its predicate written in another way. The JVM of a third one is killed."""
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
    endless = tmp_path / "endless"
    endless.mkdir()
    generated = job_file(endless, with_quick_session(GENERATED_JOB.read_text().partition("[sink]")[0] + NO_SINK))

    jobs = [str(job_file(broken, with_quick_session(FILES_JOB))), str(file), str(generated)]
    command = [sys.executable, "-c", THREE_RUNS, *jobs]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=temporary(tmp_path)
    ) as process:
        before, joined = until_a_batch(process)
        process.send_signal(signal.SIGINT)
        *_, stopped, status = until_line(process, r"\d+\n")
        assert status == "130\n"
        until_a_batch(process)
        os.kill(java_of(process.pid), signal.SIGKILL)
        rest = process.stdout.read()
        assert process.wait(60) == 2
        told, killed = process.stderr.read().splitlines()
    assert killed == (
        f"streamjoin: {generated}: Spark's JVM was ended by SIGKILL (where memory is short, the operating system does "
        f"so), and the query with it (Spark's log: {killed.rpartition(': ')[2]}"
    )
    assert not any(word in text for word in CHATTER for text in [*before, rest, told, killed])
    assert "failed: 0 batches, 0 rows in, 0 out, 0 late" in before
    says = re.fullmatch(r"streamjoin: (.*): the query failed: the left stream: (.*) \(Spark's log: (.*)\)", told)
    assert says
    assert says[1] == str(broken / "job.toml")
    assert "ts" in says[2]
    assert "Traceback" in Path(says[3]).read_text()
    assert len(list(tmp_path.glob("streamjoin-*.log"))) == 2  # the run that was stopped leaves none
    assert re.search(r"^batch 0: 2,000 in \(.*\), [\d,]+ out .*, 0 late; windows ", joined)
    first = int(re.search(r"stopped: 1 batch, 2,000 rows in, ([\d,]+) out", stopped)[1].replace(",", ""))

    for table, name in ((trades, "trades"), (quotes, "quotes")):
        write_files(tmp_path / name, table, range(half, FILES))
    spark.conf.set(SHUFFLE, 2)
    listener = ConsoleListener()
    spark.streams.addListener(listener)
    others = with_quick_session(replaced("l.symbol = r.symbol AND l.price", "r.symbol = l.symbol   and l.price"))
    with watch(spark, Screen(Console(quiet=True), "job"), None) as until_the_end:
        query = start(Job(job_file(tmp_path, others)), spark, once=True)
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
    assert last.rows_held == last.left_window + last.right_window
    assert 24 * last.rows_held < last.bytes_held == sum(worker.bytes_held for worker in last.workers)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [one.line() for one in figures]
    assert f" rows, {size(last.bytes_held)} held; " in lines[-1]
    assert not list(Path(cache_roots(spark, None)[0]).glob("streamjoin-*"))  # they have gone with the query

    for change, message in (
        (replaced('"10 seconds"', '"11 seconds"'), "line 17: [join] lateness: the checkpoint belongs to a join with 10 "
         "seconds, and the query now has 11 seconds; give the same again, or begin with a new checkpoint location"),
        (replaced('["2 seconds", "5 seconds"]', '"2 seconds"'), "line 15: [join] window: the checkpoint belongs to a "
         "join with 2 seconds and 5 seconds, and the query now has 2 seconds and 2 seconds; give"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=re.escape(f"job.toml, {message}")):
            start(Job(job_file(tmp_path, change)), spark)


NO_SINK = """
[sink]
format = "noop"
"""


def java_of(process: int) -> int:
    """The JVM that a process has started."""
    (child,) = [
        int(found.name)
        for found in Path("/proc").iterdir()
        if found.name.isdigit() and (found / "stat").read_text().rpartition(")")[2].split()[1] == str(process)
        and (found / "comm").read_text() == "java\n"
    ]  # fmt: skip
    return child


def until_line(process: subprocess.Popen[str], pattern: str) -> list[str]:
    """The lines up to one of this form, and this one."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if re.match(pattern, line):
            return lines
    pytest.fail(f"there is no such line: {lines} {process.stderr and process.stderr.read()}")


def until_a_batch(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    """The lines before the first batch, and its line."""
    *before, joined = until_line(process, r"batch \d+: ")
    return [line.rstrip("\n") for line in before], joined


def stopped_after_a_batch(process: subprocess.Popen[str], number: int) -> tuple[list[str], str, str]:
    """Send a signal after the first batch. Gives the lines before that batch, its line, and the last line."""
    before, line = until_a_batch(process)
    process.send_signal(number)
    assert process.stdout is not None
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
    lines += ['{"ts": null, "price": 60.0}', '{"price": 70.0}', "no JSON"]  # the last one is dropped by `where`
    (tmp_path / "trades" / "0.json").write_text("\n".join(lines))
    lines = [f"{row['ts'].isoformat()},{row['bid']},{row['ask']}" for row in quotes.to_pylist()]
    (tmp_path / "quotes" / "0.csv").write_text("\n".join(["ts,bid,ask", *lines]))
    text = """
        left = {format = "json", path = "trades", schema = "ts timestamp_ntz, price double", where = "price > 50"}
        right.format = "csv"
        right.path = "quotes"
        right.schema = "ts timestamp_ntz, bid double, ask double"
        right.columns = ["ts", "bid - 0.01 AS low", "ask + 0.01 AS high"]
        join = {on = "price BETWEEN low AND high", window = "1 second", time = "ts", partitions = 2, null_time = "drop"}
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
        query = start(Job(job_file(tmp_path, text % ((kind,) * 3))), spark, once=True)
        query.awaitTermination()
        figures = [one for one in map(Progress.of, query.recentProgress) if one is not None]
        assert [sum(getattr(one, f"{side}_null_time") for one in figures) for side in ("left", "right")] == [2, 0]
        assert sum(one.left_in for one in figures) == left.num_rows + 2
        assert any(", 2 without a time; " in one.line() for one in figures)
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
