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
import numpy.typing as npt
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from ..errors import ArgumentError
from ..predicate.cache import compiled, compiled_brief
from ..store import bi_sort

Words = npt.NDArray[np.int64]
LINE = 16
"""Words of two cache lines: one in the middle of so many has its line for itself, however the array is aligned."""
HEAD, TAIL = LINE // 2, LINE + LINE // 2
"""Where the indexes are in an array of 2 * LINE words. They count on for ever; a slot is an index modulo capacity."""
CLOCK = time.CLOCK_MONOTONIC

_pointer: Any = bi_sort.pointer
_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


def _word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])


def _load(typing: Any, words: Any, place: Any) -> Any:
    """words[place]; what its writer did before it stored this value is seen from here on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_word(context, builder, signature, args), "acquire", 8)

    return types.int64(words, types.int64), codegen


def _store(typing: Any, words: Any, place: Any, value: Any) -> Any:
    """words[place] = value; whoever sees it also sees all that was done before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _word(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), codegen


def _add(typing: Any, words: Any, place: Any, amount: Any) -> Any:
    """words[place] += amount in one step, whoever else does so; returns the value before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _word(context, builder, signature, args), args[2], "acq_rel")

    return types.int64(words, types.int64, types.int64), codegen


load_acquire: Any = intrinsic(_load)
store_release: Any = intrinsic(_store)
fetch_add: Any = intrinsic(_add)


@compiled_brief
def observe(words, place):  # type: ignore[no-untyped-def]
    """`load_acquire` for callers that are not compiled."""
    return load_acquire(words, place)


@compiled_brief
def publish(words, place, value):  # type: ignore[no-untyped-def]
    """`store_release` for callers that are not compiled."""
    store_release(words, place, value)


@compiled_brief
def ring_length(indexes):  # type: ignore[no-untyped-def]
    """How much is in the queue. The head is read first, so that it can never be seen beyond the tail."""
    head = load_acquire(indexes, HEAD)
    return load_acquire(indexes, TAIL) - head


@compiled
def ring_put(slots, indexes, values):  # type: ignore[no-untyped-def]
    """Append as many values as there is room for; returns how many."""
    tail, mask = indexes[TAIL], len(slots) - 1
    count = min(len(values), len(slots) - ring_length(indexes))
    for k in range(count):
        slots[(tail + k) & mask] = values[k]
    store_release(indexes, TAIL, tail + count)
    return count


@compiled
def ring_get(slots, indexes, out):  # type: ignore[no-untyped-def]
    """Take as many values as there are and `out` has room for; returns how many."""
    head, mask = indexes[HEAD], len(slots) - 1
    count = min(len(out), ring_length(indexes))
    for k in range(count):
        out[k] = slots[(head + k) & mask]
    store_release(indexes, HEAD, head + count)
    return count


def power_of_two(capacity: int) -> int:
    """The least power of two that is not below the capacity."""
    if capacity < 1:
        raise ArgumentError(f"capacity: {capacity} is less than 1")
    return 1 << (capacity - 1).bit_length()


class Ring:
    """A queue of int64 values from one thread to another."""

    def __init__(self, capacity: int) -> None:
        self.slots = np.empty(power_of_two(capacity), np.int64)
        self.indexes = np.zeros(2 * LINE, np.int64)

    def __len__(self) -> int:
        return int(ring_length(self.indexes))

    def put(self, values: Words) -> int:
        """Append as many values as there is room for, all seen at once; returns how many."""
        return int(ring_put(self.slots, self.indexes, values))

    def get(self, limit: int) -> Words:
        """Take what is there, at most `limit` values."""
        out = np.empty(min(limit, len(self)), np.int64)
        ring_get(self.slots, self.indexes, out)
        return out


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
