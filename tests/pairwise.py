"""All pairs: a short table in which every two values that may be combined meet at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import combinations, product

Choice = tuple[str, Hashable]
"""A dimension's name and one of its values."""
Row = dict[str, Hashable]


def goes_with_all(a: Choice, b: Choice) -> bool:
    return True


def pairs_of(
    dimensions: Mapping[str, Sequence[Hashable]],
    may: Callable[[Choice, Choice], bool] = goes_with_all,
    apart: Collection[frozenset[str]] = (),
) -> dict[tuple[Choice, Choice], None]:
    """Every pair of values that a table must have, in a fixed order."""
    found = dict[tuple[Choice, Choice], None]()
    for one, two in combinations(dimensions, 2):
        if frozenset((one, two)) not in apart:
            for x, y in product(dimensions[one], dimensions[two]):
                if may((one, x), (two, y)):
                    found[(one, x), (two, y)] = None
    return found


def pairwise(
    dimensions: Mapping[str, Sequence[Hashable]],
    may: Callable[[Choice, Choice], bool] = goes_with_all,
    apart: Collection[frozenset[str]] = (),
) -> list[Row]:
    """Rows with one value of each dimension, so that all of `pairs_of` are in one of them; always the same rows.

    `may` says of two choices whether they go together. Dimensions that are `apart` need not meet in all their values.
    Each row begins with a pair that is still missing. Each further value is the one that adds most missing pairs to
    the row; among equals, the one that was used least. A dimension needs a value that goes with all others.
    """
    missing = pairs_of(dimensions, may, apart)
    used = Counter[Choice]()
    rows = list[Row]()
    while missing:
        row = list(next(iter(missing)))
        for name in [name for name in dimensions if name not in dict(row)]:
            fitting = [(name, v) for v in dimensions[name] if all(may(c, (name, v)) and may((name, v), c) for c in row)]
            row.append(max(fitting, key=lambda new: (sum(is_in(c, new, missing) for c in row), -used[new])))
        for pair in combinations(row, 2):
            missing.pop(pair, None)
            missing.pop(pair[::-1], None)
        used.update(row)
        rows.append({name: dict(row)[name] for name in dimensions})
    return rows


def is_in(a: Choice, b: Choice, pairs: Collection[tuple[Choice, Choice]]) -> bool:
    return (a, b) in pairs or (b, a) in pairs
