"""A crew of threads that share a list of tasks. Kernels run without the GIL, so the threads really run at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Crew:
    """`workers` threads, the calling one included.

    Invariant: `run` returns when every task is done. The caller works too and waits only for tasks that another
    thread has begun, so a task may itself call `run` without a deadlock. The first error is raised when all are done.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers - 1, "streamjoin") if workers > 1 else None
        self.busy: dict[int, float] = {}

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The tasks' results, in their order."""
        if self._pool is None or len(tasks) < 2:
            started = time.perf_counter()
            results = [task() for task in tasks]
            self._note(started)
            return results
        return _Shared(self, tasks).run(self._pool)

    def _note(self, started: float) -> None:
        thread = threading.get_ident()
        self.busy[thread] = self.busy.get(thread, 0.0) + time.perf_counter() - started

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)


class _Shared(Generic[T]):
    """One call of `run`: threads take the next task until none is left."""

    def __init__(self, crew: Crew, tasks: Sequence[Callable[[], T]]) -> None:
        self._crew = crew
        self._tasks = tasks
        self._lock = threading.Lock()
        self._next = 0
        self._unfinished = len(tasks)
        self._done = threading.Event()
        self._results: list[T] = [None] * len(tasks)  # type: ignore[list-item]
        self._error: BaseException | None = None

    def run(self, pool: ThreadPoolExecutor) -> list[T]:
        for _ in range(min(self._crew.workers, len(self._tasks)) - 1):
            pool.submit(self._work)
        self._work()
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._results

    def _work(self) -> None:
        started = time.perf_counter()
        worked = False
        while True:
            with self._lock:
                number = self._next
                if number == len(self._tasks):
                    break
                self._next += 1
            worked = True
            try:
                self._results[number] = self._tasks[number]()
            except BaseException as error:
                self._error = self._error or error
            with self._lock:
                self._unfinished -= 1
                if not self._unfinished:
                    self._done.set()
        if worked:
            self._crew._note(started)
