"""Whatever is killed or lost, the result is that of `join` on the same rows: no pair is missing, none is there twice.

Real processes are killed with SIGKILL: the driver with all it has started, an executor of a cluster, Python workers.
STREAMJOIN_TORTURE=1 runs every kind of join and many more failures; STREAMJOIN_SEED=<number> repeats a run's choices.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException

import streamjoin as sj
from streamjoin.spark.messages import ChunkMessage, from_bytes, to_bytes
from streamjoin.spark.segments import Cache
from streamjoin.testing import assert_same_rows

from .pipeline import ROUTINGS, TORTURE, expected, result, start, write_input
from .simulated import Dictionary, Simulated, cut, dealt, make_spec
from .test_worker import PREDICATES, WINDOWS, small_segments, stream  # noqa: F401

REPOSITORY = Path(__file__).parents[2]
KILLS = 20 if TORTURE else 1
PLACES = ["cache", "checkpoint/offsets", "checkpoint/state", "output", "checkpoint/commits"]
"""Where a new file appears in the course of a batch: an event to kill somebody at."""
PAUSE = 0.5
"""Seconds after such an event, at most, until the blow falls."""
FELT = "Python worker exited unexpectedly"
"""What Spark says of a worker that was killed at work."""
ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable}
PATIENCE = 180
"""Seconds without any event after which something must be wrong."""


class Program:
    """A process, and with it all that it starts: they are one session of the operating system."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        self._log = log
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, **ENVIRONMENT, **environment}, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def processes(self, naming: str = "") -> list[int]:
        """Its living processes whose command has this in it."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, ValueError):
                continue
            if int(session) == self._process.pid and state != "Z" and naming in command:
                found.append(int(entry.name))
        return sorted(found)

    def kill(self) -> None:
        """Nobody survives, so nobody writes any more."""
        while alive := self.processes():
            kill(alive)
        self._process.wait()

    def finish(self) -> None:
        wait_for(lambda: self.has_ended, self)
        assert self._process.returncode == 0, self.log[-5_000:]


def kill(processes: list[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_for(event: Callable[[], bool], program: Program) -> bool:
    """Whether the event came before the program's end."""
    since = time.monotonic()
    while not (ended := program.has_ended) and not event():
        assert time.monotonic() - since < PATIENCE, f"nothing happens:\n{program.log[-5_000:]}"
        time.sleep(0.02)
    return not ended


def pipeline(directory: Path, join: str, routing: str, **settings: Any) -> Program:
    described = json.dumps({"directory": str(directory), "join": join, "routing": routing, **settings})
    return Program([sys.executable, "-m", "tests.spark.pipeline", described], directory / "log")


def files(directory: Path) -> set[Path]:
    return {Path(place, name) for place, _, names in os.walk(directory) for name in names}


def something_new(directory: Path, rng: random.Random) -> Callable[[], bool]:
    """An event in the life of the query that is to come at some place in its files."""
    place = directory / rng.choice(PLACES)
    before = files(place)
    return lambda: not files(place) <= before


def batches(directory: Path, log: str) -> int:
    return sum(name.name.isdigit() for name in files(directory / "checkpoint" / log))


def in_a_batch(directory: Path) -> bool:
    return batches(directory, "offsets") > batches(directory, "commits")


def check(directory: Path, join: str) -> None:
    want = expected(directory, join)
    assert want.num_rows > 1_000
    assert_same_rows(pq.read_table(directory / "result.parquet").cast(want.schema), want, context=join)


def runs(*short: tuple[str, str]) -> Any:
    return pytest.mark.parametrize(("join", "routing"), ROUTINGS if TORTURE else short)


@pytest.mark.usefixtures("java")
@runs(("bands", "hash"))
def test_driver_killed(join: str, routing: str, tmp_path: Path, rng: random.Random) -> None:
    write_input(tmp_path, rng.randrange(2**32), batches=KILLS + 2)
    for _ in range(KILLS):
        with pipeline(tmp_path, join, routing) as program:
            assert wait_for(something_new(tmp_path, rng), program), f"through before it was killed:\n{program.log}"
            time.sleep(PAUSE * rng.random())
    with pipeline(tmp_path, join, routing) as program:
        program.finish()
    check(tmp_path, join)


@pytest.mark.usefixtures("java")
@runs(("last rows", "broadcast"))
def test_python_workers_killed(join: str, routing: str, tmp_path: Path, rng: random.Random) -> None:
    """Each time one or all of them, in turn with the loss of their files."""
    write_input(tmp_path, rng.randrange(2**32), batches=16 if TORTURE else 3)
    killed = 0
    with pipeline(tmp_path, join, routing, master="local[2,4]") as program:
        wait_for(lambda: batches(tmp_path, "commits") > 0, program)
        while wait_for(lambda: in_a_batch(tmp_path), program):
            time.sleep(PAUSE * rng.random())
            committed, felt = batches(tmp_path, "commits"), program.log.count(FELT)
            while in_a_batch(tmp_path) and program.log.count(FELT) == felt and not program.has_ended:
                _daemon, *workers = program.processes("pyspark.daemon")
                kill(rng.choice([workers, rng.sample(workers, 1)]) if workers else [])
                killed += len(workers) > 0
                time.sleep(PAUSE * (1 + rng.random()))  # nobody may have needed them: then another blow falls
            if rng.random() < 0.5:
                shutil.rmtree(tmp_path / "cache", ignore_errors=True)
            wait_for(lambda committed=committed: batches(tmp_path, "commits") > committed, program)
        program.finish()
        assert killed
        assert FELT in program.log
    check(tmp_path, join)


