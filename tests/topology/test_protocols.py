"""The protocols of the topologies under a simulator that chooses every interleaving.

Every pair must be compared exactly once, whatever the schedule; with a mechanism left out, the hazard that the papers
name must appear, or these tests could not see it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from streamjoin.lab.lock_step import LockStepJoin
from streamjoin.lab.schedules import Choose, Numbers, PlainWindow, Simulation, all_schedules, chosen_by
from streamjoin.side import SIDES
from streamjoin.topology.handshake import Board, HandshakeNode
from streamjoin.topology.low_latency import LowLatencyNode
from streamjoin.topology.node import Block, Kind, Message, Node, Send
from streamjoin.topology.split import SplitNode

from ..long import LONG

SCHEDULES = 10_000 if LONG else 2_000
EXHAUSTIVE = 50_000
Compared = dict[tuple[int, int], int]


class Run:
    """A topology under simulation: feed it, then let it run to the end under a schedule."""

    def __init__(self, kind: str, nodes: int, **options: object) -> None:
        self.compared: Compared = {}
        self._kind, self._nodes = kind, nodes
        self._board = Board(nodes)
        self._simulation = Simulation([self._node(kind, number, options) for number in range(nodes)])
        self._next = dict.fromkeys(SIDES, (0, 0))

    def _node(self, kind: str, number: int, options: dict) -> Node:
        windows = {side: PlainWindow(side, self.compared) for side in SIDES}
        if kind == "low-latency":
            in_flight = PlainWindow("right", self.compared)
            return LowLatencyNode(number, self._nodes, windows, in_flight, **options)
        if kind == "handshake":
            return HandshakeNode(number, self._nodes, windows, self._board, **options)
        return SplitNode(number, self._nodes, windows)

    def feed(self, side: str, numbers: list[int]) -> None:
        count, first = self._next[side]
        self._next[side] = count + 1, first + len(numbers)
        self._send(side, Message(Kind.ARRIVAL, Block(side, count, first, Numbers(numbers), count % self._nodes)))

    def expire(self, side: str, floor: int) -> None:
        self._send("right" if side == "left" else "left", Message(Kind.EXPIRY, side=side, floor=floor))

    @property
    def stored(self) -> int:
        return sum(window.tail - window.head for node in self._simulation.nodes for window in node.windows.values())

    def _send(self, side: str, message: Message) -> None:
        if self._kind == "split":
            for node in range(self._nodes):
                self._simulation.send(node, "driver", message)
        else:
            self._simulation.send(0 if side == "left" else self._nodes - 1, side, message)

    def finish(self, choose: Choose) -> Compared:
        self._simulation.run(choose)
        if self._kind == "handshake":
            self._board.draining = True
            self._simulation.send(0, "left", Message(Kind.TICK))
            self._simulation.run(choose)
        return self.compared


def all_pairs(lefts: int, rights: int) -> Compared:
    return {(l, r): 1 for l in range(lefts) for r in range(rights)}


def faults(compared: Compared, lefts: int, rights: int) -> tuple[int, int]:
    """How many pairs were missed, and how many compared more than once."""
    return lefts * rights - len(compared), sum(count > 1 for count in compared.values())


def small(kind: str, nodes: int, tuples: int = 2, **options: object) -> Callable[[Choose], Compared]:
    def run(choose: Choose) -> Compared:
        simulated = Run(kind, nodes, **options)
        for number in range(tuples):
            simulated.feed("left", [number])
            simulated.feed("right", [number])
        return simulated.finish(choose)

    return run


KINDS = ("low-latency", "handshake", "split")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("nodes", "tuples"), [(1, 2), (2, 2), (3, 1)])
def test_all_schedules_of_a_few_tuples(kind: str, nodes: int, tuples: int) -> None:
    """Two tuples of each side have too many schedules on three nodes: there each side has one."""
    run = small(kind, nodes, tuples)
    tried = 0
    for choose in all_schedules(EXHAUSTIVE):
        assert run(choose) == all_pairs(tuples, tuples)
        tried += 1
    assert 0 < tried < EXHAUSTIVE, "all of them"


@pytest.mark.parametrize("kind", KINDS)
def test_random_schedules(kind: str) -> None:
    """2 to 64 nodes, blocks of different sizes, bursts on one side, any delays; the seed repeats a failure."""
    for seed in range(SCHEDULES):
        rng = random.Random(seed)
        nodes = rng.choice([2, 2, 3, 3, 4, 5, 8, 8, 16, 64 if seed % 20 == 0 else 8])
        run = Run(kind, nodes)
        sizes = {side: rng.choice([0, 1, 5, 20]) for side in SIDES}
        fed = dict.fromkeys(SIDES, 0)
        while any(fed[side] < sizes[side] for side in SIDES):
            side = rng.choice([side for side in SIDES if fed[side] < sizes[side]])
            for _ in range(rng.choice([1, 1, 6])):
                numbers = list(range(fed[side], min(fed[side] + rng.randint(1, 3), sizes[side])))
                if numbers:
                    run.feed(side, numbers)
                    fed[side] += len(numbers)
        assert run.finish(chosen_by(seed)) == all_pairs(sizes["left"], sizes["right"]), f"seed {seed}, {nodes} nodes"


@pytest.mark.parametrize("kind", KINDS)
def test_expired_tuples_are_let_go_but_never_too_early(kind: str) -> None:
    """The driver says what has expired. Pairs that the windows contain are compared once, others at most once."""
    window = 4
    for seed in range(SCHEDULES // 2):
        rng = random.Random(seed)
        run = Run(kind, rng.randint(1, 6))
        arrived: dict[str, list[int]] = {side: [] for side in SIDES}
        wanted: set[tuple[int, int]] = set()
        for _ in range(14):
            side = rng.choice(SIDES)
            other = "left" if side == "right" else "right"
            coordinate = len(arrived[side])
            run.feed(side, [coordinate])
            arrived[side].append(coordinate)
            for partner in arrived[other][-window:]:
                wanted.add((coordinate, partner) if side == "left" else (partner, coordinate))
            run.expire(side, len(arrived[side]) - window)
        compared = run.finish(chosen_by(seed))
        assert wanted <= set(compared), f"seed {seed}"
        assert max(compared.values(), default=1) == 1, f"seed {seed}"
        for side in SIDES:
            run.expire(side, len(arrived[side]) - window)
        run.finish(chosen_by(seed))
        assert run.stored <= 2 * window, f"seed {seed}: expired tuples are still there"


@pytest.mark.parametrize(
    ("kind", "options", "hazard"),
    [
        ("handshake", {"two_phase": False}, "missed"),
        ("low-latency", {"lacking": "flag"}, "doubled"),
        ("low-latency", {"lacking": "stored/fresh"}, "missed"),
        ("low-latency", {"lacking": "waiting"}, "missed"),
    ],
)
def test_hazards_of_the_papers_appear_without_their_remedies(kind: str, options: dict, hazard: str) -> None:
    """Missed pairs (handshake join, Figure 7), stored/stored doubles and stored/fresh misses (low-latency handshake
    join, section 4.2.3)."""
    found = {"missed": 0, "doubled": 0}
    for choose in all_schedules(2_000):
        missed, doubled = faults(small(kind, 2, **options)(choose), 2, 2)
        found["missed"] += missed > 0
        found["doubled"] += doubled > 0
    for seed in range(50):
        run = Run(kind, 3, **options)
        for number in range(6):
            run.feed("left", [number])
            run.feed("right", [number])
        missed, doubled = faults(run.finish(chosen_by(seed)), 6, 6)
        found["missed"] += missed > 0
        found["doubled"] += doubled > 0
    assert found.pop(hazard) > 0
    assert set(found.values()) == {0}, "and no other fault"


@pytest.mark.parametrize("nodes", [1, 2, 3, 7])
def test_lock_step_compares_what_count_windows_contain(nodes: int) -> None:
    """Each arriving tuple with the last n * segment of the other stream, as the asynchronous variant does."""
    for seed in range(50):
        rng = random.Random(seed)
        segment = rng.randint(1, 3)
        compared: Compared = {}
        join = LockStepJoin([{side: PlainWindow(side, compared) for side in SIDES} for _ in range(nodes)], segment)
        arrived: dict[str, int] = dict.fromkeys(SIDES, 0)
        wanted: set[tuple[int, int]] = set()
        asynchronous = Run("handshake", nodes)
        for _ in range(40):
            side = rng.choice(SIDES)
            number = arrived[side]
            arrived[side] += 1
            join.push(Block(side, number, number, Numbers([number])))
            asynchronous.feed(side, [number])
            met = arrived["right" if side == "left" else "left"]
            for partner in range(max(met - nodes * segment, 0), met):
                wanted.add((number, partner) if side == "left" else (partner, number))
        join.drain()
        assert set(compared) == wanted
        assert set(compared.values()) <= {1}
        assert wanted <= set(asynchronous.finish(chosen_by(seed)))


class AsPrinted(LowLatencyNode):
    """Figure 13, line 12, to the letter: the expedition end goes into the rightmost node's own receive queue."""

    simulation: Simulation
    queued: set[int]

    def _end_expedition(self, message: Message, send: Send) -> None:
        assert message.block is not None
        if self._number == self._last and message.block.number not in self.queued:
            self.queued.add(message.block.number)
            self.simulation.send(self._last, "right", message)
        else:
            super()._end_expedition(message, send)


