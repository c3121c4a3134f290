"""What `metrics` says of a join that is closed: what it has counted stays, and it holds nothing any more."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.topology.registry import ALGORITHMS

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64()})
COUNTS = ("in", "late")
HELD = ("window", "waiting", "payload_rows")


def rows(times: range) -> pa.Table:
    return pa.table([list(times), [t % 3 for t in times]], schema=SCHEMA)


def opened(algorithm: str, **changes: Any) -> sj.WindowJoin:
    arguments: dict[str, Any] = {"order": "sorted", "workers": 2, "late": "keep", **changes}
    return sj.WindowJoin(
        SCHEMA, SCHEMA, on="l.k = r.k", window=sj.TimeWindow(50), time="ts", algorithm=algorithm, **arguments
    )


def fill(join: sj.WindowJoin) -> None:
    """Some results were polled, others wait; some tuples were late, others wait for the other stream."""
    join.push_left(rows(range(100, 130)))
    join.push_right(rows(range(100, 120)))
    join.push_left(rows(range(7)))
    assert join.poll().num_rows
    join.push_right(rows(range(120, 125)))
    join.push_left(rows(range(130, 140)))


def held(metrics: dict[str, Any]) -> list[int]:
    """Every figure about what a join holds."""
    found = [metrics[side][name] for side in ("left", "right") for name in HELD]
    found += [worker[name] for worker in metrics["workers"] for name in worker if name.endswith(("_window", "bytes"))]
    found += [index["bytes"] for index in metrics["indexes"].values()]
    return [*found, metrics["pending"]]


def counted(metrics: dict[str, Any]) -> dict[str, Any]:
    """Every figure about what a join has done."""
    sides = {side: {name: metrics[side][name] for name in COUNTS} for side in ("left", "right")}
    names = "out", "late", "comparisons", "latency_ms", "watermark", "algorithm", "index"
    return sides | {name: metrics[name] for name in names}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_counts_stay_and_nothing_is_held(algorithm: str) -> None:
    with opened(algorithm) as join:
        fill(join)
        before = join.metrics()
    after = join.metrics()
    assert after.keys() == before.keys()
    assert sum(held(before)) > 0
    assert set(held(after)) == {0}
    assert counted(after) == counted(before)
    assert after["left"]["in"] == 47
    assert after["late"] == after["left"]["late"] == 7
    assert after["out"] > 0
    assert after["latency_ms"]["max"] > 0
    assert len(after["workers"]) == len(before["workers"])
    join.close()
    assert join.metrics() == after, "closing twice changes nothing"


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_answer_belongs_to_the_caller(is_closed: bool) -> None:
    with opened("panjoin") as join:
        fill(join)
        if is_closed:
            join.close()
        known, taken = deepcopy(join.metrics()), join.metrics()
        taken["left"]["in"] = taken["out"] = -1
        taken["latency_ms"].clear()
        taken["workers"].clear()
        for figures in taken["indexes"].values():
            figures["bytes"] = -1
        assert join.metrics() == known


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_broken_join(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(algorithm) as join:
        fill(join)

        def fail(*args: Any) -> Any:
            raise MemoryError("in the middle")

        monkeypatch.setattr(ALGORITHMS[algorithm], "step", fail)
        with suppress(MemoryError):  # a push joins by itself if earlier rows have waited long enough
            join.push_right(rows(range(200, 203)))
        with pytest.raises((MemoryError, sj.StateError)):
            join.poll()
        before = join.metrics()
    after = join.metrics()
    assert set(held(after)) == {0}
    assert counted(after) == counted(before)
    assert after["right"]["in"] == 28
