"""Whether a step is worth a second thread: found out by trying.

What a thread costs (to wake it, to share memory and the interpreter with it) depends on the machine, on the predicate
and on the size of the batches. So both ways are timed, and the faster one is used. The slower one is tried again from
time to time, and ever more seldom while nothing changes. Several threads are tried first. If that is wrong, a step
takes a tenth of a millisecond too long; the other way round, it may take twice as long as it need.
"""

from __future__ import annotations

FEW_SECONDS, MANY_SECONDS = 0.0003, 0.004
"""Probing that takes less is never shared, probing that takes longer always."""
TRIES = 3
"""How often each way is tried before the first choice."""
FIRST_PAUSE, LONGEST_PAUSE = 16, 1024
"""Steps between two trials of the slower way."""
YOUNGEST = 0.25
"""The weight of the last step in the average."""


class _Size:
    """Steps of about the same size, done alone (0) or shared (1)."""

    def __init__(self) -> None:
        self.cost = [0.0, 0.0]
        self.tried = [0, 0]
        self.pause, self.left = FIRST_PAUSE, FIRST_PAUSE
        self.better = 0

    def choose(self) -> int:
        if min(self.tried) < TRIES:
            return int(self.tried[1] <= self.tried[0])
        better = int(self.cost[1] < self.cost[0])
        if better != self.better:
            self.better, self.pause, self.left = better, FIRST_PAUSE, FIRST_PAUSE
        self.left -= 1
        if self.left > 0:
            return better
        self.pause = self.left = min(2 * self.pause, LONGEST_PAUSE)
        return 1 - better

    def note(self, way: int, cost: float) -> None:
        before = self.cost[way]
        if not self.tried[way]:
            self.cost[way] = cost
        elif self.tried[way] < TRIES:  # a step may have waited for the compiler or for fresh memory
            self.cost[way] = min(before, cost)
        else:
            self.cost[way] = before + YOUNGEST * (cost - before)
        self.tried[way] += 1


class Pace:
    """Chooses for each step of some probing tuples. Sizes within a factor of two count as the same."""

    def __init__(self) -> None:
        self._sizes: dict[int, _Size] = {}

    def shares(self, tuples: int, seconds: float) -> bool:
        """Whether to share a step whose probing is likely to take so many seconds of one thread."""
        if not FEW_SECONDS < seconds < MANY_SECONDS:
            return seconds >= MANY_SECONDS
        return bool(self._sizes.setdefault(tuples.bit_length(), _Size()).choose())

    def note(self, tuples: int, shared: bool, seconds: float) -> None:
        """A step has taken so long."""
        size = self._sizes.get(tuples.bit_length())
        if size is not None:
            size.note(int(shared), seconds / tuples)
