"""Independent counts of pairs: NumPy sorts and searches; only the predicate without a key is compared pair by pair."""

from __future__ import annotations

import numpy as np
from numba import njit

from ...arrays import Array
from ..columns import Columns
from ..workloads import CELL_WIDTH

CELL = 2 * CELL_WIDTH + 1
"""The side of a cell, which is longer than a band: so a band reaches into two cells at most."""
EXACT_FLOAT32 = 1 << 24
AT_A_TIME = 1 << 16


def within(stored: Columns, fresh: Columns, width: int) -> int:
    """The pairs whose first columns are at most `width` apart."""
    keys, sought = np.sort(stored[0]), np.sort(fresh[0])
    return int(np.searchsorted(keys, sought + width, side="right").sum() - np.searchsorted(keys, sought - width).sum())


def inside_squares(stored: Columns, fresh: Columns) -> int:
    """The pairs whose columns are both at most `CELL_WIDTH` apart: candidates from four cells, then the exact test."""
    x, y = (column.astype(np.float64) for column in stored)
    cells = _cell(_line(x), _line(y))
    order = np.argsort(cells)
    cells, x, y = cells[order], x[order], y[order]
    found = 0
    for start in range(0, len(fresh[0]), AT_A_TIME):
        a, b = (column[start : start + AT_A_TIME].astype(np.float64) for column in fresh)
        left, below = _line(a - CELL_WIDTH), _line(b - CELL_WIDTH)
        for right in (0, 1):
            for above in (0, 1):
                cell = _cell(left + right, below + above)
                first = np.searchsorted(cells, cell)
                many = np.searchsorted(cells, cell, side="right") - first
                probing = np.repeat(np.arange(len(a)), many)
                place = np.arange(len(probing)) - np.repeat(np.cumsum(many) - many, many) + first[probing]
                near = np.abs(x[place] - a[probing]) <= CELL_WIDTH
                found += int((near & (np.abs(y[place] - b[probing]) <= CELL_WIDTH)).sum())
    return found


def _line(numbers: Array) -> Array:
    return np.floor(numbers / CELL).astype(np.int64)


def _cell(column: Array, row: Array) -> Array:
    return (column << 32) + row


def close_products(stored: Columns, fresh: Columns) -> int:
    """The pairs whose products x * a and y * b are less than 3 apart. Floats are exact here, and quick."""
    largest = max((int(column.max(initial=0)) for column in (*stored, *fresh)), default=0)
    kind = np.float32 if largest**2 < EXACT_FLOAT32 else np.float64
    return int(_close_products(*(column.astype(kind) for column in (*stored, *fresh))))


@njit(nogil=True)
def _close_products(x: Array, y: Array, a: Array, b: Array) -> int:
    found = 0
    for probe in range(len(a)):
        hits = 0
        for place in range(len(x)):
            hits += abs(x[place] * a[probe] - y[place] * b[probe]) < 3
        found += hits
    return found
