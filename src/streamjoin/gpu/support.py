"""What has to be there for a GPU to be used, and which predicates it can run."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from functools import cache

from ..predicate.lower import Lowered

SIMULATOR = "NUMBA_ENABLE_CUDASIM"
"""Numba's own variable: GPU code then runs as Python, for tests."""
LIBRARY = "libcuda.so.1"
GPU_NAMES = frozenset({
    "not_", "pick", "feq", "fle", "add64", "sub64", "mul64", "addsat", "subsat", "mulsat", "intdiv", "rem", "floordiv",
    "floormod", "floor_unit", "ceil_unit", "sat32", "sat64", "times", "b1", "i8", "i16", "i32", "i64", "f32", "f64",
    "NAN", "INF", "INT64_MIN", "INT64_MAX", "INT32_MIN", "INT32_MAX", "isnan", "isfinite", "sqrt", "abs_", "True",
    "False",
})  # fmt: skip
"""The dialect of `gpu.dialect`."""


def is_simulated() -> bool:
    return os.environ.get(SIMULATOR, "0") not in ("", "0")


@cache
def has_driver() -> bool:
    """Whether there is a driver at all. This takes next to no time; whether it works is found out later."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


@cache
def missing() -> str | None:
    """What keeps this process from using a GPU, as a text for people; None: nothing."""
    if importlib.util.find_spec("numba.cuda") is None:
        return "Numba's compiler for GPUs is not installed; install streamjoin[gpu]"
    if is_simulated():
        return None
    if not has_driver():
        return f"there is no NVIDIA driver ({LIBRARY} cannot be loaded)"
    library, count = ctypes.CDLL(LIBRARY), ctypes.c_int(0)
    found = library.cuInit(0)
    if found or library.cuDeviceGetCount(ctypes.byref(count)):
        return f"the NVIDIA driver does not answer (cuInit gives {found})"
    if not count.value:
        return "the NVIDIA driver has no GPU"
    return None


_NAME = re.compile(r"(?<![\w.{\[])[A-Za-z_]\w*")
_REFERENCE = re.compile(r"\{\w+\[\d+\]\}")


def unable(lowered: Lowered) -> str | None:
    """Why a GPU cannot run a predicate, as a text for people; None: it can.

    It has no numbers of more than 64 bits, and its sines, powers and remainders of floats differ in the last bits.
    """
    text = _REFERENCE.sub("", "\n".join([*lowered.lines, lowered.condition]))
    unknown = sorted(set(_NAME.findall(text)) - GPU_NAMES)
    if any(name.startswith("w") for name in unknown):
        return "the predicate computes with numbers of more than 64 bits"
    if unknown:
        return f"{', '.join(unknown)} of the predicate would not give the same bits on a GPU"
    return None
