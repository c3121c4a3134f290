"""What is asked for, and all figures of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...reporting.measure import Rates
from .contestants import DEFAULT, INDEXES

SECONDS, QUICK_SECONDS = 1.5, 0.4
ROWS, QUICK_ROWS = 2_000_000, 300_000
LIMIT, QUICK_LIMIT = 240.0, 60.0
SCALE, QUICK_SCALE = 1.0, 0.02


@dataclass
class ShapesSettings:
    cells: list[str]
    laps: int
    seconds: float
    """A contestant's laps of streams end after this time."""
    limit: float
    """The most seconds of a lap, with all that comes before the first."""
    rows: int
    scale: float
    seed: int
    quick: bool


@dataclass
class Entry:
    """One contestant in one cell."""

    contestant: str
    rates: Rates = field(default_factory=Rates)
    counts: dict[int, int] = field(default_factory=dict)
    """The results by the number of the round."""
    chosen: str | None = None
    stopped: str | None = None
    """Why there is no figure, or no more of it."""
    failed: str | None = None
    """The error that it raised."""
    unfit: str | None = None
    """Why it cannot do this join."""
    others: list[float] = field(default_factory=list)
    """Cores that other programs used in each lap."""
    longest: float = 0.0
    """Seconds of the longest lap, with all that came before the first."""

    @property
    def best(self) -> float:
        """M tuples/s of the best lap; 0 without any."""
        return max(self.rates.rates, default=0.0)

    def figures(self) -> dict[str, Any]:
        return {
            "contestant": self.contestant, "chosen": self.chosen, "stopped": self.stopped, "best": self.best,
            "results": sum(self.counts.values()), "counted_rounds": len(self.counts), "longest_s": self.longest,
            **(self.rates.figures() if self.rates.rates else {}),
        }  # fmt: skip


@dataclass
class CellResults:
    """All contestants of a cell."""

    cell: str
    shape: str
    place: str
    window: int
    batch: int | None
    entries: list[Entry] = field(default_factory=list)
    others: float | None = None
    """Cores that other programs used meanwhile."""
    wrong: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    """Peers that are not installed."""

    def check(self) -> None:
        """Collect errors, and compare the counts of all contestants in the rounds that they share."""
        self.wrong += [f"{self.cell}: {one.contestant} fails, {one.failed}" for one in self.entries if one.failed]
        counted = [entry for entry in self.entries if entry.counts]
        for entry in counted[1:]:
            first = counted[0]
            for number in sorted(entry.counts.keys() & first.counts.keys()):
                if (found := entry.counts[number]) != (expected := first.counts[number]):
                    self.wrong.append(
                        f"{self.cell}, round {number}: {entry.contestant} finds {found:,} results, "
                        f"{first.contestant} {expected:,}"
                    )
                    entry.rates, entry.stopped = Rates(), "wrong count"
                    break

    @property
    def default(self) -> Entry:
        return next(entry for entry in self.entries if entry.contestant == DEFAULT)

    @property
    def best_index(self) -> Entry | None:
        return _best(entry for entry in self.entries if entry.contestant in INDEXES)

    @property
    def best_peer(self) -> Entry | None:
        return _best(entry for entry in self.entries if entry.contestant not in (DEFAULT, *INDEXES))

    @property
    def regret(self) -> float | None:
        """How many times faster the best index chosen by hand is; None if there is none, or no figure."""
        best = self.best_index
        return best.best / self.default.best if best is not None and self.default.best else None

    @property
    def to_peer(self) -> float | None:
        """How many times faster than the best peer the defaults are."""
        best = self.best_peer
        return self.default.best / best.best if best is not None and self.default.best else None

    @property
    def results_per_tuple(self) -> float | None:
        entry, tuples = self.default, 2 * (self.batch or 0)
        if not entry.counts or not entry.rates.rates:
            return None
        if self.batch is None:
            tuples = entry.rates.tuples // len(entry.rates.rates)
        return float(np.mean(list(entry.counts.values()))) / tuples

    def figures(self) -> dict[str, Any]:
        return {
            "cell": self.cell, "shape": self.shape, "place": self.place, "window": self.window, "batch": self.batch,
            "regret": self.regret, "to_peer": self.to_peer, "results_per_tuple": self.results_per_tuple,
            "best_index": None if self.best_index is None else self.best_index.contestant,
            "best_peer": None if self.best_peer is None else self.best_peer.contestant,
            "others_cores": self.others, "contestants": [entry.figures() for entry in self.entries],
        }  # fmt: skip


def _best(entries: Iterable[Entry]) -> Entry | None:
    known = [entry for entry in entries if entry.best]
    return max(known, key=lambda entry: entry.best) if known else None


@dataclass
class ShapesResults:
    cells: list[CellResults] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [text for cell in self.cells for text in cell.wrong]

    def summary(self) -> dict[str, Any]:
        """The worst and the median regret and ratio to a peer, and the cells where the defaults were stopped."""
        regrets = [(cell.regret, cell.cell) for cell in self.cells if cell.regret is not None]
        ratios = [(cell.to_peer, cell.cell) for cell in self.cells if cell.to_peer is not None]
        return {
            "worst_regret": max(regrets, default=None),
            "median_regret": float(np.median([regret for regret, _ in regrets])) if regrets else None,
            "worst_to_peer": min(ratios, default=None),
            "median_to_peer": float(np.median([ratio for ratio, _ in ratios])) if ratios else None,
            "default_stopped": [cell.cell for cell in self.cells if not cell.default.best],
        }

    def figures(self) -> dict[str, Any]:
        return {
            "summary": self.summary(), "cells": [cell.figures() for cell in self.cells], "left_out": self.left_out,
            "wrong": self.wrong,
        }  # fmt: skip
