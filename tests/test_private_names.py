"""The linter's contract about private names: what it finds and what it leaves alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
pytestmark = pytest.mark.skipif(not TOOLS.exists(), reason="the tests run without the project's tools")


@pytest.fixture
def private_imports(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("importlinter")
    monkeypatch.syspath_prepend(str(TOOLS))
    yield __import__("private_names").private_imports
    sys.modules.pop("private_names", None)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from .x import _y", "_y"),
        ("from ..x.z import a, _y as b", "_y"),
        ("from . import _y", "_y"),
        ("from streamjoin import _y", "_y"),
        ("from streamjoin.x import _y", "_y"),
        ("from ._z import w", "_z"),
        ("from streamjoin.x._z import w", "_z"),
    ],
)
def test_private_names_are_found(source: str, name: str, private_imports: Any) -> None:
    assert private_imports(source) == [(1, name)]
    inside = f"def f():\n    if TYPE_CHECKING:\n        {source}\n"
    assert private_imports(inside) == [(3, name)], "wherever it stands in a file"


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations",
        "from . import __version__",
        "from streamjoin import __version__",
        "from .__main__ import main",
        "from numpy import _core",
        "from numba._dispatcher import x",
        "from streamjoins import _y",
        "import _thread",
        "from .x import y_, y",
        "text = 'from .x import _y'",
    ],
)
def test_others_are_left_alone(source: str, private_imports: Any) -> None:
    assert private_imports(source) == []
