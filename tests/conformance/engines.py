"""What the conformance suite runs over: one line here, and every case, window and order is checked with it."""

from __future__ import annotations

from typing import NamedTuple

from streamjoin.predicate import Plan
from streamjoin.predicate.lower import lower
from streamjoin.window import CountWindow, TimeWindow, Window


class Engine(NamedTuple):
    """One way to run a join. `needs` names what the predicate must offer: "", "equality" or "order"."""

    algorithm: str
    index: str
    needs: str = ""
    workers: int | None = None

    def __str__(self) -> str:
        return f"{self.algorithm}-{self.index}" + (f"-{self.workers}" if self.workers else "")

    @property
    def shares(self) -> bool:
        """Whether it differs from others only in how cores share the work."""
        return self.algorithm not in ("three-step", "panjoin")

    def can_run(self, plan: Plan) -> bool:
        offers = {"": lambda: True, "equality": lambda: bool(plan.equalities), "order": lambda: lower(plan).has_order}
        return offers[self.needs]()


ENGINES = [
    Engine("three-step", "scan"),
    Engine("three-step", "hash", needs="equality"),
    *(Engine("three-step", index, needs="order") for index in ("bi-sort", "rap-table", "wib-tree")),
    Engine("panjoin", "scan", workers=2),
    Engine("panjoin", "hash", needs="equality", workers=2),
    *(Engine("panjoin", index, needs="order", workers=2) for index in ("bi-sort", "rap-table", "wib-tree")),
    Engine("panjoin", "auto", workers=3),
    Engine("celljoin", "scan", workers=2),
    Engine("celljoin", "bi-sort", needs="order", workers=3),
    Engine("handshake", "scan", workers=2),
    Engine("handshake", "bi-sort", needs="order", workers=3),
    Engine("handshake", "scan", workers=8),
    Engine("low-latency-handshake", "scan", workers=2),
    Engine("low-latency-handshake", "hash", needs="equality", workers=3),
    Engine("low-latency-handshake", "bi-sort", needs="order", workers=8),
    Engine("low-latency-handshake", "auto", workers=1),
    Engine("splitjoin", "scan", workers=3),
    Engine("splitjoin", "wib-tree", needs="order", workers=2),
    Engine("scalejoin", "scan", workers=2),
    Engine("scalejoin", "auto", workers=8),
]


class Windows(NamedTuple):
    """Windows of both sides, time windows counted in the case's own steps; `time` is False without a time column."""

    left: Window
    right: Window
    time: bool = True


WINDOWS = {
    "time": Windows(TimeWindow(12), TimeWindow(12)),
    "time-uneven": Windows(TimeWindow(3), TimeWindow(40)),
    "time-1": Windows(TimeWindow(1), TimeWindow(1)),
    "count": Windows(CountWindow(9), CountWindow(9)),
    "count-uneven": Windows(CountWindow(2), CountWindow(30)),
    "count-1": Windows(CountWindow(1), CountWindow(1)),
    "time-count": Windows(TimeWindow(10), CountWindow(5)),
    "count-time": Windows(CountWindow(5), TimeWindow(10)),
    "count-time-1": Windows(CountWindow(1), TimeWindow(1)),
    "no-time": Windows(CountWindow(8), CountWindow(8), time=False),
    "no-time-uneven": Windows(CountWindow(1), CountWindow(25), time=False),
}

ORDERS = ("none", "punctuated", "sorted")
HOWS = ("inner", "left", "right", "full", "semi", "anti")
SIZES: dict[str, int | None] = {"1": 1, "7": 7, "64": 64, "whole": 1_000_000, "random": None}
"""Rows per push; None: random cuts, some of them empty."""
