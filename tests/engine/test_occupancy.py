"""`metrics()` counts the tuples that later ones can still meet, wherever they are stored and whatever is beside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.side import SIDES
from streamjoin.store.registry import INDEXES
from streamjoin.topology.interim import Interim
from streamjoin.topology.registry import ALGORITHMS

from .. import constants, interpreted
from ..pairwise import Row, pairwise
from ..predicates import KEY

LATENESS, TIME_WINDOWS, COUNT_WINDOWS = 20, (30, 55), (40, 25)
WAYS: dict[str, Any] = {
    "algorithm": tuple(ALGORITHMS), "index": (*INDEXES, "auto"), "workers": (1, 3),
    "windows": ("time", "count", "pushed"), "ready": ("at once", "in midstream", "never"),
}  # fmt: skip


@pytest.mark.parametrize("row", [pytest.param(row, id="-".join(map(str, row.values()))) for row in pairwise(WAYS)])
def test_expired_tuples_do_not_count(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    constants.replace(
        monkeypatch, FORGET_ROWS=1, SMALLEST_BLOCK=5, SMALLEST_SUBWINDOW=16, SMALLEST_SCANNED=16, TAIL=3, SMALL_STEP=100
    )
    is_ready = [row["ready"] == "at once"]
    monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", lambda *_: lambda: is_ready[0])
    rng = np.random.default_rng(2)
    columns = {"t": rng.integers(0, 15, 200) + np.arange(200), "k": rng.integers(0, 9, 200)}
    tables, arguments = [pa.table(columns).slice(0, length) for length in (200, 180)], dict(row)
    kind = arguments.pop("windows")
    ready = arguments.pop("ready")
    if kind == "time":
        arguments |= {"window": tuple(map(sj.TimeWindow, TIME_WINDOWS)), "time": "t", "lateness": LATENESS}
    elif kind == "count":
        arguments |= {"window": COUNT_WINDOWS, "time": "t", "lateness": LATENESS}
    else:
        arguments |= {"window": COUNT_WINDOWS}
    is_ordered = kind != "time" or row["algorithm"] == "scalejoin"
    with sj.WindowJoin(tables[0].schema, tables[1].schema, on=KEY, **arguments) as join:
        for start in range(0, 200, 17):
            is_ready[0] |= ready == "in midstream" and start > 60
            for side, table in zip(SIDES, tables, strict=True):
                join.push(side, table.slice(start, 17))
            join.poll()
            metrics = join.metrics()
            pushed = [table["t"].to_numpy()[: start + 17] for table in tables]
            expected = [_inside(kind, number, pushed, is_ordered) for number in range(2)]
            assert [metrics[side]["window"] for side in SIDES] == expected, start
        steps = join._steps
        assert steps is not None
        topology = steps.topology
        if isinstance(topology, Interim) and topology._beside is not None:
            assert [topology._beside.occupancy(side) for side in SIDES] == [0, 0], "the old tuples have expired"
        for side, count in zip(SIDES, expected, strict=True):
            assert sum(worker.get(f"{side}_window", 0) for worker in metrics["workers"]) == count


def _inside(kind: str, number: int, pushed: list[Any], is_ordered: bool) -> int:
    """How many tuples of a side the next one of the other side may meet, of those that take part."""
    times, others = pushed[number], pushed[1 - number]
    horizon = min(times.max(), others.max()) - LATENESS
    if kind == "pushed":
        return min(len(times), COUNT_WINDOWS[number])
    if kind == "count":
        return min(int((times < horizon).sum()), COUNT_WINDOWS[number])
    first = (horizon if is_ordered else others.max() - LATENESS) - TIME_WINDOWS[number] + 1
    return int(((times >= first) & ((times < horizon) | (not is_ordered))).sum())


def test_an_ended_stream_leaves_the_other_window_empty() -> None:
    rows = pa.table({"t": np.arange(50), "k": np.arange(50)})
    with sj.WindowJoin(rows.schema, rows.schema, on=KEY, window=sj.TimeWindow(1000), time="t") as join:
        join.push_left(rows)
        join.push_right(rows)
        assert [join.metrics()[side]["window"] for side in SIDES] == [50, 50]
        join.end("right")
        assert [join.metrics()[side]["window"] for side in SIDES] == [0, 50]
