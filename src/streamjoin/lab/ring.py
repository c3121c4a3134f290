"""A queue of int64 between two compiled threads: the model that `Mailbox` follows, tested at full speed."""

from __future__ import annotations

import numpy as np

from ..arrays import Integers
from ..compile.atomics import store_release
from ..compile.cache import compiled
from ..parallel.mailbox import HEAD, LINE, TAIL, power_of_two, ring_length


@compiled
def ring_put(slots, indexes, values):  # type: ignore[no-untyped-def]
    """Append as many values as there is room for; returns how many."""
    tail, mask = indexes[TAIL], len(slots) - 1
    count = min(len(values), len(slots) - ring_length(indexes))
    for k in range(count):
        slots[(tail + k) & mask] = values[k]
    store_release(indexes, TAIL, tail + count)
    return count


@compiled
def ring_get(slots, indexes, out):  # type: ignore[no-untyped-def]
    """Take as many values as there are and `out` has room for; returns how many."""
    head, mask = indexes[HEAD], len(slots) - 1
    count = min(len(out), ring_length(indexes))
    for k in range(count):
        out[k] = slots[(head + k) & mask]
    store_release(indexes, HEAD, head + count)
    return count


class Ring:
    """A queue of int64 values from one thread to another."""

    def __init__(self, capacity: int) -> None:
        self.slots = np.empty(power_of_two(capacity), np.int64)
        self.indexes = np.zeros(2 * LINE, np.int64)

    def __len__(self) -> int:
        return int(ring_length(self.indexes))

    def put(self, values: Integers) -> int:
        """Append as many values as there is room for, all seen at once; returns how many."""
        return int(ring_put(self.slots, self.indexes, values))

    def get(self, limit: int) -> Integers:
        """Take what is there, at most `limit` values."""
        out = np.empty(min(limit, len(self)), np.int64)
        ring_get(self.slots, self.indexes, out)
        return out
