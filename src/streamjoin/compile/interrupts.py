"""Ctrl-C waits for the function that is being compiled or loaded.

Numba cannot be stopped half way: a function whose compilation was broken off could never be called again, and types
that it was about to learn would be missing for good. So while the main thread, where Python handles signals, is behind
Numba's own lock, SIGINT is only noted.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from numba.core import event


class HoldBack(event.Listener):
    """Notes SIGINT while functions are compiled on the main thread, and sends it again behind the last one."""

    def __init__(self) -> None:
        self._depth = 0
        self._handler: Any = None
        self.came = False
        """Whether SIGINT has come since the first of them began."""

    def on_start(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth += 1
        if self._depth == 1:
            self._handler, self.came = signal.getsignal(signal.SIGINT), False
            if callable(self._handler):
                signal.signal(signal.SIGINT, self._note)

    def on_end(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread() or not self._depth:
            return
        self._depth -= 1
        if not self._depth and callable(self._handler):
            signal.signal(signal.SIGINT, self._handler)
            if self.came:
                self.came = False
                signal.raise_signal(signal.SIGINT)

    def forget(self) -> None:
        """A forked process has one thread, which compiles nothing."""
        if self._depth:
            self._depth = 0
            if callable(self._handler):
                signal.signal(signal.SIGINT, self._handler)

    def _note(self, number: int, frame: Any) -> None:
        self.came = True


HOLD_BACK = HoldBack()
"""`compile.turns` registers it."""
