"""ScaleGate against a plain merge: a reader always gets all tuples that are ready, in the merged order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numba import njit, types

from streamjoin.compile.atomics import load_acquire
from streamjoin.errors import ArgumentError, DataError, StateError
from streamjoin.parallel import gate as gate_module
from streamjoin.parallel.gate import LINE, Gate, gate_add, gate_next

from ..long import LONG
from .together import Stop, run_together

FIRST_TIME, LAST_TIME = -(2**63), 2**63 - 2
Tuple = tuple[int, int, int]
"""(time, source, value); values of a source count up, so that sorted tuples are in the merged order."""
sched_yield = types.ExternalFunction("sched_yield", types.int32())

gaps = st.sampled_from([0, 0, 0, 1, 1, 2, 5])
kinds = st.sampled_from(["add"] * 7 + ["read"] * 6 + ["heartbeat"] * 6 + ["end"])
"""Sources end rarely, or else the rest of the steps would have nothing to do."""
steps = st.lists(st.tuples(kinds, st.integers(0, 11), st.lists(gaps, min_size=1, max_size=6)), min_size=15, max_size=60)
"""(what, number of a source or reader, gaps between times). Short lists hardly ever make a tuple ready."""


class Model:
    """A gate, and beside it a plain account of what was added and promised, which every call is checked against."""

    def __init__(self, sources: int, readers: int, capacity: int, start: int = 0) -> None:
        self.gate, self.capacity, self.start = Gate(sources, readers, capacity), capacity, start
        self.added: list[list[Tuple]] = [[] for _ in range(sources)]
        self.promises = [FIRST_TIME] * sources
        self.ended = [False] * sources
        self.got: list[list[Tuple]] = [[] for _ in range(readers)]

    def merged(self) -> list[Tuple]:
        return sorted(row for rows in self.added for row in rows)

    def is_ready(self, row: Tuple) -> bool:
        """Whether no other source can still add a tuple that comes before this one."""
        others = [j for j in range(len(self.added)) if j != row[1] and not self.ended[j]]
        return all((self.promises[j], j) > row[:2] for j in others)

    def add(self, source: int, times: list[int]) -> None:
        rows = [(t, source, len(self.added[source]) + k) for k, t in enumerate(times)]
        read = min(sum(row[1] == source for row in got) for got in self.got)
        room = self.capacity - (len(self.added[source]) - read)
        taken = self.gate.add(source, np.array(times, np.int64), np.array([row[2] for row in rows], np.int64))
        assert taken == min(len(times), room)
        self.added[source] += rows[:taken]
        if taken:
            self.promises[source] = times[taken - 1]

    def heartbeat(self, source: int, time: int) -> None:
        self.gate.heartbeat(source, time)
        self.promises[source] = max(self.promises[source], time)

    def end(self, source: int) -> None:
        self.gate.end(source)
        self.ended[source] = True

    def take(self, reader: int, limit: int) -> None:
        columns_ = self.gate.next_ready(reader, limit)
        self.got[reader] += zip(*(column.tolist() for column in columns_), strict=True)

    def read(self, reader: int, limit: int) -> None:
        before, merged = len(self.got[reader]), self.merged()
        ready_ = sum(self.is_ready(row) for row in merged)
        self.take(reader, limit)
        assert self.got[reader] == merged[: min(before + limit, ready_)]

    def last_time(self, source: int) -> int:
        return self.promises[source] if self.promises[source] > FIRST_TIME else self.start

    def step(self, what: str, number: int, gaps_: list[int]) -> None:
        source, reader = number % len(self.added), number % len(self.got)
        if what == "read":
            self.read(reader, sum(gaps_))
        elif what == "end":
            self.end(source)
        elif self.ended[source]:
            with pytest.raises(StateError, match=f"source {source} has ended"):
                self.gate.add(source, np.array([self.start]), np.array([0]))
        elif what == "heartbeat":
            self.heartbeat(source, self.last_time(source) + gaps_[0])
        else:
            self.add(source, (self.last_time(source) + np.cumsum(gaps_, dtype=np.int64)).tolist())


as_found = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""Without looking for a shorter example, which takes minutes when there are so many steps."""
shapes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from([1, 2, 4, 8]))


