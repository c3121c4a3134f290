"""The benchmarks of indexes and of whole joins: they run, check the counts they say they check, and write figures."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjoin.bench import panjoin, peers, subwindow
from streamjoin.cli import main
from streamjoin.errors import ArgumentError
from streamjoin.reporting import plots

memory = panjoin.memory


@cache
def once(*arguments: Any) -> dict[str, Any]:
    return memory("band", *arguments)


def quick_subwindow(*more: str) -> int:
    return main(["bench", "subwindow", "--quick", "--sizes", "4K", "--batches", "1", "500", "--rounds", "2", *more])


def quick_panjoin(*more: str) -> int:
    return main(["bench", "panjoin", "--quick", "--windows", "3K", "--batch", "500", "--rounds", "3", *more])


def test_subwindow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file, directory = tmp_path / "figures.json", tmp_path / "plots"
    assert quick_subwindow("--json", str(file), "--plots", str(directory)) == 0
    figures = json.loads(file.read_text())
    assert {(entry["contestant"], entry["batch"]) for entry in figures["grid"]} >= {
        (name, batch) for name in (*subwindow.INDEXES, subwindow.SEARCHED) for batch in (1, 500)
    }
    for entry in figures["grid"]:
        rates = entry["probe"]
        assert 0 < rates["min"] <= rates["median"] <= rates["max"]
        assert rates["cpu_per_wall"] > 0
    for entry in figures["ratios"]:
        assert entry["probe_to_searchsorted"]["median"] > 0
    assert {entry["selectivity"] for entry in figures["selectivity"]} == {1, 16, 256}
    assert {entry["distribution"] for entry in figures["convergence"]} == set(subwindow.DISTRIBUTIONS)
    assert figures.keys() >= {"machine", "settings", "partitions", "paper", "targets", "left_out", "others_cores"}
    names = {path.name for path in directory.iterdir()}
    assert names >= {"subwindow-probe-n4000.png", "subwindow-probe-n4000.svg", "subwindow-convergence.png"}
    out = capsys.readouterr().out
    assert "In the paper" in out
    assert "as many pairs as np.searchsorted counts" in out


@pytest.mark.parametrize("name", subwindow.INDEXES)
def test_every_subwindow_is_filled_and_sealed(name: str) -> None:
    given = subwindow.plan(3_000, 100, 4, 5, 1)
    assert (len(given.while_filling), len(given.full)) == (1, 5), "a round has ten batches of 100, and half stays free"
    contestant = subwindow.make(name, 3_000)
    assert isinstance(contestant, subwindow.Indexed)
    measured = subwindow.measure(given, contestant)
    assert contestant.index.count == 3_000
    assert measured.fill is not None
    assert measured.seal_ms is not None
    subwindow.measure(given, subwindow.make(name, 3_000), earlier=measured)
    assert len(measured.probe.rates) == 10


def test_a_wrong_count_in_a_subwindow_is_found_out() -> None:
    given = subwindow.plan(3_000, 100, 4, 2, 1)
    given.full[-1][0].expected += 1
    with pytest.raises(AssertionError, match="BI-Sort finds"):
        subwindow.measure(given, subwindow.make("BI-Sort", 3_000))
    with pytest.raises(AssertionError, match="searchsorted finds"):
        subwindow.measure_searchsorted(given, in_order=False)


def test_selectivity_is_what_it_says() -> None:
    rng = np.random.default_rng(1)
    keys = np.sort(rng.integers(-(2**31), 2**31, 50_000, dtype=np.int32))
    for selectivity in (1, 16):
        assert subwindow.ranges(rng, keys, 20_000, selectivity, 50_000).expected / 20_000 == pytest.approx(
            selectivity, rel=0.05
        )


def test_splitters_converge() -> None:
    for entry in subwindow.convergence(50_000, [256], 3):
        assert entry["errors"][3] < 3 * entry["chance"]
    keys = subwindow.DISTRIBUTIONS["rank-size"](np.random.default_rng(1), 100_000)
    assert np.mean(keys < 0.01 * subwindow.FULL_RANGE) == pytest.approx(0.99, abs=0.002)


def test_panjoin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(panjoin, "EQUAL_WINDOW", 256)
    monkeypatch.setattr(panjoin, "EQUAL_BATCH", 64)
    monkeypatch.setattr(panjoin, "memory", lambda kind, *rest: once(*rest))  # a process each
    file, directory = tmp_path / "figures.json", tmp_path / "plots"
    more = ["--workers", "1", "2", "--skew", "--kinds", "equality", "band", "celljoin"]
    assert quick_panjoin(*more, "--json", str(file), "--plots", str(directory)) == 0
    figures = json.loads(file.read_text())
    for kind in ("equality", "band", "celljoin"):
        entries = {entry["contestant"]: entry for entry in figures["systems"] if entry["kind"] == kind}
        assert entries.keys() >= {"auto, 1 thread", "auto, 2 threads", "scan, 2 threads", "NumPy"}
        ours = entries["auto, 2 threads"]
        assert ours.keys() >= {"median", "min", "max", "overall", "cpu_per_wall", "others_cores", "to_best_peer"}
        assert ours.keys() >= {"to_scan", "to_one_worker", "chosen"}
    equality = [entry for entry in figures["systems"] if entry["kind"] != "celljoin"]
    assert all(entry["results_per_tuple"] == pytest.approx(1, abs=0.25) for entry in equality)
    assert {entry["index"] for entry in figures["indexes"]} == {"bi-sort", "rap-table", "wib-tree", "hash"}
    assert {entry["keys"] for entry in figures["skew"]} >= {"uniform", "increasing", "all equal, narrow window"}
    assert {entry["selectivity"] for entry in figures["selectivity"]} == {1, 16, 256}
    assert all(entry["index_bytes"] > 0 and entry["payload_bytes"] >= 8 for entry in figures["memory"])
    assert any("Polars, celljoin" in text for text in figures["left_out"])
    assert {path.name for path in directory.iterdir()} >= {"panjoin-band.png", "panjoin-band.svg", "panjoin-skew.png"}
    out = capsys.readouterr().out
    assert "28.9 M tuples/s" in out
    assert "All counts of results were right" in out


@pytest.mark.parametrize("kind", peers.KINDS)
def test_the_independent_count_is_that_of_all_pairs(kind: str) -> None:
    streams = panjoin.Streams.make(kind, 300, 200, 5)
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
    streams = panjoin.Streams.make("band", 500, 400, 1)
    streams.counted[3, 100, False] = 1
    for contestant in (panjoin.Joined(streams, "auto", 1, 100), panjoin.Rival(streams, peers.NumPy)):
        with pytest.raises(AssertionError, match="finds"):
            panjoin.measure(contestant, streams, 100, 10, 10.0)


def test_contestants_get_arrays_of_their_own() -> None:
    streams = panjoin.Streams.make("band", 500, 400, 1)
    for column, whole in zip(streams.part(streams.left, 0, 100), streams.left, strict=True):
        assert not np.shares_memory(column, whole)


def test_a_busy_machine_is_told() -> None:
    assert "BUSY" in subwindow.others_text(0.5)
    assert "BUSY" not in subwindow.others_text(0.01)
    assert "not known" in subwindow.others_text(None)
    cores = subwindow.Others().cores()
    assert cores is None or cores >= 0


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none(capacity: int) -> Any:
        raise RuntimeError("no C++ compiler found")

    monkeypatch.setattr(subwindow, "_built", none)
    assert quick_subwindow() == 0
    assert "left out: C++ BI-Sort: no C++ compiler found" in capsys.readouterr().out


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(plots.importlib, "import_module", missing)
    with pytest.raises(ArgumentError, match=r"pip install 'streamjoin\[bench\]'"):
        plots.library()
    for command in ("subwindow", "panjoin"):
        assert main(["bench", command, "--quick", "--plots", str(tmp_path)]) == 2
        assert "matplotlib is not installed" in capsys.readouterr().err
