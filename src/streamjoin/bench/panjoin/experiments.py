"""Which joins are measured: all systems, all indexes, selectivities, skewed keys, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...errors import ArgumentError
from ..peers import PEERS
from ..peers.duckdb_peer import DuckDB
from ..peers.polars_peer import Polars
from ..workloads import Draw, Streams, equal, increasing, skewed, uniform
from .contestants import JoinContestant, Joined, Rival
from .measure import measure
from .memory import memory
from .results import PanJoinResults, PanJoinSettings

CELL_SELECTIVITY, MOST_FILLING = 4.4e-6, 50
"""Results per pair of tuples, and M results up to which windows are filled without having been asked for by name."""
SCANNED = 2e9
"""Comparisons that a scan makes in a round at most."""
SELECTIVITIES = (1, 16, 256)
MOST_RESULTS = 4_000_000
"""Results in a round at most."""
EQUAL_WINDOW, EQUAL_BATCH = 4_096, 512
COMPARES_ALL = {("celljoin", DuckDB): "2 K tuples/s at 100,000", ("celljoin", Polars): "0.13 M at 100,000"}


def _fits(index: str, kind: str) -> bool:
    return index != "hash" or kind == "equality"


def measure_all(settings: PanJoinSettings, say: Callable[[str], None]) -> PanJoinResults:
    results = PanJoinResults()
    for kind in settings.kinds:
        for window in settings.windows:
            filling = window**2 * CELL_SELECTIVITY / 1e6
            if kind == "celljoin" and filling > MOST_FILLING and len(settings.kinds) > 1:
                results.left_out.append(
                    f"celljoin, W = {window:,}: filling the windows makes {filling:,.0f} M results, each time; "
                    "name it alone (--kinds celljoin) to run it"
                )
                continue
            say(f"{kind}, W = {window:,}: making the streams")
            streams = Streams.make(kind, window, (settings.rounds + 1) * settings.batch, settings.seed)
            _systems(results, settings, streams, say)
            if window == settings.middle and kind != "celljoin":
                _indexes(results, settings, streams, say)
            say(f"{kind}, W = {window:,}: memory")
            index = next(iter(settings.indexes))
            if _fits(index, kind):
                results.memory.append(memory(kind, window, index, settings.batch, settings.seed))
    if "band" in settings.kinds:
        _selectivity(results, settings, say)
        if settings.kinds == ["band"] or not settings.quick:
            for index in settings.indexes[1:]:
                if _fits(index, "band"):
                    found = memory("band", settings.middle, index, settings.batch, settings.seed)
                    results.memory.append(found)
    if settings.skew:
        _skew(results, settings, say)
    else:
        results.left_out.append("skewed keys: add --skew")
    results.compare()
    known = [(entry.others, entry.rates.wall) for entry in results.all if entry.others is not None]
    if known:
        cores, walls = zip(*known, strict=True)
        results.others = float(np.average(cores, weights=walls))
    return results


def _systems(results: PanJoinResults, settings: PanJoinSettings, streams: Streams, say: Callable[[str], None]) -> None:
    def add(make: Callable[[], JoinContestant], batch: int = settings.batch) -> None:
        contestant = make()
        say(f"{streams.kind}, W = {streams.window:,}: {contestant.name}")
        results.systems.append(measure(contestant, streams, batch, settings.rounds, settings.seconds))

    index = next(iter(settings.indexes))
    for workers in settings.workers:
        if _fits(index, streams.kind):
            add(lambda workers=workers: Joined(streams, index, workers, settings.batch))  # type: ignore[misc]
    scanned = max(min(settings.batch, int(SCANNED / streams.window)), 1)
    add(lambda: Joined(streams, "scan", max(settings.workers), scanned), scanned)
    for peer in PEERS[streams.kind]:
        where = f"{peer.name}, {streams.kind}, W = {streams.window:,}"
        if (why := COMPARES_ALL.get((streams.kind, peer))) is not None:
            results.left_out.append(f"{where}: compares nearly all pairs ({why})")
            continue
        try:
            add(lambda peer=peer: Rival(streams, peer))  # type: ignore[misc]
        except ArgumentError as error:  # a package that is not there
            results.left_out.append(f"{where}: {error}")


def _indexes(results: PanJoinResults, settings: PanJoinSettings, streams: Streams, say: Callable[[str], None]) -> None:
    for index in settings.indexes[1:]:
        if _fits(index, streams.kind):
            say(f"{streams.kind}, W = {streams.window:,}: {index}")
            contestant = Joined(streams, index, max(settings.workers), settings.batch)
            results.indexes.append(measure(contestant, streams, settings.batch, settings.rounds, settings.seconds))


def _selectivity(results: PanJoinResults, settings: PanJoinSettings, say: Callable[[str], None]) -> None:
    window = settings.middle
    for matches in SELECTIVITIES:
        width = max((3 * matches - 1) // 2, 1)
        if 8 * matches > window:
            continue
        batch = max(min(settings.batch, MOST_RESULTS // (2 * matches)), 1)
        streams = Streams.make("band", window, (settings.rounds + 1) * batch, settings.seed, width)
        for index in settings.indexes:
            if not _fits(index, "band"):
                continue
            say(f"band, {matches} matches per tuple: {index}")
            contestant = Joined(streams, index, max(settings.workers), batch)
            entry = measure(contestant, streams, batch, settings.rounds, settings.seconds)
            entry.more["selectivity"] = matches
            results.selectivity.append(entry)


def _skew(results: PanJoinResults, settings: PanJoinSettings, say: Callable[[str], None]) -> None:
    cases: Iterable[tuple[str, Draw, int, int]] = (
        ("uniform", lambda rng, count, window: rng.integers(0, 3 * window, count), settings.middle, settings.batch),
        ("99% in 1% of the range", skewed, settings.middle, settings.batch),
        ("increasing", increasing, settings.middle, settings.batch),
        ("uniform, narrow window", uniform(1), EQUAL_WINDOW, EQUAL_BATCH),
        ("all equal, narrow window", equal, EQUAL_WINDOW, EQUAL_BATCH),
    )
    for name, draw, window, batch in cases:
        for index in settings.indexes:
            kind = "equality" if index == "hash" else "band"
            streams = Streams.make(kind, window, (settings.rounds + 1) * batch, settings.seed, draw=draw)
            say(f"{name}: {index}")
            contestant = Joined(streams, index, max(settings.workers), batch)
            entry = measure(contestant, streams, batch, settings.rounds, settings.seconds)
            entry.more["keys"] = name
            results.skew.append(entry)
