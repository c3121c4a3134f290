"""Wide B+-Tree (PanJoin, section III-C): words in wide unsorted leaves, which narrow sorted nodes lead to.

A leaf is a partition of an LLAT and has the number of its first entry; the global pointer starts at the first entry.
Separators are inclusive upper bounds, and no two are equal. Invariant: all words of one key are in one leaf, and a leaf
of more than one entry holds a single key.

When a word comes to a leaf whose first entry is full,

- it is added in a further entry if the leaf holds no other key than the word's;
- if its key is beyond all keys of the leaf, on either side, it starts a new leaf there. So keys that only increase, or
  only decrease batch by batch, leave full leaves behind. On the tree's right edge nodes too are split at their end;
- otherwise the leaf is sorted and split between two keys, as near to the middle as possible.

The gap between the keys at a split goes to the smaller of the two leaves. So a leaf of less than a third of the width
only stays beside a key that takes a third of the width or beside a full leaf, and only one on either side of these: N
words have O(N / width) leaves. The table starts with the paper's 2P entries, and doubles if these do not suffice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Integers, Places, Words
from ..compile.cache import compiled
from .compacted import Compacted
from .index import Opening
from .llat import LAST_WORD, SIGMA, Llat, Partitions, append
from .ordered import ordered_kind
from .partition_scan import BLOCK, Output, scan
from .wib_nodes import FANOUT, LEVELS, MOST_LEVELS, SPLITS, Nodes, add_child, descend, restart, root_path, seek
from .words import DONE, NEXT, PLACE_BITS, STOPPED, State, WordIndex

LEAF_WIDTH = 80


@compiled
def _ordered(words):  # type: ignore[no-untyped-def]
    """The words in ascending order. No two are equal, so the place of a word is the number of words below it: counting
    that is fast if they are few."""
    if len(words) > 2 * LEAF_WIDTH:
        return np.sort(words)
    ordered = np.empty_like(words)
    for i in range(len(words)):
        below = 0
        for k in range(len(words)):
            below += words[k] < words[i]
        ordered[below] = words[i]
    return ordered


@compiled
def _middle_boundary(ordered, place_mask):  # type: ignore[no-untyped-def]
    """Where the key nearest to the middle of the ordered words begins; there must be two keys."""
    half = len(ordered) // 2
    for distance in range(len(ordered)):
        for k in (half - distance, half + distance):
            if 0 < k < len(ordered) and ordered[k - 1] | place_mask != ordered[k] | place_mask:
                return k
    return 0


@compiled
def _split(entries, leaves, place_mask, leaf, word):  # type: ignore[no-untyped-def]
    """Split a full leaf that the word must not be added to; returns the separator and the new leaf, right of it."""
    words, width, head, following, last, pointer = entries
    lowest, highest, upper, right = leaves
    added = pointer[0]
    pointer[0] += 1
    low, high = lowest[leaf], highest[leaf]
    old, new = leaf * width, added * width
    # The new leaf is empty, or takes all words of the old one, or takes the upper ones.
    if word > high | place_mask:
        separator = high | place_mask
    elif word | place_mask < low:
        separator = (low & ~place_mask) - np.uint64(1)
        words[new : new + width] = words[old : old + width]
        head[added], head[leaf] = head[leaf], 0
        following[added], following[leaf] = following[leaf], -1
        if last[leaf] != leaf:
            last[added], last[leaf] = last[leaf], leaf
        lowest[added], highest[added] = low, high
        lowest[leaf], highest[leaf] = LAST_WORD, np.uint64(0)
    else:
        ordered = _ordered(words[old : old + width])
        kept = _middle_boundary(ordered, place_mask)
        words[old : old + kept] = ordered[:kept]
        words[new : new + width - kept] = ordered[kept:]
        head[leaf], head[added] = kept, width - kept
        highest[leaf], lowest[added], highest[added] = ordered[kept - 1], ordered[kept], high
        if kept < width - kept:
            separator = (ordered[kept] & ~place_mask) - np.uint64(1)
        else:
            separator = ordered[kept - 1] | place_mask
    upper[added], upper[leaf] = upper[leaf], separator
    right[added], right[leaf] = right[leaf], added
    return separator, added


@compiled
def _insert(batch, nodes, entries, leaves, place_mask):  # type: ignore[no-untyped-def]
    """Insert words while there are free entries; returns how many."""
    lowest, highest = leaves.lowest, leaves.highest
    path = root_path(nodes)
    leaf, bound = descend(nodes, path, nodes.tree[LEVELS] - 1, batch[0])
    for i in range(len(batch)):
        word = batch[i]
        if word > bound:
            leaf, bound = seek(nodes, path, word)
        if entries.head[leaf] == entries.width:
            if entries.pointer[0] == len(entries.head):
                return i
            key = word | place_mask
            if lowest[leaf] | place_mask != key or highest[leaf] | place_mask != key:
                separator, added = _split(entries, leaves, place_mask, leaf, word)
                add_child(nodes, path, separator, added)
                nodes.tree[SPLITS] += 1
                leaf, bound = descend(nodes, path, restart(nodes, path), word)
        append(entries, leaf, word)
        lowest[leaf] = min(lowest[leaf], word)
        highest[leaf] = max(highest[leaf], word)
    return len(batch)


@compiled
def _probe(nodes, entries, leaves, place_mask, low, high, out, state):  # type: ignore[no-untyped-def]
    """Find the leaves of a block of ranges, then scan them, until the outputs are full or all ranges are done."""
    firsts = np.empty(BLOCK, np.int64)
    found = 0
    path = root_path(nodes)
    leaf, bound = descend(nodes, path, nodes.tree[LEVELS] - 1, np.uint64(0))
    for begin in range(state[NEXT], len(low), BLOCK):
        block = firsts[: min(BLOCK, len(low) - begin)]
        for i in range(len(block)):
            if low[begin + i] > bound:
                leaf, bound = seek(nodes, path, low[begin + i])
            block[i] = leaf
        found = scan(entries, leaves, block, begin, low, high, place_mask, out, found, state)
        if state[STOPPED] > 0:
            return found
    state[NEXT] = DONE
    return found


@compiled
def _follow(right, leaves):  # type: ignore[no-untyped-def]
    """Note the leaves from left to right."""
    leaf = 0
    for k in range(len(leaves)):
        leaves[k] = leaf
        leaf = right[leaf]


class WibTree(WordIndex):
    """A `WordIndex` of at most `capacity` words in leaves of `leaf_width` words."""

    def __init__(self, capacity: int, place_bits: int, leaf_width: int | None = None) -> None:
        self.count = 0
        self._place_mask = np.uint64((1 << place_bits) - 1)
        self._sealed: Compacted | None = None
        width = max(leaf_width or LEAF_WIDTH, 2)
        self._table = Llat(max(math.ceil(2 * SIGMA * capacity / width), 8), width, 1)
        self._tree = np.array([0, 1, 1, 0])
        self._leaves, self._nodes = self._empty()

    def _empty(self) -> tuple[Partitions, Nodes]:
        """Arrays for as many leaves as entries. Nodes have more than FANOUT / 2 children, except on the right edge."""
        entries = len(self._table)
        nodes = 2 * entries // FANOUT + MOST_LEVELS
        leaves = Partitions(
            np.full(entries, LAST_WORD),
            np.zeros(entries, np.uint64),
            np.full(entries, LAST_WORD),
            np.full(entries, -1, np.int64),
        )
        return leaves, Nodes(
            np.empty((nodes, FANOUT + 1), np.uint64),
            np.zeros((nodes, FANOUT + 2), np.int64),
            np.zeros(nodes, np.int64),
            self._tree,
        )

    def _grow(self) -> None:
        self._table.grow()
        longer = self._empty()
        for old, new in zip((*self._leaves, *self._nodes[:3]), (*longer[0], *longer[1][:3]), strict=True):
            new[: len(old)] = old
        self._leaves, self._nodes = longer

    @property
    def nbytes(self) -> int:
        if self._sealed is not None:
            return self._sealed.nbytes
        return self._table.nbytes + sum(part.nbytes for part in (*self._leaves, *self._nodes))

    def insert(self, words: Words) -> None:
        """Add each word to its leaf, going on from the path to the previous word's leaf."""
        self.count += len(words)
        while len(words):
            words = words[_insert(words, self._nodes, self._table.entries, self._leaves, self._place_mask) :]
            if len(words):
                self._grow()

    def probe(self, low: Words, high: Words, out_range: Places, out_place: Places, state: State) -> int:
        """Scan the leaves from that of a range's low end on, and copy those it covers (section III-F2)."""
        out = Output(out_range, out_place)
        if self._sealed is not None:
            return self._sealed.probe(self._place_mask, low, high, out, state)
        return _probe(self._nodes, self._table.entries, self._leaves, self._place_mask, low, high, out, state)

    def seal(self) -> None:
        """The leaves' upper bounds become one sorted array, and the nodes are no longer needed."""
        if self._sealed is not None:
            return
        order = self._order()
        lowest, highest, upper, _ = self._leaves
        self._sealed = Compacted(lowest[order], highest[order], upper[order], *self._table.compact(order, self.count))
        del self._table, self._leaves, self._nodes

    def _order(self) -> Integers:
        """The leaves from left to right."""
        order = np.empty(self._tree[SPLITS] + 1, np.int64)
        _follow(self._leaves.right, order)
        return order

    def figures(self) -> dict[str, Any]:
        splits = int(self._tree[SPLITS])
        return {"leaves": splits + 1, "height": int(self._tree[LEVELS]) + 1, "splits": splits}


def _open(opening: Opening, before: WordIndex | None) -> WordIndex:
    return WibTree(opening.capacity, PLACE_BITS)


KIND = ordered_kind("wib-tree", _open)
