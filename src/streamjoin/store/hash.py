"""The hash table over a subwindow: for predicates with at least one equality.

Buckets are chains through the stored tuples, newest first; the compiled probe walks a chain and tests the whole
predicate on it, so that other tuples in the bucket, further conditions and the window are decided in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..arrays import Array
from ..compile.cache import compiled
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..side import Side
from .batch import Batch, PairSink, Probing
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


def hash_source(lowered: Lowered, stored: Side) -> str:
    """Every probing tuple against its bucket: a chain through the stored tuples that may share its keys."""
    text = ConditionText(lowered, stored)
    return f"""{KERNEL_HEADER}
@njit(nogil=True, cache=True, error_model="numpy")
def hash_probe({text.parameters("coordinate", "heads", "following", "hashes")}, low, high, probes,
               out_probe, out_stored, state):
    found = 0
    compared, resumed = state[1], state[2]
    buckets = np.uint64(len(heads) - 1)
{text.views(4, "")}    for i in range(state[0], probes):
{text.load("i", "i", 8)}        j = resumed if resumed >= 0 else np.int64(heads[hashes[i] & buckets])
        resumed = np.int64(-1)
        while j >= 0:
{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            if hit and low[i] <= coordinate[j] and coordinate[j] < high[i]:
                if found == len(out_probe):
                    state[0], state[1], state[2] = i, compared, j
                    return found
                out_probe[found] = i
                out_stored[found] = j
                found += 1
            compared += 1
            j = np.int64(following[j])
    state[0], state[1] = -1, compared
    return found
"""


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
        return self.run(
            self.stored.kernel(hash_source, "hash_probe"), batch, sink, own, (hashes,), np.array([0, 0, -1])
        )
