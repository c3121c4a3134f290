"""Queues between two threads without locks, and waiting for them without the GIL.

Invariant: head <= tail <= head + capacity. Only the consumer moves the head and only the producer the tail, each with
a release store after it has read or written the slots in question; the other side looks with an acquire load. So
whoever sees an index moved also sees what was done before it moved, and no slot is read and written at once. ScaleJoin
(section V-B) asks for communication that is lock-free, so that a slow thread never holds up the others; a queue with
one producer and one consumer is the simplest that is, and nothing has to be reclaimed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]

from ..compile.atomics import fetch_add, load_acquire, observe, publish
from ..compile.cache import compiled, compiled_brief
from ..compile.intrinsics import pointer
from ..errors import ArgumentError

LINE = 16
"""Integers of two cache lines: one in the middle of so many has its line for itself, however the array is aligned."""
HEAD, TAIL = LINE // 2, LINE + LINE // 2
"""Where the indexes are in an array of 2 * LINE words. They count on for ever; a slot is an index modulo capacity."""
CLOCK = time.CLOCK_MONOTONIC

_pointer: Any = pointer
_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


@compiled_brief
def ring_length(indexes):  # type: ignore[no-untyped-def]
    """How much is in the queue. The head is read first, so that it can never be seen beyond the tail."""
    head = load_acquire(indexes, HEAD)
    return load_acquire(indexes, TAIL) - head


def power_of_two(capacity: int) -> int:
    """The least power of two that is not below the capacity."""
    if capacity < 1:
        raise ArgumentError(f"capacity: {capacity} is less than 1")
    return 1 << (capacity - 1).bit_length()


class Mailbox:
    """A queue of Python objects from one thread to another.

    Slots are only touched under the GIL; the indexes are atomic because `Waiting` looks at them without it. Each side
    keeps its own index and the other's as last seen, and looks again only when the queue seems full or empty.
    """

    def __init__(self, capacity: int) -> None:
        self._slots: list[Any] = [None] * power_of_two(capacity)
        self.indexes = np.zeros(2 * LINE, np.int64)
        self._head, self._tail_seen = 0, 0
        self._tail, self._head_seen = 0, 0

    def __len__(self) -> int:
        return int(ring_length(self.indexes))

    def put(self, message: Any) -> bool:
        """Append a message, which may be anything but None. False: there is no room, and it was not taken."""
        if message is None:
            raise ArgumentError("message: None stands for an empty mailbox and cannot be sent")
        capacity = len(self._slots)
        if self._tail - self._head_seen == capacity:
            self._head_seen = observe(self.indexes, HEAD)
            if self._tail - self._head_seen == capacity:
                return False
        self._slots[self._tail & (capacity - 1)] = message
        self._tail += 1
        publish(self.indexes, TAIL, self._tail)
        return True

    def get(self) -> Any | None:
        """Take the next message. None: there is none."""
        if self._head == self._tail_seen:
            self._tail_seen = observe(self.indexes, TAIL)
            if self._head == self._tail_seen:
                return None
        slot = self._head & (len(self._slots) - 1)
        message, self._slots[slot] = self._slots[slot], None
        self._head += 1
        publish(self.indexes, HEAD, self._head)
        return message


@compiled_brief
def counter_add(words, amount):  # type: ignore[no-untyped-def]
    """Add to a counter's words; returns the new value."""
    return fetch_add(words, LINE // 2, amount) + amount


class Counter:
    """A number that any thread may add to, and any read."""

    def __init__(self, value: int = 0) -> None:
        self.words = np.full(LINE, value, np.int64)

    @property
    def value(self) -> int:
        return int(observe(self.words, LINE // 2))

    def add(self, amount: int) -> int:
        """Add and return the new value."""
        return int(counter_add(self.words, amount))


@compiled
def _nanoseconds():  # type: ignore[no-untyped-def]
    now = np.empty(2, np.int64)
    _clock_gettime(CLOCK, now.ctypes)
    return now[0] * 1_000_000_000 + now[1]


@compiled
def _wait(addresses, stop, patience):  # type: ignore[no-untyped-def]
    """Yielding rather than spinning: with more threads than cores, the one that is waited for needs this core."""
    begun = np.int64(-1)
    while True:
        for address in addresses:
            if ring_length(carray(_pointer(address), 2 * LINE, np.int64)) > 0:
                return True
        if load_acquire(stop, LINE // 2) != 0:
            return True
        now = _nanoseconds()
        if begun < 0:
            begun = now
        if now - begun >= patience * 1e9:
            return False
        _sched_yield()


class Waiting:
    """One consumer's waiting for any of its mailboxes."""

    def __init__(self, mailboxes: Sequence[Mailbox], stop: Counter) -> None:
        self._mailboxes, self._stop = tuple(mailboxes), stop
        self._addresses = np.array([mailbox.indexes.ctypes.data for mailbox in self._mailboxes], np.int64)

    def wait(self, patience: float) -> bool:
        """Whether a mailbox has something, or `stop` is not zero, before so many seconds have passed.

        The processor is yielded again and again until then, without the GIL.
        """
        return bool(_wait(self._addresses, self._stop.words, float(patience)))
