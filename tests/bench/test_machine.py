"""`bench machine`: every experiment runs, wrong counts and falling rates are found out, and figures are written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjoin.bench.machine import cells, contestants, limits, measure, run, streams
from streamjoin.bench.machine.cells import Cell, all_cells, chosen_cells
from streamjoin.bench.machine.contestants import Contestant
from streamjoin.bench.machine.papers import stated
from streamjoin.bench.machine.report import limit_lines
from streamjoin.bench.machine.results import CellResults, Entry, Limits, MachineSettings
from streamjoin.bench.machine.streams import KINDS, Source
from streamjoin.cli import main
from streamjoin.engine.window_join import WindowJoin
from streamjoin.errors import ArgumentError
from streamjoin.reporting.measure import Rates

from ..long import LONG

pytestmark = pytest.mark.bench

SETTINGS = MachineSettings([], [1, 2], laps=2, seconds=0.02, limit=60.0, seed=3, quick=True)
TINY = 2_000


def tiny(kind: str, figure: str = cells.TUPLES, **more: Any) -> Cell:
    return Cell(kind, kind, TINY, 256, figure, **more)


def measured(cell: Cell, *some: Contestant) -> CellResults:
    return measure.measure(cell, list(some) or [Contestant(1), Contestant(2)], SETTINGS, lambda _: None)


def tiny_cells() -> dict[str, Cell]:
    """A cell of every experiment."""
    found = [
        tiny("celljoin", cells.COMPARISONS, algorithm="panjoin", index="scan"),
        tiny("band"),
        Cell("latency", "band", TINY, 64, cells.LATENCY),
    ]
    if LONG:
        found += [tiny("equality"), tiny("square"), tiny("keyless", cells.COMPARISONS)]
    return {cell.name: cell for cell in found}


def test_all_experiments(
    tmp_path: Path, drawn: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(cells, "all_cells", tiny_cells)
    monkeypatch.setattr(run, "gpu_name", lambda: None)
    monkeypatch.setattr(limits, "COPIED", 1 << 16)
    monkeypatch.setattr(limits, "WINDOW", 1 << 12)
    file = tmp_path / "figures.json"
    asked = ["--quick", "--workers", "1", "2", "--seconds", "0.02", "--rounds", "2"]
    assert main(["bench", "machine", *asked, "--json", str(file), "--plots", str(tmp_path / "plots")]) == 0
    figures = json.loads(file.read_text())
    assert set(figures["limits"]["m_comparisons_per_second"]) == {"1", "2"}
    assert figures["limits"]["mb_copied_per_second"]["2"]["median"] > 0
    assert [cell["cell"] for cell in figures["cells"]] == list(tiny_cells())
    for cell in figures["cells"]:
        names = [entry["contestant"] for entry in cell["entries"]]
        assert names == (["1", "2"] if cell["row"].endswith("panjoin") else ["1", "2", "default"])
        one, two = cell["entries"][:2]
        assert one["efficiency"] == 1.0
        assert two["efficiency"] == pytest.approx(two["tuples_per_second"] / one["tuples_per_second"] / 2)
        assert one["comparisons_per_second"] == pytest.approx(one["tuples_per_second"] * TINY)
        assert 0 < one["latency_ms"]["median"] <= one["latency_ms"]["p99"]
        assert one["m_tuples_per_second"]["rounds"] == 2
        assert one["late_results"] == 0
    assert figures["cells"][1]["entries"][0]["results_per_tuple"] == pytest.approx(1, abs=0.2)
    assert figures.keys() >= {"machine", "settings", "not_monotone", "stopped", "wrong", "papers"}
    assert {path.name for path in drawn} >= {"machine-scan.png", "machine-keys-2000.png", "machine-latency.svg"}
    before = [path.name for path in drawn]
    drawn.clear()
    assert main(["bench", "machine", "--from", str(file), "--plots", str(tmp_path / "again")]) == 0
    assert [path.name for path in drawn] == before
    out = capsys.readouterr().out
    assert "band-2000-256, 2: " in out
    assert "limits: 2 processes scan" in out
    assert "28,900,000 tuples/s" in out
    assert "All counts of results were right" in out


@pytest.mark.parametrize("algorithm", cells.topologies() if LONG else ["handshake", "splitjoin"])
def test_every_topology_is_counted(algorithm: str) -> None:
    results = measured(tiny("celljoin", cells.COMPARISONS, algorithm=algorithm, index="scan"))
    assert not results.wrong
    assert [entry.stopped for entry in results.entries] == ["", ""]
    assert results.entries[1].chosen == f"{algorithm}, scan"


@pytest.mark.parametrize("kind", KINDS)
def test_the_independent_count_is_that_of_all_pairs(kind: str) -> None:
    source = Source(kind, 300, 5)
    stored, fresh = source.part("left", 0, 3_000), source.part("right", 0, 2_000)
    (x, y), (a, b) = ([column.astype(np.float64) for column in columns] for columns in (stored, fresh))
    if kind == "keyless":
        hits = np.abs(x[:, None] * a - y[:, None] * b) < 3
    else:
        hits = np.abs(x[:, None] - a) <= {"equality": 0, "band": 1}.get(kind, 10)
        if kind in ("celljoin", "square"):
            hits &= np.abs(y[:, None] - b) <= 10
    assert KINDS[kind].count(stored, fresh) == hits.sum() > 0
    assert KINDS[kind].count(fresh, stored) == hits.sum()


@pytest.mark.parametrize("kind", ["equality", "band", "square", "keyless"])
def test_a_tuple_has_about_one_match(kind: str) -> None:
    window = 20_000
    source = Source(kind, window, 1)
    stored, fresh = source.part("left", 0, window), source.part("right", 0, 4_000)
    assert KINDS[kind].count(stored, fresh) / 4_000 == pytest.approx(1, abs=0.35)


def test_streams_are_the_same_by_place() -> None:
    source, again = Source("band", 100, 7), Source("band", 100, 7)
    whole = source.part("left", 0, streams.BLOCK + 50)
    for start, stop in ((0, 10), (streams.BLOCK - 5, streams.BLOCK + 5), (-20, 30), (-20, 0)):
        for column, part in zip(whole, again.part("left", start, stop), strict=True):
            assert np.array_equal(part, column[max(start, 0) : stop])
            assert not np.shares_memory(part, column)
    assert not np.array_equal(source.part("right", 0, 50)[0], whole[0][:50])


@pytest.mark.parametrize("algorithm", ["auto", "handshake"])
def test_a_wrong_count_is_found_out(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Source.expected
    monkeypatch.setattr(Source, "expected", lambda *given: right(*given) + 1)
    results = measured(tiny("celljoin", algorithm=algorithm, index="scan"), Contestant(2))
    assert "there are" in results.wrong[0]


def test_contestants_that_disagree_are_found_out() -> None:
    cell, source = tiny("band"), Source("band", TINY, 1)
    places = (TINY, TINY + 256)
    one, two = (Entry(Contestant(n), found={places: source.expected(*places) + n - 1}) for n in (1, 2))
    assert measure.wrong_counts(cell, source, [one]) == []
    assert "2: finds" in measure.wrong_counts(cell, source, [one, two])[0]
    two.found[places], two.late = two.found[places] - 2, 1
    assert measure.wrong_counts(cell, source, [one, two]) == []  # found, but only at the end
    two.late = 2
    assert "2: finds" in measure.wrong_counts(cell, source, [one, two])[0]


def test_who_fails_or_is_too_slow_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "knows_devices", lambda: False)
    broken = Contestant(100_000)
    results = measured(tiny("band"), Contestant(1), broken)
    assert results.of("1")
    assert "workers" in results.entries[1].stopped
    hasty = MachineSettings([], [1], laps=2, seconds=0.02, limit=1e-9, seed=3, quick=True)
    late = measure.measure(tiny("band"), [Contestant(1)], hasty, lambda _: None)
    assert "were not full" in late.entries[0].stopped
    assert not late.wrong


def test_a_cpu_does_not_join_under_the_name_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(self: Contestant, cell: Cell, source: Source) -> WindowJoin:
        return plain(Contestant(1), cell, source)

    def figures(self: WindowJoin) -> dict[str, Any]:
        metrics = known(self)
        metrics["indexes"]["left"] |= {"device": "cpu", "device_why": "no driver"}
        return metrics

    plain, known = Contestant.open, WindowJoin.metrics
    monkeypatch.setattr(Contestant, "open", opened)
    monkeypatch.setattr(WindowJoin, "metrics", figures)
    entry = measured(tiny("band"), Contestant(on_gpu=True)).entries[0]
    assert "on the CPU: no driver" in entry.stopped
    assert not entry.rates.rates


def test_a_warning_of_the_gpu_ends_its_part() -> None:
    entrant = measure.Entrant(tiny("band"), Contestant(1), Source("band", TINY, 1))
    for on_gpu in (False, True):
        entrant.entry.contestant = Contestant(on_gpu=on_gpu)
        went_on = measure.done(entrant, lambda: warnings.warn("it is lost", RuntimeWarning, stacklevel=1))
        assert went_on == (not on_gpu)
    assert "it is lost" in entrant.entry.stopped


def test_falling_rates_are_flagged() -> None:
    results = CellResults(tiny("band"))
    for workers, rate in ((1, 10.0), (2, 19.0), (4, 17.2), (8, 12.0), (None, 8.0)):
        results.entries.append(Entry(Contestant(workers), Rates([rate])))
    assert results.not_monotone() == [
        "band-2000-256: 8 workers have 0.63 of the speed of 2",
        "band-2000-256: the default has 0.80 of the speed of one worker",
    ]
    eight = results.of("8")
    assert eight is not None
    assert results.efficiency(eight) == pytest.approx(12 / 80)
    assert results.to_best(results.entries[-1]) == pytest.approx(8 / 19)
    assert results.to_best(eight) is None


def test_cells_are_chosen_by_name_experiment_or_pattern() -> None:
    everything = all_cells()

    def names(patterns: list[str], quick: bool, has_gpu: bool) -> list[str]:
        return [cell.name for cell in chosen_cells(patterns, quick, has_gpu)]

    assert {cell.algorithm for cell in everything.values()} == {"auto", *cells.topologies()}
    assert names(["band-*"], False, False) == ["band-1M-32K", "band-1M-256K", "band-8M-32K", "band-8M-256K"]
    assert names(["square"], True, False) == ["square-1M-32K", "square-1M-256K"]
    assert names(["scan-handshake"], True, False) == ["scan-handshake-64K-8K"]
    assert names(["band-100M-256K"], True, False) == ["band-100M-256K"]
    assert "scan-1M-8K" not in names([], True, False)
    assert "scan-1M-8K" in names([], True, True)
    with pytest.raises(ArgumentError, match="nonsense"):
        chosen_cells(["nonsense"], False, False)


def test_a_gpu_competes_where_it_can() -> None:
    some = all_cells()
    names = [c.name for c in contestants.contestants(some["band-1M-32K"], [1, 2], True)]
    assert names == ["1", "2", "default", "gpu"]
    assert [c.name for c in contestants.contestants(some["scan-1M-8K"], [1, 2], True)] == ["2", "gpu"]
    assert [c.name for c in contestants.contestants(some["scan-splitjoin-64K-8K"], [1, 2], True)] == ["1", "2"]
    assert contestants.usual_workers()[0] == 1


def test_the_papers_comparisons_follow_from_their_rates() -> None:
    by_text = {figure.text: figure.comparisons for figure in stated()}
    assert by_text["eight Opteron cores"] == pytest.approx(2 * 900 * 1_400**2)
    assert by_text["48 Opteron cores, Java"] == pytest.approx(2 * 900 * 1_500**2, rel=0.02)
    assert by_text["40 Opteron cores"] is None, "the text does not say of which streams"


def test_the_gpu_kernel_counts_what_it_does() -> None:
    script = (
        "from streamjoin.bench.machine.gpu import gpu_name\n"
        "from streamjoin.bench.machine.gpu_integers import Integers\n"
        "some = Integers(blocks=1, threads=2, steps=1)\n"
        "assert some.rate(0) > 0\n"
        "print(int(some._out.copy_to_host()[0]), gpu_name())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
    )  # fmt: skip
    expected = np.int32(0)
    for number in range(8):
        expected ^= np.uint32((number * 1_103_515_245 + 12_345) & 0xFFFFFFFF).astype(np.int32)
    assert done.stdout.split() == [str(expected), "None"], done.stderr


def test_what_cannot_be_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "machine", "--seconds", "0"]) == 2
    assert "--seconds" in capsys.readouterr().err
    assert main(["bench", "machine", "--from", "nowhere.json", "--plots", "plots"]) == 2
    assert "'nowhere.json' has no figures" in capsys.readouterr().err
    assert main(["bench", "machine", "--from", "nowhere.json"]) == 2
    assert "--plots" in capsys.readouterr().err


def test_limits_that_were_not_measured_leave_no_figures() -> None:
    assert Limits().figures()["gpu_m_multiply_adds_per_second"] is None
    assert limit_lines(Limits()) == []
