"""The contestants of one cell, in turns.

A contestant's error ends its part in the cell, not the run. A wrong number of results is noted and fails the run at its
end, when all figures are written.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from ...engine.window_join import WindowJoin
from ...reporting.measure import Others, Rates
from ...side import SIDES
from .cells import Cell
from .contestants import Contestant
from .results import CellResults, Entry, MachineSettings, Places
from .streams import Source

FILLED_AT_ONCE = 1 << 18
"""The most tuples of each stream in a push that fills windows."""
WARM_ROUNDS = 2
Say = Callable[[str], None]


class Entrant:
    """A contestant at work."""

    def __init__(self, cell: Cell, contestant: Contestant, source: Source) -> None:
        self.entry = Entry(contestant)
        self._cell, self._source = cell, source
        self._join: WindowJoin | None = contestant.open(cell, source)
        self._at = 0

    def fill(self, limit: float) -> None:
        """Fill both windows and warm up; TimeoutError if that takes too long."""
        window, batch = self._cell.window, self._cell.batch
        size = max(min(FILLED_AT_ONCE, window // 4), batch)
        started = time.perf_counter()
        while self._at < window:
            self._round(min(size, window - self._at))
            if time.perf_counter() - started > limit:
                raise TimeoutError(f"its windows were not full after {limit:,.0f} s")
        self.entry.filling = time.perf_counter() - started
        for _ in range(WARM_ROUNDS):
            self._round(batch)

    def _round(self, batch: int) -> tuple[float, float]:
        """Push a batch of each stream and poll; the seconds of wall and of CPU time, without those for making them."""
        assert self._join is not None
        start, stop = self._at, self._at + batch
        left, right = self._source.tables(start, stop)
        wall, cpu = time.perf_counter(), time.process_time()
        self._join.push_left(left)
        self._join.push_right(right)
        found = self._join.poll().num_rows
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.entry.found[start, stop] = found
        self._at = stop
        return wall, cpu

    def lap(self, seconds: float) -> None:
        """Rounds for some time, and at least one."""
        tuples, wall, cpu = 0, 0.0, 0.0
        while not tuples or wall < seconds:
            took, busy = self._round(self._cell.batch)
            tuples, wall, cpu = tuples + 2 * self._cell.batch, wall + took, cpu + busy
            self.entry.rounds.append(took)
        self.entry.rates.add(tuples, wall, cpu, wall)

    def finish(self) -> None:
        """End both streams."""
        join, self._join = self._join, None
        if join is not None:
            with join:
                metrics = join.metrics()
                self.entry.chosen = f"{join.options.algorithm}, {metrics['index']}"
                if self.entry.contestant.on_gpu:
                    _check_device(metrics)
                self.entry.late = int(join.finish().num_rows)

    def give_up(self) -> None:
        join, self._join = self._join, None
        if join is not None:
            join.close()


def _check_device(metrics: dict[str, Any]) -> None:
    """RuntimeError if a join that should use the GPU says that it did not."""
    for side in SIDES:
        figures = metrics["indexes"][side]
        if figures.get("device") == "cpu":
            raise RuntimeError(f"it joined on the CPU: {figures.get('device_why')}")


def measure(cell: Cell, chosen: list[Contestant], settings: MachineSettings, say: Say) -> CellResults:
    """Fill the windows of all contestants, then let them take turns, and compare what they have found."""
    results, source = CellResults(cell), Source(cell.kind, cell.window, settings.seed)
    with ExitStack() as stack:
        running: list[Entrant] = []
        for contestant in chosen:
            say(f"{cell.name}: {contestant.name}, filling")
            entrant = _entered(cell, contestant, source, results)
            if entrant is not None:
                stack.callback(entrant.give_up)
                if done(entrant, partial(entrant.fill, settings.limit)):
                    running.append(entrant)
        gc.collect()
        others = Others()
        for lap in range(settings.laps):
            for entrant in running if lap % 2 == 0 else running[::-1]:
                if not entrant.entry.stopped:
                    say(f"{cell.name}: {entrant.entry.contestant.name}, lap {lap + 1} of {settings.laps}")
                    done(entrant, partial(entrant.lap, settings.seconds / settings.laps))
        results.others = others.cores()
        say(f"{cell.name}: counting the results")
        ended = [each.entry for each in running if not each.entry.stopped and done(each, each.finish)]
    results.wrong = wrong_counts(cell, source, ended)
    return results


def _entered(cell: Cell, contestant: Contestant, source: Source, results: CellResults) -> Entrant | None:
    try:
        entrant = Entrant(cell, contestant, source)
    except Exception as error:  # a GPU that cannot do this predicate, or has no room
        results.entries.append(Entry(contestant, stopped=_named(error)))
        return None
    results.entries.append(entrant.entry)
    return entrant


def done(entrant: Entrant, work: Callable[[], None]) -> bool:
    """Whether the work was done. An error is noted, and the contestant gives up and has no figures. So it is with a
    warning of the GPU's, after which the CPU would go on under its name."""
    entry = entrant.entry
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            work()
        for warning in caught:
            if entry.contestant.on_gpu and issubclass(warning.category, RuntimeWarning):
                raise RuntimeError(str(warning.message))
    except Exception as error:
        entry.stopped, entry.rates, entry.rounds = _named(error), Rates(), []
        entrant.give_up()
        return False
    return True


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def wrong_counts(cell: Cell, source: Source, ended: list[Entry]) -> list[str]:
    """Where numbers of results are wrong: not those of others in the same round, or not the true ones.

    All run the same rounds, some more of them. The first measured one and the last are counted without the join. Who
    finds pairs late, as handshake join does, is judged by the sum to the end of the streams.
    """
    wrong = []
    agreed: dict[Places, int] = {}
    at_once = [entry for entry in ended if not entry.late and cell.algorithm != "handshake"]
    for entry in at_once:
        for places, found in entry.found.items():
            if found != agreed.setdefault(places, found):
                wrong.append(
                    f"{cell.name}, {entry.contestant.name}: finds {found:,} pairs in {places} where another finds "
                    f"{agreed[places]:,}"
                )
                break
    measured = sorted(places for places in agreed if places[0] >= cell.window)
    for places in {*measured[:1], *measured[-1:]}:
        if agreed[places] != (right := source.expected(*places)):
            wrong.append(f"{cell.name}: {agreed[places]:,} pairs are found in {places}, but there are {right:,}")
    for entry in ended:
        if entry not in at_once:
            right = sum(agreed[p] if p in agreed else source.expected(*p) for p in entry.found)
            if entry.total != right:
                wrong.append(
                    f"{cell.name}, {entry.contestant.name}: finds {entry.total:,} pairs where there are {right:,}"
                )
    return wrong
