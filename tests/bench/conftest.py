"""What tests of whole benchmarks share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjoin.reporting import plots


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The pictures of a run, which are drawn but not rendered: that takes seconds, and `test_plots` does it."""
    files: list[Path] = []

    def save(figure: Any, file: Path) -> list[Path]:
        plots.library().close(figure)
        files.extend(some := [file.with_suffix(f".{kind}") for kind in plots.FORMATS])
        return some

    monkeypatch.setattr(plots, "save", save)
    return files
