"""`bench panjoin`: it runs, checks the counts it says it checks, and writes figures."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjoin.bench.panjoin import experiments
from streamjoin.bench.panjoin.contestants import Joined, Rival
from streamjoin.bench.panjoin.measure import measure
from streamjoin.bench.panjoin.memory import memory
from streamjoin.bench.peers.base import KINDS
from streamjoin.bench.peers.numpy_peer import NumPy
from streamjoin.bench.workloads import Streams
from streamjoin.cli import main

from ..long import LONG

pytestmark = pytest.mark.bench
INDEXES = ("auto", "bi-sort", "rap-table", "wib-tree", "hash") if LONG else ("auto", "bi-sort")
MEASURED = ("equality", "band", "celljoin") if LONG else ("band",)
"""Each further kind compiles kernels of its own."""


@cache
def once(*arguments: Any) -> dict[str, Any]:
    return memory("band", *arguments)


def quick_panjoin(*more: str) -> int:
    return main(["bench", "panjoin", "--quick", "--windows", "3K", "--batch", "500", "--rounds", "3", *more])


def test_panjoin(
    tmp_path: Path,
    drawn: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(experiments, "EQUAL_WINDOW", 256)
    monkeypatch.setattr(experiments, "EQUAL_BATCH", 64)
    monkeypatch.setattr(experiments, "memory", lambda kind, *rest: once(*rest))  # a process each
    file, directory = tmp_path / "figures.json", tmp_path / "plots"
    more = ["--workers", "1", "2", "--skew", "--kinds", *MEASURED, "--indexes", *INDEXES]
    assert quick_panjoin(*more, "--json", str(file), "--plots", str(directory)) == 0
    figures = json.loads(file.read_text())
    for kind in MEASURED:
        entries = {entry["contestant"]: entry for entry in figures["systems"] if entry["kind"] == kind}
        assert entries.keys() >= {"auto, 1 thread", "auto, 2 threads", "scan, 2 threads", "NumPy"}
        ours = entries["auto, 2 threads"]
        assert ours.keys() >= {"median", "min", "max", "overall", "cpu_per_wall", "others_cores", "to_best_peer"}
        assert ours.keys() >= {"to_scan", "to_one_worker", "chosen"}
    equality = [entry for entry in figures["systems"] if entry["kind"] != "celljoin"]
    assert all(entry["results_per_tuple"] == pytest.approx(1, abs=0.25) for entry in equality)
    assert {entry["index"] for entry in figures["indexes"]} == set(INDEXES[1:])
    assert {entry["keys"] for entry in figures["skew"]} >= {"uniform", "increasing", "all equal, narrow window"}
    assert {entry["selectivity"] for entry in figures["selectivity"]} == {1, 16, 256}
    assert all(entry["index_bytes"] > 0 and entry["payload_bytes"] >= 8 for entry in figures["memory"])
    assert any("Polars, celljoin" in text for text in figures["left_out"]) == LONG
    assert {path.name for path in drawn} >= {"panjoin-band.png", "panjoin-band.svg", "panjoin-skew.png"}
    out = capsys.readouterr().out
    assert "28.9 M tuples/s" in out
    assert "All counts of results were right" in out


@pytest.mark.parametrize("kind", KINDS)
def test_the_independent_count_is_that_of_all_pairs(kind: str) -> None:
    streams = Streams.make(kind, 300, 200, 5)
    (x, y), (a, b) = streams.left, streams.right
    if kind == "celljoin":
        x, y, a, b = x % 60, y % 60, a % 60, b % 60
        streams.left, streams.right = (x, y), (a, b)
    hits = np.abs(x[:, None].astype(np.int64) - a) <= streams.width
    if kind == "celljoin":
        hits &= np.abs(y[:, None] - b) <= streams.width
    for number, batch in ((0, 50), (3, 50), (1, 64)):
        start, stop = 300 + number * batch, 300 + (number + 1) * batch
        left, right = hits[start:stop, start - 300 : start].sum(), hits[stop - 300 : stop, start:stop].sum()
        assert streams.expected(number, batch) == left + right > 0
        assert streams.expected(number, batch, one_sided=True) == hits[:300, start:stop].sum()


def test_a_wrong_count_of_a_join_is_found_out() -> None:
    streams = Streams.make("band", 500, 400, 1)
    streams.counted[3, 100, False] = 1
    for contestant in (Joined(streams, "auto", 1, 100), Rival(streams, NumPy)):
        with pytest.raises(AssertionError, match="finds"):
            measure(contestant, streams, 100, 10, 10.0)


def test_an_equality_join_is_counted() -> None:
    streams = Streams.make("equality", 500, 400, 1)
    entry = measure(Joined(streams, "hash", 1, 100), streams, 100, 3, 10.0)
    assert entry.kind == "equality"


def test_contestants_get_arrays_of_their_own() -> None:
    streams = Streams.make("band", 500, 400, 1)
    for column, whole in zip(streams.part(streams.left, 0, 100), streams.left, strict=True):
        assert not np.shares_memory(column, whole)
