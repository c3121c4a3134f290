"""Compiling while a join already runs, so that no push waits for the compiler.

A join's *rehearsal* is a short run of the same code on made-up rows: it compiles, or loads from the cache, everything
that the join will call. Rehearsals run one after the other on one thread. Until its rehearsal is over, a join works
with NumPy. `$STREAMJOIN_COMPILE=first` turns this off: then the first call of each function waits for its compilation.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from numba.core import event

from ..arguments import choose

MODES: Final = ("background", "first")
_THREAD = threading.local()


def is_first() -> bool:
    """Whether functions are compiled when they are first called."""
    return choose("STREAMJOIN_COMPILE", os.environ.get("STREAMJOIN_COMPILE", MODES[0]), MODES) == "first"


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
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, key: Hashable, rehearsal: Callable[[], None]) -> Callable[[], bool]:
        """Run a rehearsal unless one of this key has been run. Returns what says whether it is over."""
        with self._lock:
            if key not in self._done:
                self._done[key] = threading.Event()
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(1, "streamjoin-compile")
                    event.register("numba:compile", _Leave())  # type: ignore[no-untyped-call]
                self._pool.submit(self._run, self._done[key], rehearsal)
            return self._done[key].is_set

    def wait(self) -> None:
        """Return when all rehearsals are over."""
        for done in list(self._done.values()):
            done.wait()

    @staticmethod
    def _run(done: threading.Event, rehearsal: Callable[[], None]) -> None:
        _THREAD.rehearses = True
        try:
            if threading.main_thread().is_alive():
                rehearsal()
        except Exception:
            pass  # whatever is wrong shows when the join itself gets there
        finally:
            done.set()


class _Leave(event.Listener):
    """Ends a rehearsal at the next function if the process is about to end."""

    def on_start(self, event: Any) -> None:
        if is_rehearsing() and not threading.main_thread().is_alive():
            raise RuntimeError("the process ends")

    def on_end(self, event: Any) -> None:
        """Nothing to do."""


REHEARSALS = Rehearsals()


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    REHEARSALS.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_forget)
