"""Hashes of equality keys: hash tables choose buckets by them, key spaces prefixes, and Spark the worker of a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array, Words
from ..compile.cache import compiled_with

MULTIPLIER, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def _mix_in_numpy(words: Words) -> None:
    words *= MULTIPLIER
    words ^= words >> SHIFT


@compiled_with(_mix_in_numpy)
def _mix(words):  # type: ignore[no-untyped-def]
    for i in range(len(words)):
        product = words[i] * MULTIPLIER
        words[i] = product ^ (product >> SHIFT)


def hash_keys(keys: Sequence[Array]) -> Words:
    """One 64-bit hash per tuple from its key slots; the low bits are good enough to choose a bucket."""
    total = keys[0].astype(np.int64).view(np.uint64)
    _mix(total)
    for key in keys[1:]:
        total ^= key.astype(np.int64, copy=False).view(np.uint64)
        _mix(total)
    return total
