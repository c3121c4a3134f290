"""The hash table over a subwindow: for predicates with at least one equality.

Buckets are chains through the stored tuples, newest first. The compiled probe walks a chain and tests the whole
predicate on each tuple, so equal hashes, further conditions and the window are decided in one place.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..compile.cache import compiled
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..side import Side
from .batch import Batch, PairSink, Probing
from .hashing import hash_keys
from .index import Index, IndexKind, Opening
from .subwindow import StoredSide, Subwindow


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
    return f"""{KERNEL_HEADER}from streamjoin.store.words import COMPARED, DONE, MOST_TUPLES, NEXT, STOPPED


@njit(nogil=True, cache=True, error_model="numpy")
def hash_probe({text.parameters("coordinate", "heads", "following", "hashes")}, low, high, probes,
               out_probe, out_stored, state):
    found = 0
    compared, resumed = state[COMPARED], state[STOPPED] - 1
    most = compared + MOST_TUPLES
    buckets = np.uint64(len(heads) - 1)
{text.views(4, "")}    for i in range(state[NEXT], probes):
{text.load("i", "i", 8)}        j = resumed if resumed >= 0 else np.int64(heads[hashes[i] & buckets])
        resumed = np.int64(-1)
        while j >= 0:
            if compared > most:
                state[NEXT], state[COMPARED], state[STOPPED] = i, compared, j + 1
                return found
{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            if hit and low[i] <= coordinate[j] and coordinate[j] < high[i]:
                if found == len(out_probe):
                    state[NEXT], state[COMPARED], state[STOPPED] = i, compared, j + 1
                    return found
                out_probe[found] = i
                out_stored[found] = j
                found += 1
            compared += 1
            j = np.int64(following[j])
    state[NEXT], state[COMPARED] = DONE, compared
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
        of_probes = (*self.stored.tested_of_probes(batch), hashes, batch.low, batch.high, len(batch))
        return self.run(self.stored.kernel(hash_source, "hash_probe"), (*own, *of_probes), sink, batch.row)


def _open(opening: Opening) -> Index:
    return HashIndex(opening.capacity, opening.stored)


KIND = IndexKind(HashIndex.name, "equality", _open, ", on the equality; the rest is tested along its chains")