@as_found
@given(shapes, st.sampled_from([0, FIRST_TIME, LAST_TIME - 10_000]), steps)
def test_readers_get_all_that_is_ready_in_the_merged_order(
    shape: tuple[int, int, int], start: int, steps_: list[tuple[str, int, list[int]]]
) -> None:
    model = Model(*shape, start)
    for step in steps_:
        model.step(*step)
    for source in range(shape[0]):
        model.end(source)
    for reader in range(shape[1]):
        model.read(reader, sum(map(len, model.added)))
        assert model.got[reader] == model.merged()


@as_found
@given(shapes, steps, st.integers(0, 3))
def test_the_earliest_tuple_that_may_still_come_is_never_too_late(
    shape: tuple[int, int, int], steps_: list[tuple[str, int, list[int]]], late: int
) -> None:
    """After each read, one source adds the earliest tuple that it may add. The gate decides what is ready."""
    model = Model(*shape)
    late %= shape[0]
    for what, number, gaps_ in steps_:
        if what != "read":
            model.step(what, number, gaps_)
            continue
        model.take(number % shape[1], 9)
        if not model.ended[late]:
            model.add(late, [model.promises[late]])
    for source in range(shape[0]):
        model.end(source)
    for reader in range(shape[1]):
        model.take(reader, 1000)
        assert model.got[reader] == model.merged()


def columns(*rows: Tuple) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]


def ready(gate: Gate, reader: int = 0, limit: int = 100) -> list[list[int]]:
    return [column.tolist() for column in gate.next_ready(reader, limit)]


def put(gate: Gate, source: int, *times: int) -> int:
    return gate.add(source, np.array(times, np.int64), np.arange(len(times)))


def test_equal_times_wait_only_for_sources_that_come_before() -> None:
    gate = Gate(3, 1, 8)
    put(gate, 1, 5)
    gate.heartbeat(0, 5)
    gate.heartbeat(2, 5)
    assert ready(gate) == columns()
    put(gate, 0, 5)
    assert ready(gate) == columns((5, 0, 0))
    gate.heartbeat(0, 6)
    assert ready(gate) == columns((5, 1, 0))


def test_a_silent_source_blocks_until_its_heartbeat_or_end() -> None:
    gate = Gate(2, 1, 8)
    put(gate, 0, 1, 2, 3, 4)
    assert ready(gate) == columns()
    gate.heartbeat(1, 2)
    assert ready(gate) == columns((1, 0, 0), (2, 0, 1))
    gate.heartbeat(1, 1)
    with pytest.raises(DataError, match="source 1 has reached 2"):
        put(gate, 1, 1)
    gate.end(1)
    assert ready(gate) == columns((3, 0, 2), (4, 0, 3))


def test_a_source_alone_is_ready_at_once() -> None:
    gate = Gate(1, 1, 4)
    assert put(gate, 0, FIRST_TIME, 0, LAST_TIME) == 3
    assert ready(gate) == columns((FIRST_TIME, 0, 0), (0, 0, 1), (LAST_TIME, 0, 2))


def test_a_slow_reader_holds_up_the_source_but_not_other_readers() -> None:
    gate = Gate(1, 2, 4)
    assert put(gate, 0, 1, 2, 3, 4, 5) == 4
    assert ready(gate, 0)[0] == [1, 2, 3, 4]
    assert put(gate, 0, 5) == 0
    assert ready(gate, 1, 3)[0] == [1, 2, 3]
    assert put(gate, 0, 5, 6, 7, 8) == 3
    assert ready(gate, 0)[0] == [5, 6, 7]
    assert ready(gate, 1)[0] == [4, 5, 6, 7]


def test_times_that_go_back_are_refused_and_nothing_is_taken() -> None:
    gate = Gate(2, 1, 8)
    with pytest.raises(DataError, match=r"times\[2\]: 2 is earlier, times\[1\] is 3"):
        put(gate, 0, 1, 3, 2)
    put(gate, 0, 4)
    with pytest.raises(DataError, match=r"times\[0\]: 3 is earlier, source 0 has reached 4"):
        put(gate, 0, 3, 9)
    gate.heartbeat(0, 7)
    with pytest.raises(DataError, match="source 0 has reached 7"):
        put(gate, 0, 6)
    with pytest.raises(DataError, match="is not a timestamp"):
        put(gate, 0, 8, LAST_TIME + 1)
    gate.end(1)
    assert ready(gate)[0] == [4]
    assert put(gate, 0, 7, LAST_TIME) == 2
    assert ready(gate)[0] == [7, LAST_TIME]