def test_the_printed_place_of_the_expedition_end_misses_pairs() -> None:
    """Tuples of S that already wait in that queue have not met r, and pass over it at its home."""
    missed = doubled = 0
    for choose in all_schedules(2_000):
        run = Run("low-latency", 2)
        for node in run._simulation.nodes:
            node.__class__ = AsPrinted
            node.simulation, node.queued = run._simulation, set()
        for number in range(2):
            run.feed("left", [number])
            run.feed("right", [number])
        faulty = faults(run.finish(choose), 2, 2)
        missed += faulty[0] > 0
        doubled += faulty[1] > 0
    assert missed > 0
    assert doubled == 0


def test_a_seed_repeats_a_run() -> None:
    def pairs_in_order(seed: int) -> list[tuple[int, int]]:
        run = Run("low-latency", 4)
        for number in range(8):
            run.feed("left", [number])
            run.feed("right", [number])
        return list(run.finish(chosen_by(seed)))

    assert pairs_in_order(3) == pairs_in_order(3)
    assert len({tuple(pairs_in_order(seed)) for seed in range(10)}) > 5


def test_every_schedule_is_tried_once() -> None:
    """Three choices of 2, 1 to 3 and 2: the tree has as many leaves as there are schedules."""
    seen = []
    for choose in all_schedules():
        first = choose(2)
        seen.append((first, choose(3) if first else choose(1), choose(2)))
    assert len(seen) == len(set(seen)) == 2 * (1 + 3)
