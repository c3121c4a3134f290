"""A Python process of an executor, which runs many tasks one after another."""

from __future__ import annotations

import gc
import sys


class _Process:
    modules = 0


def spare_collector() -> None:
    """Hide the loaded libraries from the garbage collector.

    PySpark collects garbage after every task. The collector looks at each object of each loaded library: with Numba and
    Arrow this takes some 100 ms of a core, more than it takes to join a micro-batch. Libraries stay loaded anyway. The
    freeze is repeated only when more modules have been loaded, and after a collection: it keeps no garbage of a task.
    """
    if len(sys.modules) != _Process.modules:
        _Process.modules = len(sys.modules)
        gc.collect()
        gc.freeze()
