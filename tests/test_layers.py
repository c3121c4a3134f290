"""What the import linter cannot see: imports in generated text, and names that types and registries both have."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import streamjoin
from streamjoin.engine.options import Algorithm, IndexName
from streamjoin.store.registry import INDEXES
from streamjoin.topology.registry import ALGORITHMS

SOURCE = Path(streamjoin.__file__).parent
PROJECT = SOURCE.parent.parent / "pyproject.toml"


def floors() -> dict[str, int]:
    """The number of each room's floor, from the ground up."""
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {room.strip(): floor for floor, layer in enumerate(reversed(layers)) for room in layer.split("|")}


def imported_in_text(path: Path) -> set[str]:
    """Our rooms that a module's string constants import: its templates of kernels."""
    tree = ast.parse(path.read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {room for text in texts for room in re.findall(r"^from streamjoin\.(\w+)\S* import", text, re.MULTILINE)}


@pytest.mark.skipif(not PROJECT.exists(), reason="the package is installed without its project")
def test_generated_text_imports_downwards_only() -> None:
    floor, seen = floors(), 0
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        for room in imported_in_text(path):
            seen += 1
            assert room == own or floor[room] < floor[own], f"{path}: generated text imports {room}"
    assert seen >= 3


def test_every_algorithm_and_index_is_named_in_the_types() -> None:
    assert set(get_args(Algorithm)) == {*ALGORITHMS, "auto"}
    assert set(get_args(IndexName)) == {*INDEXES, "auto"}
