"""Every engine on every hard case, window, order and batch size, judged by the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.window import CountWindow, TimeWindow

from .cases import CASES
from .engines import ENGINES, HOWS, ORDERS, SIZES, WINDOWS, Engine, Windows
from .harness import Case, Pair, check, expected, numbered, run

TORTURE = "STREAMJOIN_TORTURE" in os.environ
ALGORITHMS = dict.fromkeys(e.algorithm for e in ENGINES) if TORTURE else ("three-step", "panjoin")
THOROUGH = [next(e for e in ENGINES if e.algorithm == name) for name in ALGORITHMS]
BY_NAME = {case.name: case for case in CASES}


@cache
def wanted(name: str, window: str, how: str = "inner") -> list[Pair]:
    """The oracle's answer where it does not depend on how the streams were pushed."""
    return expected(BY_NAME[name], WINDOWS[window], how=how)


def answer(case: Case, window: str, how: str, arrivals: list) -> list[Pair]:
    if case.lateness is None and WINDOWS[window].time:
        return wanted(case.name, window, how)
    return expected(case, WINDOWS[window], how=how, arrivals=arrivals)


def runnable() -> list:
    """Values know nothing of nodes, and little of how an index is shared: in the short run only the first engine has
    all cases that are about values, and the others take turns."""
    plans = [case.plan for case in CASES]
    pairs = [
        (case, engine)
        for (number, case), (turn, engine) in product(enumerate(CASES), enumerate(ENGINES))
        if (
            TORTURE
            or case.is_about_streams
            or turn == 0
            or (number - turn) % (4 if engine.algorithm == "three-step" else 8) == 0
        )
        and engine.can_run(plans[number])
    ]
    return [pytest.param(case, engine, id=f"{case}-{engine}") for case, engine in pairs]


