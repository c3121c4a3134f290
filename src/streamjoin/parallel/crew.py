"""A crew of threads that share jobs and tasks. Compiled code runs without the GIL, so the threads really run at once.

Jobs, which are compiled, are put on a board that the threads take parts from without coming back to Python (`board`).
Tasks are Python functions: threads leave the board for them.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ..arrays import Integers
from ..compile.cache import has_machine_code
from ..compile.entries import address_of_entry
from ..payload.segments import address_of
from ..tasks import DONE, FULL, MORE, SLOT_WORDS, Job
from .board import (
    BUSY,
    ERRORS,
    OWN,
    STOP,
    THREAD_WORDS,
    THREADS,
    close_round,
    finished,
    put,
    set_flag,
    work,
    work_alone,
)
from .helpers import Helpers

T = TypeVar("T")
GRACE = 0.3
"""Seconds. A task that compiles a kernel may have no checkpoint for longer."""
FAILED = "a compiled part of the join has failed"
NO_SLOTS: Integers = np.zeros((0, SLOT_WORDS), np.int64)


class Crew:
    """Up to `workers` threads, the calling one included, but no more than there are cores.

    Invariant: `run` returns when every task is done. The caller works too. It waits only for tasks that another
    thread has begun, so a task may call `run` itself without a deadlock. After an error, Ctrl-C included, tasks that
    have not begun are dropped, those that have begun end at their next `checkpoint` or part, and then the error is
    raised. Ctrl-C waits for them only for a while. The crew is of no use then, and its threads end as soon as they can.
    """

    def __init__(self, workers: int, cores: int | None = None) -> None:
        self.workers = min(workers, cores or cores_here())
        self._helpers = Helpers(self.workers - 1)
        self._process = os.getpid()
        self._posting = threading.Lock()
        """Who holds it uses the board. Others do their jobs themselves."""
        self._busy: dict[int, float] = {}
        self.dropped: list[Shared] = []
        """The lists of tasks that were dropped, and of which some still run."""

    @property
    def busy(self) -> list[float]:
        """The seconds that each thread has worked."""
        board = self._helpers.board
        compiled_ = [float(board[THREADS + THREAD_WORDS * number + BUSY]) / 1e9 for number in range(self.workers)]
        return [a + b for a, b in zip(compiled_, [*self._busy.values(), *[0.0] * self.workers], strict=False)]

    @property
    def worked(self) -> float:
        """The seconds that all threads have worked on jobs."""
        return float(self._helpers.board[THREADS + BUSY :: THREAD_WORDS].sum()) / 1e9

    @property
    def helped(self) -> float:
        """The seconds of these that other threads than the caller have worked."""
        return float(self._helpers.board[THREADS + THREAD_WORDS + BUSY :: THREAD_WORDS].sum()) / 1e9

    def checkpoint(self) -> None:
        """A long task calls this between the pieces of its work. It ends the task if the work is being dropped."""
        if self.dropped:
            raise Stopped

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The tasks' results, in their order; jobs have none."""
        if not tasks:
            return []
        jobs = [task for task in tasks if isinstance(task, Job)]
        others = [task for task in tasks if not isinstance(task, Job)] if jobs else tasks
        if jobs:
            if self.workers == 1 or (len(jobs) == 1 and jobs[0].parts == 1):
                for job in jobs:
                    job()
            else:
                self.share(jobs)
            if not others:
                return []
        if len(others) == 1:
            started = time.perf_counter()
            result = others[0]()
            self.note(started)
            return [result]
        with self.sharing([], alone=not others) as shared:
            return shared.run(others)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def share(self, jobs: Sequence[Job], most: int | None = None) -> None:
        """Do jobs whose parts need no slots, with at most so many threads."""
        for _ in self.rounds(jobs, NO_SLOTS, most):
            pass

    def rounds(self, jobs: Sequence[Job], slots: Integers, most: int | None = None) -> Iterator[None]:
        """Do jobs. `slots` has a line for each thread: its slot. Stops after each round, so that slots can be emptied
        and made ready for more; the last round is followed by a stop as well."""
        entries = [address_of_entry(job.entry) for job in jobs]
        if most == 1 and all(entries):
            yield from self._alone(jobs, entries, slots)
            return
        parts = sum(job.parts for job in jobs)
        helpers = self._usable()
        if not all(entries) or not self._posting.acquire(blocking=False):
            yield from _by_hand(jobs, slots)
            return
        try:
            threads = min(self.workers, parts, most or self.workers)
            if threads > 1:
                helpers.start()
            table, first = [], 0
            for job, entry in zip(jobs, entries, strict=True):
                if job.parts:
                    table += [entry, address_of(job.block), first]
                    first += job.parts
            lines: Integers = np.array([*table, 0, 0, first], np.int64)
            where = lines.ctypes.data, slots.ctypes.data if len(slots) else 0
            count, first, _taken = len(table) // 3, 0, 0
            held = jobs, lines, slots
            while first < parts:
                first = self._round(helpers, held, (count, *where, 0), first, parts, threads)
                unfinished = _unfinished(slots)
                yield
                while len(unfinished):
                    again = count, *where, unfinished.ctypes.data
                    self._round(helpers, (*held, unfinished), again, 0, len(unfinished), threads)
                    unfinished = _unfinished(slots)
                    yield
        finally:
            self._posting.release()

    def _alone(self, jobs: Sequence[Job], entries: Sequence[int], slots: Integers) -> Iterator[None]:
        """The same on this thread, without the board."""
        lines: Integers = np.array(
            [(entry, address_of(job.block), job.parts) for job, entry in zip(jobs, entries, strict=True)], np.int64
        ).reshape(len(jobs), 3)
        place, slot, code = np.zeros(2, np.int64), slots.ctypes.data if len(slots) else 0, MORE
        while code != DONE:
            started = time.perf_counter()
            while (code := work_alone(lines, place, slot)) == MORE:
                pass
            self.note(started)
            if code not in (DONE, FULL):
                raise RuntimeError(FAILED)
            yield

    def _round(
        self, helpers: Helpers, held: tuple[object, ...], where: tuple[int, ...], first: int, parts: int, threads: int
    ) -> int:
        """One round; returns how many parts were taken. Threads know what is `held` by its address only."""
        board = helpers.board
        taken = -1
        try:
            put(board, *where, first, parts, min(threads, parts - first) - 1)
            while work(board, 0) == MORE:
                pass
            taken = int(close_round(board))
            while not finished(board, taken):
                pass
        except BaseException:
            if taken < 0:
                taken = int(close_round(board))
            set_flag(board, STOP, 1)
            taken -= int(board[OWN] > 0)  # the caller does not go on with its own part
            until = time.monotonic() + GRACE
            while not finished(board, taken) and time.monotonic() < until:
                pass
            helpers.keep(held)
            helpers.close(wait=False)
            raise
        if board[ERRORS]:
            raise RuntimeError(FAILED)
        return taken

    def _usable(self) -> Helpers:
        """The threads; in a forked process, new ones."""
        if self._process != os.getpid():
            self._process, self._posting = os.getpid(), threading.Lock()
            self._helpers = Helpers(self.workers - 1)
        return self._helpers

    # -- tasks -----------------------------------------------------------------------------------------------------

    @contextmanager
    def sharing(self, early: Sequence[Callable[[], Any]], *, alone: bool = False) -> Iterator[Shared]:
        """Begin with some tasks while the caller prepares others. `alone`: too little work to wake anybody.

        If the caller fails, tasks are dropped as after an error.
        """
        alone = alone or self.workers == 1 or not has_machine_code(work)
        shared = Shared(self, None if alone else self._usable())
        shared.add(early)
        try:
            yield shared
            shared.run([])
        except Exception:
            shared.stop()
            raise
        except BaseException:
            shared.stop(GRACE)
            raise

    def note(self, started: float) -> None:
        thread = threading.get_ident()
        self._busy[thread] = self._busy.get(thread, 0.0) + time.perf_counter() - started

    def close(self) -> None:
        self._usable().close(wait=not self.dropped)

    def abandon(self) -> None:
        """Let the threads go without waiting for them."""
        self._usable().close(wait=False)