def test_times_that_go_back_are_refused_whether_or_not_there_is_room() -> None:
    gate = Gate(1, 1, 2)
    for _ in range(2):
        with pytest.raises(DataError, match=r"times\[3\]: 4 is earlier"):
            put(gate, 0, 5, 5, 5, 4)
        put(gate, 0, 5)
    assert put(gate, 0, 5) == 0
    with pytest.raises(DataError, match="source 0 has reached 5"):
        put(gate, 0, 4)
    gate.end(0)
    with pytest.raises(StateError, match="source 0 has ended"):
        put(gate, 0, 5)


def test_what_cannot_be_is_refused() -> None:
    for sources, readers in ((0, 1), (1, 0)):
        with pytest.raises(ArgumentError, match="at least one"):
            Gate(sources, readers, 4)
    gate = Gate(2, 3, 4)
    for number in (-1, 2):
        with pytest.raises(ArgumentError, match=f"source: there is no {number}; .* 0 to 1"):
            put(gate, number, 1)
        with pytest.raises(ArgumentError, match=f"source: there is no {number}"):
            gate.heartbeat(number, 1)
    for number in (-1, 3):
        with pytest.raises(ArgumentError, match=f"reader: there is no {number}; .* 0 to 2"):
            gate.next_ready(number, 1)
    with pytest.raises(ArgumentError, match="1 and 2 are not equally many"):
        gate.add(0, np.zeros(1, np.int64), np.zeros(2, np.int64))


@contextmanager
def interrupted(instant: int, action: Callable[[], object]) -> Iterator[None]:
    """The action happens before access number `instant` to a shared word, in a kernel that runs as plain Python.

    Compiled kernels are left alone if they have been compiled before.
    """
    accesses = iter(range(1000))

    def load(words: np.ndarray, place: int) -> int:
        if next(accesses) == instant:
            action()
        return words[place]

    def store(words: np.ndarray, place: int, value: int) -> None:
        if next(accesses) == instant:
            action()
        words[place] = value

    with mock.patch.multiple(gate_module, load_acquire=load, store_release=store):
        yield


class Exchange:
    """Two sources that send what they have, and a reader that collects it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.gate, self.sent, self.got = Gate(2, 1, 4), [0, 0], list[Tuple]()
        self.times = [np.sort(self.rng.integers(0, 12, 8)) for _ in range(2)]
        self.arrays = self.gate._times, self.gate._values, self.gate._published, self.gate._heads
        self.values = np.arange(8)

    def send(self, source: int, kernel: Callable[..., int], size: int) -> None:
        begin, end = self.sent[source], self.sent[source] + size
        taken = kernel(*self.arrays, source, self.times[source][begin:end], self.values[begin:end])
        assert taken >= 0
        self.sent[source] += taken

    def receive(self, kernel: Callable[..., int]) -> None:
        out = np.zeros((3, 20), np.int64)
        count = kernel(*self.arrays, 0, out)
        self.got += zip(*out[:, :count].tolist(), strict=True)

    def finish(self) -> list[Tuple]:
        """Send and receive the rest; returns what the reader must have got by then."""
        for _ in range(20):
            for source in range(2):
                self.send(source, gate_add, 8)
                if self.sent[source] == 8:
                    self.gate.end(source)
            self.receive(gate_next)
        return sorted((int(t), source, k) for source in range(2) for k, t in enumerate(self.times[source]))


@pytest.mark.parametrize("instant", range(6))
@pytest.mark.parametrize("who", ["source", "reader"])
def test_a_thread_may_be_interrupted_before_any_access(who: str, instant: int) -> None:
    """Real threads hardly ever meet within the few nanoseconds in which the order of accesses matters."""
    Exchange(0).finish()
    for seed in range(50):
        exchange = Exchange(seed)
        for turn in range(6):
            source, size = int(exchange.rng.integers(2)), int(exchange.rng.integers(1, 5))
            if turn % 2 == 0:
                exchange.send(source, gate_add, size)
            elif who == "reader":
                with interrupted(instant, partial(exchange.send, source, gate_add, size)):
                    exchange.receive(gate_next.py_func)
            else:
                with interrupted(instant, partial(exchange.receive, gate_next)):
                    exchange.send(source, gate_add.py_func, size)
        expected = exchange.finish()
        assert exchange.got == expected


def streams(sources: int, count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The sources' times, with many ties, and what readers shall get: rows (times, sources, values)."""
    rng = np.random.default_rng(seed)
    times = [np.cumsum(rng.choice([0, 0, 1, 1, 2, 9], count)).astype(np.int64) for _ in range(sources)]
    all_times, source = np.concatenate(times), np.repeat(np.arange(sources), count)
    value = np.tile(np.arange(count), sources)
    order = np.lexsort((value, source, all_times))
    return times, np.stack([all_times[order], source[order], value[order]])


