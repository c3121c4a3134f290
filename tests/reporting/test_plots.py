"""Plots: lines, bars and heat maps are written in both formats, and missing packages and directories are explained."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from streamjoin.cli import main
from streamjoin.errors import ArgumentError, StreamJoinError
from streamjoin.reporting import plots

pytestmark = pytest.mark.bench


def test_lines_bars_and_heat_maps_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points: plots.Points = {"ours": [(1, 2.0), (4, 3.0)], "paper": [(2, 2.5)]}
    entries = [{"contestant": name, "keys": keys, "median": 2.0} for name in "ab" for keys in ("uniform", "equal, few")]
    written = plots.lines(tmp_path / "new" / "lines", points, "some lines", "batch")
    written += plots.lines(tmp_path / "zero", {"ours": [(0, 0.0), (1, 1.0)]}, "none", "x", log_x=False, log_y=False)
    written += plots.bars(tmp_path / "bars", entries)
    ratios: dict[tuple[str, str], float | None] = {("some row", "x"): 0.125, ("other", "x"): 1.0, ("other", "y"): None}
    written += plots.heat(tmp_path / "heat", ratios, {"x": "first", "y": "second"}, "ratios")
    assert [path.name for path in written] == [
        f"{name}.{kind}" for name in ("lines", "zero", "bars", "heat") for kind in plots.FORMATS
    ]
    assert all(path.stat().st_size > 1_000 for path in written)
    for label in (*points, "some lines", "batch"):
        assert f"<!-- {label} -->" in (tmp_path / "new" / "lines.svg").read_text()
    for label in ("some row", "other", "first", "second", "0.125", "1"):
        assert f"<!-- {label} -->" in (tmp_path / "heat.svg").read_text()


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamJoinError, match="--plots: cannot write to"):
        plots.lines(tmp_path / "file" / "lines", {}, "none", "x", log_x=False)


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, package)

    monkeypatch.setattr(plots.importlib, "import_module", missing)
    with pytest.raises(ArgumentError, match=r"pip install 'streamjoin\[bench\]'"):
        plots.library()
    for command in ("subwindow", "panjoin", "shapes"):
        assert main(["bench", command, "--quick", "--plots", str(tmp_path)]) == 2
        assert "matplotlib is not installed" in capsys.readouterr().err
