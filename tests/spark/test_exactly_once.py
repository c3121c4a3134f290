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
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from streamjoin.testing import assert_same_rows

from ..long import LONG
from .pipeline import ROUTINGS, expected, result, start, write_input

pytestmark = pytest.mark.spark
REPOSITORY = Path(__file__).parents[2]
KILLS = 20 if LONG else 1
PLACES = ["cache", "checkpoint/offsets", "checkpoint/state", "output", "checkpoint/commits"]
"""Where a new file appears in the course of a batch: an event to kill somebody at."""
PAUSE = 0.5
"""Seconds after such an event, at most, until the blow falls."""
FELT = "Python worker exited unexpectedly"
"""What Spark says of a worker that was killed at work."""
ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable}
COUNTS_AND_TIMES = [("last rows", "range"), ("alone too", "broadcast")]
"""One join with windows of rows and one with windows of time, for one driver. The second gives unmatched rows too."""
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


def pipeline(log: Path, queries: dict[Path, tuple[str, str]], **settings: Any) -> Program:
    """Queries in one driver: the join and the routing of each, by its directory."""
    described = json.dumps({"queries": [(str(directory), *query) for directory, query in queries.items()], **settings})
    return Program([sys.executable, "-m", "tests.spark.pipeline", described], log)


def files(directory: Path) -> set[Path]:
    return {Path(place, name) for place, _, names in os.walk(directory) for name in names}


def something_new(directory: Path, rng: random.Random, where: str | None = None) -> Callable[[], bool]:
    """A coming event in the life of the query: a new file, at some place."""
    place = directory / (where or rng.choice(PLACES))
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


@pytest.mark.parametrize("joins", [[one] for one in ROUTINGS] if LONG else [COUNTS_AND_TIMES], ids=str)
def test_workers_and_driver_killed_and_files_lost(
    joins: list[tuple[str, str]], tmp_path: Path, rng: random.Random, spark: Any
) -> None:
    """Python workers are killed in the middle of a batch, later the driver with all it has started. The queries go on
    in another session, where their files are deleted again and again."""
    queries = {tmp_path / str(number): query for number, query in enumerate(joins)}
    for directory in queries:
        write_input(directory, rng.randrange(2**32), batches=3 * KILLS)
    killed = 0
    for _ in range(KILLS):
        with pipeline(tmp_path / "log", queries, master="local[2,4]") as program:
            if not LONG or rng.random() < 0.5:
                killed += kill_workers(list(queries), program, rng)
            events = [something_new(directory, rng) for directory in queries]
            assert wait_for(lambda events=events: any(event() for event in events), program), program.log
            time.sleep(PAUSE * rng.random())
    assert killed
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    deleted = 0
    for directory, (join, routing) in queries.items():
        query = start(spark, directory, join, routing)
        deleted += delete_files(directory, query, rng)
        query.awaitTermination()
        pq.write_table(result(spark, directory), directory / "result.parquet")
        check(directory, join)
    assert deleted


def kill_workers(directories: list[Path], program: Program, rng: random.Random) -> bool:
    """Kill one or all Python workers in the middle of a batch, and again until Spark has noticed; whether it has."""
    committed, felt = [batches(directory, "commits") for directory in directories], program.log.count(FELT)
    wait_for(lambda: [batches(directory, "commits") for directory in directories] != committed, program)
    while wait_for(lambda: any(map(in_a_batch, directories)), program) and program.log.count(FELT) == felt:
        time.sleep(PAUSE * rng.random())
        _daemon, *workers = program.processes("pyspark.daemon") or [0]
        kill(rng.choice([workers, rng.sample(workers, 1)]) if workers else [])
        time.sleep(PAUSE * rng.random())  # nobody may have needed them: then another blow falls
    return program.log.count(FELT) > felt


def delete_files(directory: Path, query: Any, rng: random.Random) -> int:
    """Delete the workers' files between batches, and in the middle of them, until the query ends; how often."""
    deleted = 0
    event = something_new(directory, rng, "cache")
    while query.isActive:
        if event():
            deleted += (directory / "cache").exists()
            shutil.rmtree(directory / "cache", ignore_errors=True)
            event = something_new(directory, rng)
        time.sleep(0.02)
    return deleted


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("join", "routing"), ROUTINGS if LONG else [])
def test_executor_killed(join: str, routing: str, tmp_path: Path, rng: random.Random) -> None:
    """Spark's own master and two workers within the driver, with executors of their own, which are started again."""
    write_input(tmp_path, rng.randrange(2**32), batches=12)
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.task.maxFailures": "8"}
    killed = 0
    with pipeline(tmp_path / "log", {tmp_path: (join, routing)}, master="local-cluster[2,1,512]", conf=conf) as program:
        while wait_for(something_new(tmp_path, rng), program):
            executors = program.processes("CoarseGrainedExecutorBackend")
            if executors and in_a_batch(tmp_path) and killed < KILLS:
                kill([rng.choice(executors)])
                killed += 1
            committed = batches(tmp_path, "commits")
            wait_for(lambda committed=committed: batches(tmp_path, "commits") > committed, program)
        program.finish()
    assert killed
    check(tmp_path, join)


def test_other_workers_do_not_take_over(spark: Any, tmp_path: Path) -> None:
    """A checkpoint is continued as it was begun, or not at all: what others have stored would not be found."""
    write_input(tmp_path, seed=1, rows=100, batches=1)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    start(spark, tmp_path, "bands", "hash").awaitTermination()
    for side in ("left", "right"):
        shutil.copy(tmp_path / side / "0000.parquet", tmp_path / side / "more.parquet")
    with pytest.raises(StreamingQueryException, match="routing: the checkpoint belongs to a join with hash"):
        start(spark, tmp_path, "bands", "broadcast").awaitTermination()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    directories = list((tmp_path / "cache").iterdir())  # the one of the query that was refused, before any figures
    assert len(directories) <= 1
