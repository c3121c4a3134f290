"""Results go through files where both ends are in one task, and are the same as without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamjoin.errors import DataError
from streamjoin.spark import handover
from streamjoin.spark.handover import Handover, handed_over
from streamjoin.spark.messages import to_bytes
from streamjoin.spark.outputs import ARROW_OUTPUT, FIGURES, FILED, RESULT
from streamjoin.spark.processor import JoinProcessor
from streamjoin.spark.unpack import Unpack
from streamjoin.spark.worker import Worker

from .simulated import make_spec, stream


def spec(**options: Any) -> Any:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("v", pa.float64())])
    return make_spec(schema, schema, on="l.k = r.k", window=9, time="ts", workers=2, **options)


@pytest.fixture
def results(rng: Any) -> pa.Table:
    return stream(rng, 100, 0).drop_columns("v")  # which has NaN, and that equals nothing


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The executor's directory; all results are worth a file."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(handover, "WORTH_A_FILE", 0)
    return tmp_path


def files(local: Path) -> list[Path]:
    return [path for path in local.rglob("*") if path.is_file()]


def test_a_file_is_read_and_removed(local: Path, results: pa.Table) -> None:
    giving = Handover(spec(routing="hash"))
    assert all(giving.takes(results.slice(n, 50)) for n in (0, 50))
    giving.close()
    assert giving.name is not None
    assert files(local) == [Path(giving.name)]
    assert handed_over(giving.name).equals(results)
    assert files(local) == []


def test_no_file_is_left_by_who_takes_only_some_rows(local: Path, results: pa.Table) -> None:
    """Some results have come as blobs before there was a file."""
    join = spec(routing="hash")
    giving = Handover(join)
    giving.takes(results)
    giving.close()
    assert giving.name is not None
    outputs = {"kind": [RESULT, FILED, FIGURES], "body": [to_bytes(results), os.fsencode(giving.name), None]}
    columns = [pa.array(outputs.get(field.name, [None] * 3), field.type) for field in ARROW_OUTPUT]
    next(iter(Unpack(join)([pa.RecordBatch.from_arrays(columns, schema=ARROW_OUTPUT)])))
    assert files(local) == []


def test_a_task_that_fails_leaves_no_file(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = spec(routing="hash")
    table = pa.table({"ts": range(50), "k": [1] * 50, "v": [0.5] * 50}, join.schemas["left"])
    result = pa.Table.from_arrays([*table.columns, *table.columns], schema=join.result)

    def step(self: Worker, messages: Any) -> Iterator[pa.Table]:
        yield result
        assert len(files(local)) == 1
        raise DataError("something is wrong")

    monkeypatch.setattr(Worker, "step", step)
    processor = JoinProcessor(join)
    processor._values = None
    with pytest.raises(DataError):
        list(processor.handleInputRows((join.workers[0],), [], None))
    assert files(local) == []


@pytest.mark.parametrize("why", ["settling", "small", "no directory"])
def test_no_file(why: str, local: Path, results: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "small":
        monkeypatch.setattr(handover, "WORTH_A_FILE", results.nbytes + 1)
    if why == "no directory":
        monkeypatch.setattr(handover, "local_directory", lambda: local / "a file")
        (local / "a file").write_text("")
    settling = dict(routing="broadcast", how="left") if why == "settling" else dict(routing="hash")
    giving = Handover(spec(**settling))
    assert not giving.takes(results)
    giving.close()
    assert giving.name is None


def test_a_full_disk(local: Path, results: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken before can be read, though the last table lies there in part."""
    giving = Handover(spec(routing="hash"))
    assert giving.takes(results)

    def full(self: Handover, table: pa.Table) -> None:
        self._file.write(b"some bytes")
        raise OSError("no space left on the device")

    with monkeypatch.context() as patched:
        patched.setattr(Handover, "_write", full)
        assert not giving.takes(results)
    assert not giving.takes(results)
    giving.close()
    assert giving.name is not None
    assert handed_over(giving.name).equals(results)


def test_files_of_old_tasks_go(local: Path, results: pa.Table) -> None:
    join = spec(routing="hash")
    for _ in range(2):
        giving = Handover(join)
        giving.takes(results)
        giving.close()
    old, young = files(local)
    os.utime(old, (0, 0))
    Handover(join)
    assert files(local) == [young]
