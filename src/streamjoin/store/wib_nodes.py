"""The nodes of a WiB+-Tree: finding the leaf of a word, and making room for a new leaf."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Integers, Words
from ..compile.cache import compiled
from .llat import LAST_WORD

FANOUT = 64
"""Separators of a node."""
MOST_LEVELS = 16
ROOT, LEVELS, NODES, SPLITS = range(4)
"""Numbers of a tree: its root, the levels above the leaves, the nodes, and the splits of leaves so far."""


class Nodes(NamedTuple):
    """The arrays of all nodes. Node n has sizes[n] separators and one child more.

    There is room for one separator too many; the node is split then.
    """

    separators: Words
    children: Integers
    sizes: Integers
    tree: Integers
    """Numbers of the whole tree, at the places ROOT, LEVELS, NODES and SPLITS."""


class Path(NamedTuple):
    """The way to a leaf: at each level above the leaves a node, a position in it, and the last word below the node."""

    nodes: Integers
    positions: Integers
    bounds: Words


@compiled
def root_path(nodes):  # type: ignore[no-untyped-def]
    """A new path that has only reached the root."""
    path = Path(np.empty(MOST_LEVELS, np.int64), np.empty(MOST_LEVELS, np.int64), np.empty(MOST_LEVELS, np.uint64))
    restart(nodes, path)
    return path


@compiled
def restart(nodes, path):  # type: ignore[no-untyped-def]
    """Go back to the root; returns its level."""
    top = nodes.tree[LEVELS] - 1
    path.nodes[top] = nodes.tree[ROOT]
    path.positions[top] = 0
    path.bounds[top] = LAST_WORD
    return top


@compiled
def descend(nodes, path, level, word):  # type: ignore[no-untyped-def]
    """Find the leaf of a word below the path's node at a level, by rebounding search from the path's position on.

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
def seek(nodes, path, word):  # type: ignore[no-untyped-def]
    """Find the leaf of a word above those of the path's leaf; go up only as far as needed (section III-E)."""
    level = 0
    while word > path.bounds[level]:
        level += 1
    return descend(nodes, path, level, word)


@compiled
def add_child(nodes, path, separator, child):  # type: ignore[no-untyped-def]
    """Put a child with the words above a separator right of the path's leaf, and split nodes that are too full."""
    separators, children, sizes, tree = nodes
    level = 0
    while True:
        node, position = path.nodes[level], path.positions[level]
        size = sizes[node]
        # Insert the separator and the child behind the position.
        for k in range(size, position, -1):
            separators[node, k] = separators[node, k - 1]
            children[node, k + 1] = children[node, k]
        separators[node, position] = separator
        children[node, position + 1] = child
        sizes[node] = size + 1
        if size < FANOUT:
            return
        # The node is too full: move the upper part to a new node, which the level above gets as a further child.
        middle = FANOUT - 1 if position == size and path.bounds[level] == LAST_WORD else FANOUT // 2
        added = tree[NODES]
        tree[NODES] += 1
        for k in range(middle + 1, FANOUT + 1):
            separators[added, k - middle - 1] = separators[node, k]
        for k in range(middle + 1, FANOUT + 2):
            children[added, k - middle - 1] = children[node, k]
        sizes[added] = FANOUT - middle
        sizes[node] = middle
        separator, child = separators[node, middle], added
        level += 1
        if level == tree[LEVELS]:
            tree[ROOT] = tree[NODES]
            tree[LEVELS] += 1
            tree[NODES] += 1
            children[tree[ROOT], 0] = node
            restart(nodes, path)
