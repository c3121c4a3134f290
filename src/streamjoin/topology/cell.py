"""CellJoin (Gedik et al., as handshake join, section 2.2, and low-latency handshake join, section 2.2.1, describe it).

Kang's three steps, with the scan in parallel: for every arriving batch, the other window is partitioned anew over the
cores, and each compares the whole batch with its part. A coordinator hands the parts out and gathers the pairs, which
keeps the order of the sequential procedure and limits how far it scales.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

from ..compile.background import is_rehearsing
from ..side import SIDES, Side, other
from ..store import Batch, Probing
from .pace import Pace
from .protocol import NO_FLOORS, Chores, Floors, Pairs, Setting
from .shared_windows import SharedWindows

PARTS = 4
"""Parts of the window for each worker: the last ones to be done keep nobody waiting for long."""


class CellJoin(SharedWindows):
    """The crew scans the parts of a window."""

    name: ClassVar[str] = "celljoin"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._pace = {side: Pace(self._crew.workers) for side in SIDES}
        self._seconds: dict[Side, float] = dict.fromkeys(SIDES, 0.0)
        """What a tuple of each side took one thread in its last step."""

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        self._take_in(batches, chores, floors)
        for side, batch in batches.items():
            if not len(batch):
                continue
            self._windows[other(side)].prepare()
            pace, count, seconds = self._pace[side], len(batch), 0.0
            workers = pace.workers(count, count * self._seconds[side])
            if is_rehearsing() or not self._seconds[side]:
                workers = self._crew.workers
            started, busy = time.perf_counter(), self._crew.worked
            for pairs in self._scan(side, batch, workers) if workers > 1 else self.probe(side, batch):
                seconds += time.perf_counter() - started
                yield pairs
                started = time.perf_counter()
            seconds += time.perf_counter() - started
            pace.note(count, workers, seconds)
            self._seconds[side] = (seconds if workers == 1 else self._crew.worked - busy) / count

    def _scan(self, side: Side, batch: Batch, workers: int) -> Iterator[Pairs]:
        """Compare the whole batch with every part of the window, all parts at once."""
        for piece in self._windows[other(side)].parts(batch):
            yield from self._found([(side, Probing(piece))], PARTS * workers, workers, by_stored=True)
