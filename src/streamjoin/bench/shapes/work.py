"""One shape of work: two inputs, a join, and how peers may do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...side import SIDES, Side
from ..peers.query import Query


@dataclass(frozen=True)
class Sizes:
    """How much work a cell is."""

    seed: int
    rows: int
    """Fresh tuples of each stream, beyond the first window."""
    scale: float
    """How much of the day of ticks, and of the other tables."""
    data: Path
    """The directory with the recorded streams."""


@dataclass(frozen=True)
class Work:
    """Two inputs and the arguments of their join."""

    left: pa.Table
    right: pa.Table
    on: str
    window: Any
    query: Query
    time: tuple[str, str] | None = None
    how: str = "inner"
    match: str = "all"
    lateness: int = 0
    tuned: tuple[str, int] | None = None
    """The kind and the width, where the peers of `bench panjoin` do this join."""

    @property
    def schemas(self) -> dict[Side, pa.Schema]:
        return {"left": self.left.schema, "right": self.right.schema}

    @property
    def tables(self) -> dict[Side, pa.Table]:
        return {"left": self.left, "right": self.right}

    def part(self, start: int, stop: int) -> tuple[pa.Table, pa.Table]:
        """A part of both inputs, in new memory."""
        rows = pa.array(np.arange(start, stop))
        left, right = (self.tables[side].take(rows).combine_chunks() for side in SIDES)
        return left, right

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of WindowJoin and of `join`."""
        return {
            "on": self.on, "window": self.window, "time": self.time, "how": self.how, "match": self.match,
            "lateness": self.lateness,
        }  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A named shape. `batch` tuples of each stream make a round; None: whole tables."""

    name: str
    shape: str
    make: Callable[[Sizes], Work]
    window: int = 0
    """Tuples of a stream that fill its window."""
    batch: int | None = None
    in_quick: bool = True

    @property
    def place(self) -> str:
        """Where in the grid: the window and the batch."""
        return "" if self.batch is None else f"{short(self.window)}-{short(self.batch)}"


def short(number: int) -> str:
    """50, 1K, 20K, 64K: thousands, or multiples of 1,024."""
    for unit in (1_000, 1_024):
        if number >= unit and number % unit == 0:
            return f"{number // unit}K"
    return str(number)
