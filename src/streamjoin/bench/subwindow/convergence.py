"""How fast a RaP-Table's splitters adjust to the keys (PanJoin, Fig. 10f)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import Array
from ...store.rap_table import adjusted_splitters, even_splitters
from .trial import FULL_RANGE

ADJUSTMENTS = 5


def _multimodal(rng: np.random.Generator, count: int) -> Array:
    centres = np.array([0.1, 0.35, 0.36, 0.8])[rng.integers(0, 4, count)] * FULL_RANGE
    return np.clip(rng.normal(centres, FULL_RANGE / 1024), 0, FULL_RANGE - 1)


def _rank_size(rng: np.random.Generator, count: int) -> Array:
    return np.minimum(FULL_RANGE / 1e4 * rng.pareto(1, count), FULL_RANGE - 1)


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "uniform": lambda rng, count: rng.integers(0, FULL_RANGE, count),
    "multimodal normal": _multimodal,
    "rank-size": _rank_size,
}
"""Keys in 32 bits; of the rank-size ones 99% lie in 1% of the range."""


def convergence(size: int, partitions: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """The normalised mean absolute error of the partitions' sizes before and after each adjustment, fresh words each
    time; `chance` is what even splitters leave for uniform words."""
    series = []
    for name, draw in DISTRIBUTIONS.items():
        for count in partitions:
            rng = np.random.default_rng(seed)
            splitters = even_splitters(count)
            errors = []
            for _ in range(ADJUSTMENTS + 1):
                keys = draw(rng, size).astype(np.uint64)
                words = np.sort(keys << np.uint64(32) | rng.permutation(size).astype(np.uint64))
                ends = np.searchsorted(words, splitters, side="right")
                starts = np.concatenate([[0], ends[:-1]])
                sizes = ends - starts
                errors.append(float(np.abs(sizes - size / count).mean()) * count / size)
                low, high = words[np.minimum(starts, size - 1)], words[np.maximum(ends - 1, 0)]
                splitters = adjusted_splitters(sizes, low, high, count)
            chance = float(np.sqrt(2 * count / (np.pi * size)))
            entry = {"distribution": name, "partitions": count, "size": size, "errors": errors, "chance": chance}
            series.append(entry)
    return series
