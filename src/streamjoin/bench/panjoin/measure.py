"""One contestant's rounds."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

from ...reporting.measure import Others, Rates, check
from ..workloads import Streams
from .contestants import JoinContestant, Joined

LEAST_ROUNDS = 3
"""Rounds that are made even if time is up."""


@dataclass
class JoinRates:
    """One contestant's rounds."""

    contestant: str
    kind: str
    window: int
    batch: int
    rates: Rates = field(default_factory=Rates)
    results: int = 0
    index: str | None = None
    workers: int | None = None
    chosen: str | None = None
    others: float | None = None
    """Cores that other programs used meanwhile."""
    more: dict[str, Any] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        per_tuple = self.results / max(self.rates.tuples, 1)
        each = self.rates.seconds / self.results * 1e9 if self.results else None
        return {
            "contestant": self.contestant, "kind": self.kind, "window": self.window, "batch": self.batch,
            "index": self.index, "workers": self.workers, "chosen": self.chosen, **self.rates.figures(),
            "results_per_tuple": per_tuple, "ns_per_result": each, "others_cores": self.others,
            **self.more,
        }  # fmt: skip


def measure(contestant: JoinContestant, streams: Streams, batch: int, rounds: int, seconds: float) -> JoinRates:
    """Fill, one round to warm up, and then as many as there is time for; first and last counts are checked."""
    entry = JoinRates(contestant.name, streams.kind, streams.window, batch)
    contestant.fill(streams)
    rounds = min(rounds + 1, streams.rounds(batch))
    prepared = contestant.prepared if isinstance(contestant, Joined) else lambda left, right: (left, right)
    found: dict[int, int] = {}
    gc.collect()
    others = Others()
    for number in range(rounds):
        start = streams.window + number * batch
        both = (streams.part(columns, start, start + batch) for columns in (streams.left, streams.right))
        left, right = prepared(*both)
        with entry.rates.round(batch * (1 if contestant.one_sided else 2), by_cpu=False):
            found[number] = contestant.step(left, right)
        if number == 0:
            entry.rates = Rates()
        else:
            entry.results += found[number]
        if number >= LEAST_ROUNDS and entry.rates.wall > seconds:
            break
    entry.others = others.cores()
    for number in sorted({0, min(1, max(found)), max(found)}):
        check(contestant.name, found[number], streams.expected(number, batch, contestant.one_sided))
    if isinstance(contestant, Joined):
        entry.index, entry.workers = contestant.index, contestant.workers
        entry.chosen = contestant.join.metrics()["index"]
    contestant.close()
    return entry
