"""One contestant, one trial: fill, insert and probe, seal, probe."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arrays import Array, Words
from ...reporting.measure import Rates, check
from ...store.words import PLACE_BITS
from .contestants import CPP, SubwindowContestant
from .trial import Trial

SEARCHED = "np.searchsorted"
SEARCHED_SORTED = "np.argsort, np.searchsorted"


@dataclass
class Measured:
    """One contestant's rounds with one subwindow."""

    contestant: str
    size: int
    batch: int
    selectivity: int
    insert: Rates = field(default_factory=Rates)
    probe_filling: Rates = field(default_factory=Rates)
    insert_probe: Rates = field(default_factory=Rates)
    probe: Rates = field(default_factory=Rates)
    fill: float | None = None
    """M tuples/s from empty to full and sealed; None if it was not filled with batches of this size."""
    seal_ms: float | None = None
    partitions: int | None = None

    def figures(self) -> dict[str, Any]:
        rates = {
            name: entry.figures()
            for name in ("insert", "probe_filling", "insert_probe", "probe")
            if (entry := getattr(self, name)).rates
        }
        return {
            "contestant": self.contestant, "size": self.size, "batch": self.batch, "selectivity": self.selectivity,
            "partitions": self.partitions, **rates, "fill": self.fill, "seal_ms": self.seal_ms,
        }  # fmt: skip


def measure(
    given: Trial, contestant: SubwindowContestant, partitions: int | None = None, earlier: Measured | None = None
) -> Measured:
    """Fill, insert and probe until full, seal, probe; every count is checked. `earlier` rounds are gone on with."""
    result = earlier or Measured(contestant.name, given.size, given.batch, given.selectivity, partitions=partitions)
    spent, before = 0.0, result.insert.seconds
    for part in given.filling:
        part = part.copy()
        spent -= time.thread_time()
        contestant.insert(part)
        spent += time.thread_time()
    if given.filling:
        check(contestant.name, contestant.probe(given.warm_up.low, given.warm_up.high), given.warm_up.expected)
    calls = len(given.while_filling[0])
    for number, asked in enumerate(given.while_filling):
        batches = [part.copy() for part in given.last[number * calls : (number + 1) * calls]]
        fresh = [(each.low.copy(), each.high.copy()) for each in asked]
        tuples = sum(map(len, batches))
        with result.insert.round(tuples, by_cpu=True):
            for part in batches:
                contestant.insert(part)
        with result.probe_filling.round(tuples, by_cpu=True):
            found = sum([contestant.probe(low, high) for low, high in fresh])
        check(contestant.name, found, sum(each.expected for each in asked))
        inserted, probed = tuples / result.insert.rates[-1] / 1e6, tuples / result.probe_filling.rates[-1] / 1e6
        result.insert_probe.add(tuples, inserted + probed, inserted + probed, inserted + probed)
    result.insert_probe.wall = result.insert.wall + result.probe_filling.wall
    started = time.thread_time()
    contestant.seal()
    sealing = time.thread_time() - started
    if contestant.name != CPP:
        result.seal_ms = sealing * 1e3
    if given.natural:
        result.fill = given.size / (spent + result.insert.seconds - before + sealing) / 1e6
    for asked in given.full:
        fresh = [(each.low.copy(), each.high.copy()) for each in asked]
        with result.probe.round(given.batch * len(asked), by_cpu=True):
            found = sum([contestant.probe(low, high) for low, high in fresh])
        check(contestant.name, found, sum(each.expected for each in asked))
    return result


def measure_searchsorted(given: Trial, in_order: bool) -> Measured:
    """np.searchsorted for both ends, which gives positions and no pairs; over the words that an index holds.

    `in_order`: the ranges are put in order first, which spares most cache misses in a large array.
    """
    name = SEARCHED_SORTED if in_order else SEARCHED
    result = Measured(name, given.size, given.batch, given.selectivity)
    bits = np.uint64(PLACE_BITS)
    words: Words = _biased(given.sorted_keys) << bits
    ones = (np.uint64(1) << bits) - np.uint64(1)
    for number, asked in enumerate([given.while_filling[0], *given.full]):  # the first one warms up
        fresh = [(_biased(each.low) << bits, _biased(each.high) << bits | ones) for each in asked]
        with result.probe.round(given.batch * len(asked), by_cpu=True):
            found = 0
            for low, high in fresh:
                if in_order:
                    order = np.argsort(low)
                    low, high = low[order], high[order]
                start, end = np.searchsorted(words, low), np.searchsorted(words, high, side="right")
                found += int((end - start).sum())
        if number == 0:
            result.probe = Rates()
            continue
        check(name, found, sum(each.expected for each in asked))
    return result


def _biased(keys: Array) -> Words:
    return (keys.astype(np.int64) + 2**31).astype(np.uint64)
