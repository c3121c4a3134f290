"""Of several processes that need the same function, one compiles it; the others wait for its machine code.

On an empty cache the Python workers of a Spark executor would otherwise all compile the same functions at the same
time. The one that compiles holds a lock on a file beside the machine code. Nobody waits for ever: a thread that needs a
function, and with it those that it calls, waits for `PATIENCE` seconds in all. Then it compiles by itself, and so it
does after Ctrl-C, when the process ends, and where files cannot be locked.
"""

from __future__ import annotations

import fcntl
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from numba.core import event
from numba.core.caching import FunctionCache

from .interrupts import HOLD_BACK

PATIENCE, LOOK = 30.0, 0.02
"""Seconds of waiting at most, and between two looks."""


class SharedCache(FunctionCache):
    """Machine code of one function, which processes compile in turns.

    Invariant: a lock is held from the moment that nothing was found until Numba leaves its own lock, behind which the
    machine code has been written or the compilation has failed.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None and _HELD.levels:
            lock = self._lock()
            try:
                found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            finally:
                if lock is not None and found is None:
                    _HELD.levels[-1].append(lock)
                elif lock is not None:
                    lock.close()
        return found

    def _lock(self) -> IO[str] | None:
        """The lock of this function; None if it cannot be had."""
        file = None
        with suppress(OSError):
            self._impl.locator.ensure_cache_path()
            file = open(Path(self.cache_path) / f"{self._impl.filename_base}.lock", "a")  # noqa: SIM115
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return file
                except BlockingIOError:
                    if _HELD.waited >= PATIENCE or HOLD_BACK.came or not threading.main_thread().is_alive():
                        break
                    _HELD.waited += LOOK
                    time.sleep(LOOK)
        if file is not None:
            file.close()
        return None


class _Held(threading.local):
    """The locks of this thread, for each function that it compiles: functions that this one calls come behind it."""

    def __init__(self) -> None:
        self.levels: list[list[IO[str]]] = []
        self.waited = 0.0
        """Seconds, since the outermost of them was needed."""


class _Release(event.Listener):
    """Gives locks back when Numba leaves its own lock."""

    def on_start(self, event: Any) -> None:
        if not _HELD.levels:
            _HELD.waited = 0.0
        _HELD.levels.append([])

    def on_end(self, event: Any) -> None:
        for lock in _HELD.levels.pop() if _HELD.levels else []:
            lock.close()


_HELD = _Held()
event.register("numba:compiler_lock", _Release())  # type: ignore[no-untyped-call]
# The last to be told: it may raise KeyboardInterrupt, and then nobody behind it would be told.
event.register("numba:compiler_lock", HOLD_BACK)  # type: ignore[no-untyped-call]
