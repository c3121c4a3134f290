"""The ways that a join may change in mid-stream: from NumPy to machine code, from scan to search and back, and between
two ways to scan."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.side import Side
from streamjoin.store import Batch, side_window
from streamjoin.store.costs import Costs
from streamjoin.store.index_choice import HASH, SCAN, SEARCH, IndexChooser
from streamjoin.topology.protocol import Pairs
from streamjoin.topology.registry import ALGORITHMS
from streamjoin.topology.shared_windows import SharedWindows

from .. import constants, interpreted
from ..long import LONG
from ..pairwise import Row
from ..predicates import KEY
from .cases import CASES
from .engines import SIZES, WINDOWS, Engine, engine_of, grouped, rule, table
from .harness import Case, Pair, check, expected, numbered, run
from .test_conformance import KINDS_OF_VALUES, WAYS, judge

SHARED = tuple(name for name, algorithm in ALGORITHMS.items() if issubclass(algorithm, SharedWindows))
CHOSEN = (
    tuple(CASES) if LONG else ("out-of-order", "late-tuples", "duplicate-rows", "burst-on-the-left", *KINDS_OF_VALUES)
)
MAY = rule({name: CASES[name].plan for name in CHOSEN})
FULL = ("case", "window", "order", "how")
APART = {frozenset(("case", name)) for name in WAYS if name not in ("index", "how")}
NODES = tuple(name for name in ALGORITHMS if name not in SHARED)
IN_MIDSTREAM = (5, 12, 25, 50)
LOOKS = (1, *IN_MIDSTREAM, 10**9)
"""After how many looks there is machine code: before the first step, between two steps, in the middle of one, never."""
INTERIM_ROWS = table({"case": CHOSEN, **WAYS, "looks": LOOKS}, FULL, MAY, APART)
NODE_ROWS = table(
    {**WAYS, "algorithm": NODES, "size": ("1", "7", "random"), "looks": IN_MIDSTREAM, "poll_every": (1, 5)},
    ("algorithm", "window", "order", "how", "looks"), MAY,
)  # fmt: skip
AUTO_ROWS = table({"case": CHOSEN, **WAYS, "algorithm": SHARED, "index": ("auto",)}, FULL, MAY, APART)


def ready_after(looks: int) -> Callable[..., Callable[[], bool]]:
    """Machine code is there when somebody has looked so often."""

    def rehearsed(*_: Any) -> Callable[[], bool]:
        left = [looks]

        def is_ready() -> bool:
            left[0] -= 1
            return left[0] < 0

        return is_ready

    return rehearsed


@pytest.mark.parametrize("rows", grouped(INTERIM_ROWS, ("case",)))
def test_numpy_until_there_is_machine_code(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the algorithm, each pair is found once: before the change-over, after it, and across it."""
    constants.replace(monkeypatch, INTERIM_CANDIDATES=40, INTERIM_FEW=1)
    if not LONG:
        interpreted.install(monkeypatch)
    for seed, row in enumerate(rows):
        monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", ready_after(row["looks"]))
        judge(row, seed)


def jittered() -> Case:
    """Streams that go on long after a change-over. What nodes find late, they find by then or at the end."""
    rng, tables = np.random.default_rng(4), []
    for name, count in (("ln", 130), ("rn", 110)):
        ts = np.cumsum(rng.integers(0, 2, count)) + rng.integers(0, 5, count)
        tables.append(numbered(pa.table({"ts": ts, "k": rng.integers(0, 6, count)}), name))
    return Case("jittered", *tables, KEY)


@cache
def wanted(window: str, how: str, match: str) -> list[Pair]:
    """The oracle's answer where it does not depend on how the streams were pushed."""
    return expected(jittered(), WINDOWS[window], how=how, match=match)


@pytest.mark.parametrize("rows", grouped(NODE_ROWS, ("algorithm",)))
def test_nodes_meet_the_tuples_that_came_before_them(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every window, order and kind of join, with a change-over while tuples are stored. Pushes are joined one by one,
    or several of both sides at once."""
    constants.replace(monkeypatch, INTERIM_CANDIDATES=40, INTERIM_FEW=1)
    across, visit, case = 0, SharedWindows.visit, jittered()

    def counted(old: SharedWindows, side: Side, batch: Batch) -> Iterator[Pairs]:
        nonlocal across
        for pairs in visit(old, side, batch):
            across += sum(map(len, pairs[0]))
            yield pairs

    monkeypatch.setattr(SharedWindows, "visit", counted)
    for seed, row in enumerate(rows):
        way: Any = row
        window, order, how, match = way["window"], way["order"], way["how"], way["match"]
        monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", ready_after(way["looks"]))
        result = run(
            case, engine_of(row), WINDOWS[window], order=order, how=how, match=match, size=SIZES[way["size"]],
            seed=seed, poll_every=way["poll_every"],
        )  # fmt: skip
        timed = WINDOWS[window].time
        if timed:
            pairs = wanted(window, how, match)
        else:
            pairs = expected(case, WINDOWS[window], how=how, arrivals=result.arrivals)
        check(case, result, pairs, order=order, how=how, match=match)
    assert across > len(rows)


def change_at_random(monkeypatch: pytest.MonkeyPatch, dice: random.Random) -> None:
    """Look at the paths every few tuples, and take any of them."""

    def toss(chooser: IndexChooser, window: int) -> None:
        chooser._chosen = dice.choice((SCAN, SEARCH, *[HASH] * bool(chooser._keys.lowered.hash_slots)))
        chooser.estimates = {SCAN.name: 1.0, SEARCH.name: 1.0}
        monkeypatch.setattr(side_window, "MOST_MOVED", dice.choice((0, 5, 1 << 19)))

    monkeypatch.setattr(IndexChooser, "compare_paths", toss)
    constants.replace(monkeypatch, FEW_PROBES=0)
    free = Costs(grid_step=0, grid_stored=0, grid_far=0, grid_probe=0, grid_candidate=0)
    for module in ("stored_side", "grid_probe"):
        monkeypatch.setattr(f"streamjoin.store.{module}.costs", lambda: dice.choice((Costs(), free, free)))
    for name in ("REVIEW", "LOOK"):
        monkeypatch.setattr(side_window, name, 3)


@pytest.mark.parametrize("rows", grouped(AUTO_ROWS, ("case",)))
def test_the_path_changes_in_mid_stream(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    if not LONG:
        interpreted.install(monkeypatch)
    change_at_random(monkeypatch, random.Random(str(rows)))
    for seed, row in enumerate(rows):
        judge(row, seed)


@pytest.mark.parametrize("window", ["time", "count", "no-time"])
def test_the_path_changes_while_several_threads_store(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuples that wait to be stored are there before they move into another subwindow."""
    change_at_random(monkeypatch, random.Random(window))
    case, windows = jittered(), WINDOWS[window]
    for seed in range(200 if LONG else 40):
        engine = Engine("panjoin", "auto", 1 + seed % 3)
        result = run(case, engine, windows, size=(20, 64, None)[seed // 3 % 3], seed=seed, poll_every=2)
        wanted = expected(case, windows, arrivals=None if windows.time else result.arrivals)
        check(case, result, wanted, order="none")
