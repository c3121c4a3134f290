"""A join in the words a user of a data frame or a database needs: equalities, bands, a window, and bins for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...side import Side

TIMES: dict[Side, str] = {"left": "_lt", "right": "_rt"}
"""The columns that have the timestamps as whole numbers."""
BIN = "_bin"
LOW_HALF = np.int64(0xFFFFFFFF)


@dataclass(frozen=True)
class Band:
    """low <= left column - right column <= high, over whole numbers."""

    left: str
    right: str
    low: int
    high: int

    def column(self, side: Side) -> str:
        return self.left if side == "left" else self.right

    def bins(self, values: Array) -> Array:
        """Bins are as wide as the band, so that a tuple meets no more than two of them."""
        return values // np.int64(self.high - self.low + 1)

    def reached(self, side: Side, values: Array) -> tuple[Array, Array]:
        """The lowest and the highest value of the other side that may match."""
        if side == "left":
            return values - np.int64(self.high), values - np.int64(self.low)
        return values + np.int64(self.low), values + np.int64(self.high)


@dataclass(frozen=True)
class Query:
    """An equality or band join of two tables whose columns have different names.

    `on` is the whole predicate in SQL, over the tables l and r. The other parts repeat what of it a join can use. Bins
    only find candidates: `on` and the window are checked for each of them.
    """

    on: str
    equal: tuple[tuple[str, str], ...] = ()
    bands: tuple[Band, ...] = ()
    window: tuple[str, str, int, int] | None = None
    """The time columns, and how long a left and a right tuple stay joinable; None: windows of tuples."""
    binned: tuple[str, ...] = ()
    """The left columns of the bands that have bins; "window" stands for the time."""
    is_complete: bool = False
    """Whether equalities, bands and the window are the whole predicate."""
    how: str = "inner"
    match: str = "all"
    """"latest": of a left row's partners only the last one that is not younger. For complete queries with a window."""

    @property
    def time(self) -> Band | None:
        """The window, as a band on the columns with the timestamps."""
        if self.window is None:
            return None
        _, _, left, right = self.window
        return Band(TIMES["left"], TIMES["right"], 1 - left, right - 1)

    def keys(self, side: Side, *, binned: bool) -> list[str]:
        """The columns on which the tables are joined."""
        equal = [pair[side == "right"] for pair in self.equal]
        return [*equal, BIN] if binned and self.binned else equal

    def helped(self, side: Side, table: pa.Table) -> pa.Table:
        """The table with its timestamps as whole numbers."""
        if self.window is None:
            return table
        time = table[self.window[side == "right"]]
        return table.append_column(TIMES[side], time if time.type == pa.int64() else time.cast(pa.int64()))

    def stored(self, side: Side, table: pa.Table) -> pa.Table:
        """The table with the bin of each tuple."""
        if not self.binned:
            return table
        return table.append_column(BIN, pa.array(_folded([b.bins(v) for b, v in self._values(side, table)])))

    def probing(self, side: Side, table: pa.Table) -> pa.Table:
        """The table with a copy of each tuple for every bin that it may match."""
        if not self.binned:
            return table
        ends = [tuple(map(band.bins, band.reached(side, v))) for band, v in self._values(side, table)]
        copies = []
        for chosen in product((0, 1), repeat=len(ends)):
            some = np.ones(len(table), bool)
            for number, (low, high) in zip(chosen, ends, strict=True):
                if number:
                    some &= low != high
            bins = _folded([end[number] for number, end in zip(chosen, ends, strict=True)])
            part = table if not any(chosen) else table.take(pa.array(np.flatnonzero(some)))
            copies.append(part.append_column(BIN, pa.array(bins[some])))
        return pa.concat_tables(copies)

    def _values(self, side: Side, table: pa.Table) -> Iterator[tuple[Band, Array]]:
        for name in self.binned:
            time = self.time if name == "window" else None
            band = time or next(band for band in self.bands if band.left == name)
            yield band, table[band.column(side)].to_numpy().astype(np.int64, copy=False)


def _folded(bins: list[Array]) -> Array:
    """One or two columns of bins as one. Different bins may fold to the same number: only candidates come of them."""
    return bins[0] if len(bins) == 1 else bins[0] << np.int64(32) | bins[1] & LOW_HALF
