"""All word indexes find like a plain set, whatever their order of words and the sizes of their parts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given

from streamjoin.store import INDEXES
from streamjoin.store.index import Opening
from streamjoin.store.ordered import OrderedKind
from streamjoin.store.partition_scan import BLOCK
from streamjoin.store.rap_table import RapTable
from streamjoin.store.wib_tree import WibTree
from streamjoin.store.words import PLACE_BITS, WordIndex
from streamjoin.tasks import one_after_another

from .words import LAST_KEY, batches, check, key_range, numbered, ranges

EVERYTHING = (0, 2**64 - 1)
Open = Callable[[int, WordIndex | None], WordIndex]
"""Opens an index of this capacity; the other one is that of the previous subwindow."""


def registered(kind: OrderedKind) -> Open:
    nothing: Any = None

    def open_(capacity: int, before: WordIndex | None) -> WordIndex:
        opening = Opening(capacity, nothing, nothing, capacity, None, one_after_another, [])
        return kind.open_words(opening, before)

    return open_


REGISTERED = {kind.name: registered(kind) for kind in INDEXES.values() if isinstance(kind, OrderedKind)}
VARIANTS: dict[str, Open] = REGISTERED | {
    "rap-table of one partition": lambda capacity, before: RapTable(capacity, PLACE_BITS, before, 1),
    "rap-table of 7 partitions": lambda capacity, before: RapTable(capacity, PLACE_BITS, before, 7),
    "rap-table of 50 partitions": lambda capacity, before: RapTable(capacity, PLACE_BITS, before, 50),
    "wib-tree with leaves of 2": lambda capacity, before: WibTree(capacity, PLACE_BITS, 2),
    "wib-tree with leaves of 8": lambda capacity, before: WibTree(capacity, PLACE_BITS, 8),
}
every_index = pytest.mark.parametrize("open_", REGISTERED.values(), ids=REGISTERED)
every_variant = pytest.mark.parametrize("open_", VARIANTS.values(), ids=VARIANTS)


def filled(open_: Open, batches_: list[list[int]], before: WordIndex | None = None) -> tuple[WordIndex, list[int]]:
    index = open_(max(sum(map(len, batches_)), 1), before)
    words: list[int] = []
    for batch in batches_:
        new = numbered(batch, len(words))
        index.insert(new)
        words += new.tolist()
    return index, words


def same(a: WordIndex, b: WordIndex) -> bool:
    """Whether two indexes have the same histogram, or none."""
    one, other = a.histogram(), b.histogram()
    if one is None or other is None:
        return one is other
    return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


@every_variant
def test_a_chain_of_indexes_finds_like_a_plain_set(open_: Open) -> None:
    @given(batches(), batches(), ranges())
    @example([[0] * 40], [[0] * 40, [1]], [key_range(0, 0), key_range(1, 1), EVERYTHING])
    @example([[0, LAST_KEY]], [[0, LAST_KEY] * 9], [key_range(0, 0), key_range(LAST_KEY, LAST_KEY), EVERYTHING])
    @example([[0, LAST_KEY] * 9, [1, LAST_KEY - 1]], [], [key_range(0, 0), key_range(LAST_KEY, LAST_KEY), EVERYTHING])
    @example([[5]], [[4, 5, 6], [7] * 30], [key_range(6, 7), (1, 0)])
    @example([[7] * 40, [6], [8], [7] * 5], [[5] * 8 + [9] * 7, [7], [6]], [key_range(k, k) for k in (6, 7, 8)])
    def one(first: list[list[int]], second: list[list[int]], ranges_: list[tuple[int, int]]) -> None:
        index, words = filled(open_, first)
        check(index, words, ranges_)
        following, following_words = filled(open_, second, index)
        check(following, following_words, ranges_)
        before = index.histogram()
        index.seal()
        check(index, words, ranges_)
        assert same(following, filled(open_, second, index)[0]), "a sealed index teaches something else"
        assert (before is None) == (index.histogram() is None)
        following.seal()
        following.seal()
        check(following, following_words, ranges_)

    one()


@every_index
def test_few_ranges_in_many_words_and_many_in_few(open_: Open) -> None:
    """More ranges than are located at once, as many as partitions, and so few that a search skips most of them."""
    random = np.random.default_rng(0)
    index, words = filled(open_, random.integers(0, 5000, (5, 200)).tolist())
    for _ in range(2):
        for count in (1, 3, 12, 40, 500, 3 * BLOCK + 5):
            asked = random.integers(0, 5200, count).tolist()
            check(index, words, [key_range(key, key + 7) for key in asked])
        check(index, words, [EVERYTHING, key_range(LAST_KEY, LAST_KEY)])
        index.seal()


@every_index
def test_a_sealed_index_goes_to_another_process(open_: Open) -> None:
    """Its arrays lie outside of the pickle, so that they can be mapped from a file."""
    random = np.random.default_rng(0)
    index, words = filled(open_, random.integers(0, 5000, (5, 200)).tolist())
    index.seal()
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(index, protocol=5, buffer_callback=buffers.append)
    assert len(body) < 4096
    copies = [bytearray(buffer.raw()) for buffer in buffers]
    copy: WordIndex = pickle.loads(body, buffers=copies)
    index.release()
    check(copy, words, [key_range(key, key + 7) for key in range(0, 5000, 100)])
    assert copy.nbytes >= 8 * len(words)
    assert (copy.runs is None) == (index.runs is None)


@every_index
def test_sealing_leaves_the_words_and_little_more(open_: Open) -> None:
    index, words = filled(open_, np.random.default_rng(3).integers(0, 2**40, (10, 1000)).tolist())
    size = index.nbytes
    index.seal()
    assert 8 * len(words) <= index.nbytes <= size
    assert index.nbytes < 1.5 * 8 * len(words)


@every_index
def test_an_index_without_words_finds_nothing(open_: Open) -> None:
    index, _ = filled(open_, [])
    index.insert(np.empty(0, np.uint64))
    check(index, [], [EVERYTHING, key_range(3, 5)])
    index.seal()
    check(index, [], [EVERYTHING, key_range(3, 5)])
