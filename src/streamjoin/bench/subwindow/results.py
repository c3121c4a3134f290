"""All figures of a run, and their ratios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...reporting.measure import Rates
from .contestants import CPP, INDEXES
from .measure import SEARCHED, SEARCHED_SORTED, Measured

TARGETS = {"probe": 3.0, "insert_probe": 0.8}
PAPER = (
    ("machine", "2 x 20-core Xeon Gold 6148; probes of over 128 tuples and BI-Sort's insertion on 8 threads"),
    ("RaP-Table, insertion", "up to 100 M tuples/s, at batches of 8M (N = 8M)"),
    ("insertion, N = 8M", "BI-Sort is fastest only with batches of over 64K"),
    ("band probe, N = 8M, 32K", "S < 1K: RaP-Table 1.7-2.4x WiB+-Tree, BI-Sort 1.6-7x RaP-Table"),
    ("WiB+-Tree against a B-tree", "insertion 3.5-4.5x, band probe up to 1.3x"),
    ("RaP-Table, adjustment", "balanced after 3 subwindows, from even splitters, whatever the distribution"),
)


@dataclass
class SubwindowResults:
    grid: list[Measured] = field(default_factory=list)
    partitions: list[Measured] = field(default_factory=list)
    selectivity: list[Measured] = field(default_factory=list)
    convergence: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    compiler: str | None = None
    others: float | None = None

    def ratios(self) -> list[dict[str, Any]]:
        """Per size and batch, round by round: ours to NumPy's probe, ours to C++'s insertion and probe."""
        found = []
        by_case = {(entry.contestant, entry.size, entry.batch): entry for entry in self.grid}
        for (name, size, batch), ours in by_case.items():
            if name not in INDEXES:
                continue
            entry: dict[str, Any] = {"contestant": name, "size": size, "batch": batch}
            searched, in_order = by_case[SEARCHED, size, batch], by_case[SEARCHED_SORTED, size, batch]
            entry["probe_to_searchsorted"] = _ratio(ours.probe, searched.probe)
            entry["probe_filling_to_searchsorted"] = _ratio(ours.probe_filling, searched.probe)
            entry["probe_to_sorted_searchsorted"] = _ratio(ours.probe, in_order.probe)
            cpp = by_case.get((CPP, size, batch))
            if cpp is not None:
                entry["insert_probe_to_cpp"] = _ratio(ours.insert_probe, cpp.insert_probe)
                entry["probe_to_cpp"] = _ratio(ours.probe, cpp.probe)
                if ours.fill is not None and cpp.fill is not None:
                    entry["fill_to_cpp"] = ours.fill / cpp.fill
            found.append(entry)
        return found

    def figures(self) -> dict[str, Any]:
        return {
            "grid": [entry.figures() for entry in self.grid],
            "partitions": [entry.figures() for entry in self.partitions],
            "selectivity": [entry.figures() for entry in self.selectivity],
            "ratios": self.ratios(), "convergence": self.convergence, "left_out": self.left_out,
            "others_cores": self.others, "targets": TARGETS, "paper": dict(PAPER),
        }  # fmt: skip


def _ratio(ours: Rates, theirs: Rates) -> dict[str, float]:
    """Of the medians, round by round, and of all rounds together."""
    each = np.array(ours.rates) / np.resize(theirs.rates, len(ours.rates))
    whole = ours.overall / theirs.overall
    return {"median": ours.median / theirs.median, "min": float(min(each)), "max": float(max(each)), "overall": whole}
