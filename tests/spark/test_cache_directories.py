"""Whose a cache directory is, and when it goes; what a driver removes when its queries end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamjoin.spark import cache_directories, ended_queries
from streamjoin.spark.cache_directories import ABANDONED, OWNER, claim, directory_of, sweep
from streamjoin.spark.segments import Cache

from .simulated import Simulated, make_spec, stream

YESTERDAY = time.time() - ABANDONED - 60


def identity(join: str) -> str:
    """What a join of this name is called in directories."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, join).hex


ONE, OTHER = identity("one"), identity("other")


def cached(root: Path, join: str, *owners: str, old: bool = False) -> Path:
    """A join's directory with a worker's, and these processes as its owners."""
    directory = directory_of(root, identity(join))
    (directory / "0").mkdir(parents=True)
    (directory / "0" / "segment").touch()
    for owner in owners:
        (directory / f"{OWNER}{owner}").touch()
    if old:
        for path in (directory / "0", directory):
            os.utime(path, (YESTERDAY, YESTERDAY))
    return directory


def process(machine: str | None = None) -> str:
    """A process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return f"{ended.pid}-12345-{machine or cache_directories._machine()}"


def test_what_is_swept(tmp_path: Path) -> None:
    here, parent = cache_directories._machine(), os.getppid()
    gone = [
        cached(tmp_path, "a-process-that-has-ended", process()),
        cached(tmp_path, "two-of-them", process(), process()),
        cached(tmp_path, "a-number-that-is-used-again", f"{parent}-1-{here}"),
        cached(tmp_path, "elsewhere-and-idle-for-a-day", process("another-machine"), old=True),
        cached(tmp_path, "nobody-s-and-idle-for-a-day", old=True),
        cached(tmp_path, "said-to-have-ended"),
    ]
    claim(gone[-1])
    kept = [
        cached(tmp_path, "a-living-process", process(), old=True),
        cached(tmp_path, "elsewhere", process("another-machine")),
        cached(tmp_path, "nobody-s"),
    ]
    claim(kept[0])
    note, checkpoint = tmp_path / "streamjoin-notes.txt", tmp_path / "streamjoin-checkpoint"
    note.touch()
    checkpoint.mkdir()
    os.utime(checkpoint, (YESTERDAY, YESTERDAY))  # nobody has used it for a day
    sweep(tmp_path, [identity("said-to-have-ended")])
    assert set(tmp_path.iterdir()) == {*kept, note, checkpoint}


def test_what_a_killed_executor_has_left_is_swept(tmp_path: Path) -> None:
    own, killed, other = (tmp_path / name for name in ("blockmgr-1", "blockmgr-2", "something-else"))
    left = [cached(place, "gone", process()) for place in (killed, other)]
    own.mkdir()
    sweep(own)
    assert [directory.exists() for directory in left] == [False, True]


def test_a_join_claims_its_directory_and_sweeps_others(tmp_path: Path) -> None:
    left_behind, table = cached(tmp_path, "gone", process()), stream(random.Random(0), 40, 0)
    arguments = dict(on="l.k = r.k", window=5, time="ts", cache=str(tmp_path))
    spec = make_spec(table.schema, table.schema, **arguments)
    Simulated(spec).step([table], [table])
    own = directory_of(tmp_path, spec.identity)
    assert not left_behind.exists()
    assert len(list(own.glob(f"{OWNER}*"))) == 1
    Cache.loaded.clear()  # another process of the same executor
    sweep(tmp_path)
    assert len(list((own / "0").iterdir())) == 2


def test_tables_leave_no_files(tmp_path: Path) -> None:
    table = stream(random.Random(0), 40, 0)
    spec = make_spec(table.schema, table.schema, on="l.k = r.k", window=5, time="ts", cache=str(tmp_path), bounded=True)
    Simulated(spec).step([table], [table])
    assert not list(tmp_path.iterdir())


def test_a_directory_goes_with_the_last_query_that_has_the_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_queries, "_roots", {ONE: [str(tmp_path)], OTHER: [str(tmp_path)]})
    monkeypatch.setattr(ended_queries, "_ended", {})
    one, other = cached(tmp_path, "one"), cached(tmp_path, "other")
    listener = ended_queries.EndOfQueries()

    def progress(run: str, *joins: str) -> SimpleNamespace:
        figures = {f"streamjoin_{join}": {"join": join, "out": 1} for join in joins}
        return SimpleNamespace(progress={"runId": run, "observedMetrics": {**figures, "other figures": {"rows": 3}}})

    for run in ("first sink", "second sink", "another query", "a query without a join"):
        listener.onQueryStarted(SimpleNamespace(runId=run))
    listener.onQueryProgress(progress("first sink", ONE))
    listener.onQueryProgress(progress("second sink", ONE))
    listener.onQueryProgress(progress("another query", OTHER))
    listener.onQueryTerminated(SimpleNamespace(runId="first sink"))
    listener.onQueryTerminated(SimpleNamespace(runId="a query without a join"))
    assert one.exists()
    listener.onQueryTerminated(SimpleNamespace(runId="second sink"))
    assert (one.exists(), other.exists()) == (False, True)
    assert ended_queries.ended_joins() == (ONE,)
    listener.onQueryStarted(SimpleNamespace(runId="the same once more"))
    listener.onQueryTerminated(SimpleNamespace(runId="another query"))
    assert other.exists()  # nobody knows what has been started
    listener.onQueryProgress(progress("the same once more", OTHER))
    listener.onQueryTerminated(SimpleNamespace(runId="the same once more"))
    assert not other.exists()
    listener.onQueryStarted(SimpleNamespace(runId="and once more"))
    listener.onQueryProgress(progress("and once more", OTHER))
    assert ended_queries.ended_joins() == (ONE,)


def test_directories_go_with_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_queries, "_roots", {ONE: [str(tmp_path)]})
    monkeypatch.setattr(ended_queries, "_ended", {})
    one, other = cached(tmp_path, "one"), cached(tmp_path, "of-another-driver")
    ended_queries._remove_all()
    assert (one.exists(), other.exists()) == (False, True)