class Stopped(Exception):
    """A task ended early, because another one failed or the caller was interrupted."""


class Shared:
    """A list of tasks that threads take the next one from until none is left.

    `_running` counts the tasks of other threads than the caller's, which alone can be interrupted anywhere.
    """

    def __init__(self, crew: Crew, helpers: Helpers | None) -> None:
        self._crew, self._pool = crew, helpers
        self._lock = threading.Lock()
        self._tasks: deque[tuple[list[Any], int, Callable[[], Any]]] = deque()
        self._running = 0
        self._idle = threading.Condition(self._lock)
        self._helpers = 0
        self._error: BaseException | None = None

    def add(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Put tasks on the list; the result fills up as they are done."""
        results: list[Any] = [None] * len(tasks)
        with self._lock:
            self._tasks.extend((results, number, task) for number, task in enumerate(tasks))
            wanted = min(self._crew.workers - 1 - self._helpers, len(self._tasks)) if self._pool is not None else 0
            self._helpers += max(wanted, 0)
        for _ in range(wanted):
            assert self._pool is not None
            self._pool.submit(self._help)
        return results

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Put tasks on the list and work until everything on it is done; the first error is raised."""
        results = self.add(tasks)
        self._work()
        with self._idle:
            while self._running and self._error is None:
                self._idle.wait()
        if self._error is not None:
            raise self._error
        return results

    def stop(self, most: float | None = None) -> None:
        """Drop the tasks, and wait for those that have begun, but no longer than `most` seconds."""
        with self._idle:
            self._tasks.clear()
            if self._running:
                self._crew.dropped.append(self)
                if self._idle.wait_for(lambda: not self._running, most):
                    self._crew.dropped.remove(self)

    def _help(self) -> None:
        self._work(is_helper=True)
        with self._lock:
            self._helpers -= 1

    def _work(self, is_helper: bool = False) -> None:
        started = time.perf_counter()
        worked = False
        while True:
            with self._lock:
                if not self._tasks:
                    break
                results, number, task = self._tasks.popleft()
                self._running += is_helper
            worked = True
            error: BaseException | None = None
            try:
                self._crew.checkpoint()
                results[number] = task()
            except BaseException as raised:
                error = raised
            with self._idle:
                self._running -= is_helper
                if error is not None:
                    self._tasks.clear()
                    if self._error is None or isinstance(self._error, Stopped):  # the reason, not what it led to
                        self._error = error
                if error is not None or not self._running:
                    self._idle.notify_all()
        if worked:
            self._crew.note(started)


def cores_here() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _unfinished(slots: Integers) -> Integers:
    """The parts that full slots have begun, each with the number of its slot."""
    if not slots[:, 0].any():
        return NO_SLOTS
    begun = np.flatnonzero(slots[:, 0])
    parts: Integers = np.column_stack([slots[begun, 0] - 1, begun])
    slots[:, 0] = 0
    return parts


def _by_hand(jobs: Sequence[Job], slots: Integers) -> Iterator[None]:
    """Do all parts on this thread, one after the other."""
    slot = slots.ctypes.data if len(slots) else 0
    for job in jobs:
        block = job.block.ctypes.data
        for part in range(job.parts):
            while (code := job.entry(block, part, slot)) != DONE:
                if code == FULL:
                    yield
    yield
