"""`streamjoin run`: files in, files out, exactly once; what is wrong with a job file, and where; a clean stop."""

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
from streamjoin.cli import main
from streamjoin.errors import ArgumentError
from streamjoin.spark import ConsoleListener, Progress
from streamjoin.spark.connectors import kafka_package
from streamjoin.spark.job import start
from streamjoin.spark.jobfile import Job
from streamjoin.spark.watch import Screen, watch
from streamjoin.testing import assert_same_rows, trades_and_quotes

from .pipeline import TORTURE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark-jobs.md").read_text()
FILES_JOB, KAFKA_JOB = (block for block in re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S) if "[left]" in block)
GENERATED_JOB = ROOT / "examples" / "trades-and-quotes.toml"
RUN = [sys.executable, "-m", "streamjoin", "run"]
JOIN = {
    "on": "l.symbol = r.symbol AND l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01",
    "window": ("2 seconds", "5 seconds"),
    "time": "ts",
}
ROWS, FILES = 2_000, 4


def job_file(directory: Path, text: str = FILES_JOB) -> Path:
    file = directory / "job.toml"
    file.write_text(text)
    return file


def run_job(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, its temporary files beside the job."""
    environment = {**os.environ, "TMPDIR": str(file.parent)}
    return subprocess.run(
        [*RUN, str(file), *options], capture_output=True, text=True, timeout=300, check=False, env=environment
    )


def write_files(directory: Path, table: pa.Table, numbers: range) -> None:
    """Some of the table's `FILES` parts, each in a file that is younger than the one before."""
    directory.mkdir(exist_ok=True)
    size = table.num_rows // FILES
    for number in numbers:
        file = directory / f"{number}.parquet"
        parquet.write_table(table.slice(number * size, size), file)
        os.utime(file, (1_700_000_000 + number,) * 2)


def test_files_to_files_exactly_once(tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trades, quotes = trades_and_quotes(ROWS)
    expected = sj.join(trades, quotes, **JOIN)
    assert expected.num_rows > 1_000
    file = job_file(tmp_path)
    half = FILES // 2
    for table, name in ((trades, "trades"), (quotes, "quotes")):
        write_files(tmp_path / name, table, range(half))

    done = run_job(file, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^batch 0: 2,000 in \(.*\), [\d,]+ out .*, 0 late; windows ", done.stdout, re.M)
    assert done.stdout.splitlines()[-1].startswith("done: 1 batch, 2,000 rows in, ")
    assert not list(tmp_path.glob("streamjoin-*.log"))

    for table, name in ((trades, "trades"), (quotes, "quotes")):
        write_files(tmp_path / name, table, range(half, FILES))
    listener = ConsoleListener()
    spark.streams.addListener(listener)
    query = start(Job(file), spark, once=True)
    query.awaitTermination()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(listener)
    assert_same_rows(spark.read.parquet(str(tmp_path / "joined")).toArrow(), expected)

    figures = [one for one in map(Progress.of, query.recentProgress) if one is not None]
    assert sum(one.left_in for one in figures) == sum(one.right_in for one in figures) == ROWS // 2
    first = int(re.search(r"rows in, ([\d,]+) out", done.stdout)[1].replace(",", ""))
    assert first + sum(one.out for one in figures) == expected.num_rows
    last = figures[-1]
    assert last.left_window == sum(worker.left_window for worker in last.workers) > 0
    assert last.skew >= 1
    assert capsys.readouterr().out.splitlines() == [one.line() for one in figures]


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


def replaced(old: str, new: str) -> str:
    assert old in FILES_JOB
    return FILES_JOB.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replaced("[join]", "[join"), "line 13, column 6: Expected ']' at the end of a table declaration"),
        (
            replaced("[sink]", "[sinc]"),
            "line 18: [sinc] there is no such table (did you mean 'sink'?); choose from left",
        ),
        (replaced("[sink]", "[[sink]]"), "line 18: [sink] this is a table: write [sink]"),
        (FILES_JOB[: FILES_JOB.index("[sink]")], "job.toml: the table [sink] is missing"),
        (replaced("window", "windows"), "line 15: [join] windows: there is no such key here (did you mean 'window'?)"),
        (replaced('time = "ts"', ""), "line 13: [join] time is missing"),
        (replaced('path = "quotes"', "path = 5"), "line 9: [right] path: 5 is not valid; give a text in quotes"),
        (replaced("trigger = 2", "trigger = 0"), "line 5: [left] max_files_per_trigger: 0 is not valid; give a whole"),
        (replaced('format = "parquet"', 'format = "parket"'), "line 2: [left] format: 'parket' is not valid (did you"),
        (replaced('format = "parquet"', ""), "line 1: [left] format is missing; choose from kafka, parquet"),
        (replaced('"checkpoints/joined"', '""'), "line 21: [sink] checkpoint: '' is not valid"),
        (replaced("checkpoint =", "#"), "line 18: [sink] a parquet sink needs a checkpoint"),
        (
            FILES_JOB + '[spark]\nmastr = "x"',
            "line 23: [spark] mastr: there is no such key here (did you mean 'master'?)",
        ),
        (FILES_JOB + "[spark]\nspark.a.b = [1]", "line 23: [spark] spark.a.b: [1] is not valid; give a text in quotes"),
        (FILES_JOB + '[trigger]\nevery = "soon"', "line 23: [trigger] every: got 'soon' "),
    ],
)
def test_wrong_files_name_the_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    file = job_file(tmp_path, text)
    assert main(["run", str(file), "--once"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"streamjoin: {file}")
    assert message in error
    assert error.count("\n") == 1


def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err == f"streamjoin: {tmp_path / 'none.toml'}: there is no such job file\n"
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    assert main(["run", str(tmp_path / "latin.toml")]) == 2
    assert "the job file cannot be read: 'utf-8'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit_:
        main(["run", "job.toml", "--for", "60"])
    assert exit_.value.code == 2


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


def test_data_that_breaks_its_schema(tmp_path: Path, java: None) -> None:
    """The query's failure is one line that says why, and names the file with all that Spark said."""
    trades, quotes = trades_and_quotes(8)
    write_files(tmp_path / "trades", trades.set_column(0, "ts", pa.nulls(8, pa.timestamp("us"))), range(1))
    write_files(tmp_path / "quotes", quotes, range(1))
    file = job_file(tmp_path)
    done = run_job(file, "--once")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    told = re.fullmatch(
        r"streamjoin: (.*): the query failed: the left stream: (.*) \(Spark's log: (.*)\)\n", done.stderr
    )
    assert told
    assert told[1] == str(file)
    assert "ts" in told[2]
    assert "Traceback" in Path(told[3]).read_text()
    assert done.stdout.splitlines()[-1] == "failed: 0 batches, 0 rows in, 0 out, 0 late"


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "status"), SIGNALS if TORTURE else SIGNALS[:1])
def test_signals_stop_it_cleanly(number: int, status: int, java: None) -> None:
    with subprocess.Popen(
        [*RUN, str(GENERATED_JOB)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("batch 0: "):
                break
        process.send_signal(number)
        lines = process.stdout.readlines()
        assert process.wait(60) == status
        assert lines[-1].startswith("stopped: ")
        assert process.stderr.read() == ""


def test_for_some_time(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with watch(spark, Screen(Console(), "job"), seconds=0.01) as until_the_end:
        query = start(Job(GENERATED_JOB), spark)
        assert until_the_end(query) is None
    assert not query.isActive
    assert capsys.readouterr().out.splitlines()[-1].startswith("stopped: ")


@pytest.mark.parametrize(
    ("before", "environment", "message"),
    [
        ("sys.modules['pyspark'] = None", {}, "streamjoin.spark needs PySpark 4.1 or newer: pip install"),
        ("", {"PATH": "", "JAVA_HOME": ""}, "Spark needs Java 17 or newer, and there is no java on the PATH"),
    ],
)
def test_what_must_be_installed(before: str, environment: dict[str, str], message: str, tmp_path: Path) -> None:
    file = job_file(tmp_path)
    program = (
        f"import sys; {before}\nfrom streamjoin.cli import main\nsys.exit(main(['run', {str(file)!r}, '--quiet']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"streamjoin: {message}")
    assert done.stderr.count("\n") == 1


def test_connector_package() -> None:
    from pyspark import __version__ as version

    mine = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    assert kafka_package({}) == {"spark.jars.packages": mine}
    assert kafka_package({"spark.jars.packages": "a:b:1"}) == {"spark.jars.packages": f"a:b:1,{mine}"}
    assert kafka_package({"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"}) == {}
    assert kafka_package({"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.1.1.jar"}) == {}
