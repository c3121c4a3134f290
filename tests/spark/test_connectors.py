"""Kafka's brokers and Spark's connector for it: what is added to a job, and what is missing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pyspark import __version__ as version

from streamjoin.cli import main
from streamjoin.errors import ArgumentError
from streamjoin.spark.connectors import kafka_package

from .broker import free_ports
from .job_files import KAFKA_JOB, job_file, run_job


def test_connector_package() -> None:
    mine = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    assert kafka_package({}) == {"spark.jars.packages": mine}
    assert kafka_package({"spark.jars.packages": "a:b:1"}) == {"spark.jars.packages": f"a:b:1,{mine}"}
    minor = ".".join(version.split(".")[:2])
    assert kafka_package({"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{minor}.9"}) == {}
    assert kafka_package({"spark.jars": f"/jars/spark-sql-kafka-0-10_2.13-{minor}.9.jar,other.jar"}) == {}
    for wrong in (
        {"spark.jars.packages": "a:b:1,org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1,c:d:2"},
        {"spark.jars": "/jars/other.jar,/jars/spark-sql-kafka-0-10_2.12-3.5.1.jar"},
    ):
        with pytest.raises(ArgumentError, match=rf"connector is made for Spark 3\.5\.1, and this is .*; give {mine}"):
            kafka_package(wrong)


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


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_no_such_connector(tmp_path: Path) -> None:
    """Whatever listens passes for a broker until Spark has its connector."""
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{'.'.join(version.split('.')[:2])}.999"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        text = KAFKA_JOB.replace("localhost:9092", "{}:{}".format(*listening.getsockname()))
        done = run_job(job_file(tmp_path, f'{text}\n[spark]\n"spark.jars.packages" = "{package}"\n'))
    assert done.returncode == 2
    assert f"Maven has no {package}; name packages that it has under [spark]" in done.stderr
    assert done.stderr.count("\n") == 1
