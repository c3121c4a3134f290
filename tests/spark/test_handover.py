"""Results go through files where both ends are in one task, and are the same as without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamjoin.spark import handover
from streamjoin.spark.handover import Handover, unpacked
from streamjoin.spark.outputs import FILED, RESULT

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
    packed = [giving.packed(RESULT, results.slice(n, 50)) for n in (0, 50)]
    assert [kind for kind, _ in packed] == [FILED, FILED]
    assert len(files(local)) == 2
    taken = [unpacked(kind, pa.py_buffer(body)) for kind, body in packed]
    assert files(local) == []
    assert [kind for kind, _ in taken] == [RESULT, RESULT]
    assert pa.concat_tables([table for _, table in taken]).equals(results)


@pytest.mark.parametrize("why", ["late rows", "settling", "small", "no room"])
def test_blobs(why: str, local: Path, results: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    settling = dict(routing="broadcast", how="left") if why == "settling" else dict(routing="hash")
    kind = "left" if why == "late rows" else RESULT
    if why == "small":
        monkeypatch.setattr(handover, "WORTH_A_FILE", results.nbytes + 1)
    if why == "no room":

        def full(*_: Any) -> None:
            raise OSError("there is no room on the disk")

        monkeypatch.setattr(handover, "write_stream", full)
    packed = Handover(spec(**settling)).packed(kind, results)
    assert packed[0] == kind
    assert files(local) == []
    found = unpacked(packed[0], pa.py_buffer(packed[1]))
    assert found[0] == kind
    assert found[1].equals(results)


def test_files_of_old_tasks_go(local: Path, results: pa.Table) -> None:
    join = spec(routing="hash")
    for _ in range(2):
        Handover(join).packed(RESULT, results)
    old, young = files(local)
    os.utime(old, (0, 0))
    Handover(join)
    assert files(local) == [young]
