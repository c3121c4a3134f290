"""Kafka -> `stream_join` -> Kafka through the job file of the docs, with a real broker; and without one."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.testing import assert_same_rows, trades_and_quotes

from .broker import Broker, connector_jars
from .job_files import JOIN, KAFKA_JOB, job_file, run_job, with_quick_session

pytestmark = pytest.mark.spark


def messages(table: pa.Table) -> list[str]:
    return [json.dumps(row, default=datetime.isoformat) for row in table.to_pylist()]


def test_kafka_to_kafka(broker: Broker, tmp_path: Path) -> None:
    trades, quotes = trades_and_quotes(500)
    expected = sj.join(trades, quotes, **JOIN)
    broker.write("trades", [*messages(trades), "this is no JSON"])
    broker.write("quotes", messages(quotes))
    text = KAFKA_JOB.replace("localhost:9092", broker.servers)
    jars = ",".join(map(str, connector_jars()))
    file = job_file(tmp_path, f'{with_quick_session(text)}"spark.jars" = "{jars}"\n')

    done = run_job(file, "--once", "--allow-code")  # it names jars
    assert (done.returncode, done.stderr) == (0, "")
    assert f" 1,001 rows in, {expected.num_rows:,} out, 0 late, 1 without a time" in done.stdout

    found = [json.loads(line) for line in broker.read("joined")]
    for row in found:
        row.update({name: datetime.fromisoformat(row[name]) for name in ("ts", "ts_right")})
    assert_same_rows(pa.Table.from_pylist(found, expected.schema), expected)
