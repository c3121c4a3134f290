"""Of sorted stored tuples, the last one in each probing tuple's window that matches: found without looking for others.

Stored tuples that may match the same probing tuples are linked: from each leads a link to the one before it. Without
equality keys this is the neighbour; with them it is the last tuple before with the same hash. A probing tuple begins at
the newest tuple in its window that is linked for it, and walks back until one matches or its window begins.

Invariant: the links from `newest[i]` on lead, from late to early, through all stored tuples before the end of window i
that can match i. So the first one that meets the condition is the last partner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, Integers, Places, Words
from ..compile.cache import LazyKernel, compiled_with
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..predicate.pairs import PairCondition
from ..side import Side
from .hashing import hash_keys

NONE = -1
"""The place of a tuple that is not there."""
MOST_STORED = 2**31 - 2
"""Places have 32 bits."""
AT_ONCE, MOST_COMPARED = 1 << 16, 1 << 22
"""Probing tuples that walk in one call of compiled code, and its comparisons: few enough that Ctrl-C is soon seen,
even if each waits for memory."""
FREE, PATIENCE = 1 << 20, 256
"""Comparisons that are always made, in about a millisecond, and for each probing tuple, on average, besides. Where it
takes more, an index is the better way."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Tuples in the order of their coordinates, and their slots."""

    coordinate: Integers
    slots: list[Array]


class WalkBack:
    """Walks of one predicate, whose slots must decide."""

    def __init__(self, lowered: Lowered, stored: Side) -> None:
        self._lowered, self._stored = lowered, stored
        self._kernel: Callable[..., Any] = LazyKernel(walk_source(lowered, stored), "walk_back")
        self._condition = PairCondition(lowered)

    def last_partners(
        self, stored: Sorted, probing: Sorted, low: Integers, high: Integers, is_compiled: bool
    ) -> Places | None:  # fmt: skip
        """The place of each probing tuple's last partner with a coordinate in [low, high), or NONE. None: it would take
        too many comparisons. `high` must ascend. Unless `is_compiled`, NumPy walks."""
        found = np.full(len(high), NONE, np.int32)
        if not len(stored.coordinate):
            return found
        newest, previous = self._linked(stored, probing, high)
        if not is_compiled:
            return found if self._walk_in_numpy(stored, probing, low, newest, previous, found) else None
        tested, compared = self._lowered.tested, 0
        own, others = (tested.left, tested.right) if self._stored == "left" else (tested.right, tested.left)
        columns = [stored.slots[number] for number in own]
        arguments = [probing.slots[number] for number in others]
        start = 0
        while start < len(newest):
            stop = min(start + AT_ONCE, len(newest))
            most = FREE + PATIENCE * stop - compared
            if most <= 0:
                return None
            start, used = self._kernel(
                *columns, stored.coordinate, previous, newest, low, found, start, stop, *arguments,
                min(most, MOST_COMPARED),
            )  # fmt: skip
            compared += used
        return found

    def _linked(self, stored: Sorted, probing: Sorted, high: Integers) -> tuple[Places, Places]:
        """Where each probing tuple begins, and where the link of each stored tuple leads."""
        newest = np.empty(len(high), np.int32)
        if not self._lowered.hash_slots:
            last_below(stored.coordinate, high, newest)
            return newest, np.arange(NONE, len(stored.coordinate) - 1, dtype=np.int32)
        mine = self._stored == "right"
        hashes = [
            hash_keys([tuples.slots[pair[number]] for pair in self._lowered.hash_slots])
            for tuples, number in ((stored, mine), (probing, not mine))
        ]
        previous = np.empty(len(stored.coordinate), np.int32)
        heads = np.full(1 << len(previous).bit_length(), NONE, np.int32)
        link(stored.coordinate, hashes[0], high, hashes[1], heads, previous, newest)
        return newest, previous

    def _walk_in_numpy(
        self, stored: Sorted, probing: Sorted, low: Integers, newest: Places, previous: Places, found: Places
    ) -> bool:  # fmt: skip
        """All probing tuples take a step at a time. Returns whether all have come to the end."""
        walking, at, compared = np.arange(len(newest)), newest, 0
        while True:
            inside = (at != NONE) & (stored.coordinate[at] >= low[walking])
            walking, at = walking[inside], at[inside]
            compared += len(walking)
            if not len(walking) or compared > FREE + PATIENCE * len(newest):
                return not len(walking)
            if self._stored == "right":
                matches = self._condition(probing.slots, walking, stored.slots, at)
            else:
                matches = self._condition(stored.slots, at, probing.slots, walking)
            found[walking[matches]] = at[matches]
            walking, at = walking[~matches], previous[at[~matches]]


