"""The work of one launch: some probing tuples against stretches of stored tuples, and how it is cut.

Law: the parts of a piece do all of its work, each pair of it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..arrays import Integers
from ..store.batch import Batch
from ..store.subwindow import Subwindow
from .kernel import ITEM_FIELDS
from .runs import Run

TILE = 512
"""Probing tuples of an item: they look at the stored tuples that any of them may meet."""


class Span(NamedTuple):
    """The tuples at places [begin, end) of a subwindow, which lie on the GPU from `start` on, counted from place 0."""

    subwindow: Subwindow
    start: int
    begin: int
    end: int


class Items(NamedTuple):
    """What a kernel reads, how many blocks that makes, and how many pairs of tuples it compares."""

    fields: Integers
    blocks: int
    comparisons: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The probing tuples at places [first, last) of a batch against some spans."""

    batch: Batch
    first: int
    last: int
    spans: Sequence[Span]

    @property
    def probing(self) -> Batch:
        whole = self.first == 0 and self.last == len(self.batch)
        return self.batch if whole else self.batch.slice(self.first, self.last)

    def halves(self) -> list[Piece]:
        """Two parts. Only one tuple against one tuple has none, and that is a single pair."""
        if self.last - self.first > 1:
            middle = (self.first + self.last) // 2
            return [replace(self, last=middle), replace(self, first=middle)]
        if len(self.spans) > 1:
            middle = len(self.spans) // 2
            return [replace(self, spans=self.spans[:middle]), replace(self, spans=self.spans[middle:])]
        (span,) = self.spans
        middle = (span.begin + span.end) // 2
        return [replace(self, spans=[span._replace(end=middle)]), replace(self, spans=[span._replace(begin=middle)])]

    def items(self, stored_per_block: int) -> Items:
        """What tuples of the piece can meet, tile by tile. Neighbouring stretches that all tiles meet become one."""
        probing = self.probing
        tiles = np.arange(0, len(probing), TILE)
        ends = np.minimum(tiles + TILE, len(probing))
        low, high = np.minimum.reduceat(probing.low, tiles), np.maximum.reduceat(probing.high, tiles)
        latest_low, earliest_high = int(low.max()), int(high.min())
        met: list[tuple[Integers, Integers, Integers, Integers]] = []
        whole: list[tuple[int, int]] = []
        for subwindow, start, begin, end in self.spans:
            column = subwindow.coordinate
            if latest_low <= column.lowest and column.highest < earliest_high:
                if whole and whole[-1][1] == start + begin:
                    whole[-1] = whole[-1][0], start + end
                else:
                    whole.append((start + begin, start + end))
                continue
            first, last, base, _, reached = subwindow.reach.slice(column, begin, end, low, high)
            if reached:
                some = last > first
                met.append((start + base + first[some], start + base + last[some], tiles[some], ends[some]))
        met += [
            (np.full(len(tiles), start), np.full(len(tiles), end), tiles, ends) for start, end in whole if start < end
        ]
        if not met:
            return Items(np.zeros((0, ITEM_FIELDS), np.int64), 0, 0)
        begins, stops, firsts, lasts = map(np.concatenate, zip(*met, strict=True))
        blocks = -((begins - stops) // stored_per_block)
        fields = np.stack([np.cumsum(blocks) - blocks, begins, stops, firsts, lasts], axis=1)
        return Items(fields, int(blocks.sum()), int(((stops - begins) * (lasts - firsts)).sum()))


@dataclass(frozen=True, slots=True)
class Search:
    """The probing tuples at places [first, last) of a batch, looked up in some runs."""

    batch: Batch
    first: int
    last: int
    runs: Sequence[Run]

    @property
    def probing(self) -> Batch:
        return self.batch.slice(self.first, self.last)

    def halves(self) -> list[Search] | list[Piece]:
        """Two parts. One tuple and one run, which has more pairs than there is room for, become a scan."""
        if self.last - self.first > 1:
            middle = (self.first + self.last) // 2
            return [replace(self, last=middle), replace(self, first=middle)]
        if len(self.runs) > 1:
            middle = len(self.runs) // 2
            return [replace(self, runs=self.runs[:middle]), replace(self, runs=self.runs[middle:])]
        return [self.scanned()]

    def scanned(self) -> Piece:
        """The same work as a scan of all tuples of the runs."""
        members = [member for run in self.runs for member in run.members]
        spans = [
            Span(subwindow, stretch.start, begin, end)
            for stretch, begin, end in members
            if not stretch.is_gone and (subwindow := stretch.subwindow()) is not None
        ]
        return Piece(self.batch, self.first, self.last, spans)
