"""Words: a tuple's key and its place in the subwindow, packed into 64 bits.

    word = key << place_bits | place

Words are ordered by key, and words of equal keys by place. So a set of words can index a subwindow whatever the types
of the predicate are, and one compiled kernel per structure serves every predicate. A range of keys is a range of words:
[first << place_bits, last << place_bits | place_mask].

A probe may stop because its outputs are full. Its `State` says where to go on.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, Places, Words
from ..tasks import Walk

PLACE_BITS = 22
"""Bits of a word that hold the place of a tuple in its subwindow; the key has the other 42."""
LANES = AT_ONCE = 16
"""Words that are compared at once, and so the most places that an index writes at once."""

State = npt.NDArray[np.int64]
NEXT, COMPARED, STOPPED, PARTITION, RUN = range(5)
"""The integers of a `State`, by place:

NEXT: the range to go on with (for scans the unit of work, for hash tables the probing tuple), or `DONE`.
COMPARED: how many comparisons were made so far.
STOPPED: 1 + the place of the word or tuple where the outputs were full; 0 if range `NEXT` has not begun.
PARTITION: the partition of that word.
RUN: the run to go on with, where words lie in several.
"""
DONE = -1
MOST_WORDS, MOST_TUPLES = 1 << 28, 1 << 22
"""Comparisons of one call of a search with words side by side, or with tuples here and there: about a tenth of a
second, so that Ctrl-C is soon seen."""


def new_state() -> State:
    """The state of a probe that has not begun."""
    return np.zeros(5, np.int64)


class RunPlace(NamedTuple):
    """Where an ascending run of words lies in memory, and its samples (see `store.runs`)."""

    words: int
    word_count: int
    samples: int
    sample_count: int


class Histogram(NamedTuple):
    """How the words of an index are distributed over partitions, in ascending order."""

    counts: Integers
    lowest: Words
    """The lowest word of each partition; 2**64 - 1 where there is none."""
    highest: Words
    """The highest word of each partition; 0 where there is none."""
    adjustments: int
    """How many indexes in a row have learnt from the one before."""


class WordIndex(Protocol):
    """A set of words that are found by range. Invariant: a probe finds each word in a range once.

    One thread inserts. Several may probe at once while none inserts, each with its own outputs and state.
    """

    count: int

    @property
    def nbytes(self) -> int: ...

    def insert(self, words: Words) -> None:
        """Add words in ascending order that are not there yet; the caller has checked that they fit."""

    def inserting(self, words: Words, count: int) -> Walk:
        """The same in stages. The array is given away: it has room for padding behind the first `count` words."""
        self.insert(words[:count])
        yield from ()

    def sealing(self) -> Walk:
        """`seal` in stages."""
        self.seal()
        yield from ()

    def probe(self, low: Words, high: Words, out_range: Places, out_place: Places, state: State) -> int:
        """Find, for each range i, all words w with low[i] <= w <= high[i] (none where low[i] > high[i]).

        `low` is in ascending order. Writes (i, place of w) to the outputs, in any order, until they have no room for
        another AT_ONCE, and returns how many it wrote. `state` is new at first, and says where to go on after that;
        state[NEXT] is DONE once all words are found.
        """

    @property
    def runs(self) -> list[RunPlace] | None:
        """Where the words lie, if the index keeps all of them in ascending runs; else it is always None.

        A window probes the runs of many indexes in one call, instead of each index by itself.
        """
        return None

    def histogram(self) -> Histogram | None:
        """What the index of the next subwindow may learn from; None if nothing is known."""
        return None

    def seal(self) -> None:
        """No more words will come: the index may make itself smaller and faster."""

    def release(self) -> None:
        """All words have expired: the index may give its memory to others."""
        return

    def figures(self) -> dict[str, Any]:
        """What is worth knowing about the state of the index, for metrics."""


def place_bits_of(capacity: int) -> int:
    """How many bits number the places of a subwindow."""
    return max((capacity - 1).bit_length(), 1)
