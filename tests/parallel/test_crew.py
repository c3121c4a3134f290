"""A crew runs all it is given, nested runs included, and drops the rest after an error."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from streamjoin.compile.background import ProcessEnds
from streamjoin.parallel import crew as module
from streamjoin.parallel import helpers
from streamjoin.parallel.crew import Crew


def fails() -> None:
    raise ValueError("no")


def test_crew_runs_everything() -> None:
    crew = Crew(3)
    assert crew.run([lambda n=n: n * n for n in range(50)]) == [n * n for n in range(50)]

    def nested(n: int) -> list[int]:
        return crew.run([lambda k=k: n * k for k in range(5)])

    assert crew.run([lambda n=n: nested(n) for n in range(20)]) == [[n * k for k in range(5)] for n in range(20)]
    crew.close()


def test_after_an_error_the_rest_is_dropped() -> None:
    done: list[int] = []
    tasks: list[Callable[[], None]] = [lambda: done.append(1), fails, lambda: done.append(2)]
    with pytest.raises(ValueError, match="no"):
        Crew(1).run(tasks)
    assert done == [1]
    crew = Crew(3)
    with pytest.raises(ValueError, match="no"):
        crew.run(tasks)
    assert crew.run([lambda: 5, lambda: 6]) == [5, 6]  # the crew goes on
    crew.close()


class Interrupted:
    """Two tasks at once: one is interrupted on the caller's thread while the other runs."""

    def __init__(self, rest: Callable[[Crew], None]) -> None:
        self.crew, self._rest = Crew(2), rest
        self._begun, self.ended = threading.Event(), threading.Event()

    def task(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._begun.wait()
            raise KeyboardInterrupt
        self._begun.set()
        try:
            self._rest(self.crew)
        finally:
            self.ended.set()


def test_an_interrupt_ends_tasks_of_other_threads_at_their_next_checkpoint() -> None:
    def works(crew: Crew) -> None:
        while True:
            crew.checkpoint()

    both = Interrupted(works)
    with pytest.raises(KeyboardInterrupt):
        both.crew.run([both.task, both.task])
    assert both.ended.is_set()
    both.crew.close()


def waits(event: threading.Event) -> None:
    event.wait()


def test_an_interrupt_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.01)
    release = threading.Event()
    both = Interrupted(lambda crew: waits(release))
    with pytest.raises(KeyboardInterrupt):
        both.crew.run([both.task, both.task])
    both.crew.close()
    assert not both.ended.is_set()
    release.set()
    assert both.ended.wait(20)


def test_helpers_leave_quietly_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[threading.ExceptHookArgs] = []
    left = threading.Semaphore(0)

    def ends(board: object, number: int) -> None:
        left.release()
        raise ProcessEnds

    monkeypatch.setattr(threading, "excepthook", told.append)
    monkeypatch.setattr(helpers, "work", ends)
    group = helpers.Helpers(2)
    group.start()
    assert left.acquire(timeout=60)
    assert left.acquire(timeout=60)
    group.close(wait=True)
    assert not told
