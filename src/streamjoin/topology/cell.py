"""CellJoin (Gedik et al., as handshake join, section 2.2, and low-latency handshake join, section 2.2.1, describe it).

Kang's three steps, with the scan in parallel: for every arriving batch, the other window is partitioned anew over the
cores, and each compares the whole batch with its part. A coordinator hands the parts out and gathers the pairs, which
keeps the order of the sequential procedure and limits how far it scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from ..side import Side, other
from ..store import Batch, Probing, SideWindow
from .protocol import NO_FLOORS, Chores, Floors, Pairs
from .shared_windows import ProbeTask, SharedWindows


class CellJoin(SharedWindows):
    """The crew scans the parts of a window."""

    name: ClassVar[str] = "celljoin"

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        self._take_in(batches, chores, floors)
        for side, batch in batches.items():
            window = self._windows[other(side)]
            window.prepare()
            for piece in batch.parts() if len(batch) else []:
                yield from self._scan(side, window, Probing(piece))

    def _scan(self, side: Side, window: SideWindow, probing: Probing) -> Iterator[Pairs]:
        """Compare the whole piece with every part of the window, all parts at once. A part whose sink is full goes on
        when its pairs have been taken."""
        sinks = [self._sink(side) for _ in range(self._crew.workers)]
        parts = [window.probe(probing, sink, k, len(sinks)) for k, sink in enumerate(sinks)]
        tasks = [ProbeTask(part, sink, self._crew) for part, sink in zip(parts, sinks, strict=True)]
        while tasks:
            yield from self._crew.run([task.run for task in tasks])
            self._count(tasks)
            tasks = [task for task in tasks if not task.done]
