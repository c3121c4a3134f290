"""WiB+-Tree: it stays a tree without duplicate separators, and its leaves are well filled."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamjoin.store.wib_nodes import FANOUT, LEVELS, NODES, ROOT
from streamjoin.store.wib_tree import WibTree
from streamjoin.store.words import COMPARED, LANES, new_state

from .words import LAST_KEY, PLACE_BITS, batches, check, key_range, numbered

EVERYTHING = (0, 2**64 - 1)


def check_tree(tree: WibTree) -> None:
    """The separators ascend without duplicates, bound what is below them, and keys are not divided."""
    entries, mask = tree._table.entries, (1 << PLACE_BITS) - 1
    leaves: list[int] = []
    separators: list[int] = []

    def visit(node: int, level: int, low: int, high: int) -> None:
        size = int(tree._nodes.sizes[node])
        assert size <= FANOUT
        assert size > 0 or tree._tree[ROOT] == node
        own = tree._nodes.separators[node, :size].tolist()
        bounds = [*own, high]
        for k, child in enumerate(tree._nodes.children[node, : size + 1].tolist()):
            below = low if k == 0 else own[k - 1] + 1
            assert below <= bounds[k]
            if level > 1:
                visit(child, level - 1, below, bounds[k])
            else:
                check_leaf(child, below, bounds[k])
            if k < size:
                separators.append(own[k])

    def check_leaf(leaf: int, low: int, high: int) -> None:
        assert tree._leaves.upper[leaf] == high
        leaves.append(leaf)
        words: list[int] = []
        entry, chained = leaf, 0
        while entry >= 0:
            words += entries.words[entry * entries.width :][: entries.head[entry]].tolist()
            entry, chained = int(entries.following[entry]), chained + 1
        assert words or tree.count == 0
        if words:
            assert low <= min(words) == tree._leaves.lowest[leaf]
            assert high >= max(words) == tree._leaves.highest[leaf]
            assert low & mask == 0
            assert high & mask == mask
        assert chained == 1 or len({word >> PLACE_BITS for word in words}) == 1

    root, height = int(tree._tree[ROOT]), int(tree._tree[LEVELS])
    visit(root, height, 0, 2**64 - 1)
    in_order = tree._leaves.upper[leaves].tolist()[:-1]
    assert sorted(separators) == in_order
    assert all(a < b for a, b in pairwise(in_order))
    assert leaves == tree._order().tolist()
    assert tree._tree[NODES] <= len(tree._nodes.sizes)


def filled(batches_: list[list[int]], width: int, capacity: int | None = None) -> tuple[WibTree, list[int]]:
    tree = WibTree(capacity or max(sum(map(len, batches_)), 1), PLACE_BITS, width)
    words: list[int] = []
    for batch in batches_:
        new = numbered(batch, len(words))
        tree.insert(new)
        words += new.tolist()
        check_tree(tree)
    return tree, words


@given(batches(), st.sampled_from([1, 2, 3, 8, 80]))
@example([[7] * 40, [6], [8], [7] * 5], 4)
@example([[0, LAST_KEY] * 9, [1, LAST_KEY - 1]], 2)
@example([[5] * 8 + [9] * 7, [7], [6]], 8)
def test_a_tree_stays_a_tree_and_its_figures_stay(batches_: list[list[int]], width: int) -> None:
    tree, _ = filled(batches_, width)
    figures = tree.figures()
    tree.seal()
    assert tree.figures() == figures


@given(st.integers(0, 2**32), st.sampled_from([2, 8, 200]))
def test_deep_trees(seed: int, width: int) -> None:
    random = np.random.default_rng(seed)
    kinds = [random.integers(0, 2**40, 250), random.integers(0, 60, 250), np.arange(250) + 10**6, 9000 - np.arange(250)]
    keys = np.concatenate([kinds[k] for k in random.permutation(4)])
    cuts = np.sort(random.integers(0, 1000, 5))
    tree, words = filled([part.tolist() for part in np.split(keys, cuts)], width)
    chosen = random.choice(keys, 30).tolist()
    ranges_ = [key_range(key, key + int(random.integers(0, 100))) for key in chosen]
    check(tree, words, ranges_)
    assert width > 8 or tree.figures()["height"] >= 3


def fill(tree: WibTree) -> float:
    return tree.count / (tree.figures()["leaves"] * tree._table.entries.width)


def shuffled_batches(keys: np.ndarray, size: int) -> list[list[int]]:
    random = np.random.default_rng(1)
    return [random.permutation(keys[k : k + size]).tolist() for k in range(0, len(keys), size)]


@pytest.mark.parametrize("step", [1, 1000])
def test_increasing_keys_leave_full_leaves_and_nodes(step: int) -> None:
    tree, words = filled(shuffled_batches(np.arange(0, 1000 * step, step), 100), 4)
    assert fill(tree) > 0.95
    assert tree._tree[NODES] <= 1 + 250 // (FANOUT - 2) + 1
    check(tree, words, [key_range(k * step, (k + 3) * step) for k in range(0, 1000, 50)])


def test_nearly_increasing_keys_leave_well_filled_leaves() -> None:
    late = np.arange(1000) - np.random.default_rng(1).integers(0, 30, 1000) + 100
    tree, _ = filled(shuffled_batches(late, 50), 16)
    assert fill(tree) > 0.6


def test_batches_of_decreasing_keys_leave_well_filled_leaves() -> None:
    tree, _ = filled(shuffled_batches(np.arange(1000), 100)[::-1], 8)
    assert fill(tree) > 0.85


def test_random_keys_leave_leaves_as_full_as_any_b_tree() -> None:
    tree, _ = filled(shuffled_batches(np.random.default_rng(3).integers(0, 2**40, 1000), 20), 16)
    assert fill(tree) > 0.6
    assert len(tree._table) == math.ceil(5 * 1000 / (2 * 16))


def test_one_key_is_one_leaf_and_is_skipped() -> None:
    tree, words = filled([[7] * 500, [7] * 400], 16)
    assert tree.figures() == {"leaves": 1, "height": 2, "splits": 0}
    check(tree, words, [key_range(6, 6), key_range(7, 7), key_range(8, 8), EVERYTHING])
    out = np.empty(65_536, np.int32)
    for _ in range(2):
        state = new_state()
        low, high = np.array([key_range(k, k) for k in (6, 8)], np.uint64).T.copy()
        assert tree.probe(low, high, out, out.copy(), state) == 0
        assert state[COMPARED] == 0
        tree.seal()


def test_keys_around_a_frequent_one_do_not_take_a_leaf_each() -> None:
    tree, _ = filled([[500] * 100, *([k] for k in range(499, 399, -1)), *([k] for k in range(600, 500, -1))], 16)
    assert tree.figures()["leaves"] <= 1 + 2 * (100 // 5)


@given(st.integers(0, 2**32))
def test_entries_grow_when_they_do_not_suffice(seed: int) -> None:
    """A tree of more words than it was made for shows what growing does."""
    random = np.random.default_rng(seed)
    tree, words = filled(random.integers(0, 500, (10, 50)).tolist(), 4, capacity=10)
    assert len(tree._table) > 25
    check(tree, words, [key_range(k, k + 20) for k in range(0, 500, 40)])


def test_sealing_leaves_the_words_and_little_more() -> None:
    tree, words = filled(shuffled_batches(np.random.default_rng(3).integers(0, 2**40, 1000), 100), 80)
    size, leaves = tree.nbytes, tree.figures()["leaves"]
    tree.seal()
    assert tree.nbytes == 8 * (len(words) + LANES) + 32 * leaves + 8 < size
