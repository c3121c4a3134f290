"""Mailboxes, counters and waiting: against a bounded deque, and between real threads with fewer cores than threads."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, types

from streamjoin.compile.atomics import load_acquire
from streamjoin.errors import ArgumentError
from streamjoin.lab.ring import Ring
from streamjoin.parallel.mailbox import LINE, Counter, Mailbox, Waiting, counter_add

from ..long import LONG
from .together import operations, rounded, run_together, until

sched_yield = types.ExternalFunction("sched_yield", types.int32())


@given(st.integers(1, 9), operations)
def test_a_mailbox_is_a_bounded_deque(capacity: int, operations_: list[tuple[bool, int]]) -> None:
    mailbox, model, number = Mailbox(capacity), deque[str](), 0
    for is_put, count in operations_:
        for _ in range(count):
            if is_put:
                taken = mailbox.put(str(number))
                assert taken == (len(model) < rounded(capacity))
                model.extend([str(number)] * taken)
                number += 1
            else:
                assert mailbox.get() == (model.popleft() if model else None)
            assert len(mailbox) == len(model)


def test_a_message_taken_is_released() -> None:
    class Message:
        pass

    mailbox, message = Mailbox(4), Message()
    known = weakref.ref(message)
    mailbox.put(message)
    del message
    assert known() is not None
    mailbox.get()
    assert known() is None


def test_what_cannot_be_is_refused() -> None:
    for queue in (Ring, Mailbox):
        with pytest.raises(ArgumentError, match="capacity: 0"):
            queue(0)
    mailbox = Mailbox(1)
    with pytest.raises(ArgumentError, match="None"):
        mailbox.put(None)
    assert len(mailbox) == 0


@pytest.mark.parametrize(("pairs", "capacity"), [(1, 1), (1, 300), (8, 7)])
def test_mailboxes_pass_messages_in_order(pairs: int, capacity: int) -> None:
    """The consumer sleeps in `Waiting` whenever nothing is there."""
    stop, total = Counter(), (20_000 if LONG else 3_000) // pairs
    results: list[list[tuple[int]]] = [[] for _ in range(pairs)]

    def producer(mailbox: Mailbox) -> None:
        for number in range(total):
            for _ in until(stop):
                if mailbox.put((number,)):
                    break

    def consumer(mailbox: Mailbox, result: list[tuple[int]]) -> None:
        waiting = Waiting([Mailbox(1), mailbox], stop)
        while len(result) < total and not stop.value:
            waiting.wait(1)
            while (message := mailbox.get()) is not None:
                result.append(message)

    tasks: list[Callable[[], object]] = []
    for result in results:
        mailbox = Mailbox(capacity)
        tasks.append(lambda mailbox=mailbox: producer(mailbox))
        tasks.append(lambda mailbox=mailbox, result=result: consumer(mailbox, result))
    run_together(tasks, stop)
    assert all(result == [(number,) for number in range(total)] for result in results)


@njit(nogil=True)
def add_often(words, seen, begun, threads):  # type: ignore[no-untyped-def]
    """Waits until all threads have begun, so that they run at once."""
    counter_add(begun, 1)
    while load_acquire(begun, LINE // 2) < threads:
        sched_yield()
    for k in range(len(seen)):
        seen[k] = counter_add(words, 3)


def test_a_counter_loses_nothing_and_returns_each_value_once() -> None:
    counter, begun = Counter(-7), Counter()
    assert counter.value == -7
    assert counter.add(9) == 2
    seen = np.zeros((3, 1_000_000 if LONG else 200_000), np.int64)
    run_together([lambda row=row: add_often(counter.words, row, begun.words, len(seen)) for row in seen], Counter())
    assert counter.value == 2 + 3 * seen.size
    np.testing.assert_array_equal(np.sort(seen, axis=None), np.arange(5, 3 * seen.size + 5, 3))


def test_waiting_is_over_when_something_is_there() -> None:
    mailboxes, stop = [Mailbox(2), Mailbox(2), Mailbox(2)], Counter()
    waiting = Waiting(mailboxes, stop)
    for mailbox in mailboxes:
        assert not waiting.wait(0)
        mailbox.put("message")
        begun = time.perf_counter()
        turns = 200
        assert all(waiting.wait(10) for _ in range(turns))
        assert time.perf_counter() - begun < turns * 50e-6
        mailbox.get()
    stop.add(1)
    assert waiting.wait(10)


def test_waiting_is_over_after_its_patience() -> None:
    waiting = Waiting([Mailbox(1)], Counter())
    begun = time.monotonic()
    assert not waiting.wait(0.2)
    assert 0.2 <= time.monotonic() - begun < 2


@pytest.mark.parametrize("wakes", ["message", "stop"])
def test_waiting_lets_other_threads_run_and_is_woken_by_them(wakes: str) -> None:
    """The other thread needs the GIL for the message that ends the waiting."""
    mailbox, stop = Mailbox(1), Counter()
    waiting = Waiting([mailbox], stop)
    waiting.wait(0)
    wake = (lambda: mailbox.put("wake")) if wakes == "message" else (lambda: stop.add(1))
    timer = threading.Timer(0.1, wake)
    begun = time.monotonic()
    timer.start()
    assert waiting.wait(10)
    assert 0.05 < time.monotonic() - begun < 5
    timer.join()
