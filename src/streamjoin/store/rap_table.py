"""Range Partition Table (PanJoin, section III-B): words in partitions that were computed from the previous subwindow.

Partition p holds the words in (splitters[p - 1], splitters[p]], in no order, in the entries of an LLAT. The splitters
do not change while the table fills. The table of the next subwindow computes its own from the histogram of this one:
how many words each partition has, the lowest and the highest (Algorithm 1). Splitters are words, not keys. So tuples of
one frequent key are spread evenly too: they differ in their places, and places are the same in every subwindow.

A table without a predecessor, or with one of fewer words than partitions, knows nothing. Even splitters over 64 bits
would put nearly all words into very few partitions, so it learns from the first words that it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Integers, Places, Words
from ..compile.cache import compiled
from .compacted import Compacted
from .index import Opening
from .llat import LAST_WORD, Llat, Partitions, append, width_of
from .ordered import ordered_kind
from .partition_scan import BLOCK, Output, locate, rebound, scan
from .words import DONE, NEXT, PLACE_BITS, STOPPED, Histogram, State, WordIndex

PARTITION_SIZE = 64
MOST_PARTITIONS = 65_536
SAMPLE = 4_096
"""A table that has seen this many words of its own keeps its splitters."""


@compiled
def _share(span, numerator, denominator):  # type: ignore[no-untyped-def]
    """floor(span * numerator / denominator), exactly, for numerator <= denominator < 2**47: by digits of 16 bits."""
    quotient, rest = np.uint64(0), np.uint64(0)
    for shift in (48, 32, 16, 0):
        digit = (span >> np.uint64(shift)) & np.uint64(0xFFFF)
        rest = (rest << np.uint64(16)) + digit * numerator
        quotient = (quotient << np.uint64(16)) + rest // denominator
        rest %= denominator
    return quotient


@compiled
def _adjust(count, low, high, splitters):  # type: ignore[no-untyped-def]
    """See `adjusted_splitters`."""
    partitions = len(splitters)
    total = count.sum()
    before = 0
    j = 1
    for i in range(len(count)):
        # Splitter j has total * j / partitions words up to it: all quantities times `partitions` are integers.
        while j < partitions and total * j <= (before + count[i]) * partitions:
            share = np.uint64(total * j - before * partitions)
            splitters[j - 1] = low[i] + _share(high[i] - low[i], share, np.uint64(count[i] * partitions))
            j += 1
        before += count[i]
    splitters[partitions - 1] = LAST_WORD


def adjusted_splitters(count: Integers, low: Words, high: Words, partitions: int) -> Words:
    """Algorithm 1: where to split so that words with the same distribution make partitions of equal size.

    `count`, `low` and `high` are the number of words of each old partition, the lowest and the highest. Inside a
    partition, words are taken to be uniform. So if `before` words are in the partitions before partition i, and
    balance = total / partitions * j falls into it:

        splitter j = low[i] + (balance - before) / count[i] * (high[i] - low[i])

    computed in integers. There must be a word, fewer than 2**31 in all, and at most 65,536 partitions.
    """
    splitters = np.empty(partitions, np.uint64)
    _adjust(count, low, high, splitters)
    return splitters


def even_splitters(partitions: int) -> Words:
    """Split the range of all words into equal parts."""
    one = np.ones(1, np.int64)
    return adjusted_splitters(one, np.zeros(1, np.uint64), np.full(1, LAST_WORD), partitions)


def sampled_splitters(words: Words, partitions: int) -> Words:
    """The quantiles of at least two words in ascending order, interpolated if there are too few."""
    return adjusted_splitters(np.ones(len(words) - 1, np.int64), words[:-1], words[1:], partitions)


@compiled
def _insert(batch, partitions, entries):  # type: ignore[no-untyped-def]
    """Append each word of an ascending batch to its partition."""
    lowest, highest, splitters, _ = partitions
    partition = 0
    for word in batch:
        partition = rebound(splitters, partition, word)
        append(entries, partition, word)
        lowest[partition] = min(lowest[partition], word)
        highest[partition] = max(highest[partition], word)


@compiled
def _probe(partitions, entries, place_mask, low, high, out, state):  # type: ignore[no-untyped-def]
    """Locate a block of ranges, then scan their partitions, until the outputs are full or all ranges are done."""
    firsts = np.empty(BLOCK, np.int64)
    found, last = 0, 0
    for begin in range(state[NEXT], len(low), BLOCK):
        block = firsts[: min(BLOCK, len(low) - begin)]
        last = locate(partitions.upper, last, low[begin : begin + len(block)], block)
        found = scan(entries, partitions, block, begin, low, high, place_mask, out, found, state)
        if state[STOPPED] > 0:
            return found
    state[NEXT] = DONE
    return found


class RapTable(WordIndex):
    """A `WordIndex` of at most `capacity` words; `predecessor` is the index of the previous subwindow."""

    def __init__(
        self,
        capacity: int,
        place_bits: int,
        predecessor: WordIndex | None = None,
        partitions: int | None = None,
    ) -> None:
        self.count = 0
        self.partitions = partitions or min(max(capacity // PARTITION_SIZE, 4), MOST_PARTITIONS)
        self._capacity = capacity
        self._place_mask = np.uint64((1 << place_bits) - 1)
        self._sealed: Compacted | None = None
        self._outside = 0
        self._foretold: tuple[np.uint64, np.uint64] | None = None
        self._sample = 0
        self._learning = True
        self.adjustments = 0
        splitters = even_splitters(self.partitions)
        known = None if predecessor is None or not predecessor.count else predecessor.histogram()
        if known is not None:
            count, low, high, adjustments = known
            self._foretold = low.min(), high.max()
            if count.sum() >= self.partitions:
                self._learning = False
                self.adjustments = adjustments + 1
                splitters = adjusted_splitters(count, low, high, self.partitions)
        self._clear(splitters)

    def _clear(self, splitters: Words) -> None:
        self.count = 0
        n = self.partitions
        self._partitions = Partitions(np.full(n, LAST_WORD), np.zeros(n, np.uint64), splitters, np.arange(1, n + 1))
        self._table = Llat(2 * n, width_of(self._capacity, n), n)

    @property
    def nbytes(self) -> int:
        if self._sealed is not None:
            return self._sealed.nbytes
        return self._table.nbytes + sum(part.nbytes for part in self._partitions)

    def insert(self, words: Words) -> None:
        """Partition the words by rebounding search (section III-E) and append each to its partition."""
        if self._foretold is not None:
            within = np.searchsorted(words, self._foretold[1], "right") - np.searchsorted(words, self._foretold[0])
            self._outside += len(words) - int(within)
        if self._learning:
            words = self._learn(words)
        _insert(words, self._partitions, self._table.entries)
        self.count += len(words)

    def _learn(self, words: Words) -> Words:
        """Start again with splitters for all words so far, each time they are twice as many; returns what to insert."""
        if self.count + len(words) < max(2 * self._sample, 2):
            return words
        words = np.sort(np.concatenate([self._compact()[1][: self.count], words]))
        self._sample = len(words)
        self._learning = self._sample < SAMPLE
        self._clear(sampled_splitters(words, self.partitions))
        return words

    def probe(self, low: Words, high: Words, out_range: Places, out_place: Places, state: State) -> int:
        """Scan the partitions of a range's ends, and copy those between them (section III-F2)."""
        out = Output(out_range, out_place)
        if self._sealed is not None:
            return self._sealed.probe(self._place_mask, low, high, out, state)
        return _probe(self._partitions, self._table.entries, self._place_mask, low, high, out, state)

    def seal(self) -> None:
        """Compact the partitions; the histogram stays."""
        if self._sealed is not None:
            return
        self._sealed = Compacted(*self._partitions[:3], *self._compact())
        self._reserved = self._table.used - self.partitions
        del self._table, self._partitions

    def _compact(self) -> tuple[Integers, Words]:
        return self._table.compact(np.arange(self.partitions), self.count)

    def histogram(self) -> Histogram:
        if self._sealed is not None:
            return Histogram(np.diff(self._sealed.offsets), self._sealed.lowest, self._sealed.highest, self.adjustments)
        sizes = self._table.sizes(np.arange(self.partitions))
        return Histogram(sizes, self._partitions.lowest, self._partitions.highest, self.adjustments)

    def drift(self) -> float:
        """The share of the words that are beyond the predecessor's lowest or highest: such words are not spread."""
        return self._outside / max(self.count, 1)

    def figures(self) -> dict[str, Any]:
        """`error` is the mean absolute error of the partitions' sizes, relative to that of equal partitions."""
        equal = self.count / self.partitions
        error = float(np.abs(self.histogram().counts - equal).mean()) / equal if self.count else 0.0
        reserved = self._reserved if self._sealed is not None else self._table.used - self.partitions
        return {
            "partitions": self.partitions,
            "error": error,
            "adjustments": self.adjustments,
            "reserved_entries": reserved,
            "drift": self.drift(),
        }


def _open(opening: Opening, before: WordIndex | None) -> WordIndex:
    return RapTable(opening.capacity, PLACE_BITS, before)


KIND = ordered_kind("rap-table", _open)
