"""Threads that help one caller: they live on its board, and come back to Python only for tasks that are not compiled.

A thread holds the board, the list of such tasks and what is to be kept for it, and nothing else, so that a crew that is
dropped can be collected.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from ..arrays import Integers
from ..compile.background import ProcessEnds, same_for_threads
from .board import LEAVE, STOP, new_board, set_flag, work

PATIENCE = 1.0
"""Seconds that the end of the process waits for threads."""


class Helpers:
    """Up to `count` threads, which start when they are first needed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.board: Integers = new_board(count)
        self._tasks: deque[Callable[[], None] | None] = deque()
        self._kept: list[object] = []
        self._threads: list[threading.Thread] = []
        self.is_closed = False
        _ALL.add(self)

    def start(self) -> None:
        """Have all threads run."""
        while len(self._threads) < self.count and not self.is_closed:
            number = len(self._threads) + 1
            thread = threading.Thread(
                target=_live, args=(self.board, number, self._tasks, self._kept, same_for_threads()),
                name=f"streamjoin_{number}", daemon=True,
            )  # fmt: skip
            thread.start()
            self._threads.append(thread)

    def submit(self, task: Callable[[], None]) -> None:
        """Have a thread run a task that is not compiled."""
        self.start()
        self._tasks.append(task)
        set_flag(self.board, LEAVE, 1)

    def keep(self, used: object) -> None:
        """Threads may use this until they end."""
        self._kept.append(used)

    def close(self, wait: bool) -> None:
        """End all threads; those that are busy end as soon as they can."""
        if not self.is_closed:
            self.is_closed = True
            if self._threads:
                set_flag(self.board, STOP, 1)
            for _ in self._threads:
                self._tasks.append(None)
                set_flag(self.board, LEAVE, 1)
        if wait:
            for thread in self._threads:
                thread.join()

    def wait(self, until: float) -> None:
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))


def _live(
    board: Any, number: int, tasks: deque[Callable[[], None] | None], kept: list[object], begin: Callable[[], None]
) -> None:  # fmt: skip
    begin()
    while True:
        try:
            work(board, number)  # which a rehearsal may compile
        except ProcessEnds:
            return
        try:
            task = tasks.popleft()
        except IndexError:  # another thread was faster
            continue
        set_flag(board, LEAVE, -1)
        if task is None:
            return
        task()


_ALL: WeakSet[Helpers] = WeakSet()


def _end_all() -> None:
    """The memory of boards goes away with the process, so no thread may look at one then."""
    remaining = list(_ALL)
    for helpers in remaining:
        helpers.close(wait=False)
    until = time.monotonic() + PATIENCE
    for helpers in remaining:
        helpers.wait(until)


atexit.register(_end_all)
