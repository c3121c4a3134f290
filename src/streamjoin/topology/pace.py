"""How many threads are worth waking for a step: found out by trying.

What a thread costs (to wake it, to share memory with it) depends on the machine, on the predicate and on the size of
the batches. So numbers of threads are timed, and the fastest one is used: each power of two up to the number of
workers. From where it is, the pace looks at the next smaller and the next larger number from time to time, and ever
more seldom while nothing changes. It begins with as many threads as have enough to do each.
"""

from __future__ import annotations

FEW_SECONDS = 0.0002
"""Work that takes one thread less is never shared."""
ENOUGH_SECONDS, PLENTY_SECONDS = 0.0001, 0.004
"""Work that is worth a thread, to begin with; and so much for each that all of them are used without a trial."""
TRIES = 3
"""How often a number is tried before it is judged."""
FIRST_PAUSE, LONGEST_PAUSE = 16, 1024
"""Steps between two trials of another number."""
YOUNGEST, FASTER = 0.25, 0.5
"""The weight of the last step in the average, and of one that was faster: others may have slowed the rest down."""
BETTER = 0.97
"""A number must take less than this share of the time to be preferred."""


class _Size:
    """Steps of about the same size."""

    def __init__(self, ways: list[int], first: int) -> None:
        self._ways, self._now = ways, first
        self._cost = [0.0] * len(ways)
        self._tried = [0] * len(ways)
        self._pause, self._left, self._up = FIRST_PAUSE, FIRST_PAUSE, False

    def choose(self) -> int:
        """The place of a number of threads."""
        now = self._now
        if self._tried[now] < TRIES:
            return now
        near = [place for place in (now + 1, now - 1) if 0 <= place < len(self._ways)]
        for place in near:
            if self._tried[place] < TRIES:
                return place
        best = min(near, key=self._cost.__getitem__, default=now)
        if self._cost[best] < BETTER * self._cost[now]:
            self._now, self._pause, self._left = best, FIRST_PAUSE, FIRST_PAUSE
            return self.choose()
        self._left -= 1
        if self._left > 0 or not near:
            return now
        self._pause = self._left = min(2 * self._pause, LONGEST_PAUSE)
        self._up = not self._up
        return near[0 if self._up else -1]

    def note(self, place: int, cost: float) -> None:
        before = self._cost[place]
        if not self._tried[place]:
            self._cost[place] = cost
        elif self._tried[place] < TRIES:  # a step may have waited for the compiler or for fresh memory
            self._cost[place] = min(before, cost)
        else:
            self._cost[place] = before + (YOUNGEST if cost > before else FASTER) * (cost - before)
        self._tried[place] += 1


class Pace:
    """Chooses for each step of some probing tuples. Sizes within a factor of two count as the same."""

    def __init__(self, workers: int) -> None:
        self._ways = [1 << k for k in range(workers.bit_length()) if 1 << k < workers] + [workers]
        self._sizes: dict[int, _Size] = {}

    def workers(self, tuples: int, seconds: float) -> int:
        """How many threads to use for a step that is likely to take one of them so many seconds."""
        ways = self._ways
        if seconds < FEW_SECONDS:
            return 1
        if seconds >= PLENTY_SECONDS * ways[-1]:
            return ways[-1]
        size = self._sizes.get(tuples.bit_length())
        if size is None:
            first = sum(way * ENOUGH_SECONDS <= seconds for way in ways) - 1
            size = self._sizes[tuples.bit_length()] = _Size(ways, max(first, 0))
        return ways[size.choose()]

    def note(self, tuples: int, workers: int, seconds: float) -> None:
        """A step has taken so long."""
        size = self._sizes.get(tuples.bit_length())
        if size is not None:
            size.note(self._ways.index(workers), seconds / tuples)
