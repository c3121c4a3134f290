"""Compiled passes over the row numbers of found pairs."""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, Mask, Rows
from ..compile.cache import compiled_with


def _meet(met: Mask, base: int, rows: Rows) -> None:
    met[rows - base] = True


def _meet_new(met: Mask, base: int, rows: Rows, new: Rows) -> int:
    fresh, places = np.unique(rows[~met[rows - base]], return_index=True)
    fresh = fresh[np.argsort(places)]
    met[fresh - base] = True
    new[: len(fresh)] = fresh
    return len(fresh)


@compiled_with(_meet)
def meet(met, base, rows):  # type: ignore[no-untyped-def]
    """Note that these rows have a partner; met[k] is about row base + k. A row is there many times in a row."""
    previous = base - 1
    for row in rows:
        if row != previous:
            met[row - base] = True
            previous = row


@compiled_with(_meet_new)
def meet_new(met, base, rows, new):  # type: ignore[no-untyped-def]
    """The same; also writes those that had none before, each once, into `new` and returns how many they are."""
    count = 0
    for row in rows:
        if not met[row - base]:
            met[row - base] = True
            new[count] = row
            count += 1
    return count


@compiled_with(lambda rows: int(rows.min(where=rows >= 0, initial=INT64_MAX)))
def smallest_row(rows):  # type: ignore[no-untyped-def]
    """The smallest of some row numbers, without those below 0; of none, INT64_MAX."""
    smallest = INT64_MAX
    for row in rows:
        smallest = min(smallest, row if row >= 0 else INT64_MAX)
    return smallest
