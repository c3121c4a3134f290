"""What the model of many cores (`lab.model`) needs to know, measured here, and the model beside the runs.

Costs are measured with small windows, where nodes have little to compare. A node's busy time per small block is the
cost of a message, and the rest of a small step is the driver's. The extra time of a large step is work per tuple: the
nodes' while they are busy, and the driver's while they are not. Two nodes that send one message to and fro give the
cost of a hop. No cost is fitted to the runs that the model is compared with.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ...lab.model import HANDS_ON_FIRST, Costs, Machine
from ...topology.carrier import Carrier
from ...topology.driver import CHAIN, STAR, block_size
from ...topology.node import Kind, Message, Port, Send
from .latency import LatencyRun
from .streams import Feed, Setup
from .throughput import Point, measure

COST_WINDOW, SMALL_BATCH, LARGE_BATCH, HOPS = 8_192, 4, 8_192, 5_000


class _Relay:
    """Sends the message back to the other node until it has made its hops."""

    def __init__(self, number: int) -> None:
        self._to: Port = "right" if number == 0 else "left"
        self._left = HOPS // 2

    def receive(self, port: Port, message: Message, send: Send) -> None:
        self._left -= 1
        if self._left >= 0:
            send(self._to, message)


def hop_seconds() -> float:
    """Seconds from one node's send to the next node's receive, for a single message."""
    carrier = Carrier([_Relay(0), _Relay(1)])
    carrier.feed(0, "left", Message(Kind.TICK))
    started = time.perf_counter()
    carrier.deliver(lambda: False)
    return (time.perf_counter() - started) / HOPS


class CostFeeds:
    """Small windows, with steps of one small block of each side, and with steps of several large blocks."""

    def __init__(self, seed: int) -> None:
        self._small, self._large = (Feed("celljoin", COST_WINDOW, batch, seed) for batch in (SMALL_BATCH, LARGE_BATCH))

    def measure(self, algorithm: str, alone: float, together: float, hop: float, seconds: float) -> Costs:
        """An algorithm's costs, with one worker, as the module describes."""
        small, large = (measure(feed, Setup(algorithm, 1), seconds) for feed in (self._small, self._large))
        step, steps = 2 * SMALL_BATCH / small.rate, 2 * LARGE_BATCH / large.rate
        scan = COST_WINDOW / alone  # of one tuple
        if algorithm == "celljoin":  # two pieces in every step, each in as many parts as there are workers
            with_two = 2 * SMALL_BATCH / measure(self._small, Setup(algorithm, 2), seconds).rate
            message = max(with_two - step, 0.0) / 2
            driver = max(step - 2 * message - 2 * SMALL_BATCH * scan, 0.0)
            each = max(steps - step, 0.0) / (2 * (LARGE_BATCH - SMALL_BATCH)) - scan
            return Costs(alone, together, message, 0.0, hop, driver, max(each, 0.0))
        message = max(float(np.median(small.busy)) / 2 - SMALL_BATCH * scan, 0.0)
        driver = max(step - float(np.median(small.busy)), 0.0)
        working = float(np.median(large.busy))
        size = block_size(LARGE_BATCH, CHAIN if algorithm in HANDS_ON_FIRST else STAR)
        stored = max(working / (2 * LARGE_BATCH) - message / size - scan, 0.0)
        each = max(steps - working - driver, 0.0) / (2 * LARGE_BATCH)
        return Costs(alone, together, message, stored, hop, driver, each)


def validated(points: list[Point], latencies: list[LatencyRun], known: dict[str, Costs]) -> list[dict[str, Any]]:
    """The model's predictions beside the measured runs."""
    rows = []
    for point in points:
        machine = Machine(point.setup.algorithm, point.setup.workers, known[point.setup.algorithm])
        predicted = machine.throughput(point.window, 2 * point.batch)
        rows.append(_compared(machine, "tuples/s", f"windows of {point.window:,}", point.rate, predicted))
    for run in latencies:
        machine = Machine(run.algorithm, run.workers, known[run.algorithm])
        predicted = 1e3 * machine.mean_latency(run.rate, run.windows, run.batch)
        what = f"{run.windows[0]:g} s and {run.windows[1]:g} s, batches of {run.batch}, {run.rate:,.0f} tuples/s"
        rows.append(_compared(machine, "mean latency, ms", what, 1e3 * run.seconds["mean"], predicted))
    return rows


def _compared(machine: Machine, figure: str, what: str, measured: float, predicted: float) -> dict[str, Any]:
    return {
        "algorithm": machine.algorithm, "workers": machine.cores, "figure": figure, "what": what,
        "measured": measured, "predicted": predicted, "error": predicted / measured - 1,
    }  # fmt: skip
