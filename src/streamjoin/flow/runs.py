"""A buffer that takes tuples in any order and gives them back in key order, a prefix at a time.

Invariant: the buffer is a short list of runs, each sorted by (key, row). A push merges runs until each is at least
twice as long as the next, so it costs O(log n) per tuple over time, and a pop only what it takes out.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..arrays import Array, Rows
from ..compile.cache import compiled_with

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
            cut = int(run[0].searchsorted(bound, side="left"))
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

    def first(self) -> tuple[int, int] | None:
        """The key and the row number of the first tuple in order."""
        return min(((int(run[0][0]), int(run[1][0])) for run in self._runs), default=None)


def merge(runs: list[Columns]) -> Columns:
    """Several sorted runs as one, in time that grows with their length only where few of them overlap."""
    if len(runs) == 1:
        return runs[0]
    if all(_ends_before(first, second) for first, second in pairwise(runs)):
        return [np.concatenate(parts) for parts in zip(*runs, strict=True)]
    merged = runs[-1]
    for run in reversed(runs[:-1]):
        columns = [np.concatenate(parts) for parts in zip(run, merged, strict=True)]
        merged = columns if _ends_before(run, merged) else _in_order(columns, _merged(*columns[:2], len(run[0])))
    return merged


def _ends_before(first: Columns, second: Columns) -> bool:
    return bool((first[0][-1], first[1][-1]) <= (second[0][0], second[1][0]))


def _sorted(columns: Columns) -> Columns:
    key, row = columns[:2]
    return columns if _is_sorted(key, row) else _in_order(columns, np.lexsort((row, key)))


def _in_order(columns: Columns, order: Rows) -> Columns:
    return [column[order] for column in columns]


def _is_sorted_in_numpy(key: Rows, row: Rows) -> bool:
    behind = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & (row[1:] < row[:-1]))
    return not behind.any()


@compiled_with(_is_sorted_in_numpy)
def _is_sorted(key, row):  # type: ignore[no-untyped-def]
    for i in range(1, len(key)):
        if key[i] < key[i - 1] or (key[i] == key[i - 1] and row[i] < row[i - 1]):
            return False
    return True


@compiled_with(lambda key, row, cut: np.lexsort((row, key)))
def _merged(key, row, cut):  # type: ignore[no-untyped-def]
    """The order of two sorted runs, one before and one from `cut` on."""
    count = len(key)
    order = np.empty(count, np.int64)
    i, j = 0, cut
    for place in range(count):
        second = i == cut or (j < count and (key[j] < key[i] or (key[j] == key[i] and row[j] < row[i])))
        order[place] = j if second else i
        j += second
        i += not second
    return order
