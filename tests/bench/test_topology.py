"""The benchmark of the topologies: it runs, checks the counts it says it checks, and writes figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamjoin.bench.topology import costs, experiments, latency, skew, streams, throughput
from streamjoin.bench.topology.streams import Feed, Setup
from streamjoin.bench.topology.throughput import ALGORITHMS, LOW_LATENCY, Point
from streamjoin.cli import main
from streamjoin.cli.bench import TOPOLOGIES
from streamjoin.lab import model
from streamjoin.reporting.measure import Rates

pytestmark = pytest.mark.bench


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, sizes in {
        streams: {"MOST_ROUNDS": 5},
        throughput: {"MOST_ROUNDS": 5, "BATCH": 256, "FRESH": 4},
        latency: {"TRIES": 1, "FIRST_RATE": 2_000.0},
        costs: {"COST_WINDOW": 256, "LARGE_BATCH": 128, "HOPS": 100},
        skew: {"SPAN": 7},
        experiments: {"BATCH": 256},
        model: {"CORES": (1, 2, 8)},
    }.items():
        for name, size in sizes.items():  # type: ignore[attr-defined]
            monkeypatch.setattr(module, name, size)


def run(*more: str) -> int:
    return main(["bench", "topology", "--window", "1K", "--time-window", "300ms", "--seconds", "0.02", *more])


def test_all_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file, directory = tmp_path / "figures.json", tmp_path / "plots"
    assert run("--json", str(file), "--plots", str(directory)) == 0
    figures = json.loads(file.read_text())
    runs = {(entry["algorithm"], entry["workers"]) for entry in figures["throughput"]}
    assert runs == {(algorithm, workers) for algorithm in ALGORITHMS for workers in (1, 2)}
    for entry in figures["throughput"]:
        assert entry["comparisons_per_second"] == pytest.approx(1_000 * entry["tuples_per_second"])
        assert entry["of_bound"] > 0
    orders = [(entry["algorithm"], entry["order"]) for entry in figures["orders"]]
    assert orders[:3] == [(LOW_LATENCY, order) for order in ("none", "punctuated", "sorted")]
    assert figures["orders"][2]["held_back"] >= 0
    assert [entry["index"] for entry in figures["index"]] == ["scan", "hash", "bi-sort"]
    assert {(entry["algorithm"], entry["batch"]) for entry in figures["latency"]} == {
        (LOW_LATENCY, 64), (LOW_LATENCY, 4), ("handshake", 64),
    }  # fmt: skip
    for entry in figures["latency"]:
        if entry["algorithm"] == "handshake":
            left, right = entry["windows"]
            assert entry["unlimited_max"] == pytest.approx(left * right / (left + right))
    assert all(entry["difference"] < 1 for entry in figures["skew"]), "every thread has its share of the work"
    assert set(figures["gate"]) == {"1", "256"}
    assert set(figures["costs"]) == set(ALGORITHMS)
    assert {(row["algorithm"], row["lock"], row["cores"]) for row in figures["predictions"]} == {
        (algorithm, lock, cores) for algorithm in ALGORITHMS for lock in (True, False) for cores in (1, 2, 8)
    }
    assert {row["figure"] for row in figures["validation"]} >= {"tuples/s"}
    assert figures.keys() >= {"machine", "settings", "bounds", "paper", "others_cores"}
    names = {path.name for path in directory.iterdir()}
    assert names >= {"topology-model-rate-lock.png", "topology-model-rate-no-lock.svg"}
    out = capsys.readouterr().out
    assert "225,234" in out
    assert "0.15 M" in out
    assert "All counts of results were right" in out


def test_one_experiment(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    assert run("--experiments", "scalejoin", "--json", str(file), "--seed", "3") == 0
    figures = json.loads(file.read_text())
    assert figures["settings"]["experiments"] == ["scalejoin"]
    assert figures["skew"]
    assert not figures["throughput"]


def test_what_cannot_be_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seconds", "0") == 2
    assert "--seconds" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("--experiments", "everything")
    assert tuple(experiments.EXPERIMENTS) == TOPOLOGIES


@pytest.mark.parametrize("algorithm", ["handshake", "splitjoin"])
def test_a_wrong_count_is_found_out(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed("equality", 500, 100, 1)
    throughput.measure(feed, Setup(algorithm, 2), 0.01)
    right = feed.expected(timed=False)
    monkeypatch.setattr(feed, "expected", lambda timed: [right[0], right[1] + 1, *right[2:]])
    with pytest.raises(AssertionError, match=f"{algorithm}.* finds"):
        throughput.measure(feed, Setup(algorithm, 2), 0.01)


def test_what_sorting_holds_back() -> None:
    plain, late = (
        Point(Setup(LOW_LATENCY, 2, order=order), 10, 10, Rates(), found)
        for order, found in (("none", [5, 5, 5, 5]), ("sorted", [2, 4, 9]))
    )
    assert throughput.held_back(late, plain) == 4


def test_latency_counts_from_when_a_tuple_was_due() -> None:
    measured = latency.LatencyRun("handshake", 2, (1.0, 1.0), 4, 20.0, 10.0)
    polled = [(1.5, [0.5]), (2.0, [1.0, 1.5]), (3.0, [1.25, 2.0])]
    latency.summarise(measured, [(now, np.array(due)) for now, due in polled], full=1.0, until=2.0)
    assert measured.results == 3, "the first came before the windows were full, and the last when others may be missing"
    assert measured.seconds["mean"] == pytest.approx((1.0 + 0.5 + 1.75) / 3)
    assert measured.seconds["max"] == pytest.approx(1.75)
    assert [course[0] for course in measured.course] == [1.5, 2.0, 2.0, 3.0, 3.0]


def test_physical_streams_come_as_fast_as_they_should() -> None:
    times = skew.arrivals(skew.constant(100))
    assert len(times) == pytest.approx(100 * skew.SPAN, abs=2)
    merged = skew.Merged((skew.constant(100), skew.waves(50, 30, 2)))
    first, second = merged.until(1_000_000), merged.until(2_000_000)
    assert list(first) == sorted(first)
    assert first[-1] < 1_000_000 <= second[0]
