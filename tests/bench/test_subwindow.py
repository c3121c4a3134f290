"""`bench subwindow`: it runs, checks the counts it says it checks, and writes figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjoin.bench.subwindow import contestants
from streamjoin.bench.subwindow.contestants import INDEXES, Indexed, make
from streamjoin.bench.subwindow.convergence import DISTRIBUTIONS, convergence
from streamjoin.bench.subwindow.measure import SEARCHED, measure, measure_searchsorted
from streamjoin.bench.subwindow.trial import FULL_RANGE, key_ranges, make_trial
from streamjoin.cli import main

pytestmark = pytest.mark.bench


def quick_subwindow(*more: str) -> int:
    return main(["bench", "subwindow", "--quick", "--sizes", "4K", "--batches", "1", "500", "--rounds", "2", *more])


def test_subwindow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file, directory = tmp_path / "figures.json", tmp_path / "plots"
    assert quick_subwindow("--json", str(file), "--plots", str(directory)) == 0
    figures = json.loads(file.read_text())
    assert {(entry["contestant"], entry["batch"]) for entry in figures["grid"]} >= {
        (name, batch) for name in (*INDEXES, SEARCHED) for batch in (1, 500)
    }
    for entry in figures["grid"]:
        rates = entry["probe"]
        assert 0 < rates["min"] <= rates["median"] <= rates["max"]
        assert rates["cpu_per_wall"] > 0
    for entry in figures["ratios"]:
        assert entry["probe_to_searchsorted"]["median"] > 0
    assert {entry["selectivity"] for entry in figures["selectivity"]} == {1, 16, 256}
    assert {entry["distribution"] for entry in figures["convergence"]} == set(DISTRIBUTIONS)
    assert figures.keys() >= {"machine", "settings", "partitions", "paper", "targets", "left_out", "others_cores"}
    names = {path.name for path in directory.iterdir()}
    assert names >= {"subwindow-probe-n4000.png", "subwindow-probe-n4000.svg", "subwindow-convergence.png"}
    out = capsys.readouterr().out
    assert "In the paper" in out
    assert "as many pairs as np.searchsorted counts" in out


@pytest.mark.parametrize("name", INDEXES)
def test_every_subwindow_is_filled_and_sealed(name: str) -> None:
    given = make_trial(3_000, 100, 4, 5, 1)
    assert (len(given.while_filling), len(given.full)) == (1, 5), "a round has ten batches of 100, and half stays free"
    contestant = make(name, 3_000)
    assert isinstance(contestant, Indexed)
    measured = measure(given, contestant)
    assert contestant.index.count == 3_000
    assert measured.fill is not None
    assert measured.seal_ms is not None
    measure(given, make(name, 3_000), earlier=measured)
    assert len(measured.probe.rates) == 10


def test_a_wrong_count_in_a_subwindow_is_found_out() -> None:
    given = make_trial(3_000, 100, 4, 2, 1)
    given.full[-1][0].expected += 1
    with pytest.raises(AssertionError, match="BI-Sort finds"):
        measure(given, make("BI-Sort", 3_000))
    with pytest.raises(AssertionError, match="searchsorted finds"):
        measure_searchsorted(given, in_order=False)


def test_selectivity_is_what_it_says() -> None:
    rng = np.random.default_rng(1)
    keys = np.sort(rng.integers(-(2**31), 2**31, 50_000, dtype=np.int32))
    for selectivity in (1, 16):
        assert key_ranges(rng, keys, 20_000, selectivity, 50_000).expected / 20_000 == pytest.approx(
            selectivity, rel=0.05
        )


def test_splitters_converge() -> None:
    for entry in convergence(50_000, [256], 3):
        assert entry["errors"][3] < 3 * entry["chance"]
    keys = DISTRIBUTIONS["rank-size"](np.random.default_rng(1), 100_000)
    assert np.mean(keys < 0.01 * FULL_RANGE) == pytest.approx(0.99, abs=0.002)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none(capacity: int) -> Any:
        raise RuntimeError("no C++ compiler found")

    monkeypatch.setattr(contestants, "cpp_of", none)
    assert quick_subwindow() == 0
    assert "left out: C++ BI-Sort: no C++ compiler found" in capsys.readouterr().out
