"""PanJoin (section III-A): a manager and workers over two chains of subwindows.

The paper's five steps, on threads instead of machines:
1. *collecting*: the engine gathers pushed tuples into batches (`flow.collector`);
2. *preprocessing*: the manager sorts the batch's ranges and says what has to be done: create, insert, probe, expire;
3. *sending*: commands go onto one list that all workers, the manager included, take from (`flow.crew`);
4. *processing*: a worker probes every subwindow of the other side with a range of the keys (section III-G3), while
   another one sorts the batch into the newest subwindow of its own side;
5. *feedback*: each part's pairs go back to the manager, in the order of the parts, a bounded number at a time.

Parts have equally many probing tuples, so workers are busy however the keys are skewed. Insertions and probes of one
chain never overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..parallel.crew import Crew
from ..side import SIDES, Side, other
from ..store import Batch, PairSink, SideWindow
from ..store.batch import Decide
from . import OverWindows, Pairs, Part

ALONE = 1024
"""A batch of fewer tuples is not worth a second thread."""
PART_SECONDS = 0.001
"""A part should take about as long: shorter ones cost more than they balance."""


class PanJoin(OverWindows):
    """`windows` hold both sides' tuples; `decide` settles what kernels leave open."""

    def __init__(self, windows: Mapping[Side, SideWindow], decide: Decide, crew: Crew) -> None:
        super().__init__(windows)
        self._decide = decide
        self._crew = crew
        self._commands: Counter[str] = Counter()
        self._seconds_per_tuple = 0.0

    def step(self, batches: Mapping[Side, Batch], chores: Sequence[Callable[[], None]] = ()) -> Iterator[Pairs]:
        batches = {side: batch for side, batch in batches.items() if len(batch)}
        for side, batch in batches.items():
            self._windows[other(side)].expect(batch)
        others = list(chores)
        if len(batches) == 1:
            ((side, batch),) = batches.items()
            self._windows[other(side)].prepare()
            others.insert(0, lambda: self._insert(side, batch))
        else:
            self._crew.run([lambda s=s, b=b: self._insert(s, b) for s, b in batches.items()])  # type: ignore[misc]
            for side in SIDES:
                self._windows[side].prepare()
        self._commands["insert"] += len(batches)
        alone = sum(map(len, batches.values())) < ALONE
        with self._crew.sharing(others, alone=alone) as shared:
            waiting = [part for side, batch in batches.items() for part in self._parts(side, batch, alone)]
            parts = waiting
            self._commands["probe"] += len(parts)
            now, waiting = waiting[: self._at_once], waiting[self._at_once :]
            found = shared.run([part.run for part in now])
        while now:
            yield from found
            for part in now:
                self.comparisons += part.comparisons
                part.comparisons = 0
            waiting = [part for part in now if not part.done] + waiting
            now, waiting = waiting[: self._at_once], waiting[self._at_once :]
            found = self._crew.run([part.run for part in now])
        probes = sum(map(len, batches.values()))
        if probes >= ALONE:
            self._seconds_per_tuple = sum(part.seconds for part in parts) / probes

    @property
    def _at_once(self) -> int:
        """How many parts run before their pairs are handed on: only these can hold pairs."""
        return 8 * self._crew.workers

    def _parts(self, side: Side, batch: Batch, alone: bool) -> list[Part]:
        window = self._windows[other(side)]
        workers = self._crew.workers
        wanted = int(self._seconds_per_tuple * len(batch) / PART_SECONDS)
        shares = window.shares(batch, 1 if alone else workers, min(max(wanted, 2 * workers - 1), 8 * workers))
        sinks = [PairSink(self._decide, left_probes=side == "left") for _ in shares]
        return [Part(window.probe(share, sink), sink) for share, sink in zip(shares, sinks, strict=True)]

    def _insert(self, side: Side, batch: Batch) -> None:
        self._windows[side].insert(batch)
        self._windows[side].index_early()

    def expire(self, side: Side, floor: int) -> None:
        self._commands["expire"] += self._windows[side].expire(floor)

    def workers(self) -> list[dict[str, Any]]:
        """The windows are shared: the first entry has the counts, each has the seconds its thread was busy."""
        shared = {
            **self.shared_figures(),
            "commands": {**self._commands, "create": sum(window.created for window in self._windows.values())},
        }
        busy = list(self._crew.busy.values()) or [0.0]
        return [{"worker": n, "busy_s": s, **(shared if not n else {})} for n, s in enumerate(busy)]

    def close(self) -> None:
        """There are no threads but the crew's, which is not ours."""
