"""Tasks on threads of their own, fewer cores than threads, with a way to give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from streamjoin.parallel.gate import LINE


class Stop:
    """Asks threads to give up, compiled ones too: they look at `words[LINE // 2]`."""

    def __init__(self) -> None:
        self.words = np.zeros(LINE, np.int64)

    @property
    def is_set(self) -> bool:
        return bool(self.words[LINE // 2])

    def set(self) -> None:
        self.words[LINE // 2] = 1


def run_together(tasks: Sequence[Callable[[], object]], stop: Stop, seconds: float = 60) -> None:
    """Every task in a thread of its own. `stop` asks them to give up: when one has failed, or time is over."""
    errors: list[BaseException] = []

    def guarded(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    late = sum(thread.is_alive() for thread in threads)
    stop.set()
    for thread in threads:
        thread.join(5)
    if errors:
        raise errors[0]
    assert not late, f"{late} of {len(threads)} threads were not done after {seconds} s"
