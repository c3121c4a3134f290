"""A crew of threads that share a list of tasks. Kernels run without the GIL, so the threads really run at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ..compile.background import same_for_threads

T = TypeVar("T")
GRACE = 0.3
"""Seconds. A task that compiles a kernel may have no checkpoint for longer."""


class Crew:
    """`workers` threads, the calling one included.

    Invariant: `run` returns when every task is done. The caller works too. It waits only for tasks that another
    thread has begun, so a task may call `run` itself without a deadlock. After an error, Ctrl-C included, tasks that
    have not begun are dropped, those that have begun end at their next `checkpoint`, and then the error is raised.
    Ctrl-C waits for them only for a while. The crew is of no use then, and its threads end as soon as they can.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = None
        if workers > 1:
            self._pool = ThreadPoolExecutor(workers - 1, "streamjoin", initializer=same_for_threads())
        self.busy: dict[int, float] = {}
        self.dropped: list[Shared] = []
        """The lists of tasks that were dropped, and of which some still run."""

    def checkpoint(self) -> None:
        """A long task calls this between the pieces of its work. It ends the task if the work is being dropped."""
        if self.dropped:
            raise Stopped

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The tasks' results, in their order."""
        if len(tasks) == 1:
            started = time.perf_counter()
            result = tasks[0]()
            self.note(started)
            return [result]
        with self.sharing([], alone=not tasks) as shared:
            return shared.run(tasks)

    @contextmanager
    def sharing(self, early: Sequence[Callable[[], Any]], *, alone: bool = False) -> Iterator[Shared]:
        """Begin with some tasks while the caller prepares others. `alone`: too little work to wake anybody.

        If the caller fails, tasks are dropped as after an error.
        """
        shared = Shared(self, None if alone else self._pool)
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
        self.busy[thread] = self.busy.get(thread, 0.0) + time.perf_counter() - started

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=not self.dropped)

    def abandon(self) -> None:
        """Let the threads go without waiting for them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)


class Stopped(Exception):
    """A task ended early, because another one failed or the caller was interrupted."""


class Shared:
    """A list of tasks that threads take the next one from until none is left.

    `_running` counts the tasks of other threads than the caller's, which alone can be interrupted anywhere.
    """

    def __init__(self, crew: Crew, pool: ThreadPoolExecutor | None) -> None:
        self._crew, self._pool = crew, pool
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
