"""Compiling while a join already runs, so that no push waits for the compiler.

A join's *rehearsal* is a short run of the same code on made-up rows: it compiles, or loads from the cache, everything
that the join will call. Rehearsals run one after the other on one thread. Until its rehearsal is over, a join works
with NumPy. `$STREAMJOIN_COMPILE=first` turns this off: then the first call of each function waits for its compilation.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from ..arguments import choose
from .interrupts import HOLD_BACK

MODES: Final = ("background", "first")
_THREAD = threading.local()


def is_first() -> bool:
    """Whether functions are compiled when they are first called."""
    return choose("STREAMJOIN_COMPILE", os.environ.get("STREAMJOIN_COMPILE") or MODES[0], MODES) == "first"


def is_rehearsing() -> bool:
    """Whether this thread runs a rehearsal: then it waits for the compiler."""
    return getattr(_THREAD, "rehearses", False)


def same_for_threads() -> Callable[[], None]:
    """What a thread of this one calls first, so that it belongs to the rehearsal if this one does."""
    rehearses = is_rehearsing()

    def begin() -> None:
        _THREAD.rehearses = rehearses

    return begin


class Rehearsals:
    """Runs each rehearsal once in the life of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: dict[Hashable, threading.Event] = {}
        self._waiting: deque[tuple[threading.Event, Callable[[], None]]] = deque()
        self._thread: threading.Thread | None = None

    def begin(self, key: Hashable, rehearsal: Callable[[], None]) -> Callable[[], bool]:
        """Run a rehearsal unless one of this key has been run. Returns what says whether it is over."""
        with self._lock:
            if key not in self._done:
                self._done[key] = threading.Event()
                self._waiting.append((self._done[key], rehearsal))
                if self._thread is None:
                    self._start()
            return self._done[key].is_set

    def _start(self) -> None:
        """A thread that the end of the process waits for; it then stops at the next function (see `_Leave`)."""
        self._thread = threading.Thread(target=self._work, name="streamjoin-compile")
        try:
            self._thread.start()
        except RuntimeError:  # the process is ending: functions are compiled when they are called
            self._thread = None
            while self._waiting:
                self._waiting.popleft()[0].set()

    def wait(self) -> None:
        """Return when all rehearsals are over."""
        for done in list(self._done.values()):
            done.wait()

    def forget(self) -> None:
        """A forked process has none of its parent's threads."""
        self.__dict__.update(Rehearsals().__dict__)

    def _work(self) -> None:
        _THREAD.rehearses = True
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                done, rehearsal = self._waiting.popleft()
            try:
                if _is_running():
                    rehearsal()
            except Exception:
                if os.environ.get("STREAMJOIN_DEBUG"):
                    traceback.print_exc()
                # Otherwise nothing is said: whatever is wrong shows when the join itself gets there.
            finally:
                done.set()


class ProcessEnds(RuntimeError):
    """A thread of a rehearsal has nothing more to do."""


class _Leave(event.Listener):
    """Ends a rehearsal at the next function if the process is about to end."""

    def on_start(self, event: Any) -> None:
        if is_rehearsing() and not _is_running():
            raise ProcessEnds

    def on_end(self, event: Any) -> None:
        """Nothing to do."""


def _is_running() -> bool:
    return threading.main_thread().is_alive()


def _after_fork() -> None:
    global_compiler_lock.release()  # type: ignore[no-untyped-call]
    REHEARSALS.forget()
    HOLD_BACK.forget()


REHEARSALS = Rehearsals()
event.register("numba:compile", _Leave())  # type: ignore[no-untyped-call]
# A fork waits for the function that is being compiled: the child could never get the compiler's lock.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=_after_fork,
)
