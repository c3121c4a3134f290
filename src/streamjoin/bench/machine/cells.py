"""All cells, and those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...errors import ArgumentError
from ...topology.registry import ALGORITHMS

TUPLES, COMPARISONS, LATENCY = "tuples", "comparisons", "latency"
KINDS_WITH_KEYS = ("equality", "band", "square")
K, M = 1 << 10, 1_000_000


@dataclass(frozen=True)
class Cell:
    """One join: a kind of stream, a window and a batch of each stream, both in tuples."""

    experiment: str
    kind: str
    window: int
    batch: int
    figure: str
    """What is told of it: tuples, comparisons or latency."""
    algorithm: str = "auto"
    index: str = "auto"
    when: str = "always"
    """Or `full`: not in a quick run; `quick`: only there; `named`: only if its name is given."""
    is_large: bool = False
    """Filling its windows takes one worker minutes, so only the GPU and the most workers compete."""

    @property
    def name(self) -> str:
        return f"{self.row}-{short(self.window)}-{short(self.batch)}"

    @property
    def row(self) -> str:
        """The name without the sizes."""
        if self.figure == LATENCY:
            return f"{self.experiment}-{self.kind}"
        return self.experiment if self.algorithm == "auto" else f"{self.experiment}-{self.algorithm}"


def all_cells() -> dict[str, Cell]:
    found = []
    for window, when in ((256 * K, "full"), (64 * K, "quick")):
        for algorithm in topologies():
            found.append(Cell("scan", "celljoin", window, 8 * K, COMPARISONS, algorithm, "scan", when))
        found.append(Cell("keyless", "keyless", window, 8 * K, COMPARISONS, when=when))
        found.append(Cell("latency", "celljoin", window, 64, LATENCY, index="scan", when=when))
    for kind in KINDS_WITH_KEYS:
        for window, when in ((M, "always"), (8 * M, "full")):
            for batch in (32 * K, 256 * K):
                found.append(Cell(kind, kind, window, batch, TUPLES, when=when))
        found.append(Cell("latency", kind, M, 64, LATENCY))
    found += [
        Cell("scan", "celljoin", M, 8 * K, COMPARISONS, index="scan", is_large=True),
        Cell("keyless", "keyless", M, 8 * K, COMPARISONS, is_large=True),
        Cell("latency", "celljoin", M, 64, LATENCY, index="scan", is_large=True),
        Cell("band", "band", 100 * M, 256 * K, TUPLES, when="named", is_large=True),
    ]
    return {cell.name: cell for cell in found}


def topologies() -> list[str]:
    """The algorithms that share work."""
    return [name for name, algorithm in ALGORITHMS.items() if not algorithm.one_core]


def chosen_cells(patterns: Sequence[str], quick: bool, has_gpu: bool) -> list[Cell]:
    """The cells whose name is given or matches a pattern such as `band-*`; without patterns those of the run's length.

    An experiment's name stands for its cells of the run's length. Large cells are for machines with a GPU, or by name.
    """
    cells = all_cells()
    length = "quick" if quick else "full"
    usual = {n: c for n, c in cells.items() if c.when in ("always", length) and (has_gpu or not c.is_large)}
    if not patterns:
        return list(usual.values())
    found: dict[str, Cell] = {}
    for pattern in patterns:
        some = {n: c for n, c in usual.items() if fnmatchcase(n, pattern) or pattern in (c.experiment, c.row)}
        some = some or {n: c for n, c in cells.items() if fnmatchcase(n, pattern)}
        if not some:
            names = ", ".join(dict.fromkeys(cell.experiment for cell in cells.values()))
            raise ArgumentError(f"--cells: {pattern!r} is none of {names}, nor a cell of one, such as band-1M-256K")
        found |= some
    return list(found.values())


def short(number: int) -> str:
    """64, 8K, 1M: multiples of 1,024 or millions."""
    if number >= M and number % M == 0:
        return f"{number // M}M"
    return f"{number // K}K" if number >= K and number % K == 0 else str(number)
