"""What is asked for, and all figures of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...reporting.measure import Rates
from .cells import COMPARISONS, LATENCY, Cell
from .contestants import DEFAULT, Contestant
from .papers import stated

SECONDS, QUICK_SECONDS = 2.0, 0.8
LAPS, QUICK_LAPS = 5, 3
LIMIT, QUICK_LIMIT = 120.0, 30.0
"""The longest time in which a contestant may fill its windows."""
MILLISECONDS = "ms"
SLOWER = 0.9
"""Whoever has less than this share of the rate of fewer workers makes a cell "not monotone"."""


@dataclass(frozen=True)
class MachineSettings:
    cells: list[str]
    workers: list[int]
    laps: int
    seconds: float
    limit: float
    seed: int
    quick: bool


Places = tuple[int, int]
"""Where a round's tuples begin and end in both streams."""


@dataclass
class Entry:
    """A contestant's laps in a cell."""

    contestant: Contestant
    rates: Rates = field(default_factory=Rates)
    """M tuples of both streams per second, a lap each."""
    rounds: list[float] = field(default_factory=list)
    """Seconds of every round."""
    found: dict[Places, int] = field(default_factory=dict)
    """The results of each round, with the rounds that fill and warm up."""
    late: int = 0
    """Results that came only after the end of the streams."""
    filling: float = 0.0
    """Seconds until the windows were full."""
    chosen: str = ""
    """The algorithm and the index."""
    stopped: str = ""
    """Why there are no figures."""

    @property
    def rate(self) -> float:
        """Tuples of both streams per second."""
        return self.rates.median * 1e6 if self.rates.rates else 0.0

    @property
    def total(self) -> int:
        return sum(self.found.values()) + self.late

    @property
    def latency(self) -> dict[str, float]:
        """Milliseconds from the push of two batches to their results."""
        if not self.rounds:
            return {}
        return {
            "median": 1e3 * float(np.median(self.rounds)), "p99": 1e3 * float(np.percentile(self.rounds, 99)),
            "rounds": len(self.rounds),
        }  # fmt: skip

    def _results_per_tuple(self, cell: Cell) -> float:
        """Of the rounds with full windows."""
        full = {places: found for places, found in self.found.items() if places[0] >= cell.window}
        return sum(full.values()) / sum(2 * (stop - start) for start, stop in full)

    def figures(self, cell: Cell) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "contestant": self.contestant.name, "workers": self.contestant.workers, "chosen": self.chosen,
            "filling_seconds": self.filling, "stopped": self.stopped or None,
        }  # fmt: skip
        if not self.rates.rates:
            return figures
        return figures | {
            "tuples_per_second": self.rate, "comparisons_per_second": self.rate * cell.window,
            "results_per_tuple": self._results_per_tuple(cell), "late_results": self.late,
            "m_tuples_per_second": self.rates.figures(), "latency_ms": self.latency,
        }  # fmt: skip


@dataclass
class CellResults:
    cell: Cell
    entries: list[Entry] = field(default_factory=list)
    others: float | None = None
    wrong: list[str] = field(default_factory=list)

    def of(self, name: str) -> Entry | None:
        """The contestant of that name, if it has figures."""
        return next((e for e in self.entries if e.contestant.name == name and e.rates.rates), None)

    def efficiency(self, entry: Entry) -> float | None:
        """The speed over that of as many times one worker."""
        one = self.of("1")
        if one is None or not entry.rates.rates or entry.contestant.workers is None:
            return None
        return entry.rate / (one.rate * entry.contestant.workers)

    def to_best(self, entry: Entry) -> float | None:
        """The speed of the default or the GPU over that of the best number of workers."""
        rates = [e.rate for e in self.entries if e.contestant.workers and e.rates.rates]
        if entry.contestant.workers is not None or not entry.rates.rates or not rates:
            return None
        return entry.rate / max(rates)

    def not_monotone(self) -> list[str]:
        """Where more workers, or the default, are over 10% slower than fewer, or than one."""
        counted = {e.contestant.workers: e.rate for e in self.entries if e.contestant.workers and e.rates.rates}
        found = []
        for workers, rate in counted.items():
            fewer = {n: faster for n, faster in counted.items() if n < workers and rate < SLOWER * faster}
            if fewer:
                best = max(fewer, key=lambda n: fewer[n])
                share = rate / fewer[best]
                found.append(f"{self.cell.name}: {workers} workers have {share:.2f} of the speed of {best}")
        default, one = self.of(DEFAULT), self.of("1")
        if default is not None and one is not None and default.rate < SLOWER * one.rate:
            found.append(f"{self.cell.name}: the default has {default.rate / one.rate:.2f} of the speed of one worker")
        return found

    def figures(self) -> dict[str, Any]:
        cell = self.cell
        entries = [
            entry.figures(cell) | {"efficiency": self.efficiency(entry), "to_best_workers": self.to_best(entry)}
            for entry in self.entries
        ]
        return {
            "cell": cell.name, "row": cell.row, "experiment": cell.experiment, "kind": cell.kind, "figure": cell.figure,
            "window": cell.window, "batch": cell.batch, "entries": entries, "not_monotone": self.not_monotone(),
            "others_cores": self.others,
        }  # fmt: skip


@dataclass
class Limits:
    """What the machine can do at most, by number of processes or threads; medians, slowest and fastest laps."""

    scans: dict[int, Rates] = field(default_factory=dict)
    """M comparisons per second of scans in processes."""
    copies: dict[int, Rates] = field(default_factory=dict)
    """MB per second, read and written, of copies on threads."""
    gpu: str | None = None
    gpu_integers: Rates | None = None
    """M integer multiply-adds per second."""

    def figures(self) -> dict[str, Any]:
        return {
            "m_comparisons_per_second": {str(n): rates.figures() for n, rates in self.scans.items()},
            "mb_copied_per_second": {str(n): rates.figures() for n, rates in self.copies.items()},
            "gpu": self.gpu,
            "gpu_m_multiply_adds_per_second": self.gpu_integers.figures() if self.gpu_integers else None,
        }  # fmt: skip


@dataclass
class MachineResults:
    limits: Limits = field(default_factory=Limits)
    cells: list[CellResults] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [text for cell in self.cells for text in cell.wrong]

    def not_monotone(self) -> list[str]:
        return [text for cell in self.cells for text in cell.not_monotone()]

    def stopped(self) -> list[str]:
        return [f"{c.cell.name}, {e.contestant.name}: {e.stopped}" for c in self.cells for e in c.entries if e.stopped]

    def of(self, figure: str) -> list[CellResults]:
        return [cell for cell in self.cells if cell.cell.figure == figure]

    def figures(self) -> dict[str, Any]:
        return {
            "limits": self.limits.figures(), "cells": [cell.figures() for cell in self.cells],
            "not_monotone": self.not_monotone(), "stopped": self.stopped(), "wrong": self.wrong,
            "papers": [vars(figure) for figure in stated()],
        }  # fmt: skip


def said(cell: Cell, entry: Entry) -> tuple[float, str]:
    """The figure that a cell is about, and its unit."""
    if cell.figure == LATENCY:
        return entry.latency["median"], MILLISECONDS
    if cell.figure == COMPARISONS:
        return entry.rate * cell.window / 1e9, "G comparisons/s"
    return entry.rate / 1e6, "M tuples/s"
