"""Small kernels that several rooms use."""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers
from .cache import compiled_with

BLOCK = 1024
"""Values that are looked at before it is asked whether to go on."""


def _extremes(integers: Integers) -> tuple[int, int]:
    return int(integers.min(initial=INT64_MAX)), int(integers.max(initial=INT64_MIN))


@compiled_with(_extremes)
def extremes(integers):  # type: ignore[no-untyped-def]
    """The smallest and the largest of some int64; of none, INT64_MAX and INT64_MIN."""
    smallest, largest = INT64_MAX, INT64_MIN
    for k in range(len(integers)):
        smallest, largest = min(smallest, integers[k]), max(largest, integers[k])
    return smallest, largest


def _survey(integers: Integers) -> tuple[int, int, bool]:
    return *_extremes(integers), bool((integers[1:] >= integers[:-1]).all())


@compiled_with(_survey)
def survey(integers):  # type: ignore[no-untyped-def]
    """The extremes, and whether no integer is below the one before: three questions that cost one call."""
    smallest, largest, is_sorted = INT64_MAX, INT64_MIN, True
    for k in range(len(integers)):
        integer = integers[k]
        is_sorted &= integer >= integers[max(k - 1, 0)]
        smallest, largest = min(smallest, integer), max(largest, integer)
    return smallest, largest, is_sorted


def _kept_of(integers: Integers, floor: int, low: int, high: int) -> tuple[int, int, int]:
    places = np.flatnonzero((integers >= floor) | ((integers >= low) & (integers < high)))
    return (int(places[0]), int(places[-1]) + 1, len(places)) if len(places) else (0, 0, 0)


@compiled_with(_kept_of)
def kept_of(integers, floor, low, high):  # type: ignore[no-untyped-def]
    """Of the integers that are at least the floor, or in [low, high): where the first lies, where the last ends, and
    how many they are."""
    first, last, count = len(integers), 0, 0
    for k in range(len(integers)):
        is_kept = (integers[k] >= floor) | ((integers[k] >= low) & (integers[k] < high))
        first = min(first, k if is_kept else first)
        last = max(last, k + 1 if is_kept else last)
        count += is_kept
    return min(first, last), last, count


@compiled_with(lambda values: bool((values[1:] >= values[:-1]).all()))
def is_ascending(values):  # type: ignore[no-untyped-def]
    """Whether no value is below the one before: asked of a block at a time, so that vectors answer."""
    following = values[1:]
    for start in range(0, len(following), BLOCK):
        before, after = values[start : start + BLOCK], following[start : start + BLOCK]
        below = 0
        for k in range(len(after)):
            below += after[k] < before[k]
        if below:
            return False
    return True
