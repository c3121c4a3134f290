"""What a Python process of an executor does for all the tasks that it runs, one after another."""

from __future__ import annotations

import gc
import sys


class _Process:
    modules = 0


def spare_collector() -> None:
    """Take what is loaded out of the garbage collector's sight.

    PySpark collects garbage after every task, which looks at each object of each loaded library: with Numba and Arrow
    some 100 ms of a core, more than joining a micro-batch takes. They stay loaded anyway. Only called again when
    further modules have come, so no garbage of a task is kept for good.
    """
    if len(sys.modules) != _Process.modules:
        _Process.modules = len(sys.modules)
        gc.collect()
        gc.freeze()
