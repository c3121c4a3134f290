"""`import streamjoin` is cheap: heavy packages are loaded when something needs them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"pyarrow", "numba", "llvmlite", "numpy", "sqlglot", "rich", "pandas", "polars", "duckdb"}


def modules_after(program: str) -> set[str]:
    code = f"{program}\nimport json, sys\nprint(json.dumps([name.split('.')[0] for name in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "program",
    [
        "import streamjoin",
        "import streamjoin; dir(streamjoin); streamjoin.__version__",
        "from streamjoin import StreamJoinError",
        "import streamjoin.cli",
    ],
)
def test_heavy_packages_are_not_imported(program: str) -> None:
    assert not modules_after(program) & HEAVY


def test_every_public_name_is_there() -> None:
    import streamjoin

    for name in streamjoin.__all__:
        assert getattr(streamjoin, name) is not None
        assert name in dir(streamjoin)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = streamjoin.no_such_name
