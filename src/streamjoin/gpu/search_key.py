"""What stored tuples are sorted by on the GPU, and which range of it a probing tuple asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import INT64_MIN, Integers
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import Side, other
from ..store.batch import Batch


@dataclass(frozen=True, slots=True)
class SearchKey:
    """Law: a stored tuple can match a probing one only if its slot `number` lies in the range that the probing one asks
    for, provided that both are regular."""

    number: int
    dtype: np.dtype[Any]
    low: int
    high: int
    band: RangeKey | None
    """None: it is an equality."""

    def holds(self, slots: Any, begin: int, end: int) -> bool:
        """Whether all of some stored tuples are regular."""
        regular = None if self.band is None else self.band.regular[0]
        return regular is None or bool(slots[regular][begin:end].all())

    def widest(self, slots: Any, begin: int, end: int) -> int:
        """How far the upper end of a stored tuple's interval lies above its key at most."""
        if self.band is None or self.band.width is None:
            return 0
        tops, keys = (slots[number][begin:end].astype(np.int64) for number in (self.band.width, self.number))
        distances = tops.view(np.uint64) - keys.view(np.uint64)  # up to twice what a signed number holds
        return int(distances.max(where=tops > keys, initial=0))

    def serves(self, batch: Batch) -> bool:
        """Whether all tuples of a batch can be looked up."""
        regular = None if self.band is None else self.band.regular[1]
        return regular is None or bool(batch.slots[regular].all())

    @property
    def asked(self) -> tuple[int, ...]:
        """The slots of a probing tuple that say which range it asks for."""
        return self.low, self.high

    def bounds(self, batch: Batch, widest: int) -> tuple[Integers, Integers]:
        """The least and the greatest key that each tuple of a batch asks for. `widest` is up to `INT64_MAX`."""
        low, high = batch.slots[self.low].astype(np.int64), batch.slots[self.high].astype(np.int64)
        if widest:
            low = np.where(low < INT64_MIN + widest, INT64_MIN, low - widest)
        return low, high


def search_key(lowered: Lowered, stored: Side) -> SearchKey | None:
    """The key for one side's tuples; None: the predicate has none that is an integer on both sides."""
    own, probing = lowered.slots[stored], lowered.slots[other(stored)]
    for pair in lowered.hash_slots:
        mine, its = (pair[0], pair[1]) if stored == "left" else (pair[1], pair[0])
        if all(slot.required and slot.dtype in ("int32", "int64") for slot in (own[mine], probing[its])):
            return SearchKey(mine, np.dtype(own[mine].dtype), its, its, None)
    for band in lowered.range_keys[stored]:
        low, high = band.intervals[0]
        if len(band.intervals) == 1 and low is not None and high is not None:
            slots = (own[band.key], probing[low], probing[high])
            if all(slot.required and slot.dtype in ("int32", "int64") for slot in slots):
                return SearchKey(band.key, np.dtype(own[band.key].dtype), low, high, band)
    return None
