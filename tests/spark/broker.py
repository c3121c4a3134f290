"""A real Kafka broker for tests: one node in KRaft mode on loopback. Its jars come from Maven and are kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import pyspark
import pytest

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
START_SECONDS = 60


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
    """Runs within its `with`; topics come into being when they are first written to, with two partitions."""

    def __init__(self, directory: Path) -> None:
        scala = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
        packages = [f"org.apache.kafka:{name}:{KAFKA}" for name in ("kafka_2.13", "kafka-tools")]
        jars = fetch(f"kafka-{KAFKA}", packages, ["org.apache.kafka:connect-runtime"])
        self._java = ["java", "-Xmx512m", "-cp", ":".join(map(str, (*jars, *scala)))]
        self._directory = directory

    def __enter__(self) -> Broker:
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        properties = self._directory / "server.properties"
        data = self._directory / "data"
        properties.write_text(PROPERTIES.format(port=port, controller=controller, data=data))
        self._run("kafka.tools.StorageTool", "format", "--cluster-id", "c3RyZWFtam9pbi10ZXN0cw", "-c", str(properties))
        with (self._directory / "log").open("w") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(properties)], stdout=log, stderr=subprocess.STDOUT
            )
        wait_until_open(port)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    def write(self, topic: str, messages: Iterable[str]) -> None:
        """Send messages, each to either partition."""
        text = "".join(f"{message}\n" for message in messages)
        self._run("org.apache.kafka.tools.ConsoleProducer", *self._address, "--topic", topic, text=text)

    def read(self, topic: str, most: int) -> list[str]:
        """All messages of a topic: stops at `most`, or when none has come for a while."""
        options = ["--from-beginning", "--max-messages", str(most), "--timeout-ms", "3000"]
        command = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        return self._run(command, *self._address, "--topic", topic, *options).splitlines()

    @property
    def _address(self) -> list[str]:
        return ["--bootstrap-server", self.servers]

    def _run(self, *command: str, text: str = "") -> str:
        done = subprocess.run(
            [*self._java, *command], input=text, capture_output=True, text=True, timeout=START_SECONDS, check=True
        )
        return done.stdout


def wait_until_open(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "the broker does not start"
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
