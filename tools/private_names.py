"""A contract for import-linter: a name that begins with `_` belongs to its module, and no other one imports it."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class PrivateNamesContract(Contract):
    """Looks at every `from module import name` of the packages, wherever it stands in a file."""

    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        found = []
        for package in self.packages:
            spec = importlib.util.find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            for path in sorted(Path(spec.origin).parent.rglob("*.py")):
                found += [f"{path}:{line}: {name}" for line, name in private_imports(path.read_text())]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line)


def private_imports(source: str) -> list[tuple[int, str]]:
    """Line and name of each import of a private name or module from our own package."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "streamjoin"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [(node.lineno, name) for name in names if name.startswith("_") and not name.startswith("__")]
    return found
