"""What algorithms have in common that keep each side's tuples in one window which all cores share."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..compile.background import is_rehearsing
from ..parallel.crew import Crew
from ..side import SIDES, Side, other
from ..store import Batch, PairSink, Probing, SideWindow, few_scan
from ..store.batch import lasting
from ..store.few import Few
from ..store.pair_slots import PairSlots
from ..tasks import Job, do_all, together
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting, Unmet
from .small_steps import SmallSteps


class ProbeTask:
    """A share of a step's probing, which fills a sink. It may run on any thread of the crew."""

    def __init__(self, steps: Iterator[int], sink: PairSink, crew: Crew) -> None:
        self._steps, self._sink, self._crew = steps, sink, crew
        self.comparisons = 0
        self.seconds = 0.0
        self.done = False

    def run(self) -> Pairs:
        """Go on until all pairs are found, or as many as the sink keeps at once."""
        started = time.perf_counter()
        for compared in self._steps:
            self.comparisons += compared
            if self._sink.is_full:
                break
            self._crew.checkpoint()
        else:
            self.done = True
        self.seconds += time.perf_counter() - started
        return self._sink.take()


class SharedWindows:
    """A base of topologies. A subclass adds `name` and `step`."""

    name: ClassVar[str]
    one_core: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    finds_late: ClassVar[bool] = False
    meets_once: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self._windows: Mapping[Side, SideWindow] = {side: setting.make_window(side, "") for side in SIDES}
        self._decide, self._crew = setting.decide, setting.crew
        self._small = SmallSteps(self._windows, self._decide)
        self._slots = PairSlots(self._crew.workers, self._decide)
        self.comparisons = 0

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        raise NotImplementedError

    def _small_step(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> Iterator[Pairs] | None:
        """A small step; None: this must be an ordinary one."""
        if is_rehearsing():
            few_scan.rehearse()
            return None
        some = {side: batch for side, batch in batches.items() if len(batch)}
        places = self._small.places(some, floors)
        return None if places is None else self._taken(places, some, chores)

    def _taken(self, places: Mapping[Side, Few], batches: Mapping[Side, Batch], chores: Chores) -> Iterator[Pairs]:
        do_all(chores)
        yield from self._small.step(places, batches)
        self.comparisons += self._small.comparisons
        self._small.comparisons = 0

    def _take_in(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> None:
        """Insert all batches before any of them probes: each tuple's [low, high) already says whom it may meet."""
        together([chore() for chore in chores], self._crew.run)
        for side, batch in batches.items():
            stored = lasting(batch, floors.get(side), batches.get(other(side)))
            self._windows[side].insert(stored, floors.get(side))
        for side, batch in batches.items():
            self._windows[other(side)].expect(batch)

    def insert(self, side: Side, batch: Batch) -> None:
        """Take in tuples that have probed already."""
        self._windows[side].insert(batch)

    def probe(self, side: Side, batch: Batch) -> Iterator[Pairs]:
        """Find the pairs of tuples that have been taken in already, on this thread."""
        window = self._windows[other(side)]
        window.prepare()
        for part in window.shares(batch, workers=1):
            sink = self._sink(side)
            yield from self._taken_from(sink, window.probe(part, sink))

    def _probe_all(self, batches: Mapping[Side, Batch]) -> Iterator[Pairs]:
        """The same for several batches. Devices begin with all of them before any of them is waited for."""
        begun = {side: self._begun(side, batch) for side, batch in batches.items()}
        for side, batch in batches.items():
            for sink, found in begun[side]:
                yield from self._taken_from(sink, found)
            if not begun[side]:
                yield from self.probe(side, batch)

    def _begun(self, side: Side, batch: Batch) -> list[tuple[PairSink, Iterator[int]]]:
        """What finds the pairs of a batch on a device, where all of them are found there."""
        window, begun = self._windows[other(side)], []
        for part in window.parts(batch) if window.is_on_device and len(batch) else ():
            probing, sink = Probing(part), self._sink(side)
            found = window.begun(probing, sink) or window.probe(probing, sink)
            begun.append((sink, found))
        return begun

    def _taken_from(self, sink: PairSink, found: Iterator[int]) -> Iterator[Pairs]:
        for compared in found:
            self.comparisons += compared
            if sink.is_full:
                yield sink.take()
        yield sink.take()

    def visit(self, side: Side, batch: Batch) -> Iterator[Pairs]:
        """Find the pairs of tuples that are not taken in."""
        window = self._windows[other(side)]
        if window.count:
            window.expect(batch)
            yield from self.probe(side, batch)

    def _found(
        self, probings: list[tuple[Side, Probing]], parts: int, workers: int, by_stored: bool = False
    ) -> Iterator[Pairs]:  # fmt: skip
        """The pairs of some batches, whose probing is cut into so many parts each, found by so many workers."""
        jobs: list[Job] = []
        tasks: list[ProbeTask] = []
        begun: list[tuple[PairSink, Iterator[int]]] = []
        for side, probing in probings:
            window, sink = self._windows[other(side)], self._sink(side)
            on_device = window.begun(probing, sink)
            if on_device is not None:
                begun.append((sink, on_device))
                continue
            found, alone, groups = window.jobs(probing, parts, side == "left", by_stored)
            jobs += found
            if alone or groups:
                for share in probing.split(workers):
                    sink = self._sink(side)
                    beside = window.probe_beside_jobs(alone, groups, share, sink)
                    tasks.append(ProbeTask(beside, sink, self._crew))
        if jobs:
            self._slots.make_ready()
            for _ in self._crew.rounds(jobs, self._slots.words, workers):
                yield from self._slots.take()
            compared = self._slots.compared()
            self.comparisons += compared
            probes = sum(len(probing.batch) for _, probing in probings)
            for side, probing in probings:
                count = len(probing.batch)
                self._windows[other(side)].note_probed(count, compared * count // probes)
        for sink, on_device in begun:
            yield from self._taken_from(sink, on_device)
        while tasks:
            yield from self._crew.run([task.run for task in tasks])
            self._count(tasks)
            tasks = [task for task in tasks if not task.done]

    def _sink(self, probing: Side) -> PairSink:
        return PairSink(self._decide, left_probes=probing == "left")

    def _count(self, tasks: list[ProbeTask]) -> None:
        for task in tasks:
            self.comparisons += task.comparisons
            task.comparisons = 0

    def finish(self) -> Iterator[Pairs]:
        yield from ()

    def unmet(self) -> list[Unmet]:
        return []

    def expire(self, side: Side, floor: int) -> None:
        self._windows[side].expire(floor)

    def occupancy(self, side: Side, floor: int | None = None) -> int:
        window = self._windows[side]
        return window.count if floor is None else window.at_least(floor)

    def first_row(self, side: Side) -> int | None:
        return self._windows[side].first_row

    def indexes(self) -> dict[Side, dict[str, Any]]:
        return {side: window.figures() for side, window in self._windows.items()}

    def workers(self, floors: Floors = NO_FLOORS) -> list[dict[str, Any]]:
        """The windows are shared: the first entry has the counts, each has the seconds that its thread was busy."""
        first, *others = self._crew.busy
        entries = [{"worker": 0, "busy_s": first, **self._shared_figures(floors)}]
        return entries + [{"worker": n, "busy_s": s} for n, s in enumerate(others, 1)]

    def _shared_figures(self, floors: Floors) -> dict[str, Any]:
        """Figures of the whole, whoever did the work."""
        return {
            "comparisons": self.comparisons,
            **{f"{side}_window": self.occupancy(side, floors.get(side)) for side in SIDES},
            "bytes": sum(window.nbytes for window in self._windows.values()),
        }

    def close(self) -> None:
        """Let the tuples go. There are no threads but the crew's, which belongs to the engine."""
        for window in self._windows.values():
            window.clear()
        self._slots.release()
