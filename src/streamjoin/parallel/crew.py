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


class Crew:
    """`workers` threads, the calling one included.

    Invariant: `run` returns when every task is done. The caller works too. It waits only for tasks that another
    thread has begun, so a task may call `run` itself without a deadlock. When all are done, the first error is raised.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = None
        if workers > 1:
            self._pool = ThreadPoolExecutor(workers - 1, "streamjoin", initializer=same_for_threads())
        self.busy: dict[int, float] = {}

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

        If the caller fails, tasks that have begun are waited for, and the others are dropped.
        """
        shared = Shared(self, None if alone else self._pool)
        shared.add(early)
        try:
            yield shared
            shared.run([])
        finally:
            shared.stop()

    def note(self, started: float) -> None:
        thread = threading.get_ident()
        self.busy[thread] = self.busy.get(thread, 0.0) + time.perf_counter() - started

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def abandon(self) -> None:
        """Let the threads go without waiting for them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)


class Shared:
    """A list of tasks that threads take the next one from until none is left."""

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
            while self._running:
                self._idle.wait()
        if self._error is not None:
            raise self._error
        return results

    def stop(self) -> None:
        with self._idle:
            self._tasks.clear()
            while self._running:
                self._idle.wait()

    def _help(self) -> None:
        self._work()
        with self._lock:
            self._helpers -= 1

    def _work(self) -> None:
        started = time.perf_counter()
        worked = False
        while True:
            with self._lock:
                if not self._tasks:
                    break
                results, number, task = self._tasks.popleft()
                self._running += 1
            worked = True
            try:
                results[number] = task()
            except BaseException as error:
                self._error = self._error or error
            with self._idle:
                self._running -= 1
                if not self._running:
                    self._idle.notify_all()
        if worked:
            self._crew.note(started)
