"""Which index a new subwindow gets when the user leaves it open.

PanJoin (section V-A4) advises BI-Sort where batches or results are many, else RaP-Table, or WiB+-Tree where keys drift:
its BI-Sort merges every batch into one large array, which small batches cannot pay for. Ours merges seldom and keeps
the youngest tuples in a tail, so it is the fastest of the three at every batch size (docs/indexes.md has the figures).
Keys that drift only move its key space. What remains to be decided is whether searching is worth it at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import bi_sort, scan
from .batch import Batch
from .index import IndexKind
from .key_choice import KeyChooser
from .registry import INDEXES

FEW_COMPARISONS = 1 << 20
"""A batch and a window with fewer pairs than this: a scan is done before an index has sorted the batch."""
LARGE_SHARE = 0.1
"""Where a probing tuple asks for more of the window than this, a scan writes the results as fast."""
SCAN, SEARCH = scan.KIND, bi_sort.KIND
"""What "auto" chooses from."""


def usual_index(has_order: bool) -> str:
    """What "auto" chooses for all but small windows."""
    return SEARCH.name if has_order else SCAN.name


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """An index and the reason for it."""

    kind: IndexKind
    why: str


class IndexChooser:
    """Watches one side's batches and keys, and chooses at each border between subwindows.

    `index` is the name of the index that the user asked for, or "auto".
    """

    def __init__(self, index: str, keys: KeyChooser) -> None:
        self._asked = None if index == "auto" else INDEXES[index]
        self._keys = keys
        self._batch = 0.0

    @property
    def only(self) -> IndexKind | None:
        """The kind that all subwindows will have, where that is certain."""
        if self._asked is not None and (self._asked.needs != "order" or self._keys.usable):
            return self._asked
        return None if self._keys.usable else SCAN

    def expect(self, batch: Batch) -> None:
        """A batch is about to probe; the usual size follows the last few."""
        size = len(batch)
        self._batch = float(size) if not self._batch else self._batch + (size - self._batch) / 8

    def choose(self, window: int) -> IndexChoice:
        """The index for the next subwindow of a window that has `window` tuples."""
        if self.only is not None:
            return IndexChoice(self.only, self._why_only())
        if not self._keys.is_informed:
            return IndexChoice(SEARCH, "the predicate has a key; nothing has probed it yet")
        batch = max(round(self._batch), 1)
        load = f"batches of about {batch} against {window} tuples"
        if batch * window < FEW_COMPARISONS:
            return IndexChoice(SCAN, f"{load} are compared faster than searched")
        self._keys.choose(window)
        share = (self._keys.candidates or 0.0) / max(window, 1)
        if share > LARGE_SHARE:
            return IndexChoice(SCAN, f"a probing tuple asks for {share:.0%} of the window")
        return IndexChoice(SEARCH, f"{load}, {share * window:.3g} candidates for each")

    def _why_only(self) -> str:
        if self._asked is None:
            return "the predicate has no key to sort by"
        return "asked for" if self.only is self._asked else "this side has no key to sort by"
