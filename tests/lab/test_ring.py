"""Rings against a bounded deque, and between real threads with fewer cores than threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, types

from streamjoin.compile.atomics import load_acquire
from streamjoin.lab.ring import Ring, ring_get, ring_put
from streamjoin.parallel.mailbox import LINE, Counter

from ..long import LONG
from ..parallel.together import operations, rounded, run_together, until

VALUES = 200_000 if LONG else 20_000

sched_yield = types.ExternalFunction("sched_yield", types.int32())


@given(st.integers(1, 9), operations)
def test_a_ring_is_a_bounded_deque(capacity: int, operations_: list[tuple[bool, int]]) -> None:
    ring, model, number = Ring(capacity), deque[int](), 0
    for is_put, count in operations_:
        if is_put:
            taken = ring.put(np.arange(number, number + count))
            assert taken == min(count, rounded(capacity) - len(model))
            model.extend(range(number, number + taken))
            number += taken
        else:
            assert ring.get(count).tolist() == [model.popleft() for _ in range(min(count, len(model)))]
        assert len(ring) == len(model)


@njit(nogil=True)
def send(slots, indexes, values, sizes, stop):  # type: ignore[no-untyped-def]
    """Values in batches of these sizes, over and over; returns how many were sent before `stop`."""
    sent, turn = 0, 0
    while sent < len(values) and load_acquire(stop, LINE // 2) == 0:
        taken = ring_put(slots, indexes, values[sent : sent + sizes[turn % len(sizes)]])
        sent, turn = sent + taken, turn + 1
        if taken == 0:
            sched_yield()
    return sent


@njit(nogil=True)
def receive(slots, indexes, out, sizes, stop):  # type: ignore[no-untyped-def]
    got, turn = 0, 0
    while got < len(out) and load_acquire(stop, LINE // 2) == 0:
        taken = ring_get(slots, indexes, out[got : got + sizes[turn % len(sizes)]])
        got, turn = got + taken, turn + 1
        if taken == 0:
            sched_yield()
    return got


@pytest.mark.parametrize(("pairs", "capacity"), [(1, 1), (1, 2), (1, 16), (1, 1024), (8, 2), (8, 64)])
def test_kernels_pass_values_in_order(pairs: int, capacity: int) -> None:
    """Without the GIL from the first value to the last: only the indexes keep the threads apart."""
    rng, stop = np.random.default_rng(capacity), Counter()
    values = rng.integers(-(2**63), 2**63 - 1, VALUES // (pairs if capacity > 1 else 5))
    outs = [np.zeros_like(values) for _ in range(pairs)]
    tasks: list[Callable[[], object]] = []
    for out in outs:
        ring, sizes = Ring(capacity), rng.integers(1, 2 * capacity + 1, (2, 997))
        tasks.append(lambda ring=ring, sizes=sizes: send(ring.slots, ring.indexes, values, sizes[0], stop.words))
        tasks.append(
            lambda ring=ring, sizes=sizes, out=out: receive(ring.slots, ring.indexes, out, sizes[1], stop.words)
        )
    run_together(tasks, stop)
    for out in outs:
        np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize(("pairs", "capacity"), [(1, 3), (1, 500), (8, 500)])
def test_rings_pass_values_in_order(pairs: int, capacity: int) -> None:
    stop, total = Counter(), (VALUES if capacity > 3 else VALUES // 10) // pairs
    results: list[list[int]] = [[] for _ in range(pairs)]

    def producer(ring: Ring) -> None:
        rng, sent = np.random.default_rng(1), 0
        for _ in until(stop):
            sent += ring.put(np.arange(sent, min(sent + rng.integers(1, 2 * capacity), total)))
            if sent == total:
                return

    def consumer(ring: Ring, result: list[int]) -> None:
        rng = np.random.default_rng(2)
        for _ in until(stop):
            result += ring.get(int(rng.integers(1, 2 * capacity))).tolist()
            if len(result) >= total:
                return

    tasks: list[Callable[[], object]] = []
    for result in results:
        ring = Ring(capacity)
        tasks.append(lambda ring=ring: producer(ring))
        tasks.append(lambda ring=ring, result=result: consumer(ring, result))
    run_together(tasks, stop)
    assert all(result == list(range(total)) for result in results)
