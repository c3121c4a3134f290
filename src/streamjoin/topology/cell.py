"""CellJoin (Gedik et al., as handshake join, section 2.2, and low-latency handshake join, section 2.2.1, describe it).

Kang's three steps, with the scan in parallel: for every arriving batch, the other window is partitioned anew over the
cores, and each compares the whole batch with its part. A coordinator hands the parts out and gathers the pairs, which
keeps the order of the sequential procedure and limits how far it scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..parallel.crew import Crew
from ..side import Side, other
from ..store import Batch, PairSink, Probing, SideWindow
from ..store.batch import Decide
from . import OverWindows, Pairs, Part


class CellJoin(OverWindows):
    """`windows` hold both sides' tuples; `decide` settles what kernels leave open."""

    def __init__(self, windows: Mapping[Side, SideWindow], decide: Decide, crew: Crew) -> None:
        super().__init__(windows)
        self._decide, self._crew = decide, crew

    def step(self, batches: Mapping[Side, Batch], chores: Sequence[Callable[[], None]] = ()) -> Iterator[Pairs]:
        self._take_in(batches, chores)
        for side, batch in batches.items():
            window = self._windows[other(side)]
            window.prepare()
            for piece in batch.parts() if len(batch) else []:
                yield from self._scan(side, window, Probing(piece))

    def _scan(self, side: Side, window: SideWindow, probing: Probing) -> Iterator[Pairs]:
        """The whole piece against every part of the window, all parts at once; those that have found as much as may be
        kept go on when it has been taken."""
        sinks = [PairSink(self._decide, left_probes=side == "left") for _ in range(self._crew.workers)]
        parts = [Part(window.probe(probing, sink, k, len(sinks)), sink) for k, sink in enumerate(sinks)]
        while parts:
            yield from self._crew.run([part.run for part in parts])
            for part in parts:
                self.comparisons += part.comparisons
                part.comparisons = 0
            parts = [part for part in parts if not part.done]

    def workers(self) -> list[dict[str, Any]]:
        """The windows are shared: the first entry has the counts, each has the seconds its thread was busy."""
        busy = list(self._crew.busy.values()) or [0.0]
        return [{"worker": n, "busy_s": s, **(self.shared_figures() if not n else {})} for n, s in enumerate(busy)]

    def close(self) -> None:
        """There are no threads but the crew's, which is not ours."""
