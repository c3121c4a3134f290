"""One trial: what every contestant gets, and how many pairs there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Array

MOST_FILLS = 512
CALL_TUPLES = 1_024
"""A round of smaller batches has several of them, so that it can be timed."""
FULL_RANGE = 2**32


@dataclass
class KeyRanges:
    low: Array
    high: Array
    expected: int


@dataclass
class Trial:
    """What every contestant gets: keys to fill with, and ranges for each round, with the pairs there are."""

    size: int
    batch: int
    selectivity: int
    filling: list[Array]
    last: list[Array]
    while_filling: list[list[KeyRanges]]
    full: list[list[KeyRanges]]
    warm_up: KeyRanges
    sorted_keys: Array
    natural: bool


def uniform_keys(rng: np.random.Generator, count: int) -> Array:
    return rng.integers(-(2**31), 2**31, count, dtype=np.int32)


def key_ranges(rng: np.random.Generator, keys: Array, count: int, selectivity: int, size: int) -> KeyRanges:
    """Fresh ranges in which, of `size` uniform keys, `selectivity` are on average; expected is over the sorted keys."""
    width = max(selectivity * FULL_RANGE // size, 1)
    low = uniform_keys(rng, count).astype(np.int64) - width // 2
    high = np.minimum(low + width - 1, 2**31 - 1).astype(np.int32)
    low = np.maximum(low, -(2**31)).astype(np.int32)
    expected = np.searchsorted(keys, high, side="right").sum() - np.searchsorted(keys, low).sum()
    return KeyRanges(low, high, int(expected))


def make_trial(size: int, batch: int, selectivity: int, rounds: int, seed: int) -> Trial:
    rng = np.random.default_rng(seed)
    keys = uniform_keys(rng, size)
    calls = max(CALL_TUPLES // batch, 1)
    last = min(rounds, max(size // (2 * batch * calls), 1)) * min(batch * calls, size)
    chunk = max(batch, size // MOST_FILLS)
    filling = [keys[at : min(at + chunk, size - last)] for at in range(0, size - last, chunk)]
    tail = [keys[at : at + batch] for at in range(size - last, size, batch)]
    stored = np.sort(keys[: size - last])
    warm_up = key_ranges(rng, stored, batch, selectivity + -(-selectivity // 2), size)  # so that no output grows later
    while_filling = []
    for at in range(0, len(tail), calls):
        stored = np.sort(np.concatenate([stored, *tail[at : at + calls]]), kind="stable")  # merges
        while_filling.append([key_ranges(rng, stored, batch, selectivity, size) for _ in range(calls)])
    full = [[key_ranges(rng, stored, batch, selectivity, size) for _ in range(calls)] for _ in range(rounds)]
    return Trial(size, batch, selectivity, filling, tail, while_filling, full, warm_up, stored, chunk == batch)
