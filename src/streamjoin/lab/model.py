"""A model of the topologies on 1 to 256 cores, with costs that were measured on one or two cores.

A step of the driver takes some tuples, cuts them into blocks, and lets the nodes work until all blocks are through;
then results can be polled. The model sends a *wave* of blocks through the nodes, event by event. A node takes the next
message, handles it, and compares the block with its share of the other window. It hands the block on before it compares
(low-latency handshake join) or after (handshake join). There are no random numbers. Two things need no events. First,
CellJoin's parts and the nodes of SplitJoin and ScaleJoin all do the same at the same time. Second, handshake join's
latency follows from where tuples meet (low-latency handshake join, section 3.1).

Assumptions, some in favour of the algorithms and some against them:
- All cores are equal, scan as fast as one of two that scan at once, and have as much memory bandwidth as they need.
- Windows are full and evenly shared. Every block has equally many comparisons, and few results.
- In one interpreter (`lock`), the driver's thread handles all messages, and then all cores compare what nodes asked
  for. With `lock=False`, each node has a core that handles its messages and compares, as in the papers' C programs.
- A hop between any two neighbours costs the same (no NUMA), and so do an acknowledgement and a feed by the driver.
- The driver and the nodes never work at the same time, so the driver takes no core from the nodes.
- Blocks are as large as `topology.driver` makes them, by its own rule.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from ..store.batch import LARGEST_PART
from ..topology.driver import CHAIN, STAR, block_size

HANDS_ON_FIRST = {"low-latency-handshake": True, "handshake": False}
"""Chains, and whether a node hands a block on before it compares it."""
STARS = ("splitjoin", "scalejoin")
WAVE = 128
"""Blocks that are on their way at once."""
CORES = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 128, 256)
PAPERS_WINDOW, PAPERS_BATCH = 900, 64
"""15 minutes, and how many tuples the papers' driver pushes at a time."""
CLOSE_ENOUGH, MOST_TRIES = 0.01, 20


@dataclass(frozen=True)
class Costs:
    """The measured costs of one algorithm: rates in comparisons per second, times in seconds."""

    alone: float
    """Comparisons per second of one core while the other cores are idle."""
    together: float
    """The same while another core scans too."""
    message: float
    """A node's work per block, besides comparing."""
    stored: float
    """A node's work per tuple of a block, besides comparing."""
    hop: float
    """From one node to the next."""
    step: float
    """The driver's work per step, whatever is in it."""
    tuple: float
    """The driver's work per tuple."""


