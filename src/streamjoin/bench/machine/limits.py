"""What the machine can do at most, beside which the joins are measured.

Scans run in processes of their own, so they share neither an interpreter nor a lock: their sum is the ceiling of a scan
on as many cores. Each has its share of the window, as a join's workers have. Copies run on threads, each from an array
to another that no cache can hold.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ...errors import StreamJoinError
from ...reporting.measure import Rates
from ...side import SIDES
from ..compiled_scan import CompiledScan
from ..workloads import CELLJOIN_SQL, celljoin_tuples
from .results import Limits

WINDOW, BATCH, FRESH = 1 << 18, 8_192, 16
COPIED = 1 << 27
"""Bytes of an array that is copied."""
PATIENCE = 120.0
"""Seconds until a process must have answered."""
Say = Callable[[str], None]


def measure_limits(workers: list[int], gpu: str | None, laps: int, seconds: float, seed: int, say: Say) -> Limits:
    """Take turns with the numbers of processes, then of threads."""
    limits = Limits({n: Rates() for n in workers}, {n: Rates() for n in workers}, gpu)
    with Scanners(max(workers), seed) as scanners:
        for number in _turns(workers, laps):
            say(f"limits: {number} scanning in processes")
            limits.scans[number].add(round(scanners.scan(number, seconds / laps)), 1.0, 0.0, 1.0)
    for number in _turns(workers, laps):
        say(f"limits: {number} copying on threads")
        limits.copies[number].add(round(copied(number, seconds / laps)), 1.0, 0.0, 1.0)
    if gpu is not None:
        from .gpu_integers import Integers

        say("limits: the GPU's integer operations")
        try:
            integers, rates = Integers(), Rates()
            for _ in range(laps):
                rates.add(round(integers.rate(seconds / laps)), 1.0, 0.0, 1.0)
            limits.gpu_integers = rates
        except Exception as error:  # whatever the driver or the compiler raises
            limits.gpu = f"{gpu} (its integer operations were not measured: {error})"
    return limits


def _turns(workers: list[int], laps: int) -> list[int]:
    return [n for lap in range(laps) for n in (workers if lap % 2 == 0 else workers[::-1])]


class Scanners:
    """Processes that scan when they are asked to."""

    def __init__(self, count: int, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connections: list[Any] = []
        self._stack = ExitStack()
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, seed, number), daemon=True)
            process.start()
            theirs.close()
            self._stack.callback(process.join)
            self._stack.callback(process.kill)
            self._connections.append(ours)
        self._ask(count, WINDOW // count, None)  # all at once: each of them imports and loads kernels first

    def scan(self, count: int, seconds: float) -> float:
        """Comparisons per second of the first `count` processes, summed. All are ready before the first begins."""
        self._ask(count, WINDOW // count, None)
        return self._ask(count, WINDOW // count, seconds)

    def _ask(self, count: int, share: int, seconds: float | None) -> float:
        some = self._connections[:count]
        for connection in some:
            connection.send((share, seconds))
        return sum(self._answer(connection) for connection in some)

    @staticmethod
    def _answer(connection: Any) -> float:
        try:
            if connection.poll(PATIENCE):
                return float(connection.recv())
        except (EOFError, ConnectionError):
            raise StreamJoinError("bench machine: a process that scans has ended") from None
        raise StreamJoinError(f"bench machine: a process that scans has not answered for {PATIENCE:g} s")

    def __enter__(self) -> Scanners:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _serve(connection: Connection, seed: int, number: int) -> None:
    """Answer requests: a window's size and seconds, or None to make that window ready."""
    rng = np.random.default_rng([seed, number])
    fresh = [celljoin_tuples(rng, BATCH) for _ in range(FRESH)]
    size, scans = 0, []
    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            share, seconds = connection.recv()
            if share != size:
                size, scans = share, [CompiledScan(CELLJOIN_SQL, side, celljoin_tuples(rng, share)) for side in SIDES]
            if seconds is None:
                for scan in scans:
                    scan(fresh[0])
                connection.send(0.0)
                continue
            started, turn = time.perf_counter(), 0
            while not turn or time.perf_counter() - started < seconds:
                scans[turn % 2](fresh[turn % FRESH])
                turn += 1
            connection.send(turn * BATCH * share / (time.perf_counter() - started))


def copied(threads: int, seconds: float) -> float:
    """Bytes per second, read and written, of threads that copy at the same time."""
    ready = threading.Barrier(threads)
    rates = [0.0] * threads

    def copy(number: int) -> None:
        source = np.ones(COPIED // 8, np.int64)  # by the thread itself, so that its own memory holds it
        target = np.zeros_like(source)
        np.copyto(target, source)
        ready.wait()
        started, turns = time.perf_counter(), 0
        while not turns or time.perf_counter() - started < seconds:
            np.copyto(target, source)
            turns += 1
        rates[number] = 2 * COPIED * turns / (time.perf_counter() - started)

    crew = [threading.Thread(target=copy, args=(number,)) for number in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return sum(rates)
