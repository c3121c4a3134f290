"""All cells, and those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from ...errors import ArgumentError
from .further import further
from .grid import grid
from .real import real
from .work import Cell


def all_cells() -> dict[str, Cell]:
    return {cell.name: cell for cell in [*grid(), *further(), *real()]}


def chosen_cells(patterns: Sequence[str], quick: bool) -> list[Cell]:
    """The cells whose name or shape is given, or matches a pattern such as `band-*`; without patterns all."""
    cells = all_cells()
    if not patterns:
        return [cell for cell in cells.values() if cell.in_quick or not quick]
    found: dict[str, Cell] = {}
    for pattern in patterns:
        some = {n: c for n, c in cells.items() if fnmatchcase(n, pattern) or fnmatchcase(c.shape, pattern)}
        if not some:
            shapes = ", ".join(dict.fromkeys(cell.shape for cell in cells.values()))
            raise ArgumentError(f"--cells: {pattern!r} is none of {shapes}, nor a cell of one, such as band-1K-64K")
        found |= some
    return list(found.values())
