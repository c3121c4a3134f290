"""Tasks on threads of their own, fewer cores than threads, with a way to give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from streamjoin.parallel.mailbox import Counter

operations = st.lists(st.tuples(st.booleans(), st.integers(0, 12)), min_size=20, max_size=60)
"""(put or get, how many)"""


def run_together(tasks: Sequence[Callable[[], object]], stop: Counter, seconds: float = 60) -> None:
    """Every task in a thread of its own. `stop` asks them to give up: when one has failed, or time is over."""
    errors: list[BaseException] = []

    def guarded(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)
            stop.add(1)

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    late = sum(thread.is_alive() for thread in threads)
    stop.add(1)
    for thread in threads:
        thread.join(5)
    if errors:
        raise errors[0]
    assert not late, f"{late} of {len(threads)} threads were not done after {seconds} s"


def rounded(capacity: int) -> int:
    return next(2**k for k in range(20) if 2**k >= capacity)


def until(stop: Counter) -> Iterator[None]:
    """Turns of a polling loop, which lets others run in between."""
    while not stop.value:
        yield
        time.sleep(0)
