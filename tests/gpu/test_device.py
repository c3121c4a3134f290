"""Which device scans a join's windows, and what happens when the GPU cannot, or not any more."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import ArgumentError
from streamjoin.gpu import scan, support
from streamjoin.store import PairSink

from .. import constants, interpreted
from . import python_machine

CLOSE = "abs(l.x - r.x) <= 3"
PRODUCT = "l.x * r.y - l.y * r.x < 50 AND l.x <> r.x"
WIDE = "l.w < r.w + 1"


def table(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    x, y, t = rng.integers(0, 99, count), rng.integers(0, 99, count), np.sort(rng.integers(0, count, count))
    return pa.table({
        "t": t, "x": pa.array(x, pa.int32()), "y": pa.array(y, pa.int32()),
        "w": pa.array(x, pa.int64()).cast(pa.decimal128(30, 2)),
    })  # fmt: skip


LEFT, RIGHT = table(120, 1), table(120, 2)


def joined(device: Any, on: str = CLOSE, **options: Any) -> tuple[pa.Table, dict[str, Any]]:
    """Pushed in pieces; the sorted rows, and what holds the right window."""
    with sj.WindowJoin(
        LEFT.schema, RIGHT.schema, on=on, window=sj.TimeWindow(60), time="t", device=device, order="sorted", **options
    ) as join:  # fmt: skip
        found = []
        for start in range(0, 120, 30):
            join.push_left(LEFT.slice(start, 30))
            join.push_right(RIGHT.slice(start, 30))
            found.append(join.poll())
        found.append(join.finish())
        return pa.concat_tables(found), join.metrics()["indexes"]["right"]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> python_machine.PythonMachine:
    interpreted.install(monkeypatch)
    constants.replace(monkeypatch, ALONE=8)
    return python_machine.install(monkeypatch)


def test_a_gpu_that_is_asked_for_scans(gpu: python_machine.PythonMachine) -> None:
    rows, figures = joined("gpu", workers=2)
    assert rows == joined("cpu")[0]
    assert rows.num_rows > 100
    assert figures["device"] == "gpu"
    assert figures["gpu"] == "Python"
    assert figures["index"] == "scan"
    assert figures["gpu_runs"] > 1
    assert figures["gpu_launches"] > figures["gpu_probes"] > 0
    assert gpu.launches >= figures["gpu_launches"]


def test_both_sides_are_under_way_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    gpu, calls = python_machine.install(monkeypatch, GPU_ROOM=10**4), list[str]()
    launch, fetch = gpu.launch, gpu.fetch
    monkeypatch.setattr(gpu, "launch", lambda *rest: calls.append("launch") or launch(*rest))
    monkeypatch.setattr(gpu, "fetch", lambda *rest: calls.append("wait") or fetch(*rest))
    rows, figures = joined("gpu", PRODUCT, workers=2)
    assert rows == joined("cpu", PRODUCT)[0]
    assert figures["device"] == "gpu"
    assert "launch launch wait" in " ".join(calls)


@pytest.mark.parametrize("launch", [1, 2, 5, 17, 40])
@pytest.mark.parametrize("algorithm", ["panjoin", "celljoin", "low-latency-handshake"])
def test_a_gpu_that_fails_loses_and_doubles_nothing(
    gpu: python_machine.PythonMachine, launch: int, algorithm: str
) -> None:  # fmt: skip
    gpu.fails_at = launch
    with pytest.warns(RuntimeWarning, match="goes on on the CPU: RuntimeError: the GPU has fallen off the bus"):
        rows, figures = joined("gpu", algorithm=algorithm, workers=2)
    assert rows == joined("cpu")[0]
    assert figures["device"] in ("cpu", "gpu")


def test_out_of_memory(gpu: python_machine.PythonMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays cannot grow when the window does."""

    def copied(memory: Any, count: int, stream: None) -> Any:
        raise MemoryError("CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(gpu, "copied", copied)
    with pytest.warns(RuntimeWarning, match="OUT_OF_MEMORY"):
        rows, figures = joined("gpu")
    assert rows == joined("cpu")[0]
    assert figures["device"] == "cpu"
    assert "OUT_OF_MEMORY" in figures["device_why"]


def test_keys_with_many_equals_are_scanned(
    gpu: python_machine.PythonMachine, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A search would read most of the window, tuple by tuple."""
    constants.replace(monkeypatch, GPU_SAMPLED=1, GPU_SELECTIVE=4)
    names = list[str]()
    monkeypatch.setattr(gpu, "launch", lambda source, name, *rest: names.append(name) or launch(source, name, *rest))
    launch = python_machine.PythonMachine().launch
    assert joined("gpu", "l.x % 2 = r.x % 2")[0] == joined("cpu", "l.x % 2 = r.x % 2")[0]
    assert "gpu_search" not in names
    names.clear()
    assert joined("gpu", "l.x = r.x")[0] == joined("cpu", "l.x = r.x")[0]
    assert "gpu_search" in names


def test_errors_of_others_are_raised(gpu: python_machine.PythonMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails while pairs are handed on is no failure of the GPU."""

    def add(sink: PairSink, probing: Any, stored: Any) -> None:
        raise ValueError("a bad value")

    monkeypatch.setattr(PairSink, "add", add)
    with pytest.raises(ValueError, match="a bad value"):
        joined("gpu")


def test_auto_takes_it_where_it_costs_less(
    gpu: python_machine.PythonMachine, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    rows, figures = joined("auto", PRODUCT)
    assert figures["device"] == "cpu"
    assert gpu.launches == 0
    monkeypatch.setattr(scan, "STEP", 0.0)
    monkeypatch.setattr(scan, "PROBE", 0.0)
    again, figures = joined("auto", PRODUCT, workers=1)
    assert again == rows
    assert figures["device"] == "gpu"
    assert gpu.launches > 0


def test_auto_weighs_it_against_a_search(
    gpu: python_machine.PythonMachine, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The predicate has a key. A GPU that is fast enough makes a scan the better path."""
    monkeypatch.setattr(scan, "STEP", 0.0)
    monkeypatch.setattr(scan, "PROBE", 0.0)
    monkeypatch.setattr(scan, "COMPARE", 0.0)
    rows, figures = joined("auto", workers=1)
    assert rows == joined("cpu")[0]
    assert figures["estimates"]["gpu"] < figures["estimates"]["bi-sort"]
    assert figures["index"] == "scan"


def test_a_predicate_that_a_gpu_cannot_run(gpu: python_machine.PythonMachine) -> None:
    rows, figures = joined("gpu", WIDE)
    assert rows == joined("cpu", WIDE)[0]
    assert gpu.launches == 0
    assert figures["device"] == "cpu"
    assert figures["device_why"] == "the predicate computes with numbers of more than 64 bits"
    plan = sj.explain(LEFT, RIGHT, on=WIDE, device="gpu")
    assert plan.device == "cpu: the predicate computes with numbers of more than 64 bits"
    assert plan.device in str(plan)
    assert "exp of the predicate" in sj.explain(LEFT, RIGHT, on="exp(l.x - r.x) < 2", device="gpu").device


def test_explain(gpu: python_machine.PythonMachine) -> None:
    assert sj.explain(LEFT, RIGHT, on=CLOSE, device="gpu").device == "gpu"
    assert sj.explain(LEFT, RIGHT, on=CLOSE, device="gpu").index == "scan"
    assert sj.explain(LEFT, RIGHT, on=CLOSE).device == "gpu where it is likely to take less time than the cpu"
    assert sj.explain(LEFT, RIGHT, on=CLOSE, device="cpu").device == "cpu"


def test_wrong_arguments(gpu: python_machine.PythonMachine) -> None:
    with pytest.raises(ArgumentError, match="index: 'bi-sort' cannot be searched by device='gpu'"):
        joined("gpu", index="bi-sort")
    with pytest.raises(ArgumentError, match=r"device: 'gpus' is not valid \(did you mean 'gpu'\?\)"):
        joined("gpus")


def test_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "there is no NVIDIA driver (libcuda.so.1 cannot be loaded)"
    monkeypatch.setattr("streamjoin.engine.options.missing", lambda: reason)
    monkeypatch.setattr(scan, "has_driver", lambda: False)
    for call in (
        lambda: joined("gpu"),
        lambda: sj.join(LEFT, RIGHT, on=CLOSE, window=9, device="gpu"),
        lambda: sj.join_batches(LEFT, RIGHT, on=CLOSE, window=9, device="gpu"),
        lambda: sj.explain(LEFT, RIGHT, on=CLOSE, device="gpu"),
    ):
        with pytest.raises(ArgumentError, match="device: 'gpu' cannot be used here: there is no NVIDIA driver"):
            call()
    rows, figures = joined("auto")
    assert rows == joined("cpu")[0]
    assert "device" not in figures
    assert sj.explain(LEFT, RIGHT, on=CLOSE).device == "cpu"


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "LIBRARY", "libno-such-driver.so")
    monkeypatch.delenv(support.SIMULATOR, raising=False)
    for known in (support.missing, support.has_driver):
        known.cache_clear()
    try:
        assert support.missing() == "there is no NVIDIA driver (libno-such-driver.so cannot be loaded)"
    finally:
        for known in (support.missing, support.has_driver):
            known.cache_clear()


SIMULATED = """
import warnings
import pyarrow as pa
import streamjoin as sj
from streamjoin.gpu import arena, kernel, lane, machine, pieces, runs

warnings.filterwarnings("error", "the GPU failed")
kernel.THREADS, kernel.LANES, machine.ROOM, pieces.TILE, arena.SMALLEST, lane.FIRST_FETCH = 2, 2, 5, 3, 8, 2
runs.CHUNK, runs.GROUP, runs.SELECTIVE, lane.STAGED = 3, 2, 0, 500
left = pa.table({"x": pa.array([1, 5, 9, None, 3, 7], pa.int32()), "y": [0.5, 1.5, float("nan"), 2.0, 1.0, 4.0]})
right = pa.table({"x": pa.array([2, 5, 8, 1, None], pa.int32()), "y": [1.0, 3.0, 0.5, float("nan"), 2.0]})
for on in ("abs(l.x - r.x) <= 1", "l.x = r.x + 1 OR l.y * r.y + l.y >= 3.0"):
    both = [
        sj.join(left, right, on=on, window=9, device=device, order="sorted", how="full", workers=1)
        for device in ("cpu", "gpu")
    ]
    assert str(both[0].to_pylist()) == str(both[1].to_pylist()), on
    print(both[0].num_rows)
"""


def test_numbas_simulator() -> None:
    """The whole way through Numba's interface, in a process of its own: the simulator is chosen by its import."""
    environment = {"NUMBA_ENABLE_CUDASIM": "1", "STREAMJOIN_COMPILE": "first", "PYTHONWARNINGS": "ignore"}
    found = subprocess.run(
        [sys.executable, "-c", SIMULATED], capture_output=True, text=True, check=False, env=os.environ | environment
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert [int(line) for line in found.stdout.split()] == [8, 24]
