"""Linked List Adaptive Table (PanJoin, section III-B2, Fig. 5): words in partitions whose sizes nobody knows ahead.

The table is 2P entries of W = ceil(N / P * sigma) words each, for P partitions of N words in all. A partition begins in
an entry of its own; when that is full the partition goes on in the entry at the global pointer, and so on, as a linked
list. Invariant: of a partition's entries only the last one may have room, so at most N / W < P entries are ever linked
and 2P suffice. The storage is not touched before it is used, so entries that nobody needs cost address space only.

Sealing a subwindow compacts it (`store.compacted`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Integers, Words
from ..compile.cache import compiled
from .words import LANES

SIGMA = 1.25
LAST_WORD = np.uint64(2**64 - 1)


class Entries(NamedTuple):
    """The arrays of a table, for compiled code."""

    words: Words
    """`width` words per entry, and `LANES` more that are read but not used."""
    width: int
    head: Integers
    """How many words there are in an entry."""
    following: Integers
    """The entry in which an entry's partition goes on, or -1."""
    last: Integers
    """The last entry of the partition that begins in an entry."""
    pointer: Integers
    """The one global pointer: the first entry that is not in use."""


class Partitions(NamedTuple):
    """What is known of each partition, by the number of its first entry."""

    lowest: Words
    """Its lowest word; 2**64 - 1 if it has none."""
    highest: Words
    """Its highest word; 0 if it has none."""
    upper: Words
    """The last word that belongs to it."""
    right: Integers
    """The next partition; the last one has none."""


@compiled
def append(entries, partition, word):  # type: ignore[no-untyped-def]
    """Add a word to the last entry of its partition, or to a new one."""
    entry = entries.last[partition]
    place = entries.head[entry]
    if place == entries.width:
        entries.following[entry] = entries.pointer[0]
        entry = entries.pointer[0]
        entries.last[partition] = entry
        entries.pointer[0] += 1
        place = 0
    entries.words[entry * entries.width + place] = word
    entries.head[entry] = place + 1


@compiled
def _copy(entries, firsts, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the entries of the partitions that begin in `firsts` to `out`, and note where each begins in `offsets`."""
    count = 0
    for partition in range(len(firsts)):
        offsets[partition] = count
        entry = firsts[partition]
        while entry >= 0:
            for slot in range(entry * entries.width, entry * entries.width + entries.head[entry]):
                out[count] = entries.words[slot]
                count += 1
            entry = entries.following[entry]
    offsets[len(firsts)] = count


@compiled
def _sizes(entries, firsts, sizes):  # type: ignore[no-untyped-def]
    """Count the words of the partitions that begin in `firsts`."""
    for partition in range(len(firsts)):
        entry = firsts[partition]
        while entry >= 0:
            sizes[partition] += entries.head[entry]
            entry = entries.following[entry]


class Llat:
    """The entries of a table. Each of the first `partitions` entries begins a partition."""

    def __init__(self, entries: int, width: int, partitions: int) -> None:
        self.entries = Entries(
            np.empty(entries * width + LANES, np.uint64),
            width,
            np.zeros(entries, np.int64),
            np.full(entries, -1, np.int64),
            np.arange(entries),
            np.array([partitions]),
        )

    def __len__(self) -> int:
        return len(self.entries.head)

    @property
    def used(self) -> int:
        """Entries up to the global pointer."""
        return int(self.entries.pointer[0])

    @property
    def nbytes(self) -> int:
        """Of the words, only the entries up to the global pointer: the others have not been touched."""
        _, width, head, following, last, _ = self.entries
        return self.used * width * 8 + head.nbytes + following.nbytes + last.nbytes

    def grow(self) -> None:
        """Make twice as many entries."""
        old, more = self.entries, Llat(2 * len(self), self.entries.width, self.used)
        more.entries.words[: len(old.words)] = old.words
        for kept, longer in zip(old[2:5], more.entries[2:5], strict=True):
            longer[: len(kept)] = kept
        self.entries = more.entries

    def sizes(self, firsts: Integers) -> Integers:
        """How many words there are in the partitions that begin in these entries."""
        sizes = np.zeros(len(firsts), np.int64)
        _sizes(self.entries, firsts, sizes)
        return sizes

    def compact(self, firsts: Integers, count: int) -> tuple[Integers, Words]:
        """Where each of these partitions begins and the last one ends, and their `count` words one after another.

        Behind the words, the array has room for `LANES` more.
        """
        offsets = np.empty(len(firsts) + 1, np.int64)
        words = np.empty(count + LANES, np.uint64)
        _copy(self.entries, firsts, offsets, words)
        return offsets, words


def width_of(capacity: int, partitions: int) -> int:
    """The width of entries of which two per partition suffice."""
    return max(math.ceil(capacity / partitions * SIGMA), 1)
