"""PanJoin (section III-A): a manager and workers over two chains of subwindows.

The paper's five steps, on threads instead of machines:
1. *collecting*: the engine gathers pushed tuples into batches (`flow.collector`);
2. *preprocessing*: the manager says what has to be done: create, insert, probe, expire;
3. *sending*: it puts the parts of that onto a board that all workers, the manager included, take from
   (`parallel.board`);
4. *processing*: workers store, sort and merge both sides' new tuples and sort the ranges that they ask for, stage by
   stage; then each probes every subwindow of the other side with a range of the keys (section III-G3);
5. *feedback*: pairs go back to the manager, a bounded number at a time.

Parts of a side have equally many probing tuples, and there are several for each worker, so workers are busy however the
keys are skewed. Insertions and probes of one chain never overlap.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..compile.background import is_rehearsing
from ..side import Side, other
from ..store import Batch, Probing
from ..store.batch import lasting
from ..tasks import Walk, together
from .pace import Pace
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting
from .shared_windows import SharedWindows

ALONE = 1024
"""A batch of fewer tuples is not worth a second thread."""
PARTS = 8
"""Parts of a step's probing for each worker."""
USUAL_SECONDS = 1e-7
"""What a probing tuple takes until one has been seen."""
Sides = tuple[Side, ...]
"""The sides whose tuples probe in a step."""


class PanJoin(SharedWindows):
    """The crew inserts, then probes ranges of the keys."""

    name: ClassVar[str] = "panjoin"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._commands: Counter[str] = Counter()
        self._seconds_per_tuple: dict[Sides, float] = {}
        """What a tuple took one thread in the last step of each kind."""
        self._pace: dict[Sides, Pace] = {}
        self._steps = 0

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        batches = {side: batch for side, batch in batches.items() if len(batch.row)}
        self._commands["insert"] += len(batches)
        self._commands["probe"] += len(batches)
        small = self._small_step(batches, floors)
        return self._ordinary_step(batches, chores, floors) if small is None else small

    def _ordinary_step(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> Iterator[Pairs]:
        probes = sum(map(len, batches.values()))
        self._steps += 1
        is_alone = probes < ALONE or self._crew.workers == 1
        if is_alone or (is_rehearsing() and self._steps % 4 < 2):  # both ways for both sides
            yield from self._step_alone(batches, chores, floors)
            return
        pace = self._pace.get(tuple(batches))
        if pace is None:
            pace = self._pace[tuple(batches)] = Pace(self._crew.workers)
        expected = probes * self._seconds_per_tuple.get(tuple(batches), USUAL_SECONDS)
        workers = pace.workers(probes, expected) if not is_rehearsing() else self._crew.workers
        seconds, started, busy = 0.0, time.perf_counter(), self._crew.worked
        if workers == 1:
            found = self._step_alone(batches, chores, floors)
        else:
            found = self._step_together(batches, chores, floors, workers)
        for pairs in found:
            seconds += time.perf_counter() - started
            yield pairs
            started = time.perf_counter()
        seconds += time.perf_counter() - started
        pace.note(probes, workers, seconds)
        alone = seconds if workers == 1 else self._crew.worked - busy
        self._seconds_per_tuple[tuple(batches)] = alone / probes

    def _step_together(
        self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors, workers: int
    ) -> Iterator[Pairs]:  # fmt: skip
        """The crew shares the work."""
        stored = {side: lasting(batch, floors.get(side), batches.get(other(side))) for side, batch in batches.items()}
        for side in batches:
            self._windows[side].share_among(-(-workers // len(batches)))
            self._windows[other(side)].expect(batches[side])
        probings = [
            (side, Probing(piece))
            for side, batch in batches.items()
            for piece in self._windows[other(side)].parts(batch)
        ]
        # What is computed for the probing is out of date if new tuples change the key space, but that is rare.
        walks = [self._windows[side].taking_in(batch, floors.get(side)) for side, batch in stored.items()]
        together([*walks, *self._ahead(probings, workers), *(chore() for chore in chores)], self._crew.run)
        together([self._windows[other(side)].preparing() for side in batches], self._crew.run)
        together(self._ahead(probings, workers), self._crew.run)
        yield from self._found(probings, -(-PARTS * workers // len(probings)), workers)

    def _step_alone(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> Iterator[Pairs]:
        """The manager does everything: to wake a worker would take longer."""
        for window in self._windows.values():
            window.share_among(1)
        self._take_in(batches, chores, floors)
        for side in batches:
            self._windows[side].index_early()
        yield from self._probe_all(batches)

    def _ahead(self, probings: list[tuple[Side, Probing]], workers: int) -> list[Walk]:
        share = -(-workers // len(probings))
        return [self._windows[other(side)].computing_ahead(probing, share) for side, probing in probings]

    def expire(self, side: Side, floor: int) -> None:
        self._commands["expire"] += self._windows[side].expire(floor)

    def _shared_figures(self, floors: Floors) -> dict[str, Any]:
        created = sum(window.created for window in self._windows.values())
        return {**super()._shared_figures(floors), "commands": {**self._commands, "create": created}}
