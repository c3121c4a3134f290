"""Every cell, with its contestants in turns."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ...errors import ArgumentError
from .contestants import DEFAULT, INDEXES
from .measure import Failed, Stopped, Track
from .results import CellResults, Entry, ShapesResults, ShapesSettings
from .work import Cell, Sizes

PATIENCE, LEAST_LIMIT = 5, 15.0
"""A contestant may take so many times as long as the defaults, or so many seconds: kernels compile in its first lap."""
ENOUGH, LEAST_LAPS = 6.0, 2
"""After so many seconds a contestant has had enough laps, if it had some."""
HOPELESS = 10
"""Who is so many times slower than the defaults has no second lap."""


def measure_all(
    settings: ShapesSettings, sizes: Sizes, cells: list[Cell], say: Callable[[str], None],
    done: Callable[[ShapesResults], None],
) -> ShapesResults:  # fmt: skip
    """Measure the cells one by one; `done` is called after each, with all results so far."""
    results = ShapesResults()
    with Track(sizes, settings.laps, settings.seconds) as track:
        for cell in cells:
            say(f"{cell.name}: making the inputs")
            try:
                names = track.open(cell.name)
            except ArgumentError as error:
                results.left_out.append(f"{cell.name}: {error}")
                continue
            found = measure(track, cell, names, settings, say)
            found.check()
            results.cells.append(found)
            results.left_out += [text for text in found.absent if text not in results.left_out]
            done(results)
    return results


def measure(
    track: Track, cell: Cell, names: list[str], settings: ShapesSettings, say: Callable[[str], None]
) -> CellResults:  # fmt: skip
    """Laps of all contestants in turns, the defaults first, then in the reverse order, and so on: nobody always runs
    with caches that another one has filled."""
    results = CellResults(cell.name, cell.shape, cell.place, cell.window, cell.batch)
    entries = {name: Entry(name) for name in names}
    for lap in range(settings.laps):
        order = list(entries.items())
        for name, entry in order if lap % 2 == 0 else reversed(order):
            if _is_done(entry, entries[DEFAULT], lap):
                continue
            say(f"{cell.name}: {name}, lap {lap + 1} of {settings.laps}")
            default = entries[DEFAULT].longest
            is_free = name == DEFAULT or not default
            limit = settings.limit if is_free else min(settings.limit, max(PATIENCE * default, LEAST_LIMIT))
            _lap(track, entry, limit)
    loads = [load for entry in entries.values() for load in entry.others]
    results.others = float(np.mean(loads)) if loads else None
    results.entries = [entry for entry in entries.values() if not entry.unfit]
    results.absent = [f"{e.contestant}: {e.unfit}" for e in entries.values() if e.unfit and e.contestant not in INDEXES]
    return results


def _is_done(entry: Entry, default: Entry, laps: int) -> bool:
    if entry.stopped or entry.unfit:
        return True
    return (laps > 0 and HOPELESS * entry.best < default.best) or (laps >= LEAST_LAPS and entry.rates.seconds > ENOUGH)


def _lap(track: Track, entry: Entry, limit: float) -> None:
    started = time.perf_counter()
    try:
        lap = track.lap(entry.contestant, limit)
    except Stopped as error:
        entry.stopped = str(error)
        return
    except Failed as error:
        entry.stopped = entry.failed = str(error)
        return
    except ArgumentError as error:
        entry.unfit = str(error)
        return
    wall = time.perf_counter() - started
    entry.longest = max(entry.longest, wall)
    if not lap.tuples:
        return
    entry.rates.add(lap.tuples, lap.seconds, lap.cpu, lap.seconds)
    entry.counts |= lap.counts
    entry.chosen = lap.chosen
    entry.others += [] if lap.others is None else [lap.others]
