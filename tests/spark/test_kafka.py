"""Kafka -> `stream_join` -> Kafka through the job file of the docs, with a real broker; and without one."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.cli import main
from streamjoin.testing import assert_same_rows, trades_and_quotes

from .broker import Broker, connector_jars, free_ports
from .test_job import JOIN, KAFKA_JOB, ROOT, job_file, run_job


def messages(table: pa.Table) -> list[str]:
    return [json.dumps(row, default=datetime.isoformat) for row in table.to_pylist()]


def test_kafka_to_kafka(broker: Broker, tmp_path: Path) -> None:
    trades, quotes = trades_and_quotes(1_000)
    expected = sj.join(trades, quotes, **JOIN)
    broker.write("trades", [*messages(trades), "this is no JSON"])
    broker.write("quotes", messages(quotes))
    text = KAFKA_JOB.replace("localhost:9092", broker.servers)
    jars = ",".join(map(str, connector_jars()))
    file = job_file(tmp_path, f'{text}\n[spark]\nmaster = "local[2]"\nspark.jars = "{jars}"\n')

    done = run_job(file, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert f" 2,000 rows in, {expected.num_rows:,} out, 0 late" in done.stdout

    found = [json.loads(line) for line in broker.read("joined", expected.num_rows + 1)]
    for row in found:
        row.update({name: datetime.fromisoformat(row[name]) for name in ("ts", "ts_right")})
    assert_same_rows(pa.Table.from_pylist(found, expected.schema), expected)


def test_the_job_of_the_readme_is_the_one_that_is_tested() -> None:
    assert KAFKA_JOB in (ROOT / "README.md").read_text()


def test_no_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (f"127.0.0.1:{port}" for port in free_ports(2))
    file = job_file(tmp_path, KAFKA_JOB.replace("localhost:9092", f"{one}, {other}"))
    assert main(["run", str(file), "--once"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"streamjoin: {file}, line 3: [left] servers: no Kafka broker answers at {one} (")
    assert f", {other} (" in error
    assert error.count("\n") == 1
    file = job_file(tmp_path, KAFKA_JOB.replace("localhost:9092", "localhost"))
    assert main(["run", str(file)]) == 2
    assert """line 3: [left] servers: 'localhost' is not valid; give host:port""" in capsys.readouterr().err


def test_no_such_connector(broker: Broker, tmp_path: Path) -> None:
    text = KAFKA_JOB.replace("localhost:9092", broker.servers)
    package = "org.apache.spark:spark-sql-kafka-0-10_2.13:0.0.1"
    file = job_file(tmp_path, f'{text}\n[spark]\n"spark.jars.packages" = "{package}"\n')
    done = run_job(file)
    assert done.returncode == 2
    assert f"Maven has no {package}; name packages that it has under [spark]" in done.stderr
    assert done.stderr.count("\n") == 1
