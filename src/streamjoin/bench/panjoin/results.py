"""What is asked for, and all figures of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .measure import JoinRates

SECONDS, QUICK_SECONDS = 3.0, 1.0
"""A contestant's rounds end after this time."""
MIDDLE = 1_000_000
PAPER = (
    ("equality, W = 128M, S = 1", "28.9 M tuples/s (BI-Sort, largest batches); 16 nodes of 40 cores per stream"),
    ("band, W = 1G, S = 1", "about 10 M tuples/s (BI-Sort, 32K batches); the others 1-10x slower, at S = 64 10-100x"),
    ("against nested loops, W = 8M, 16 nodes", "BI-Sort over 1000x low-latency handshake join and SplitJoin, "
     "RaP-Table and WiB+-Tree over 100x at small S; BI-Sort replies with places, no rows"),
)  # fmt: skip


@dataclass
class PanJoinSettings:
    windows: list[int]
    kinds: list[str]
    batch: int
    rounds: int
    workers: list[int]
    indexes: list[str]
    skew: bool
    seed: int
    quick: bool

    @property
    def seconds(self) -> float:
        return QUICK_SECONDS if self.quick else SECONDS

    @property
    def middle(self) -> int:
        """The window for what is measured at one window only."""
        return max((w for w in self.windows if w <= MIDDLE), default=min(self.windows))


@dataclass
class PanJoinResults:
    systems: list[JoinRates] = field(default_factory=list)
    indexes: list[JoinRates] = field(default_factory=list)
    selectivity: list[JoinRates] = field(default_factory=list)
    skew: list[JoinRates] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    others: float | None = None

    @property
    def all(self) -> list[JoinRates]:
        return self.systems + self.indexes + self.selectivity + self.skew

    def compare(self) -> None:
        """Ratios to the best peer, to the scan, and of the most workers to one, of the same join and window."""
        for entry in self.systems + self.indexes:
            same = [e for e in self.systems if (e.kind, e.window) == (entry.kind, entry.window)]
            rivals = [e for e in same if e.index is None]
            if rivals and entry.index is not None:
                best = max(rivals, key=lambda e: e.rates.median)
                entry.more |= {
                    "best_peer": best.contestant, "to_best_peer": entry.rates.median / best.rates.median,
                    "to_best_peer_overall": entry.rates.overall / max(e.rates.overall for e in rivals),
                }  # fmt: skip
            scans = [e for e in same if e.index == "scan"]
            if scans and entry.index not in (None, "scan"):
                entry.more["to_scan"] = entry.rates.median / scans[0].rates.median
            alone = [e for e in same if e.index == entry.index and e.workers == 1]
            if alone and entry.workers not in (None, 1):
                entry.more["to_one_worker"] = entry.rates.median / alone[0].rates.median
                entry.more["to_one_worker_overall"] = entry.rates.overall / alone[0].rates.overall

    def figures(self) -> dict[str, Any]:
        return {
            "systems": [entry.figures() for entry in self.systems],
            "indexes": [entry.figures() for entry in self.indexes],
            "selectivity": [entry.figures() for entry in self.selectivity],
            "skew": [entry.figures() for entry in self.skew],
            "memory": self.memory, "others_cores": self.others, "left_out": self.left_out, "paper": dict(PAPER),
        }  # fmt: skip
