"""Ways to push a stream: cut into batches, and both streams in a random order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..errors import ArgumentError
from ..side import Side


def batches(table: pa.Table, sizes: int | Sequence[int] | None = None, *, seed: int = 0) -> list[pa.Table]:
    """Cut `table` into pushes of `sizes`, which are repeated as needed; None: random sizes, some of them empty."""
    lengths: Iterator[int]
    if sizes is None:
        rng, longest = np.random.default_rng(seed), max(1, table.num_rows // 4)
        lengths = (int(rng.integers(0, longest + 1)) for _ in itertools.count())
    else:
        repeated = [sizes] if isinstance(sizes, int) else list(sizes)
        if not any(size > 0 for size in repeated) or min(repeated) < 0:
            raise ArgumentError(f"sizes: got {sizes!r}; give numbers of rows, at least one of them positive")
        lengths = itertools.cycle(repeated)
    cut, start = [], 0
    while start < table.num_rows:
        size = next(lengths)
        cut.append(table.slice(start, size))
        start += size
    return cut


def interleave(
    left_batches: Iterable[pa.Table], right_batches: Iterable[pa.Table], seed: int = 0
) -> Iterator[tuple[Side, pa.Table]]:
    """All pushes of both streams in a random order; each stream keeps its own order."""
    rng = np.random.default_rng(seed)
    waiting: dict[Side, list[pa.Table]] = {"left": list(left_batches), "right": list(right_batches)}
    turns: list[Side] = [side for side, pushes in waiting.items() for _ in pushes]
    sources = {side: iter(pushes) for side, pushes in waiting.items()}
    for turn in rng.permutation(len(turns)):
        yield turns[turn], next(sources[turns[turn]])
