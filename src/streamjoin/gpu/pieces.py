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
        """What tuples of the piece can meet, tile by tile."""
        probing = self.probing
        tiles = np.arange(0, len(probing), TILE)
        low, high = np.minimum.reduceat(probing.low, tiles), np.maximum.reduceat(probing.high, tiles)
        last = np.minimum(tiles + TILE, len(probing))
        found = []
        for span in self.spans:
            column = span.subwindow.coordinate
            begins, ends, base, _, reached = span.subwindow.reach.slice(column, span.begin, span.end, low, high)
            if reached:
                some = ends > begins
                fields = np.zeros((int(some.sum()), ITEM_FIELDS), np.int64)
                fields[:, 1], fields[:, 2] = begins[some], ends[some]
                fields[:, 1:3] += span.start + base
                fields[:, 3], fields[:, 4] = tiles[some], last[some]
                found.append(fields)
        if not found:
            return Items(np.zeros((0, ITEM_FIELDS), np.int64), 0, 0)
        fields = np.concatenate(found)
        sizes = fields[:, 2] - fields[:, 1]
        blocks = -(-sizes // stored_per_block)
        fields[:, 0] = np.cumsum(blocks) - blocks
        return Items(fields, int(blocks.sum()), int((sizes * (fields[:, 4] - fields[:, 3])).sum()))
