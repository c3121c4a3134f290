"""What reports are made of: the load of other programs, and plots without matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjoin.cli import main
from streamjoin.errors import ArgumentError
from streamjoin.reporting import plots
from streamjoin.reporting.measure import Others
from streamjoin.reporting.tables import others_text

pytestmark = pytest.mark.bench


def test_a_busy_machine_is_told() -> None:
    assert "BUSY" in others_text(0.5)
    assert "BUSY" not in others_text(0.01)
    assert "not known" in others_text(None)
    cores = Others().cores()
    assert cores is None or cores >= 0


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(plots.importlib, "import_module", missing)
    with pytest.raises(ArgumentError, match=r"pip install 'streamjoin\[bench\]'"):
        plots.library()
    for command in ("subwindow", "panjoin"):
        assert main(["bench", command, "--quick", "--plots", str(tmp_path)]) == 2
        assert "matplotlib is not installed" in capsys.readouterr().err
