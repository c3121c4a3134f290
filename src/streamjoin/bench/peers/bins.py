"""Bins: how a band becomes an equality."""

from __future__ import annotations

import numpy as np

from ...arrays import Array
from ...errors import ArgumentError
from ..columns import Columns


class Bins:
    """A number per stored tuple, and for each probing tuple the two (celljoin: up to four) numbers it may match.

    Bins are at least as wide as the whole band, so that a range meets no more than two of them.
    """

    def __init__(self, kind: str, width: int, factor: int) -> None:
        if kind == "equality":
            raise ArgumentError("kind: 'equality' is joined on the keys themselves, without bins")
        self._square = kind == "celljoin"
        self._width, self._size = width, (2 * width + 1) * factor

    def stored(self, batch: Columns) -> Array:
        return self._cell(self._column(batch[0]), self._row(batch[1])) if self._square else self._column(batch[0])

    def probing(self, batch: Columns) -> tuple[Array, Array, Array]:
        """The batch with one copy of a tuple for each of its bins, and the bins."""
        first, second = batch
        width = np.int32(self._width)
        low, high = self._column(first - width), self._column(first + width)
        copies = [np.arange(len(first)), np.flatnonzero(low != high)]
        if not self._square:
            bins = [low, high[copies[1]]]
        else:
            real = np.float32(
                self._width + 1 / 64
            )  # a little more, as y - width and b + width may be rounded differently
            below, above = self._row(second - real), self._row(second + real)
            copies += [np.flatnonzero(below != above), np.flatnonzero((low != high) & (below != above))]
            cells = [self._cell(low, below), self._cell(high, below), self._cell(low, above), self._cell(high, above)]
            bins = [cell[some] for cell, some in zip(cells, copies, strict=True)]
        places = np.concatenate(copies)
        return first[places], second[places], np.concatenate(bins)

    def _column(self, first: Array) -> Array:
        return first // np.int32(self._size)

    def _row(self, second: Array) -> Array:
        return np.floor(second / np.float32(self._size)).astype(np.int32)

    @staticmethod
    def _cell(column: Array, row: Array) -> Array:
        return column * np.int32(1 << 14) + row
