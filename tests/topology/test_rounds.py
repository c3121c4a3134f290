"""Rounds: whatever waits for how long, each pair is found once, as if every call had been done when it was made."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.lab.schedules import Simulation, chosen_by
from streamjoin.parallel.crew import Crew
from streamjoin.predicate import plan_for
from streamjoin.predicate.frames import Frame
from streamjoin.predicate.lower import lower
from streamjoin.side import SIDES, Side
from streamjoin.store import Batch, SideWindow
from streamjoin.topology.handshake import Board, HandshakeNode
from streamjoin.topology.ledger import Ledger
from streamjoin.topology.low_latency import LowLatencyNode
from streamjoin.topology.node import Block, Kind, Message, Node
from streamjoin.topology.node_window import StoredWindow
from streamjoin.topology.rounds import Rounds
from streamjoin.topology.split import SplitNode

from .. import constants
from ..long import LONG
from ..predicates import KEY

SCHEMA = pa.schema([("k", pa.int64())])
KEYS = 3
KINDS = ("low-latency", "handshake", "split")
SCHEDULES = 1_000 if LONG else 15


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(
        monkeypatch, SMALLEST_SUBWINDOW=16, SMALLEST_SCANNED=16, TAIL=3, MERGED_BLOCKS=25, SHARED_TUPLES=8,
        FEW_SECONDS=0.0, PLENTY_SECONDS=0.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    made = Crew(3, cores=3)
    yield made
    made.close()


class Run:
    """Nodes over stored windows, under a schedule, with rounds at any time."""

    def __init__(self, kind: str, nodes: int, index: str, crew: Crew) -> None:
        self._kind, self._nodes, self._index = kind, nodes, index
        self._lowered = lower(plan_for(KEY, SCHEMA, SCHEMA))
        self._crew, self._ledger, self._board = crew, Ledger(), Board(nodes)
        self.rounds = Rounds(crew, lambda left, right: None, nodes)
        self.windows: list[StoredWindow] = []
        self._simulation = Simulation([self._node(number) for number in range(nodes)])
        self._next = dict.fromkeys(SIDES, (0, 0))
        self.found: list[tuple[int, int]] = []

    def _window(self, side: Side, number: int) -> StoredWindow:
        stored = SideWindow(self._lowered, side, self._index, self._crew.run)
        self.windows.append(StoredWindow(stored, side, number, self._ledger, self.rounds.waiting))
        return self.windows[-1]

    def _node(self, number: int) -> Node:
        windows = {side: self._window(side, number) for side in SIDES}
        if self._kind == "low-latency":
            return LowLatencyNode(number, self._nodes, windows, self._window("right", number))
        if self._kind == "handshake":
            return HandshakeNode(number, self._nodes, windows, self._board)
        return SplitNode(number, self._nodes, windows)

    def feed(self, side: Side, count: int) -> None:
        number, first = self._next[side]
        self._next[side] = number + 1, first + count
        rows = np.arange(first, first + count)
        keys = Frame(count, {(side, "k"): pa.array(rows % KEYS)})
        batch = Batch(rows, rows, rows, rows, self._lowered.sides[side].run(keys).columns)
        self._send(side, Message(Kind.ARRIVAL, Block(side, number, first, batch, number % self._nodes)))

    def expire(self, side: Side, floor: int) -> None:
        self._send("right" if side == "left" else "left", Message(Kind.EXPIRY, side=side, floor=floor))

    def _send(self, side: Side, message: Message) -> None:
        if self._kind == "split":
            for node in range(self._nodes):
                self._simulation.send(node, "driver", message)
        else:
            self._simulation.send(0 if side == "left" else self._nodes - 1, side, message)

    def round(self) -> None:
        for pairs in self.rounds.run():
            for left, right in zip(*pairs, strict=True):
                self.found += zip(left.tolist(), right.tolist(), strict=True)

    def finish(self, seed: int) -> list[tuple[int, int]]:
        """The pairs that were found, sorted."""
        self._run(seed)
        if self._kind == "handshake":
            self._board.draining = True
            self._simulation.send(0, "left", Message(Kind.TICK))
            self._run(seed)
        return sorted(self.found)

    def _run(self, seed: int) -> None:
        rng, next_one = random.Random(seed), chosen_by(seed)
        often = rng.choice([0.0, 0.05, 0.5])

        def choose(count: int) -> int:
            if rng.random() < often:
                self.round()
            return next_one(count)

        self._simulation.run(choose)
        self.round()


@pytest.mark.parametrize("index", ["scan", "hash", "bi-sort", "auto"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_pair_is_found_once(kind: str, index: str, crew: Crew) -> None:
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        run, counts = Run(kind, rng.choice([1, 2, 3, 5, 16]), index, crew), dict.fromkeys(SIDES, 0)
        for _ in range(rng.choice([2, 6, 12])):
            side, count = rng.choice(SIDES), rng.randint(1, 20)
            run.feed(side, count)
            counts[side] += count
        wanted = [(l, r) for l in range(counts["left"]) for r in range(counts["right"]) if l % KEYS == r % KEYS]
        assert run.finish(seed) == wanted, f"seed {seed}"
        assert sum(window.comparisons for window in run.windows) >= len(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_expired_tuples_are_let_go_but_never_too_early(kind: str, crew: Crew) -> None:
    window = 30
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        run = Run(kind, rng.randint(1, 6), "scan", crew)
        arrived, wanted = dict.fromkeys(SIDES, 0), set()
        for _ in range(20):
            side = rng.choice(SIDES)
            other, count = "left" if side == "right" else "right", rng.randint(1, 9)
            run.feed(side, count)
            for mine in range(arrived[side], arrived[side] + count):
                for partner in range(max(arrived[other] - window, 0), arrived[other]):
                    if mine % KEYS == partner % KEYS:
                        wanted.add((mine, partner) if side == "left" else (partner, mine))
            arrived[side] += count
            run.expire(side, arrived[side] - window)
        found = run.finish(seed)
        assert wanted <= set(found), f"seed {seed}"
        assert len(found) == len(set(found)), f"seed {seed}"
        for side in SIDES:
            run.expire(side, arrived[side])
        run.finish(seed)
        assert sum(window.at_least(None) for window in run.windows) == 0
        assert not any(window.window.count for window in run.windows), "they have left the store as well"


def test_a_window_that_is_passed_through_stores_nothing(crew: Crew) -> None:
    run = Run("split", 1, "scan", crew)
    window = run.windows[0]
    rows = np.arange(10)
    block = Block("left", 0, 0, Batch(rows, rows, rows, rows, [rows]))
    window.insert(block)
    window.drop(window.tail)
    run.round()
    assert (window.head, window.tail, window.window.created) == (10, 10, 0)
    window.insert(block)
    run.round()
    assert window.at_least(None) == 10
    assert window.window.rows(10, 20).tolist() == rows.tolist()


def test_much_that_waits_is_done_in_between(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    constants.replace(monkeypatch, MOST_INSERTED=50, MOST_ASKED=3)
    run = Run("split", 1, "scan", crew)
    assert not run.rounds.is_due()
    run.feed("left", 60)
    run._simulation.run(chosen_by(0))
    assert run.rounds.is_due()
    run.round()
    assert not run.rounds.is_due()
    for _ in range(3):
        run.feed("right", 1)
    run._simulation.run(chosen_by(0))
    assert run.rounds.is_due()
