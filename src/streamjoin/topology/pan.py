"""PanJoin (section III-A): a manager and workers over two chains of subwindows.

The paper's five steps, on threads instead of machines:
1. *collecting*: the engine gathers pushed tuples into batches (`flow.collector`);
2. *preprocessing*: the manager sorts the batch's ranges and says what has to be done: create, insert, probe, expire;
3. *sending*: commands go onto one list that all workers, the manager included, take from (`parallel.crew`);
4. *processing*: a worker probes every subwindow of the other side with a range of the keys (section III-G3), or with
   all of its side's batch if that is little work, while another one sorts the batch into the newest subwindow of its
   own side, or probes with the other side's;
5. *feedback*: each part's pairs go back to the manager, in the order of the parts, a bounded number at a time.

Parts of a side have equally many probing tuples, so workers are busy however the keys are skewed. Insertions and probes
of one chain never overlap.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..side import SIDES, Side, other
from ..store import Batch
from ..store.batch import lasting
from ..tasks import one_after_another
from .pace import Pace
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting
from .shared_windows import ProbeTask, SharedWindows

ALONE = 1024
"""A batch of fewer tuples is not worth a second thread."""
PART_SECONDS = 0.001
"""A part should take about as long: shorter ones cost more than they balance."""
UNEVEN = 1.5
"""By what factor the work of one side may be more than that of the other."""
LARGE = 1 << 14
"""Tuples to store in a step that are worth a second thread."""
USUAL_SECONDS = 1e-7
"""What a probing tuple takes until one has been seen."""
Sides = tuple[Side, ...]
"""The sides whose tuples probe in a step."""


class PanJoin(SharedWindows):
    """The crew probes ranges of the keys, while one of it inserts."""

    name: ClassVar[str] = "panjoin"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._commands: Counter[str] = Counter()
        self._seconds_per_tuple: dict[tuple[Sides, Side], float] = {}
        """What the probing of a side took in the last step of each kind. One side may find far more than the other."""
        self._pace: dict[Sides, Pace] = {}

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        batches = {side: batch for side, batch in batches.items() if len(batch)}
        probes = sum(map(len, batches.values()))
        self._commands["insert"] += len(batches)
        if probes < ALONE and (small := self._small_step(batches, chores, floors)) is not None:
            self._commands["probe"] += len(batches)
            yield from small
            return
        if probes < ALONE or self._crew.workers == 1:
            yield from self._step_alone(batches, chores, floors)
            return
        sides = tuple(batches)
        pace = self._pace.setdefault(sides, Pace())
        shared = pace.shares(probes, sum(self._expected(sides, side, batch) for side, batch in batches.items()))
        seconds, started = 0.0, time.perf_counter()
        for pairs in (self._step_together if shared else self._step_alone)(batches, chores, floors):
            seconds += time.perf_counter() - started
            yield pairs
            started = time.perf_counter()
        pace.note(probes, shared, seconds + time.perf_counter() - started)

    def _step_together(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> Iterator[Pairs]:
        """The crew shares the work."""
        others = list(chores)
        stored = {side: lasting(batch, floors.get(side), batches.get(other(side))) for side, batch in batches.items()}
        if len(batches) == 1:
            ((side, batch),) = batches.items()
            self._windows[other(side)].expect(batch)
            self._windows[other(side)].prepare()
            others.insert(0, lambda: self._insert(side, stored[side], floors.get(side)))
        else:
            inserts = [lambda s=s, b=b: self._insert(s, b, floors.get(s)) for s, b in stored.items()]
            (self._crew.run if sum(map(len, stored.values())) >= LARGE else one_after_another)(inserts)
            for side in SIDES:
                self._windows[side].expect(batches[other(side)])
                self._windows[side].prepare()
        with self._crew.sharing(others) as shared:
            tasks_of = {side: self._tasks(side, batch, parts) for side, batch, parts in self._cut(batches)}
            tasks = [task for own in tasks_of.values() for task in own]
            self._commands["probe"] += len(tasks)
            now, waiting = tasks[: self._at_once], tasks[self._at_once :]
            found = shared.run([task.run for task in now])
        while now:
            yield from found
            self._count(now)
            waiting = [task for task in now if not task.done] + waiting
            now, waiting = waiting[: self._at_once], waiting[self._at_once :]
            found = self._crew.run([task.run for task in now])
        for side, own in tasks_of.items():
            self._seconds_per_tuple[tuple(batches), side] = sum(task.seconds for task in own) / len(batches[side])

    def _step_alone(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> Iterator[Pairs]:
        """The manager does everything: to wake a worker would take longer."""
        self._take_in(batches, chores, floors)
        for side in batches:
            self._windows[side].index_early()
        self._commands["probe"] += len(batches)
        for side, batch in batches.items():
            seconds, started = 0.0, time.perf_counter()
            for pairs in self.probe(side, batch):
                seconds += time.perf_counter() - started
                yield pairs
                started = time.perf_counter()
            if len(batch) >= ALONE // 2:  # what a step costs to begin with says nothing of a tuple
                seconds += time.perf_counter() - started
                self._seconds_per_tuple[tuple(batches), side] = seconds / len(batch)

    @property
    def _at_once(self) -> int:
        """How many tasks run before their pairs are handed on: only these can hold pairs."""
        return 8 * self._crew.workers

    def _expected(self, sides: Sides, side: Side, batch: Batch) -> float:
        """The seconds that the probing of a side is likely to take, of one thread."""
        return len(batch) * self._seconds_per_tuple.get((sides, side), USUAL_SECONDS)

    def _cut(self, batches: Mapping[Side, Batch]) -> list[tuple[Side, Batch, int]]:
        """Into how many parts to cut the probing of each side.

        One side: a worker inserts first, so the rest is cut finer. Two sides that are about as much work: each keeps
        half of the workers busy from the beginning to the end, and to cut it finer would only cost.
        """
        sides, workers = tuple(batches), self._crew.workers
        expected = [self._expected(sides, side, batch) for side, batch in batches.items()]
        half = -(-workers // 2)
        if len(sides) == 2 and max(expected) < UNEVEN * min(expected):
            return [(side, batch, half) for side, batch in batches.items()]
        least = 2 * workers - 1 if len(sides) == 1 else half
        parts = [min(max(int(seconds / PART_SECONDS), least), 8 * workers) for seconds in expected]
        return list(zip(sides, batches.values(), parts, strict=True))

    def _tasks(self, side: Side, batch: Batch, parts: int) -> list[ProbeTask]:
        window = self._windows[other(side)]
        workers = self._crew.workers
        shares = window.shares(batch, workers if parts > 1 else 1, parts)
        sinks = [self._sink(side) for _ in shares]
        return [
            ProbeTask(window.probe(share, sink), sink, self._crew) for share, sink in zip(shares, sinks, strict=True)
        ]

    def _insert(self, side: Side, batch: Batch, floor: int | None) -> None:
        self._windows[side].insert(batch, floor)
        self._windows[side].index_early()

    def expire(self, side: Side, floor: int) -> None:
        self._commands["expire"] += self._windows[side].expire(floor)

    def _shared_figures(self, floors: Floors) -> dict[str, Any]:
        created = sum(window.created for window in self._windows.values())
        return {**super()._shared_figures(floors), "commands": {**self._commands, "create": created}}
