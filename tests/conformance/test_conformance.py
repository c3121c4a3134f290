"""Every algorithm and index on every hard case, window, order, kind of join and batch size, judged by the oracle.

The short run goes over tables of all pairs: whatever two choices do not agree with each other meet in one of its runs.
The long run has every combination of case, algorithm, index, window and order.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from .. import interpreted
from ..long import LONG
from ..pairwise import Row, pairs_of
from .cases import CASES, STREAMS, VALUES
from .engines import (
    ENGINE,
    HOWS,
    INDEXES,
    MATCHES,
    ORDERS,
    SIZES,
    TIMED,
    WINDOWS,
    Engine,
    can_run,
    each,
    engine_of,
    grouped,
    rule,
    table,
)  # fmt: skip
from .harness import Case, Pair, check, expected, run

WAYS: dict[str, Any] = {
    **ENGINE, "window": tuple(WINDOWS), "order": ORDERS, "how": HOWS, "match": MATCHES, "size": tuple(SIZES),
}  # fmt: skip
FULL = ("case", "algorithm", "index", "window", "order")
MAY = rule({name: case.plan for name, case in CASES.items()})
STREAM_ROWS = table({"case": tuple(STREAMS), **WAYS}, FULL, MAY)
SHOWING: dict[str, Any] = {
    **WAYS,
    "window": tuple(name for name in WINDOWS if not name.endswith("-1") and name != "no-time-uneven"),
    "how": ("inner", "left", "right", "full"),
    "match": ("all",),
}
"""Choices that let a run show all pairs: semi and anti joins hide them, and a window of 1 holds next to none."""
VALUE_WAYS = WAYS if LONG else SHOWING
VALUE_ROWS = table(
    {"case": tuple(VALUES), **VALUE_WAYS}, FULL, MAY, {frozenset(("case", name)) for name in WAYS if name != "index"}
)
"""An index stores and compares values; windows, orders and algorithms never look at them."""
WITHOUT_PAIRS = ("none-match", "null-predicate")


def test_the_tables_have_all_pairs() -> None:
    """Algorithm, index, workers, window, order, kind of join, batch size and stream: each value with each other."""
    seen = {pair for row in STREAM_ROWS for pair in combinations(row.items(), 2)}
    wanted = {"case": tuple(STREAMS), **WAYS}
    assert LONG or seen == set(pairs_of(wanted, MAY))
    seen = {pair for row in VALUE_ROWS for pair in combinations(row.items(), 2)}
    assert seen >= set(pairs_of({"case": tuple(VALUES), "index": INDEXES}, MAY))
    assert LONG or seen >= set(pairs_of(SHOWING, MAY))


@cache
def wanted(name: str, window: str, how: str = "inner", match: str = "all") -> list[Pair]:
    """The oracle's answer where it does not depend on how the streams were pushed."""
    return expected(CASES[name], WINDOWS[window], how=how, match=match)


def answer(case: Case, window: str, how: str, match: str, arrivals: list) -> list[Pair]:
    if case.lateness is None and WINDOWS[window].time:
        return wanted(case.name, window, how, match)
    return expected(case, WINDOWS[window], how=how, match=match, arrivals=arrivals)


def judge(row: Row, seed: int) -> list[Pair]:
    """Run it and compare; returns the oracle's answer."""
    choice: Any = row
    case, window, order, how = CASES[choice["case"]], choice["window"], choice["order"], choice["how"]
    size, match = SIZES[choice["size"]], choice["match"]
    result = run(case, engine_of(row), WINDOWS[window], order=order, how=how, match=match, size=size, seed=seed)
    rows = answer(case, window, how, match, result.arrivals)
    try:
        check(case, result, rows, order=order, how=how, match=match)
    except AssertionError as error:
        raise AssertionError(f"{row}, seed {seed}: {error}") from None
    return rows


@pytest.mark.parametrize("rows", grouped(STREAM_ROWS, ("case", "algorithm", "index")))
def test_streams(rows: list[Row]) -> None:
    """Lengths, ties, bursts, disorder, units of time."""
    for seed, row in enumerate(rows):
        judge(row, seed)


@pytest.mark.parametrize("rows", grouped(VALUE_ROWS, ("case", "algorithm", "index")))
def test_values(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Types, values at the ends of types, NULL, conditions. The short run interprets the kernels' text."""
    if not LONG:
        interpreted.install(monkeypatch)
    for seed, row in enumerate(rows):
        pairs = sum(None not in pair for pair in judge(row, seed))
        assert LONG or bool(pairs) == (row["case"] not in WITHOUT_PAIRS), row


KINDS_OF_VALUES = (
    "nulls-in-conditions", "int8-band", "int32-band", "int64-equality", "uint64-equality", "float32-range",
    "float64-band", "decimals-band", "wide-decimals-range", "booleans", "texts", "texts-order",
    "dates-beside-timestamps", "timestamps-band",
)  # fmt: skip
"""One case for each type and encoding that kernels read."""


def one_index_each() -> list:
    """For each case that is compiled, the index with the fewest turns so far."""
    turns, params = Counter[str](), []
    for name in VALUES if LONG else KINDS_OF_VALUES:
        case = VALUES[name]
        index = min((i for i in INDEXES if can_run(i, case.plan)), key=lambda i: turns[i])
        turns[index] += 1
        params.append(pytest.param(name, index, len(params), id=f"{name}-{index}"))
    return params


@pytest.mark.parametrize(("name", "index", "seed"), one_index_each())
def test_values_compiled(name: str, index: str, seed: int) -> None:
    """Values as machine code reads them. One stream comes after the other, so that one side's kernel is compiled.

    The short run compiles one case for each kind of value: interpreted kernels run the same text, and the tests of
    dialects compile its functions.
    """
    engine = Engine("auto", index, 1)
    result = run(CASES[name], engine, WINDOWS["time"], size=SIZES["whole"], seed=seed)
    check(CASES[name], result, wanted(name, "time"), order="none")


@pytest.mark.parametrize("row", each(table({"window": TIMED, **ENGINE}, ("window", "algorithm", "index"), MAY)))
def test_interleaving_does_not_matter(row: Row) -> None:
    """All of one stream before the other, or row by row in turns: the same pairs, sorted the same sequence."""
    case = CASES["out-of-order"]
    window: Any = row["window"]
    for turn, order in enumerate(ORDERS):
        for seed in range(12) if LONG else [turn]:
            size = (1, 3, None)[seed % 3]
            result = run(case, engine_of(row), WINDOWS[window], order=order, size=size, seed=seed, poll_every=5)
            check(case, result, wanted(case.name, window), order=order)


@pytest.mark.parametrize(
    "row", each(table({"how": HOWS, "match": MATCHES, **ENGINE}, ("how", "algorithm", "index"), MAY))
)
def test_watermarks_advance(row: Row) -> None:
    """A watermark that never moved would keep its promise too."""
    case = CASES["increasing-keys"]
    choice: Any = row
    how, match = choice["how"], choice["match"]
    result = run(case, engine_of(row), WINDOWS["time"], order="punctuated", how=how, match=match, size=1)
    marks = [mark for _, mark in result.polls if mark is not None]
    assert marks == sorted(marks)
    least = min(max(times) for times in case.times()) - 2 * 12
    assert marks[-1] >= least
    assert len(set(marks)) > 5
