"""Streams of thousands of tuples, which fill many blocks and subwindows, on every algorithm and index.

Too long for the oracle, they are judged by the same rules on whole NumPy matrices.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.window import CountWindow, TimeWindow

from ..pairwise import Row
from ..predicates import BAND, KEY, RANGE
from .engines import ENGINE, Windows, each, engine_of, rule, table
from .harness import Case, numbered, run

WINDOWS = {
    "time": Windows(TimeWindow(400), TimeWindow(150)),
    "time-short": Windows(TimeWindow(5), TimeWindow(5)),
    "count": Windows(CountWindow(1100), CountWindow(300)),
    "mixed": Windows(CountWindow(50), TimeWindow(300)),
}
PREDICATES = {
    KEY: lambda l, r: l == r,
    BAND: lambda l, r: abs(l - r) <= 1,
    RANGE: lambda l, r: l < r,
}


def inside(left: np.ndarray, right: np.ndarray, windows: Windows) -> np.ndarray:
    """Which pairs are inside the window, for sorted timestamps: a second account, on whole matrices."""
    l, r = left[:, None], right[None, :]
    l_first = l <= r
    rights_before = np.searchsorted(right, left, side="left")[:, None]
    lefts_before = np.searchsorted(left, right, side="right")[None, :]
    if isinstance(windows.right, TimeWindow):
        l_sees_r = (l >= r) & (l - r < windows.right.amount)
    else:
        place = np.arange(len(right))[None, :]
        l_sees_r = ~l_first & (place >= rights_before - windows.right.rows)
    if isinstance(windows.left, TimeWindow):
        r_sees_l = l_first & (r - l < windows.left.amount)
    else:
        place = np.arange(len(left))[:, None]
        r_sees_l = l_first & (place >= lefts_before - windows.left.rows)
    return l_sees_r | r_sees_l


def long_case(on: str, domain: int) -> Case:
    rng = np.random.default_rng(domain)

    def table(name: str, count: int) -> pa.Table:
        ts = np.cumsum(rng.integers(0, 2, count))
        return numbered(pa.table({"ts": ts, "k": rng.integers(0, domain, count)}), name)

    return Case("long", table("ln", 2600), table("rn", 2100), on)


@cache
def long_results(on: str, window: str, domain: int) -> tuple[np.ndarray, np.ndarray]:
    """The row numbers of both sides of every result, in order."""
    case = long_case(on, domain)
    times, (l_keys, r_keys) = ([np.asarray(t[name]) for t in (case.left, case.right)] for name in ("ts", "k"))
    found = np.nonzero(inside(*times, WINDOWS[window]) & PREDICATES[on](l_keys[:, None], r_keys[None, :]))
    return in_order(case, *found)


def in_order(case: Case, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    times = np.maximum(np.asarray(case.left["ts"])[left], np.asarray(case.right["ts"])[right])
    order = np.lexsort((right, left, times))
    return left[order], right[order]


KEYS = (3, 40, 100_000)
"""How many there are: from nearly every pair that matches to hardly any."""
SIZES = (64, 700, 1500, 1_000_000)
"""Rows per push."""
ROWS = table(
    {
        "case": tuple(PREDICATES),
        "window": tuple(WINDOWS),
        **ENGINE,
        "keys": KEYS,
        "size": SIZES,
        "order": ("none", "sorted"),
    },
    ("case", "window", "algorithm", "index", "keys", "order"),
    rule({on: long_case(on, 3).plan for on in PREDICATES}),
)


@pytest.mark.parametrize("row", each(ROWS))
def test_many_tuples(row: Row) -> None:
    choice: Any = row
    on, window, keys, order = (choice[name] for name in ("case", "window", "keys", "order"))
    case, wanted = long_case(on, keys), long_results(on, window, keys)
    result = run(case, engine_of(row), WINDOWS[window], order=order, size=choice["size"], seed=3)
    found = tuple(np.asarray(result.table[name]) for name in ("ln", "rn"))
    assert np.array_equal(found if order == "sorted" else in_order(case, *found), wanted)
