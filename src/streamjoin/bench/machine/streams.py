"""Endless streams by place, and how many pairs there are.

Invariant: what a place holds depends on the seed alone. So contestants that go forward at different speeds join the
same streams, and a round is named by the places of its tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ...side import SIDES, Side
from ..columns import Columns
from ..workloads import CELL_WIDTH, CELLJOIN_SCHEMAS, CELLJOIN_SQL, INTEGER_SCHEMAS, celljoin_tuples, uniform
from .counts import close_products, inside_squares, within

BLOCK = 1 << 15
"""Tuples that are drawn at a time."""
KEPT = 512
"""Blocks that are kept for the next contestant."""
KEYLESS_SQL = "abs(l.x * r.a - l.y * r.b) < 3"
BAND_SQL = "l.x BETWEEN r.a - 1 AND r.a + 1"


@dataclass(frozen=True)
class Kind:
    """A predicate, the tuples of either stream, and a count of pairs that shares no code with the join."""

    sql: str
    schemas: dict[Side, pa.Schema]
    draw: Callable[[np.random.Generator, int, int], Columns]
    """Tuples by (generator, number of tuples, window)."""
    count: Callable[[Columns, Columns], int]
    """The pairs of two sets of tuples; all these predicates are symmetric."""


def _keys(width: int) -> Callable[[np.random.Generator, int, int], Columns]:
    keys = uniform(width)
    return lambda rng, count, window: (
        keys(rng, count, window).astype(np.int32),
        rng.integers(0, 2**31, count, dtype=np.int32),
    )


def _square(rng: np.random.Generator, count: int, window: int) -> Columns:
    """Uniform in a square in which a tuple's partners are one in `window`; the second column has multiples of 1/128."""
    largest = max(int(2.05 * CELL_WIDTH * window**0.5), 4 * CELL_WIDTH)
    numbers = rng.integers(1, largest + 1, count).astype(np.int32)
    return numbers, (rng.integers(128, 128 * largest, count) / 128).astype(np.float32)


def _factors(rng: np.random.Generator, count: int, window: int) -> Columns:
    """Two factors. Their range is such that about one pair in `window` has products this close."""
    largest = max(int((13 * window) ** 0.5), 8)
    first, second = (rng.integers(1, largest + 1, count).astype(np.int32) for _ in range(2))
    return first, second


KINDS: dict[str, Kind] = {
    "celljoin": Kind(CELLJOIN_SQL, CELLJOIN_SCHEMAS, lambda rng, count, _: celljoin_tuples(rng, count), inside_squares),
    "square": Kind(CELLJOIN_SQL, CELLJOIN_SCHEMAS, _square, inside_squares),
    "equality": Kind("l.x = r.a", INTEGER_SCHEMAS, _keys(0), lambda stored, fresh: within(stored, fresh, 0)),
    "band": Kind(BAND_SQL, INTEGER_SCHEMAS, _keys(1), lambda stored, fresh: within(stored, fresh, 1)),
    "keyless": Kind(KEYLESS_SQL, INTEGER_SCHEMAS, _factors, close_products),
}


@lru_cache(maxsize=KEPT)
def _block(kind: str, window: int, seed: int, side: Side, number: int) -> Columns:
    rng = np.random.default_rng([seed, SIDES.index(side), number])
    return KINDS[kind].draw(rng, BLOCK, window)


class Source:
    """Both streams of a cell."""

    def __init__(self, kind: str, window: int, seed: int) -> None:
        self.kind, self.window = KINDS[kind], window
        self._of = kind, window, seed
        self._counted: dict[tuple[int, int], int] = {}

    def part(self, side: Side, start: int, stop: int) -> Columns:
        """The tuples at some places, in new arrays."""
        start = max(start, 0)
        pieces = []
        for number in range(start // BLOCK, -(-stop // BLOCK)):
            first, last = max(start - number * BLOCK, 0), min(stop - number * BLOCK, BLOCK)
            pieces.append(tuple(column[first:last] for column in _block(*self._of, side, number)))
        if not pieces:
            nothing = _block(*self._of, side, 0)
            return nothing[0][:0], nothing[1][:0]
        first_column, second_column = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return first_column, second_column

    def tables(self, start: int, stop: int) -> list[pa.Table]:
        schemas = self.kind.schemas
        return [pa.table(list(self.part(side, start, stop)), schema=schemas[side]) for side in SIDES]

    def expected(self, start: int, stop: int) -> int:
        """The results of a round: the left batch meets the right window, then the right batch the left window."""
        key = start, stop
        if key not in self._counted:
            left, right = self.part("left", stop - self.window, stop), self.part("right", start - self.window, start)
            self._counted[key] = self.kind.count(left, self.part("right", start, stop)) + self.kind.count(
                right, self.part("left", start, stop)
            )
        return self._counted[key]
