"""Words: a tuple's key and its place in the subwindow, packed into 64 bits.

    word = key << place_bits | place

The order of words is the order of keys, and of places among equal keys; so a set of words serves as an index over a
subwindow whatever the predicate's types are, and one compiled kernel per structure serves every predicate. A range of
keys is a range of words: [first << place_bits, last << place_bits | place_mask].
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import Places, Words

State = npt.NDArray[np.int64]


AT_ONCE = 16
"""The most places that an index writes at once."""


class WordIndex(Protocol):
    """A set of words that are found by range: BI-Sort, RaP-Table or WiB+-Tree.

    One thread inserts; several may probe at once while none inserts, each with its own outputs and state.
    """

    count: int

    @property
    def nbytes(self) -> int: ...

    def insert(self, words: Words) -> None:
        """Add words, which are in ascending order and not there yet; the caller has checked that they fit."""

    def probe(self, low: Words, high: Words, out_range: Places, out_place: Places, state: State) -> int:
        """Find, for each range i, all words w with low[i] <= w <= high[i] (none where low[i] > high[i]).

        `low` is in ascending order. Writes (i, place of w) to the outputs, in any order, until they have no room for
        another AT_ONCE, and returns how many it wrote. `state` is four integers, zero at first: the index keeps in it
        where to go on; state[0] is -1 once it is through, state[1] counts the words that were compared.
        """

    def seal(self) -> None:
        """No more words will come: the index may be made smaller and faster."""

    def figures(self) -> dict[str, Any]:
        """What is worth knowing about the state of the index, for metrics."""


def place_bits_of(capacity: int) -> int:
    """How many bits number the places of a subwindow."""
    return max((capacity - 1).bit_length(), 1)
