"""A real Kafka broker for tests: one node in KRaft mode on loopback. Its jars come from Maven and are kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaGateway

KAFKA = "4.1.2"
CONNECTOR, TOKENS = "4.2.0", "4.1.0-preview1"
"""The newest releases of Spark's Kafka connector, and of the part of it that handles tokens, which Maven has."""
COMES_WITH_SPARK = [
    "org.apache.kafka:kafka-clients",
    *(f"org.apache.hadoop:hadoop-client-{n}" for n in ("api", "runtime")),
]
"""What need not be fetched for the tokens: Spark or its connector has it."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "streamjoin-tests"
FETCH_SECONDS = 300
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={data}
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
"""
WITH_SPARK = ("scala-library", "py4j")
"""Jars that the broker takes from Spark."""


def connector_jars() -> list[Path]:
    """Spark's Kafka connector and what it needs."""
    group = "org.apache.spark"
    name, tokens = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
    connector = fetch(f"connector-{CONNECTOR}", [f"{group}:{name}:{CONNECTOR}"], [f"{group}:{tokens}"])
    return connector + fetch(f"tokens-{TOKENS}", [f"{group}:{tokens}:{TOKENS}"], COMES_WITH_SPARK)


def fetch(name: str, packages: Iterable[str], excludes: Iterable[str]) -> list[Path]:
    """The jars of Maven packages and of what these need, resolved the first time by Spark on its way to a program."""
    directory = CACHE / name
    directory.mkdir(parents=True, exist_ok=True)
    complete = directory / "complete"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            program = directory / "nothing.py"
            program.touch()
            submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
            command = [
                str(submit), "--packages", ",".join(packages), "--exclude-packages", ",".join(excludes),
                "--conf", f"spark.jars.ivy={directory}", str(program),
            ]  # fmt: skip
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
            try:
                subprocess.run(command, capture_output=True, check=True, timeout=FETCH_SECONDS, env=environment)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                pytest.skip(f"Maven gives no {', '.join(packages)}")
            complete.touch()
    return sorted((directory / "jars").glob("*.jar"))


class Broker:
    """Runs within its `with`, in a JVM that also writes to it and reads from it: starting one takes seconds.

    Topics come into being when they are first written to, with two partitions.
    """

    def __init__(self, directory: Path) -> None:
        packages = [f"org.apache.kafka:{name}:{KAFKA}" for name in ("kafka_2.13", "kafka-tools")]
        self._jars = fetch(f"kafka-{KAFKA}", packages, ["org.apache.kafka:connect-runtime"])
        self._directory = directory

    def __enter__(self) -> Broker:
        (scala,), (py4j,) = ((Path(pyspark.__file__).parent / "jars").glob(f"{name}-*.jar") for name in WITH_SPARK)
        self._gateway = JavaGateway.launch_gateway(
            jarpath=str(py4j), classpath=":".join(map(str, (*self._jars, scala))), javaopts=["-Xmx512m"],
            die_on_exit=True,
        )  # fmt: skip
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        properties = self._directory / "server.properties"
        data = self._directory / "data"
        properties.write_text(PROPERTIES.format(port=port, controller=controller, data=data))
        java = self._gateway.jvm
        format_data = ["format", "--cluster-id", "c3RyZWFtam9pbi10ZXN0cw", "-c", str(properties)]
        arguments = self._gateway.new_array(java.String, len(format_data))
        for place, argument in enumerate(format_data):
            arguments[place] = argument
        assert java.kafka.tools.StorageTool.execute(arguments, java.System.out) == 0
        config = java.kafka.server.KafkaConfig(java.org.apache.kafka.common.utils.Utils.loadProps(str(properties)))
        java.kafka.server.KafkaRaftServer(config, java.org.apache.kafka.common.utils.Time.SYSTEM).startup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._gateway.java_process
        self._gateway.shutdown()
        process.kill()
        process.wait()

    def write(self, topic: str, messages: Iterable[str]) -> None:
        """Send messages, in turn to the two partitions."""
        clients = self._gateway.jvm.org.apache.kafka.clients.producer
        producer = clients.KafkaProducer(self._settings("serializer"))
        for number, message in enumerate(messages):
            producer.send(clients.ProducerRecord(topic, number % 2, None, message))
        producer.close()

    def read(self, topic: str) -> list[str]:
        """All messages of a topic."""
        java = self._gateway.jvm
        consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(self._settings("deserializer"))
        partitions = java.java.util.ArrayList()
        for number in range(2):
            partitions.add(java.org.apache.kafka.common.TopicPartition(topic, number))
        consumer.assign(partitions)
        consumer.seekToBeginning(partitions)
        ends = consumer.endOffsets(partitions)
        found: list[str] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            found += [record.value() for record in consumer.poll(java.java.time.Duration.ofSeconds(1)).iterator()]
        consumer.close()
        return found

    def _settings(self, kind: str) -> Any:
        """Of a client whose messages are texts."""
        settings = self._gateway.jvm.java.util.HashMap()
        settings["bootstrap.servers"] = self.servers
        for part in ("key", "value"):
            settings[f"{part}.{kind}"] = f"org.apache.kafka.common.serialization.String{kind.capitalize()}"
        return settings


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
