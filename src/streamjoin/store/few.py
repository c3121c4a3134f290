"""How a few tuples meet a window without the questions that a larger batch is worth.

Where there is one subwindow that is scanned, it does so itself. Elsewhere the answers of the last ordinary step serve:
which subwindows there are, which runs they have, and in which key space. They hold until tuples are indexed or dropped.

Invariant: as for `SideWindow`, a probe finds every stored tuple that matches and lies in the probing tuple's
[low, high), once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from ..arrays import Integers
from .batch import Batch, PairSink, Probing
from .few_scan import Search
from .hash import HashIndex
from .index import Index
from .ordered import TAIL, OrderedIndex
from .ranges import Ranges
from .scan import ScanIndex
from .subwindow import FEW_PROBES

ROOM = TAIL + FEW_PROBES
"""Tuples that may be added to a tail until it is indexed."""


class Few(Protocol):
    """A window for few tuples at a time."""

    @property
    def newest(self) -> Index:
        """The subwindow that gets new tuples."""

    @property
    def scanned(self) -> ScanIndex | None:
        """What `few_scan` can store new tuples in and scan; None: `probe_few` must do that."""

    def probe_few(self, batch: Batch, sink: PairSink) -> Iterator[int]:
        """Find pairs. Gives the comparisons since the last time, each time the sink was filled further."""


def few_of(subwindows: Sequence[Index]) -> FewSearched | FewHashed | None:
    """A way for few tuples, if there is one."""
    return FewHashed.of(subwindows) if isinstance(subwindows[-1], HashIndex) else FewSearched.of(subwindows)


class FewHashed:
    """Neighbouring ranges of one hash table."""

    def __init__(self, subwindows: Sequence[HashIndex]) -> None:
        self._subwindows = subwindows
        self.newest = subwindows[-1]
        self.scanned = None

    @staticmethod
    def of(subwindows: Sequence[Index]) -> FewHashed | None:
        """None: some tuples are elsewhere, or lie apart."""
        hashed = [subwindow for subwindow in subwindows if isinstance(subwindow, HashIndex)]
        if len(hashed) < len(subwindows) or any(a.stop != b.start for a, b in pairwise(hashed)):
            return None
        return FewHashed(hashed)

    def serves(self, subwindows: Sequence[Index]) -> bool:
        """Whether there are no others by now."""
        return self._subwindows == subwindows

    def probe_few(self, batch: Batch, sink: PairSink) -> Iterator[int]:
        return self.newest.table.probe(batch, self._subwindows[0].start, self.newest.stop, sink)


class FewSearched:
    """A chain of ordered indexes whose runs share a key space: all runs are probed in one call, and the tuples of the
    newest subwindow that are not indexed yet are scanned.

    `few_scan` has a copy of these. Who gives it new tuples inserts them into the newest subwindow as well.
    """

    def __init__(self, subwindows: Sequence[OrderedIndex]) -> None:
        self._subwindows = subwindows
        self.newest = subwindows[-1]
        self._indexed = next(subwindow for subwindow in subwindows if subwindow.group is not None)
        tables = [subwindow.run_table() for subwindow in subwindows]
        self._of_newest = tables[-1]
        self._runs: Integers = np.concatenate(tables)
        self._tail: ScanIndex | None = None
        self._is_refused = False

    @staticmethod
    def of(subwindows: Sequence[Index]) -> FewSearched | None:
        """None: something else than runs and the newest tuples must be looked at, or there are no runs."""
        ordered = [subwindow for subwindow in subwindows if isinstance(subwindow, OrderedIndex)]
        if len(ordered) < len(subwindows) or not all(subwindow.is_only_runs for subwindow in ordered[:-1]):
            return None
        groups = {subwindow.group for subwindow in ordered} - {None}
        if len(groups) != 1 or not all(subwindow.serves_all for subwindow in ordered):
            return None
        if not ordered[-1].is_runs_and_tail or ordered[-1].is_to_be_indexed:
            return None
        return FewSearched(ordered)

    def serves(self, subwindows: Sequence[Index]) -> bool:
        """Whether nothing has been indexed or dropped since, nor is to be indexed."""
        newest = self.newest
        is_same = self._subwindows == subwindows and newest.run_table() is self._of_newest
        return is_same and not newest.is_to_be_indexed

    @property
    def scanned(self) -> ScanIndex | None:
        newest, tail = self.newest, self._tail
        if self._is_refused or newest.has_belated:
            return None
        if tail is None or tail.count != newest.tail_count:
            tail = self._tail = newest.tail_copy(ROOM)
        return tail if tail.room >= FEW_PROBES else None

    def refuse(self) -> None:
        """The tuples cannot be scanned by `few_scan`."""
        self._is_refused = True

    def search(self, left_probes: bool) -> Search:
        """See `few_scan.Searched`: the tuples that are indexed."""
        return self._indexed.search(self._runs, left_probes)

    def ranges(self, batch: Batch) -> Ranges:
        return self._indexed.ranges(batch)

    def probe_few(self, batch: Batch, sink: PairSink) -> Iterator[int]:
        newest, probing = self.newest, Probing(batch)
        if newest.has_belated:  # since the last step
            yield from newest.probe_beside_runs(probing, sink)
        else:
            yield from newest.probe_tail(batch, sink)
        yield from self._indexed.probe_runs(self._runs, probing, sink)
