"""The ways that a join may change in mid-stream: from NumPy to machine code, from scan to search and back, and between
two ways to scan."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from streamjoin.store import side_window
from streamjoin.store.costs import Costs
from streamjoin.store.index_choice import HASH, SCAN, SEARCH, IndexChooser
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
INTERIM_ROWS = table({"case": CHOSEN, **WAYS, "algorithm": (*SHARED, "auto")}, FULL, MAY, APART)
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
    """It never comes, or it comes after a few looks: between two steps, or in the middle of one."""
    constants.replace(monkeypatch, INTERIM_CANDIDATES=40, INTERIM_FEW=1)
    if not LONG:
        interpreted.install(monkeypatch)
    for seed, row in enumerate(rows):
        looks = 10**9 if seed % 3 == 0 else random.Random(seed).randrange(1, 60)
        monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", ready_after(looks))
        judge(row, seed)


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
    constants.replace(monkeypatch, FEW_PROBES=0)
    free = Costs(grid_step=0, grid_stored=0, grid_far=0, grid_probe=0, grid_candidate=0)
    monkeypatch.setattr("streamjoin.store.subwindow.costs", lambda: dice.choice((Costs(), free, free)))
    for name in ("REVIEW", "LOOK"):
        monkeypatch.setattr(side_window, name, 3)
    for seed, row in enumerate(rows):
        judge(row, seed)
