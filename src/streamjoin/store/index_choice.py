"""Which index a new subwindow gets when the user leaves it open.

PanJoin (section V-A4) advises BI-Sort where batches or results are many, else RaP-Table, or WiB+-Tree where keys drift:
its BI-Sort merges every batch into one large array, which small batches cannot pay for. Ours merges seldom and keeps
the youngest tuples in a tail, so it is the fastest of the three at every batch size (docs/indexes.md has the figures);
keys that drift only move its key space. What remains to be decided is whether searching is worth it at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from .batch import Batch
from .key_choice import SideKeys

FEW_COMPARISONS = 1 << 20
"""A batch against a window with fewer pairs is scanned before an index has sorted the batch."""
LARGE_SHARE = 0.1
"""Where a probing tuple asks for more of the window than this, scanning writes the results as fast."""


@dataclass(frozen=True, slots=True)
class Advice:
    """An index and the reason for it."""

    index: str
    why: str


class Advisor:
    """Watches one side's batches and keys, and is asked at each border between subwindows."""

    def __init__(self, index: str, keys: SideKeys) -> None:
        self._index, self._keys = index, keys
        self._batch = 0.0

    def expect(self, batch: Batch) -> None:
        """A batch is about to probe; the usual size follows the last few."""
        size = len(batch)
        self._batch = float(size) if not self._batch else self._batch + (size - self._batch) / 8

    def advise(self, window: int) -> Advice:
        """The index for the next subwindow of a window of so many tuples."""
        if self._index != "auto":
            usable = self._index in ("scan", "hash") or self._keys.usable
            return Advice(self._index, "asked for") if usable else Advice("scan", "this side has no key to sort by")
        if not self._keys.usable:
            return Advice("scan", "the predicate has no key to sort by")
        if not self._keys.is_informed:
            return Advice("bi-sort", "the predicate has a key; nothing has probed it yet")
        batch = max(round(self._batch), 1)
        load = f"batches of about {batch} against {window} tuples"
        if batch * window < FEW_COMPARISONS:
            return Advice("scan", f"{load} are compared faster than searched")
        self._keys.choose(window)
        share = (self._keys.candidates or 0.0) / max(window, 1)
        if share > LARGE_SHARE:
            return Advice("scan", f"a probing tuple asks for {share:.0%} of the window")
        return Advice("bi-sort", f"{load}, {share * window:.3g} candidates for each")