@dataclass(frozen=True)
class Machine:
    """Cores that run an algorithm at these costs; `lock`: they share one interpreter."""

    algorithm: str
    cores: int
    costs: Costs
    lock: bool = True

    def _scan(self, tuples: float, window: float) -> float:
        """Seconds that a core takes to store these tuples and compare them with its share of a window."""
        rate = self.costs.alone if self.cores == 1 else self.costs.together
        return tuples * (self.costs.stored + window / self.cores / rate)

    def _handling(self) -> float:
        """In a chain, about one more message follows each block: it has arrived, or it has reached the end."""
        beside = self.costs.hop if self.algorithm in HANDS_ON_FIRST and self.cores > 1 else 0.0
        return self.costs.message + beside

    def wave(self, blocks: int, block: float, window: float) -> float:
        """Seconds from the first block until all nodes have finished all blocks."""
        scan, handling, hop = self._scan(block, window), self._handling(), self.costs.hop
        if self.algorithm in STARS:
            return blocks * ((self.cores if self.lock else 1) * handling + scan + self.cores * hop)
        if self.lock:
            return blocks * (self.cores * handling + scan)
        return _chain(self.cores, blocks, handling, scan, hop, HANDS_ON_FIRST[self.algorithm])

    def step(self, tuples: int, window: float) -> float:
        """Seconds of a step with these tuples, half of them of each side."""
        driver = self.costs.step + tuples * self.costs.tuple
        if self.algorithm == "celljoin":
            pieces = 2 * math.ceil(tuples / 2 / LARGEST_PART)
            return driver + pieces * self.cores * self.costs.message + self._scan(tuples, window)
        ports = CHAIN if self.algorithm in HANDS_ON_FIRST else STAR
        blocks = 2 * math.ceil(tuples / 2 / block_size(tuples // 2, ports))
        size = tuples / blocks
        waves, rest = divmod(blocks, WAVE)
        whole = waves * self.wave(WAVE, size, window) if waves else 0.0
        return driver + whole + (self.wave(rest, size, window) if rest else 0.0)

    def throughput(self, window: float, tuples: int) -> float:
        """Tuples of both streams per second, with windows of `window` tuples and steps of `tuples` tuples."""
        return tuples / self.step(tuples, window)

    def sustained_rate(self, seconds: float, tuples: int) -> float:
        """The highest rate of each stream, in tuples per second, with windows of `seconds`. The work grows with the
        square of the rate."""
        rate = math.sqrt(self.cores * self.costs.together / (2 * seconds))
        for _ in range(MOST_TRIES):
            possible = self.throughput(rate * seconds, tuples) / 2
            before, rate = rate, math.sqrt(rate * possible)
            if abs(rate / before - 1) < CLOSE_ENOUGH:
                break
        return rate

    def mean_latency(self, rate: float, windows: tuple[float, float], batch: int) -> float:
        """Mean seconds from the arrival of a pair's later tuple until the pair can be polled; `rate` is that of each
        stream, `windows` are in seconds, `batch` is in tuples of a stream.

        A tuple waits until its batch is full, until the running step ends, and until its own step ends. A step takes
        all batches that have become full in the meantime. The result is inf if the rate is too high.
        """
        window = rate * sum(windows) / 2
        batches, interval = 1, batch / rate
        while (seconds := self.step(2 * batches * batch, window)) > batches * interval:
            batches += max(batches // 8, 1)
            if batches * batch > window:
                return math.inf
        waiting = (batch - 1) / 2 / rate + (batches - 1) / 2 * interval
        meeting = meeting_latency(windows, self.cores)[0] if self.algorithm == "handshake" else 0.0
        return waiting + seconds + meeting


def _chain(nodes: int, blocks: int, handling: float, scan: float, hop: float, hands_on_first: bool) -> float:
    """Half of the blocks enter at the left end and half at the right end; seconds until the last one is compared."""
    events: list[tuple[float, int, int, int]] = []  # (time, number, node, direction; 0: the node is done)
    waiting: list[deque[int]] = [deque() for _ in range(nodes)]
    idle = [True] * nodes
    number, now = 0, 0.0
    for direction, node, count in ((1, 0, blocks - blocks // 2), (-1, nodes - 1, blocks // 2)):
        for _ in range(count):
            heapq.heappush(events, (0.0, number := number + 1, node, direction))
    while events:
        now, _, node, direction = heapq.heappop(events)
        if direction:
            waiting[node].append(direction)
        else:
            idle[node] = True
        if not idle[node] or not waiting[node]:
            continue
        idle[node] = False
        direction = waiting[node].popleft()
        handled = now + handling
        end = handled + scan
        heapq.heappush(events, (end, number := number + 1, node, 0))
        if 0 <= node + direction < nodes:
            sent = handled if hands_on_first else end
            heapq.heappush(events, (sent + hop, number := number + 1, node + direction, direction))
    return now


def meeting_latency(windows: tuple[float, float], nodes: int | None = None) -> tuple[float, float]:
    """Mean and maximum of the time from the arrival of a pair's later tuple until the two meet in handshake join.

    With windows R and S on n nodes, r reaches node j at age j R/n and s at age (n - 1 - j) S/n. They meet at the node
    where the later of the two is there first. `None`: infinitely many nodes, where the maximum is R S / (R + S) and the
    latency falls evenly from it to 0 with the distance of the two in time (section 3.1).
    """
    left, right = windows
    if nodes is None:
        most = left * right / (left + right)
        return most / 2, most
    reached_by_left = np.arange(nodes) * left / nodes
    reached_by_right = np.arange(nodes)[::-1] * right / nodes
    total, most = 0.0, 0.0
    for later, earlier, span in (
        (reached_by_left, reached_by_right, right),
        (reached_by_right, reached_by_left, left),
    ):
        apart = (np.arange(1000) + 0.5) / 1000 * span
        latency = np.maximum(later, earlier - apart[:, None]).min(axis=1)
        total += float(latency.mean()) * span / (left + right)
        most = max(most, float(np.maximum(later, earlier).min()))
    return total, most


def papers_benchmark(algorithm: str, costs: Costs, tuples: int, lock: bool) -> list[tuple[int, float, float]]:
    """For each number of cores, the highest rate of each stream with the papers' windows, and the mean latency in
    seconds at half of it with their batches."""
    rows = []
    for cores in CORES:
        machine = Machine(algorithm, cores, costs, lock)
        rate = machine.sustained_rate(PAPERS_WINDOW, tuples)
        rows.append((cores, rate, machine.mean_latency(rate / 2, (PAPERS_WINDOW, PAPERS_WINDOW), PAPERS_BATCH)))
    return rows
