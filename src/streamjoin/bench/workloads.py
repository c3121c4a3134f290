"""The streams that benchmarks join, and how many results there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Array
from ..side import SIDES, Side
from .columns import Columns
from .peers.numpy_peer import NumPy

CELLJOIN_SQL = "l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10."
CELLJOIN_SCHEMAS: dict[Side, pa.Schema] = {
    "left": pa.schema({"x": pa.int32(), "y": pa.float32()}),
    "right": pa.schema({"a": pa.int32(), "b": pa.float32()}),
}
INTEGER_SCHEMAS: dict[Side, pa.Schema] = {
    "left": pa.schema({"x": pa.int32(), "y": pa.int32()}),
    "right": pa.schema({"a": pa.int32(), "b": pa.int32()}),
}
CELL_WIDTH = 10
Draw = Callable[[np.random.Generator, int, int], Array]
"""Keys of a stream, given how many and the window."""


def celljoin_tuples(rng: np.random.Generator, count: int) -> Columns:
    numbers = rng.integers(1, 10_001, count).astype(np.int32)
    return numbers, (rng.integers(128, 1_280_001, count) / 128).astype(np.float32)


def uniform(width: int) -> Draw:
    return lambda rng, count, window: rng.integers(0, (3 if width else 1) * window, count)


def skewed(rng: np.random.Generator, count: int, window: int) -> Array:
    """99% of the keys in 1% of the range, where one key of the other window is within a distance of 1."""
    everywhere = rng.integers(0, 300 * window, count)
    return np.where(rng.random(count) < 0.99, everywhere // 100, everywhere)


def increasing(rng: np.random.Generator, count: int, window: int) -> Array:
    return np.cumsum(rng.integers(1, 6, count))


def equal(rng: np.random.Generator, count: int, window: int) -> Array:
    return np.full(count, 7)


@dataclass
class Streams:
    """Both streams of a join from the first tuple to the last, and how many pairs there are."""

    kind: str
    window: int
    width: int
    left: Columns
    right: Columns
    counted: dict[Any, int] = field(default_factory=dict)

    @classmethod
    def make(cls, kind: str, window: int, rows: int, seed: int, width: int = 1, draw: Draw | None = None) -> Streams:
        """Both windows and `rows` more of each stream."""
        rng = np.random.default_rng(seed)
        count = window + rows
        if kind == "celljoin":
            return cls(kind, window, CELL_WIDTH, celljoin_tuples(rng, count), celljoin_tuples(rng, count))
        width = 0 if kind == "equality" else width
        draw = draw or uniform(width)
        columns = [
            (draw(rng, count, window).astype(np.int32), rng.integers(0, 2**31, count, dtype=np.int32)) for _ in SIDES
        ]
        return cls(kind, window, width, columns[0], columns[1])

    @property
    def sql(self) -> str:
        if self.kind == "celljoin":
            return CELLJOIN_SQL
        return "l.x = r.a" if self.kind == "equality" else f"l.x BETWEEN r.a - {self.width} AND r.a + {self.width}"

    @property
    def schemas(self) -> dict[Side, pa.Schema]:
        return CELLJOIN_SCHEMAS if self.kind == "celljoin" else INTEGER_SCHEMAS

    def part(self, columns: Columns, start: int, stop: int) -> Columns:
        """Fresh arrays."""
        start = max(start, 0)
        return columns[0][start:stop].copy(), columns[1][start:stop].copy()

    def rounds(self, batch: int) -> int:
        return (len(self.left[0]) - self.window) // batch

    def expected(self, number: int, batch: int, one_sided: bool = False) -> int:
        """How many results round `number` has; one-sided: only the right batch comes, and the left window stays."""
        key = number, batch, one_sided
        if key not in self.counted:
            start = self.window + number * batch
            fresh = self.part(self.right, start, start + batch)
            left = self.window if one_sided else start + batch
            stored = self.part(self.left, left - self.window, left)
            count = self._count(stored, fresh, stored_left=True)
            if not one_sided:
                stored = self.part(self.right, start - self.window, start)
                count += self._count(stored, self.part(self.left, start, start + batch), stored_left=False)
            self.counted[key] = count
        return self.counted[key]

    def _count(self, stored: Columns, fresh: Columns, stored_left: bool) -> int:
        if self.kind == "celljoin":
            peer = NumPy(self.window, self.kind, self.width)
            nothing = stored[0][:0], stored[1][:0]
            peer.fill(*((stored, nothing) if stored_left else (nothing, stored)))
            return peer.step(*((nothing, fresh) if stored_left else (fresh, nothing)))
        keys = np.sort(stored[0])
        return int(
            np.searchsorted(keys, fresh[0] + self.width, side="right").sum()
            - np.searchsorted(keys, fresh[0] - self.width).sum()
        )
