"""Hashes of equality keys: hash tables choose buckets by them, key spaces prefixes, and Spark the worker of a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array, Words

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def hash_keys(keys: Sequence[Array]) -> Words:
    """One 64-bit hash per tuple from its key slots; the low bits are good enough to choose a bucket."""
    total = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        total = (total ^ key.astype(np.int64).view(np.uint64)) * _MULTIPLIER
        total ^= total >> np.uint64(29)
    return total