def _last_below_in_numpy(coordinate: Integers, high: Integers, newest: Places) -> None:
    newest[:] = np.searchsorted(coordinate, high) - 1


@compiled_with(_last_below_in_numpy)
def last_below(coordinate, high, newest):  # type: ignore[no-untyped-def]
    """The last place below each of some ascending numbers."""
    place = 0
    for i in range(len(high)):
        while place < len(coordinate) and coordinate[place] < high[i]:
            place += 1
        newest[i] = place - 1


def _link_in_numpy(
    coordinate: Integers, hashes: Words, high: Integers, probing: Words, heads: Places, previous: Places, newest: Places
) -> None:  # fmt: skip
    mask, count = np.uint64(len(heads) - 1), np.int64(len(previous))
    bucket, asked = (hashes & mask).astype(np.int64), (probing & mask).astype(np.int64)
    order = np.argsort(bucket, kind="stable")
    previous[order] = np.append(np.full(1, NONE), order[:-1])[: len(order)]
    previous[order[np.diff(bucket[order], prepend=NONE) != 0]] = NONE
    words = bucket[order] * count + order
    where = np.searchsorted(words, asked * count + np.searchsorted(coordinate, high)) - 1
    newest[:] = order[where]
    newest[(where < 0) | (bucket[newest] != asked)] = NONE


@compiled_with(_link_in_numpy)
def link(coordinate, hashes, high, probing, heads, previous, newest):  # type: ignore[no-untyped-def]
    """Link stored tuples of a bucket, and find where each probing tuple begins. `heads` is all NONE at first."""
    mask = np.uint64(len(heads) - 1)
    place = 0
    for i in range(len(high)):
        while place < len(coordinate) and coordinate[place] < high[i]:
            bucket = hashes[place] & mask
            previous[place] = heads[bucket]
            heads[bucket] = place
            place += 1
        newest[i] = heads[probing[i] & mask]


@compiled_with(lambda coordinate: np.argsort(-coordinate, kind="stable"))
def from_late_to_early(coordinate):  # type: ignore[no-untyped-def]
    """The places of sorted tuples from the last to the first; those with equal coordinates in their own order."""
    places = np.empty(len(coordinate), np.int64)
    stop = len(coordinate)
    while stop > 0:
        start = stop - 1
        while start > 0 and coordinate[start - 1] == coordinate[start]:
            start -= 1
        for k in range(start, stop):
            places[len(coordinate) - stop + k - start] = k
        stop = start
    return places


def walk_source(lowered: Lowered, stored: Side) -> str:
    """Probing tuples from `start` to before `stop` walk, one after the other, with at most so many comparisons. Returns
    which tuple is to go on, and the comparisons. Where it is in the middle of its way, `newest` says how far it is."""
    text = ConditionText(lowered, stored)
    parameters = text.parameters("coordinate", "previous", "newest", "low", "found", "start", "stop", "most")
    return f"""{KERNEL_HEADER}

@njit(nogil=True, error_model="numpy")
def walk_back({parameters}):
    compared = np.int64(0)
{text.views(4, "")}    for i in range(start, stop):
{text.load("i", "i", 8)}        j = np.int64(newest[i])
        while j >= 0 and coordinate[j] >= low[i]:
            if compared >= most:
                newest[i] = j
                return i, compared
            compared += 1
{text.lines("i", 12)}            if {text.lane(lowered.condition, "i")}:
                found[i] = j
                break
            j = np.int64(previous[j])
    return stop, compared
"""
