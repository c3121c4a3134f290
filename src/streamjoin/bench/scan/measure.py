"""The rounds: all contestants in turns, and a whole WindowJoin."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ...engine.window_join import WindowJoin
from ...side import SIDES, Side
from ..columns import Pairs
from ..cpp.band_join import CppBandJoin
from ..workloads import CELLJOIN_SCHEMAS, CELLJOIN_SQL, celljoin_tuples
from .contestants import contestants

NUMPY_PROBES = 16


@dataclass
class Series:
    """One contestant's rounds: G comparisons per second."""

    contestant: str
    stored: str
    rates: list[float] = field(default_factory=list)
    to_cpp: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        ratio = float(np.median(self.to_cpp)) if self.to_cpp else None
        return {
            "contestant": self.contestant, "stored": self.stored, "best": max(self.rates),
            "median": float(np.median(self.rates)), "min": min(self.rates), "ratio_to_cpp": ratio,
            "rates": self.rates,
        }  # fmt: skip


def measure(
    window: int, probes: int, rounds: int, seed: int, cpp: CppBandJoin | None, step: Callable[[], None] = lambda: None
) -> list[Series]:
    """The rates of all contestants; AssertionError if they do not find the same pairs."""
    rng = np.random.default_rng(seed)
    entrants = list(contestants({side: celljoin_tuples(rng, window) for side in SIDES}, cpp))
    series = {(name, stored): Series(name, stored) for name, stored, _ in entrants}
    for round_ in range(-1, rounds):  # the first one warms up: kernels are compiled or loaded
        fresh = celljoin_tuples(rng, probes)
        found: dict[tuple[str, Side], Pairs] = {}
        rate: dict[tuple[str, Side], float] = {}
        for name, stored, run in entrants[round_ % len(entrants) :] + entrants[: round_ % len(entrants)]:
            given = tuple(column[:NUMPY_PROBES] for column in fresh) if name == "NumPy" else fresh
            started = time.thread_time()
            found[name, stored] = run((given[0], given[1]))
            rate[name, stored] = window * len(given[0]) / (time.thread_time() - started) / 1e9
            step()
        check_pairs(found)
        if round_ >= 0:
            for key, value in rate.items():
                series[key].rates.append(value)
                if ("C++", key[1]) in rate:
                    series[key].to_cpp.append(value / rate["C++", key[1]])
    return list(series.values())


def check_pairs(found: dict[tuple[str, Side], Pairs]) -> None:
    """All contestants must agree; NumPy has seen the first probing tuples only."""
    for stored in SIDES:
        pairs = {name: as_set(found[name, side]) for name, side in found if side == stored}
        expected = pairs["SQL"]
        first = {pair for pair in expected if pair[0] < NUMPY_PROBES}
        for name, some in pairs.items():
            if some != (first if name == "NumPy" else expected):
                raise AssertionError(f"{name} ({stored} stored) finds {len(some)} pairs, SQL finds {len(expected)}")


def as_set(pairs: Pairs) -> set[tuple[int, int]]:
    return set(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


@dataclass
class EndToEnd:
    """A whole WindowJoin: Arrow batches in, tables out, count windows, the left one full."""

    batch: int
    rates: list[float]
    tuples_per_second: float
    pairs: int

    def figures(self) -> dict[str, Any]:
        return {
            "batch": self.batch, "best": max(self.rates), "median": float(np.median(self.rates)),
            "min": min(self.rates), "tuples_per_second": self.tuples_per_second, "pairs": self.pairs,
        }  # fmt: skip


def end_to_end(window: int, batch: int, rounds: int, seed: int) -> EndToEnd:
    """Each batch of the right stream meets all of the left window and enters its own."""
    rng = np.random.default_rng(seed)

    def table(side: Side, count: int) -> pa.Table:
        return pa.table(list(celljoin_tuples(rng, count)), schema=CELLJOIN_SCHEMAS[side])

    rates: list[float] = []
    seconds, pairs = 0.0, 0
    with WindowJoin(
        CELLJOIN_SCHEMAS["left"], CELLJOIN_SCHEMAS["right"], on=CELLJOIN_SQL, window=window, index="scan"
    ) as join:
        join.push_left(table("left", window))
        for round_ in range(-1, rounds):
            fresh, before = table("right", batch), join.metrics()["comparisons"]
            started = time.thread_time()
            join.push_right(fresh)
            result = join.poll()
            taken = time.thread_time() - started
            if round_ >= 0:
                rates.append((join.metrics()["comparisons"] - before) / taken / 1e9)
                seconds, pairs = seconds + taken, pairs + result.num_rows
    return EndToEnd(batch, rates, rounds * batch / seconds, pairs)