@pytest.mark.parametrize(("case", "engine"), runnable())
def test_case(case: Case, engine: Engine) -> None:
    """All windows and orders; batch sizes and, over cases about values, kinds of join take turns.

    Sorted results come in one sequence whatever the batches were. Windows and orders do not know of indexes, so all
    their combinations are tried with the first engine of each algorithm, and with the others each window in one order.
    The short run has a part of these, from case to case another one; least for the algorithms made of nodes, whose
    protocols the simulator tries in all orders.
    """
    turn = offset = CASES.index(case) + ENGINES.index(engine)
    thorough = engine in THOROUGH
    every = (1 if thorough else 3) if TORTURE else 4 if thorough else 17 if engine.shares else 11
    for number, (window, order) in enumerate(product(WINDOWS, ORDERS)):
        if (offset + number + number // 3) % every:
            continue
        for _ in range(2 if case.is_about_streams else 1):
            turn += 1
            judge(case, engine, window, order, "inner", turn)
    for window in list(WINDOWS)[offset % every :: every]:
        kinds = 1 if not case.is_about_streams or not thorough else 5 if TORTURE else 2
        for how in [HOWS[1 + (turn + k) % 5] for k in range(kinds)]:
            turn += 1
            judge(case, engine, window, ORDERS[turn % 3], how, turn // 3)


def judge(case: Case, engine: Engine, window: str, order: str, how: str, turn: int) -> None:
    name, size = list(SIZES.items())[turn % 5]
    result = run(case, engine, WINDOWS[window], order=order, how=how, size=size, seed=turn)
    try:
        wanted = answer(case, window, how, result.arrivals)
        check(case, result, wanted, order=order, how=how, rows=how != "inner" or size is None)
    except AssertionError as error:
        context = f"window {window}, order {order}, how {how}, batches of {name}"
        raise AssertionError(f"{context}: {error}") from None


def taking_turns(names: Iterable[str]) -> list:
    """Each of these with each engine; with those that differ only in how cores share the work, a third of them in the
    short run."""
    pairs = product(enumerate(names), enumerate(ENGINES))
    return [
        pytest.param(name, engine, id=f"{name}-{engine}")
        for (number, name), (turn, engine) in pairs
        if TORTURE or not engine.shares or (number - turn) % 3 == 0
    ]


@pytest.mark.parametrize(("window", "engine"), taking_turns(name for name, window in WINDOWS.items() if window.time))
def test_interleaving_does_not_matter(window: str, engine: Engine) -> None:
    """All of one stream before the other, or row by row in turns: the same pairs, sorted the same sequence."""
    case = BY_NAME["out-of-order"]
    for turn, order in enumerate(ORDERS):
        for seed in range(12) if TORTURE else [turn]:
            result = run(
                case, engine, WINDOWS[window], order=order, size=(1, 3, None)[seed % 3], seed=seed, poll_every=5
            )
            check(case, result, wanted(case.name, window), order=order)


@pytest.mark.parametrize(("how", "engine"), taking_turns(HOWS))
def test_watermarks_advance(how: str, engine: Engine) -> None:
    """A watermark that never moved would keep its promise too."""
    case = BY_NAME["increasing-keys"]
    result = run(case, engine, WINDOWS["time"], order="punctuated", how=how, size=1)
    marks = [mark for _, mark in result.polls if mark is not None]
    assert marks == sorted(marks)
    least = min(max(times) for times in case.times()) - 2 * 12
    assert marks[-1] >= least
    assert len(set(marks)) > 5


# --- Streams that fill many blocks -------------------------------------------------------------------

LONG = {
    "time": Windows(TimeWindow(400), TimeWindow(150)),
    "time-short": Windows(TimeWindow(5), TimeWindow(5)),
    "count": Windows(CountWindow(1100), CountWindow(300)),
    "mixed": Windows(CountWindow(50), TimeWindow(300)),
}
PREDICATES = {
    "l.k = r.k": lambda l, r: l == r,
    "l.k BETWEEN r.k - 1 AND r.k + 1": lambda l, r: abs(l - r) <= 1,
    "l.k < r.k": lambda l, r: l < r,
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
    found = np.nonzero(inside(*times, LONG[window]) & PREDICATES[on](l_keys[:, None], r_keys[None, :]))
    return in_order(case, *found)


def in_order(case: Case, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    times = np.maximum(np.asarray(case.left["ts"])[left], np.asarray(case.right["ts"])[right])
    order = np.lexsort((right, left, times))
    return left[order], right[order]


SHAPES = [(3, 1_000_000), (40, 64), (40, 1500), (100_000, 700), (100_000, 1_000_000)]
"""How many keys there are, and rows per push."""


def long_runs() -> list:
    """In the short run predicates take turns."""
    runs = []
    for (turn, on), (number, window), engine in product(enumerate(PREDICATES), enumerate(LONG), ENGINES):
        number += ENGINES.index(engine)
        has_turn = TORTURE or (number - turn) % len(PREDICATES) == 0
        if has_turn and engine.can_run(long_case(on, 3).plan):
            order = ("none", "sorted")[(number // len(SHAPES) + number + turn) % 2]
            shape, name = SHAPES[number % len(SHAPES)], f"{on}-{window}-{engine}"
            runs.append(pytest.param(on, window, engine, shape, order, id=name))
    return runs


@pytest.mark.parametrize(("on", "window", "engine", "shape", "order"), long_runs())
def test_long_streams(on: str, window: str, engine: Engine, shape: tuple[int, int], order: str) -> None:
    """Thousands of tuples in several subwindows, from hardly any match to nearly every pair; in the short run shapes
    and orders take turns."""
    for domain, size in SHAPES if TORTURE else [shape]:
        case, wanted = long_case(on, domain), long_results(on, window, domain)
        for how in ("none", "sorted") if TORTURE else [order]:
            result = run(case, engine, LONG[window], order=how, size=size, seed=3)
            found = tuple(np.asarray(result.table[name]) for name in ("ln", "rn"))
            if how == "none":
                found = in_order(case, *found)
            assert np.array_equal(found, wanted)
