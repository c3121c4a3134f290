"""The figures that paths are compared by: measured, kept, overridden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamjoin.errors import ArgumentError
from streamjoin.store import costs
from streamjoin.store.costs import REFERENCE, Costs


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("streamjoin.store.costs.cache_directory", lambda: tmp_path)
    costs.costs.cache_clear()
    yield tmp_path
    costs.costs.cache_clear()


def test_a_machine_is_measured_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert costs.costs() == Costs()
    costs.calibrate()
    kept = json.loads((directory / costs.FILE).read_text())
    assert set(kept) == set(REFERENCE)
    assert all(0 < value < 10_000 for value in kept.values())
    assert costs.costs().compare == pytest.approx(Costs().compare * kept["vectors"] / REFERENCE["vectors"])
    assert costs.costs().candidate == pytest.approx(Costs().candidate * kept["searches"] / REFERENCE["searches"])
    assert costs.costs().scan_step == Costs().scan_step
    monkeypatch.setattr(costs, "measure", lambda: pytest.fail("it was measured again"))
    costs.calibrate()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"vectors": "x", "searches": 1}', '{"vectors": 1}'])
def test_a_file_that_cannot_be_read_is_no_file(directory: Path, content: str) -> None:
    (directory / costs.FILE).write_text(content)
    assert costs.costs() == Costs()


def test_figures_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOIN_COSTS", "compare=0.5, candidate=7")
    assert costs.costs() == Costs(compare=0.5, candidate=7)


@pytest.mark.parametrize("text", ["compare", "compare=x", "speed=1", "compare=-1"])
def test_a_wrong_figure_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOIN_COSTS", text)
    with pytest.raises(ArgumentError, match=r"STREAMJOIN_COSTS: .* is not valid; give name=nanoseconds"):
        costs.costs()
