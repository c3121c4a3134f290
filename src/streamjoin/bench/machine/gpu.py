"""Whether this machine has a GPU that Numba can use."""

from __future__ import annotations

import importlib
from typing import Any

from numba.core import config


def gpu_name() -> str | None:
    """The GPU's name; None if there is none that Numba can use, or only a simulator."""
    if getattr(config, "ENABLE_CUDASIM", False):
        return None
    try:
        cuda: Any = importlib.import_module("numba.cuda")
        if not cuda.is_available():
            return None
        name = cuda.get_current_device().name
    except Exception:  # no driver, no package, or a driver that fails: each raises its own
        return None
    return name.decode() if isinstance(name, bytes) else str(name)