@pytest.mark.usefixtures("java")
@runs(("bands", "range"))
def test_executor_killed(join: str, routing: str, tmp_path: Path, rng: random.Random) -> None:
    """Two machines of a real cluster, as far as Spark can tell; their executors are started again each time."""
    write_input(tmp_path, rng.randrange(2**32), batches=12 if TORTURE else 2)
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.task.maxFailures": "8"}
    killed = 0
    with (
        cluster(tmp_path) as (master, machines),
        pipeline(tmp_path, join, routing, master=master, conf=conf) as program,
    ):
        while wait_for(something_new(tmp_path, rng), program):
            executors = [e for machine in machines for e in machine.processes("CoarseGrainedExecutorBackend")]
            if executors and in_a_batch(tmp_path):
                kill([rng.choice(executors)])
                killed += 1
            committed = batches(tmp_path, "commits")
            wait_for(lambda committed=committed: batches(tmp_path, "commits") > committed, program)
        program.finish()
    assert killed
    check(tmp_path, join)


@contextmanager
def cluster(directory: Path) -> Iterator[tuple[str, list[Program]]]:
    """A master's address and two workers with a core each."""
    import pyspark

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(directory), "SPARK_WORKER_DIR": str(directory)}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    master, options = "org.apache.spark.deploy.master.Master", ["--host", "127.0.0.1", "--webui-port", "0"]
    worker, url = "org.apache.spark.deploy.worker.Worker", f"spark://127.0.0.1:{port}"
    size = ["--cores", "1", "--memory", "512m"]

    def machine(number: int) -> Program:
        return Program([*command, worker, *options, *size, url], directory / f"log-worker{number}", **local)

    with Program([*command, master, *options, "--port", str(port)], directory / "log-master", **local) as program:
        wait_for(lambda: is_listening(port), program)
        with machine(1) as first, machine(2) as second:
            yield url, [first, second]


def is_listening(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


@runs(("last rows and time", "hash"))
def test_cache_deleted(join: str, routing: str, tmp_path: Path, rng: random.Random, spark: Any) -> None:
    """Between batches, and in the middle of them."""
    write_input(tmp_path, rng.randrange(2**32), batches=16 if TORTURE else 4)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    query = start(spark, tmp_path, join, routing)
    deleted = 0
    event = something_new(tmp_path, rng)
    while query.isActive:
        if event():
            deleted += (tmp_path / "cache").exists()
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
            event = something_new(tmp_path, rng)
        time.sleep(0.02)
    query.awaitTermination()
    assert deleted
    pq.write_table(result(spark, tmp_path), tmp_path / "result.parquet")
    check(tmp_path, join)


@pytest.mark.usefixtures("small_segments")
def test_steps_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is computed again from the state before it, by processes that have seen the attempts that failed. Where
    order does not count, each worker gets the rows of a partition in an order of its own: so they come where a part
    of a batch is computed again and the streams themselves come out of a shuffle."""
    monkeypatch.setattr("streamjoin.store.side_window.LARGEST", 16)

    @settings(max_examples=1_000 if TORTURE else 25)
    @given(st.integers(0, 2**32 - 1))
    def one(seed: int) -> None:
        rng = random.Random(seed)
        on = rng.choice([on for on in PREDICATES if on != "TRUE"])
        window, disorder = rng.choice(WINDOWS), rng.choice([0, 5, 40])
        tables = [stream(rng, rng.choice([40, 120]), disorder) for _ in range(2)]
        ordered = any(isinstance(one, int) for one in window)
        if not ordered:
            tables = [table.set_column(0, "ts", pc.divide(table["ts"], 8)) for table in tables]  # many have the same
        spec = make_spec(
            tables[0].schema, tables[1].schema, on=on, window=window, time="ts", lateness=disorder + 4,
            workers=rng.choice([1, 2, 5]), routing=rng.choice(PREDICATES[on]), cache=str(tmp_path),
        )  # fmt: skip
        run = Simulated(spec, rng.shuffle if ordered else lambda messages: shuffle_rows(rng, messages))
        far = pa.table({"ts": [10**6], "k": [None], "v": [None], "name": [None], "tags": [None]}, tables[0].schema)
        steps = zip(*([*cut(rng, table, 6), far] for table in tables), strict=True)
        found = []
        for left, right in steps:
            batch = dealt(rng, left, 2), dealt(rng, right, 2)
            for _ in range(rng.choice([0, 0, 1, 2])):
                before = [[Dictionary(state) for state in states] for states in (run.states, run.routers)]
                run.step(*batch)
                run.states, run.routers = before
                if rng.random() < 0.3:
                    Cache.loaded.clear()  # another process
            found.append(run.step(*batch))
        want = sj.join(*tables, on=on, window=window, time="ts")
        assert_same_rows(pa.concat_tables(found), want, context=(seed, on, spec.routing, window))

    one()


def shuffle_rows(rng: random.Random, messages: list[ChunkMessage]) -> None:
    rng.shuffle(messages)
    for number, message in enumerate(messages):
        if message.body is not None:
            table = from_bytes(message.body)
            order = np.array(rng.sample(range(table.num_rows), table.num_rows))
            messages[number] = replace(message, body=to_bytes(table.take(pa.array(order))))


def test_other_workers_do_not_take_over(spark: Any, tmp_path: Path) -> None:
    """A checkpoint is continued as it was begun, or not at all: what others have stored would not be found."""
    write_input(tmp_path, seed=1, rows=100, batches=1)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    start(spark, tmp_path, "bands", "hash").awaitTermination()
    for side in ("left", "right"):
        shutil.copy(tmp_path / side / "0000.parquet", tmp_path / side / "more.parquet")
    with pytest.raises(StreamingQueryException, match="routing: the checkpoint belongs to a join with hash"):
        start(spark, tmp_path, "bands", "broadcast").awaitTermination()