@pytest.mark.parametrize("capacity", [4, 64, 4096])
def test_threads_all_get_the_same_sequence(capacity: int) -> None:
    sources, readers, stop = 4, 3, Stop()
    count = (5000 if capacity == 4 else 40_000) // (1 if LONG else 4)
    times, expected = streams(sources, count, capacity)
    gate, values = Gate(sources, readers, capacity), np.arange(count)
    results: list[list[np.ndarray]] = [[] for _ in range(readers)]
    start = threading.Barrier(sources + readers)

    def source(number: int) -> None:
        rng, sent = np.random.default_rng(number), 0
        start.wait()
        while sent < count and not stop.is_set:
            end = sent + int(rng.integers(1, capacity + 1))
            taken = gate.add(number, times[number][sent:end], values[sent:end])
            sent += taken
            if sent < count and rng.random() < 0.2:
                gate.heartbeat(number, int(times[number][sent]))
            if not taken:
                time.sleep(0)
        gate.end(number)

    def reader(number: int) -> None:
        rng, got = np.random.default_rng(number), 0
        start.wait()
        while got < expected.shape[1] and not stop.is_set:
            found = np.stack(gate.next_ready(number, int(rng.integers(1, 4 * capacity))))
            results[number].append(found)
            got += found.shape[1]
            if not found.shape[1]:
                time.sleep(0)

    tasks: list[Callable[[], object]] = [lambda k=k: source(k) for k in range(sources)]
    run_together(tasks + [lambda k=k: reader(k) for k in range(readers)], stop)
    for result in results:
        np.testing.assert_array_equal(np.concatenate(result, axis=1), expected)


@njit(nogil=True)
def send(times, values, published, heads, source, new_times, size, stop):  # type: ignore[no-untyped-def]
    sent = 0
    while sent < len(new_times) and load_acquire(stop, LINE // 2) == 0:
        end = min(sent + 1 + sent % size, len(new_times))
        taken = gate_add(times, values, published, heads, source, new_times[sent:end], np.arange(sent, end))
        sent += taken
        if taken == 0:
            sched_yield()


@njit(nogil=True)
def receive(times, values, published, heads, reader, out, stop):  # type: ignore[no-untyped-def]
    got = 0
    while got < out.shape[1] and load_acquire(stop, LINE // 2) == 0:
        found = gate_next(times, values, published, heads, reader, out[:, got:])
        got += found
        if found == 0:
            sched_yield()


@pytest.mark.parametrize(("sources", "readers", "capacity"), [(1, 1, 2), (2, 1, 4), (2, 1, 1024), (4, 3, 16)])
def test_kernels_all_get_the_same_sequence(sources: int, readers: int, capacity: int) -> None:
    """Without the GIL from the first tuple to the last, so that sources and readers meet at any instruction.

    A last tuple of each source lies beyond all others and is not waited for; it stands for the end.
    """
    stop = Stop()
    count = (60_000 if capacity > 4 else 20_000) // (1 if LONG else 4)
    times, expected = streams(sources, count, capacity)
    gate = Gate(sources, readers, capacity)
    arrays = gate._times, gate._values, gate._published, gate._heads
    results = [np.zeros_like(expected) for _ in range(readers)]

    def source(number: int) -> None:
        send(*arrays, number, np.append(times[number], LAST_TIME), capacity, stop.words)

    tasks: list[Callable[[], object]] = [lambda k=k: source(k) for k in range(sources)]
    tasks += [lambda k=k: receive(*arrays, k, results[k], stop.words) for k in range(readers)]
    run_together(tasks, stop)
    for result in results:
        np.testing.assert_array_equal(result, expected)
