"""The table of pairs has every pair that may be combined, none that may not, and few rows."""

from __future__ import annotations

from itertools import combinations

from .pairwise import Choice, pairs_of, pairwise

DIMENSIONS = {"index": ("scan", "hash", "tree"), "case": tuple(range(9)), "order": ("none", "sorted"), "size": (1, 7)}


def may(a: Choice, b: Choice) -> bool:
    """Odd cases have nothing to hash."""
    return not {a, b} >= {("index", "hash")} or not any(name == "case" and value % 2 for name, value in (a, b))


def test_every_pair_that_may_be_combined_is_there() -> None:
    rows = pairwise(DIMENSIONS, may)
    seen = {pair for row in rows for pair in combinations(row.items(), 2)}
    assert seen == set(pairs_of(DIMENSIONS, may))
    assert all(list(row) == list(DIMENSIONS) for row in rows)
    assert len(rows) <= 9 * 3 + 2


def test_dimensions_may_be_left_apart() -> None:
    apart = {frozenset(("case", "index"))}
    rows = pairwise(DIMENSIONS, apart=apart)
    seen = {pair for row in rows for pair in combinations(row.items(), 2)}
    assert seen >= set(pairs_of(DIMENSIONS, apart=apart))
    assert len(rows) <= 9 * 2 + 2


def test_the_table_is_always_the_same() -> None:
    assert pairwise(DIMENSIONS, may) == pairwise(DIMENSIONS, may)
