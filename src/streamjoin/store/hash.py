"""The hash table over a subwindow: for predicates with at least one equality.

Buckets are chains through the stored tuples, newest first; the compiled probe walks a chain and tests the whole
predicate on it, so that other tuples in the bucket, further conditions and the window are decided in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..predicate.cache import compiled
from .batch import Array, Batch, PairSink, Probing
from .subwindow import StoredSide, Subwindow

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def hash_keys(keys: Sequence[Array]) -> Array:
    """One 64-bit hash per tuple from its key slots; the low bits are good enough to choose a bucket."""
    total = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        total = (total ^ key.astype(np.int64).view(np.uint64)) * _MULTIPLIER
        total ^= total >> np.uint64(29)
    return total


@compiled
def _link(hashes, start, heads, following):  # type: ignore[no-untyped-def]
    """Put the tuples from place `start` on in front of their buckets."""
    mask = np.uint64(len(heads) - 1)
    for i in range(len(hashes)):
        bucket = hashes[i] & mask
        following[start + i] = heads[bucket]
        heads[bucket] = start + i


class HashIndex(Subwindow):
    """Probes with the predicate's compiled hash probe."""

    name = "hash"

    def __init__(self, capacity: int, stored: StoredSide) -> None:
        super().__init__(capacity, stored)
        mine = stored.side == "right"
        self._key = [pair[mine] for pair in stored.lowered.hash_slots]
        self._probing_key = [pair[not mine] for pair in stored.lowered.hash_slots]
        self._heads = np.full(1 << capacity.bit_length(), -1, np.int32)
        self._following = np.empty(capacity, np.int32)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._heads.nbytes + self._following.nbytes

    def insert(self, batch: Batch) -> None:
        start = self.count
        super().insert(batch)
        _link(hash_keys([batch.slots[k] for k in self._key]), start, self._heads, self._following)

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        batch = probing.mine(probing.batch)
        hashes = hash_keys([batch.slots[k] for k in self._probing_key])
        own = (*self.stored.tested(self.slots), self.coordinate.slice(0, self.count), self._heads, self._following)
        return self.run(self.stored.hash_probe, batch, sink, own, (hashes,), np.array([0, 0, -1]))
