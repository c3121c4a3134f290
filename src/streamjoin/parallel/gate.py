"""ScaleGate (ScaleJoin, sections IV-A and V-C): sources sorted by time, merged for any number of readers.

Invariant: every reader gets the tuples in the order (time, source, order within the source), whatever the threads'
speeds. The promise of a source is a time that nothing it adds from now on lies before: the last time added or
announced by a heartbeat, whichever is later. Tuple (t, i) is *ready* when for every other source j

    promise(j) > t,  or  promise(j) = t and j > i,

that is, when even the earliest tuple that j may still add, (promise(j), j), comes after it. Source i itself needs no
promise: what it adds later comes later. Definition 2 of the paper waits for promise(j) > t of all sources, i included,
and so holds back the last tuple of each source and leaves the order of equal times open.

Instead of the paper's skip list, each source has a ring that all readers read, each from its own head, and each reader
merges for itself. A source adds, then moves its tail, then its promise; a reader looks at the promise, then at the
tail. So it sees every tuple that was added before the promise it goes by, and all that it does not see come after.
"""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Integers
from ..compile.atomics import load_acquire, publish, store_release
from ..compile.cache import compiled
from ..errors import ArgumentError, DataError, StateError

LINE = 16
"""Integers of two cache lines: one in the middle of so many has its line for itself, however the array is aligned."""
TAIL, PROMISE = LINE // 2, LINE // 2 + 1
"""Where a source's published words are in its line."""
NEVER, EVER = INT64_MAX, INT64_MIN
"""What a source promises that has ended (so no tuple may bear this time), and one that has said nothing yet."""


@compiled
def gate_add(times, values, published, heads, source, new_times, new_values):  # type: ignore[no-untyped-def]
    """Append as many tuples as there is room for; returns how many, or -1 - k if the k-th may not come now."""
    words = published[source]
    last = words[PROMISE]
    for k in range(len(new_times)):
        if new_times[k] < last or new_times[k] == NEVER:
            return -1 - k
        last = new_times[k]
    tail, capacity = words[TAIL], times.shape[1]
    slowest = tail
    for reader in range(len(heads)):
        slowest = min(slowest, load_acquire(heads[reader], source))
    count = min(len(new_times), capacity - (tail - slowest))
    for k in range(count):
        slot = (tail + k) & (capacity - 1)
        times[source, slot], values[source, slot] = new_times[k], new_values[k]
    if count > 0:
        store_release(words, TAIL, tail + count)
        store_release(words, PROMISE, new_times[count - 1])
    return count


@compiled
def gate_next(times, values, published, heads, reader, out):  # type: ignore[no-untyped-def]
    """Write the reader's next ready tuples to the rows (times, sources, values) of `out`; returns how many.

    `earliest` is the time of a source's next tuple, or its promise if there is none. The source with the least of them
    goes on until another's comes before it; if it has no tuple, nothing is ready.
    """
    sources, mask = len(times), times.shape[1] - 1
    mine = heads[reader]
    head, tail, promise, earliest = np.empty((4, sources), np.int64)
    for s in range(sources):
        promise[s] = load_acquire(published[s], PROMISE)
        tail[s] = load_acquire(published[s], TAIL)
        head[s] = mine[s]
        earliest[s] = times[s, head[s] & mask] if head[s] < tail[s] else promise[s]
    count, room = 0, out.shape[1]
    while count < room:
        first = 0
        for s in range(1, sources):
            if earliest[s] < earliest[first]:
                first = s
        place, end = head[first], tail[first]
        if place == end:
            break
        last = NEVER
        for s in range(sources):
            if s != first:  # those before `first` are later than it, so subtracting 1 does not wrap around
                last = min(last, earliest[s] - (s < first))
        time = earliest[first]
        while time <= last and count < room:
            out[0, count], out[1, count], out[2, count] = time, first, values[first, place & mask]
            count += 1
            place += 1
            if place == end:
                time = promise[first]
                break
            time = times[first, place & mask]
        head[first], earliest[first] = place, time
    for s in range(sources):
        store_release(mine, s, head[s])
    return count


class Gate:
    """Merges sources on readiness. Each source belongs to one thread, and so does each reader; nobody takes a lock."""

    def __init__(self, sources: int, readers: int, capacity: int) -> None:
        if sources < 1 or readers < 1:
            raise ArgumentError(f"a gate has at least one source and one reader, not {sources} and {readers}")
        if capacity < 1:
            raise ArgumentError(f"capacity: {capacity} is less than 1")
        shape = sources, 1 << (capacity - 1).bit_length()  # rings are masked
        self._times, self._values = np.empty(shape, np.int64), np.empty(shape, np.int64)
        self._published = np.zeros((sources, LINE), np.int64)
        self._published[:, PROMISE] = EVER
        self._heads = np.zeros((readers, sources + LINE), np.int64)  # padded: each reader writes lines of its own

    def add(self, source: int, times: Integers, values: Integers) -> int:
        """Append tuples, sorted by time, to a source; returns how many were taken.

        They are fewer than all when a reader is `capacity` tuples behind, and none, with an error, when one of them
        goes back in time, whether or not there is room.
        """
        self._check_source(source)
        if len(times) != len(values):
            raise ArgumentError(f"times and values: {len(times)} and {len(values)} are not equally many")
        taken = int(gate_add(self._times, self._values, self._published, self._heads, source, times, values))
        if taken < 0:
            self._refuse(source, times, -1 - taken)
        return taken

    def heartbeat(self, source: int, time: int) -> None:
        """The source will not add anything earlier than this time. To promise less than before changes nothing."""
        self._check_source(source)
        if time > self._published[source, PROMISE]:
            publish(self._published[source], PROMISE, time)

    def end(self, source: int) -> None:
        """The source will not add anything more."""
        self.heartbeat(source, NEVER)

    def next_ready(self, reader: int, limit: int) -> tuple[Integers, Integers, Integers]:
        """The next ready tuples that this reader has not had, at most `limit`: (times, sources, values)."""
        if not 0 <= reader < len(self._heads):
            raise ArgumentError(f"reader: there is no {reader}; they are numbered from 0 to {len(self._heads) - 1}")
        out = np.empty((3, min(limit, self._times.size)), np.int64)
        count = gate_next(self._times, self._values, self._published, self._heads, reader, out)
        return out[0, :count], out[1, :count], out[2, :count]

    def _check_source(self, source: int) -> None:
        if not 0 <= source < len(self._times):
            raise ArgumentError(f"source: there is no {source}; they are numbered from 0 to {len(self._times) - 1}")

    def _refuse(self, source: int, times: Integers, place: int) -> None:
        promise = int(self._published[source, PROMISE])
        if promise == NEVER:
            raise StateError(f"source {source} has ended and cannot add anything")
        if times[place] == NEVER:
            raise DataError(f"times[{place}]: {NEVER} is not a timestamp; the largest is {NEVER - 1}")
        before = f"times[{place - 1}] is {times[place - 1]}" if place else f"source {source} has reached {promise}"
        raise DataError(f"times[{place}]: {times[place]} is earlier, {before}; a source's timestamps never go back")
