"""All figures of a run, and the papers' beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ...lab.model import Costs
from .latency import LatencyRun
from .skew import Skew
from .throughput import Point

PAPER = (
    ("handshake join, Fig. 16, 15 min", "8 cores: 1,400 tuples/s of each stream; CellJoin on 8 SPEs: 750 to 1,000"),
    ("low-latency handshake join, Fig. 17, 15 min", "as handshake join; a batch of 64 every 46 ms with 8 cores, every "
     "20 ms with 40: about 1,400 and 3,200 tuples/s of each stream; with punctuation marginally less"),
    ("Table 2, 40 cores", "scan 5,117, hash index 225,234 tuples/s: 44x"),
    ("Figs. 5 and 18", "handshake join: just below |R||S| / (|R| + |S|), the limit for infinitely many cores"),
    ("Figs. 18 to 20", "low-latency: mean 32 ms (8 cores) and 15 ms (40), mostly batching; batches of 4: 1 ms"),
    ("Fig. 21", "a sorting buffer of thousands of tuples (ScaleJoin reads 30,000), instead of many millions"),
    ("ScaleJoin, Figs. 5 and 7", "48 threads: 4 G comparisons/s, 3,000 tuples/s of both streams (15 min), 70 ms"),
    ("ScaleJoin, Figs. 7a and 8", "gate: 0.15 M tuples/s; work per thread: standard deviation 0.05% to 0.1%"),
)  # fmt: skip


@dataclass
class TopologyResults:
    throughput: list[Point] = field(default_factory=list)
    bounds: dict[int, float] = field(default_factory=dict)
    orders: list[Point] = field(default_factory=list)
    index: list[Point] = field(default_factory=list)
    latency: list[LatencyRun] = field(default_factory=list)
    skew: list[Skew] = field(default_factory=list)
    gate: dict[int, float] = field(default_factory=dict)
    costs: dict[str, Costs] = field(default_factory=dict)
    validation: list[dict[str, Any]] = field(default_factory=list)
    predictions: list[dict[str, Any]] = field(default_factory=list)
    others: float | None = None

    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: [entry.figures() for entry in getattr(self, name)]
            for name in ("throughput", "orders", "index", "latency", "skew")
        }
        return found | {
            "bounds": self.bounds, "gate": self.gate, "validation": self.validation, "predictions": self.predictions,
            "costs": {name: asdict(cost) for name, cost in self.costs.items()}, "others_cores": self.others,
            "paper": dict(PAPER),
        }  # fmt: skip
