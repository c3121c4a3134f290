"""What `metrics` says of latencies: they begin with the call, and the longest call is never hidden."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.engine import latency as module
from streamjoin.engine.intake import Intake
from streamjoin.engine.latency import Latency

PAUSE = 0.05


@pytest.fixture
def slow_intake(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Intake.slots

    def slots(self: Intake, *args: Any, **kwargs: Any) -> Any:
        time.sleep(PAUSE)
        return read(self, *args, **kwargs)

    monkeypatch.setattr(Intake, "slots", slots)


@pytest.mark.parametrize("matches", [True, False])
def test_a_push_counts_from_its_beginning(slow_intake: None, matches: bool) -> None:
    schema = pa.schema({"k": pa.int64()})
    with sj.WindowJoin(schema, schema, on="l.k = r.k", window=10, workers=1) as join:
        join.push_left(pa.table({"k": [1]}))
        join.poll()
        join.push_right(pa.table({"k": [1 if matches else 2]}))
        assert join.poll().num_rows == matches
        figures = join.metrics()["latency_ms"]
    assert figures["max"] >= PAUSE * 1e3
    assert (figures["p50"] is not None) == matches
    if matches:
        assert PAUSE * 1e3 <= figures["p50"] <= figures["max"]


def test_percentiles_weigh_results_and_the_longest_call_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "perf_counter", lambda: 10.0)
    latency = Latency()
    assert latency.percentiles() == {"p50": None, "p95": None, "p99": None, "max": None}
    latency.note(8.0)
    assert latency.percentiles() == {"p50": None, "p95": None, "p99": None, "max": 2000.0}
    latency.add(9.0, 98)
    latency.add(9.5, 2)
    latency.add(1.0, 0)  # stands for nothing
    assert latency.percentiles() == {"p50": 1000.0, "p95": 1000.0, "p99": 1000.0, "max": 2000.0}
