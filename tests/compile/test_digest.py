"""Machine code is never used after something that it was compiled from has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import streamjoin
from streamjoin.compile import cache

KERNEL = "from streamjoin.compile.collect import collect\nfrom streamjoin.store.run_probe import probe_run\n"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, whose files are read instead of the package's own."""
    root = tmp_path / "streamjoin"
    shutil.copytree(Path(streamjoin.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(root / "compile" / "cache.py"))
    return root


def stamps() -> tuple[str, str, str]:
    """Of a function that freezes constants of another module, of one that does not, and of a generated kernel."""
    cache._digest.cache_clear()
    return (
        cache._digest("streamjoin.store.run_probe"),
        cache._digest("streamjoin.payload.gather"),
        cache._path(KERNEL).name,
    )


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("store/run_probe.py", (True, False, True)),
        ("store/words.py", (True, False, True)),
        ("store/runs.py", (True, False, True)),
        ("compile/intrinsics.py", (True, True, True)),
        ("compile/collect.py", (False, False, True)),
        ("store/side_window.py", (False, False, False)),
    ],
)
def test_a_change_anywhere_below_gives_a_new_name(copy: Path, file: str, changed: tuple[bool, ...]) -> None:
    before = stamps()
    with open(copy / file, "a") as text:
        text.write("\n# changed\n")
    assert tuple(a != b for a, b in zip(before, stamps(), strict=True)) == changed


def test_all_modules_that_kernels_come_from_are_found(copy: Path) -> None:
    found = cache._imported((copy / "store" / "registry.py").read_text(), "streamjoin.store.registry")
    assert {"streamjoin.store.index", "streamjoin.store.bi_sort", "streamjoin.store.wib_tree"} <= found
