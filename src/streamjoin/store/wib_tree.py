"""Wide B+-Tree (PanJoin, section III-C): words in wide unsorted leaves, which narrow sorted nodes lead to.

A leaf is a partition of an LLAT and bears the number of its first entry; the global pointer starts at the first entry.
Separators are inclusive upper bounds, no two are equal, and all words of one key are in one leaf. Invariant: a leaf of
more than one entry holds a single key.

When a word comes to a leaf whose first entry is full,

- it is added in a further entry if the leaf holds no other key than the word's;
- if its key is beyond all keys of the leaf, on either side, it starts a new leaf there. Keys that only increase, or
  only decrease batch by batch, so leave full leaves behind; nodes too are split at their end on the tree's right edge;
- otherwise the leaf is sorted and split between two keys, as near to the middle as there is such a place.

The gap between the keys at a split goes to the smaller of the two leaves. A leaf of less than a third of the width is
then only left beside a key that takes a third of the width or beside a full leaf, and once on either side of these: the
leaves of N words are O(N / width). They start with the paper's 2P entries, and double should these not suffice.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Places, Words
from ..compile.cache import compiled
from .llat import BLOCK, LAST_WORD, SIGMA, Compacted, Links, Llat, Output, Partitions, append, scan
from .words import State

LEAF_WIDTH = 80
FANOUT = 64
"""Separators of a node."""
MOST_LEVELS = 16


class Nodes(NamedTuple):
    """Per node: `sizes` separators, and one child more. There is room for one too many, until the node is split."""

    separators: Words
    children: Links
    sizes: Links
    tree: Links
    """The root, the levels above the leaves, the nodes, and the splits of leaves so far."""


class Path(NamedTuple):
    """Per level above the leaves: a node, a position in it, and the last word that belongs below the node."""

    nodes: Links
    positions: Links
    bounds: Words


@compiled
def _root(nodes):  # type: ignore[no-untyped-def]
    """A path that starts at the root and leads nowhere yet."""
    path = Path(np.empty(MOST_LEVELS, np.int64), np.empty(MOST_LEVELS, np.int64), np.empty(MOST_LEVELS, np.uint64))
    _restart(nodes, path)
    return path


@compiled
def _restart(nodes, path):  # type: ignore[no-untyped-def]
    top = nodes.tree[1] - 1
    path.nodes[top] = nodes.tree[0]
    path.positions[top] = 0
    path.bounds[top] = LAST_WORD
    return top


@compiled
def _descend(nodes, path, level, word):  # type: ignore[no-untyped-def]
    """Find the leaf of a word from the path's node at a level down, from its position there on by rebounding search.

    Returns the leaf and the last word that belongs to it.
    """
    separators, children, sizes, _ = nodes
    nodes_, positions, bounds = path
    start = positions[level]
    while True:
        node = nodes_[level]
        size = sizes[node]
        below, reached, step = start - 1, start, 1
        while reached < size and separators[node, reached] < word:
            below = reached
            reached += step
            step *= 2
        reached = min(reached, size)
        while reached - below > 1:
            middle = (below + reached) >> 1
            if separators[node, middle] < word:
                below = middle
            else:
                reached = middle
        positions[level] = reached
        bound = separators[node, reached] if reached < size else bounds[level]
        child = children[node, reached]
        if level == 0:
            return child, bound
        level -= 1
        nodes_[level] = child
        bounds[level] = bound
        start = 0


@compiled
def _seek(nodes, path, word):  # type: ignore[no-untyped-def]
    """Find the leaf of a word above those of the path's leaf: go back no further up than needed (section III-E)."""
    level = 0
    while word > path.bounds[level]:
        level += 1
    return _descend(nodes, path, level, word)


@compiled
def _add_child(nodes, path, separator, child):  # type: ignore[no-untyped-def]
    """Put a child with the words above a separator right of the path's leaf, and split nodes that are too full."""
    separators, children, sizes, tree = nodes
    level = 0
    while True:
        node, position = path.nodes[level], path.positions[level]
        size = sizes[node]
        for k in range(size, position, -1):
            separators[node, k] = separators[node, k - 1]
            children[node, k + 1] = children[node, k]
        separators[node, position] = separator
        children[node, position + 1] = child
        sizes[node] = size + 1
        if size < FANOUT:
            return
        middle = FANOUT - 1 if position == size and path.bounds[level] == LAST_WORD else FANOUT // 2
        added = tree[2]
        tree[2] += 1
        for k in range(middle + 1, FANOUT + 1):
            separators[added, k - middle - 1] = separators[node, k]
        for k in range(middle + 1, FANOUT + 2):
            children[added, k - middle - 1] = children[node, k]
        sizes[added] = FANOUT - middle
        sizes[node] = middle
        separator, child = separators[node, middle], added
        level += 1
        if level == tree[1]:
            tree[0] = tree[2]
            tree[1] += 1
            tree[2] += 1
            children[tree[0], 0] = node
            _restart(nodes, path)


@compiled
def _ordered(words):  # type: ignore[no-untyped-def]
    """The words in ascending order; where they are few, by counting how many are below each: no two are equal."""
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
    """Where a key of the ordered words begins, next to the middle; there must be two keys."""
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
    """Insert the words up to where the entries may run out; returns how many."""
    lowest, highest = leaves.lowest, leaves.highest
    path = _root(nodes)
    leaf, bound = _descend(nodes, path, nodes.tree[1] - 1, batch[0])
    for i in range(len(batch)):
        word = batch[i]
        if word > bound:
            leaf, bound = _seek(nodes, path, word)
        if entries.head[leaf] == entries.width:
            if entries.pointer[0] == len(entries.head):
                return i
            key = word | place_mask
            if lowest[leaf] | place_mask != key or highest[leaf] | place_mask != key:
                separator, added = _split(entries, leaves, place_mask, leaf, word)
                _add_child(nodes, path, separator, added)
                nodes.tree[3] += 1
                leaf, bound = _descend(nodes, path, _restart(nodes, path), word)
        append(entries, leaf, word)
        lowest[leaf] = min(lowest[leaf], word)
        highest[leaf] = max(highest[leaf], word)
    return len(batch)


@compiled
def _probe(nodes, entries, leaves, place_mask, low, high, out, state):  # type: ignore[no-untyped-def]
    firsts = np.empty(BLOCK, np.int64)
    found = 0
    path = _root(nodes)
    leaf, bound = _descend(nodes, path, nodes.tree[1] - 1, np.uint64(0))
    for begin in range(state[0], len(low), BLOCK):
        block = firsts[: min(BLOCK, len(low) - begin)]
        for i in range(len(block)):
            if low[begin + i] > bound:
                leaf, bound = _seek(nodes, path, low[begin + i])
            block[i] = leaf
        found = scan(entries, leaves, block, begin, low, high, place_mask, out, found, state)
        if state[2] > 0:
            return found
    state[0] = -1
    return found


@compiled
def _follow(right, leaves):  # type: ignore[no-untyped-def]
    leaf = 0
    for k in range(len(leaves)):
        leaves[k] = leaf
        leaf = right[leaf]


class WibTree:
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
        """For all entries to be leaves. Nodes have more than FANOUT / 2 children, but for those on the right edge."""
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

    def _order(self) -> Links:
        """The leaves from left to right."""
        order = np.empty(self._tree[3] + 1, np.int64)
        _follow(self._leaves.right, order)
        return order

    def figures(self) -> dict[str, Any]:
        splits = int(self._tree[3])
        return {"leaves": splits + 1, "height": int(self._tree[1]) + 1, "splits": splits}
