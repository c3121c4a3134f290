"""A buffer that takes tuples in any order and gives them back in key order, a prefix at a time.

Invariant: the buffer is a short list of runs, each sorted by (key, row). A push merges runs until each is at least
twice as long as the next, so it costs O(log n) per tuple over time, and a pop only what it takes out.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array

Columns = list[Array]
"""Parallel columns; the first is the int64 key, the second the int64 row number that breaks ties."""


class RunBuffer:
    """Sorted runs of parallel columns. All pushes have the same columns."""

    def __init__(self) -> None:
        self._runs: list[Columns] = []

    def __len__(self) -> int:
        return sum(len(run[0]) for run in self._runs)

    def push(self, columns: Columns) -> None:
        if not len(columns[0]):
            return
        self._runs.append(_sorted(columns))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs.append(merge([self._runs.pop(-2), self._runs.pop()]))

    def pop_below(self, bound: int) -> Columns | None:
        """Take out everything with key < bound, sorted; None if there is nothing."""
        taken, kept = [], []
        for run in self._runs:
            cut = int(np.searchsorted(run[0], bound, side="left"))
            if cut:
                taken.append([column[:cut] for column in run])
            if cut < len(run[0]):
                rest = [column[cut:] for column in run]
                kept.append([column.copy() for column in rest] if 2 * cut > len(run[0]) else rest)
        self._runs = kept
        return merge(taken) if taken else None

    def pop_all(self) -> Columns | None:
        runs, self._runs = self._runs, []
        return merge(runs) if runs else None

    def smallest(self, column: int) -> int | None:
        """The smallest value of a column: of the key (0) at once, of another by looking at all."""
        if column == 0:
            return min((int(run[0][0]) for run in self._runs), default=None)
        return min((int(run[column].min()) for run in self._runs), default=None)

    def row_of_smallest_key(self) -> int | None:
        """The row number of the first tuple in order."""
        first = min(((int(run[0][0]), int(run[1][0])) for run in self._runs), default=None)
        return None if first is None else first[1]


def merge(runs: list[Columns]) -> Columns:
    """Several sorted runs as one."""
    if len(runs) == 1:
        return runs[0]
    return _sorted([np.concatenate(parts) for parts in zip(*runs, strict=True)])


def _sorted(columns: Columns) -> Columns:
    key, row = columns[0], columns[1]
    behind = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & (row[1:] < row[:-1]))
    if not behind.any():
        return columns
    order = np.lexsort((row, key))
    return [column[order] for column in columns]
