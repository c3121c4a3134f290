"""The ways that a join may change in mid-stream: from NumPy to machine code, and from scan to search and back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamjoin.side import Side
from streamjoin.store import Batch, side_window
from streamjoin.store.index_choice import HASH, SCAN, SEARCH, IndexChooser
from streamjoin.topology.protocol import Pairs
from streamjoin.topology.registry import ALGORITHMS
from streamjoin.topology.shared_windows import SharedWindows

from .. import constants, interpreted
from ..long import LONG
from ..pairwise import Row
from .cases import CASES
from .engines import grouped, rule, table
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
    {"case": ("out-of-order", "late-tuples"), **WAYS, "algorithm": NODES, "looks": IN_MIDSTREAM},
    ("algorithm", "window", "order", "how", "looks"), MAY,
)  # fmt: skip
"""Two cases whose kernels are the same: they are compiled once, and then run fast."""
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


@pytest.mark.parametrize("rows", grouped(NODE_ROWS, ("algorithm",)))
def test_nodes_meet_the_tuples_that_came_before_them(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every window, order and kind of join, with a change-over while tuples are stored."""
    constants.replace(monkeypatch, INTERIM_CANDIDATES=40, INTERIM_FEW=1)
    across = 0
    visit = SharedWindows.visit

    def counted(old: SharedWindows, side: Side, batch: Batch) -> Iterator[Pairs]:
        nonlocal across
        for pairs in visit(old, side, batch):
            across += sum(map(len, pairs[0]))
            yield pairs

    monkeypatch.setattr(SharedWindows, "visit", counted)
    for seed, row in enumerate(rows):
        monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", ready_after(row["looks"]))
        judge(row, seed)
    assert across > len(rows)


@pytest.mark.parametrize("rows", grouped(AUTO_ROWS, ("case",)))
def test_the_path_changes_in_mid_stream(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    if not LONG:
        interpreted.install(monkeypatch)
    dice = random.Random(str(rows))

    def toss(chooser: IndexChooser, window: int) -> None:
        chooser._chosen = dice.choice((SCAN, SEARCH, *[HASH] * bool(chooser._keys.lowered.hash_slots)))
        chooser.estimates = {SCAN.name: 1.0, SEARCH.name: 1.0}
        monkeypatch.setattr(side_window, "MOST_MOVED", dice.choice((0, 5, 1 << 19)))

    monkeypatch.setattr(IndexChooser, "compare_paths", toss)
    for name in ("REVIEW", "LOOK"):
        monkeypatch.setattr(side_window, name, 3)
    for seed, row in enumerate(rows):
        judge(row, seed)
