"""Runs generated kernels as plain Python: a predicate then costs no compilation, and its text is tested as well."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from streamjoin.predicate import ops_scalar, ops_vector, wide_scalar

_FROM_NUMPY = (
    "sqrt", "atan2", "isnan", "exp", "ln", "sin", "cos", "tan", "asin", "acos", "atan", "frem", "ffloormod", "power",
)  # fmt: skip
"""Functions of Python's math that raise where compiled code gives NaN or infinity. Wide numbers come from there too:
only LLVM can compute with words."""

_COMPILED = ("probe_run", "ranges_of_part", "room_in_slot", "after_part")
"""What needs no predicate and only LLVM can do."""


def collect(
    mask: Any, probe: Any, begin: Any, coordinate: Any, low: Any, high: Any,
    out_probe: Any, out_stored: Any, found: int, density: int,
) -> int:  # fmt: skip
    """`compile.collect.collect` in plain Python."""
    for j in range(len(coordinate)):
        if mask[j] and low <= coordinate[j] < high:
            out_probe[found], out_stored[found] = probe, begin + j
            found += 1
    return found


def array_at(address: int, shape: int | tuple[int, int], dtype: Any) -> Any:
    """Numba's carray for an address. Kernels may read beyond the length they name, so the view is longer."""
    kind = np.dtype(dtype)
    length, *columns = (shape,) if isinstance(shape, int | np.integer) else shape
    count = max(length, 1 << 12) * int(np.prod(columns))
    if not address:
        return np.empty(0, kind)
    found = np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), kind)
    return found.reshape(-1, *columns)


def dialect() -> dict[str, Any]:
    """The names of the dialect for kernels that run as plain Python."""
    names = {
        key: getattr(value, "py_func", value) for key, value in vars(ops_scalar).items() if not key.startswith("_")
    }
    return names | {key: getattr(ops_vector, key) for key in (*_FROM_NUMPY, *wide_scalar.__all__)}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, generated kernels are interpreted."""
    load.cache_clear()
    monkeypatch.setattr("streamjoin.compile.cache.load", load)


@cache
def load(source: str, name: str) -> Callable[..., Any]:
    """Stands in for `compile.cache.load`."""
    lines = [line for line in source.splitlines() if not line.startswith(("@njit", "from numba"))]
    assert len(lines) < len(source.splitlines()), "the kernel's header has changed"
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), "<interpreted kernel>", "exec"), namespace)
    for key, value in list(namespace.items()):
        if hasattr(value, "py_func") and key not in _COMPILED:
            namespace[key] = value.py_func
    namespace["collect"] = collect
    namespace["prefetch"] = lambda array, place: None
    namespace["pointer"] = int
    namespace["carray"] = array_at
    namespace.update({key: getattr(ops_vector, key) for key in (*_FROM_NUMPY, *wide_scalar.__all__)})
    function = namespace[name]

    def run(*args: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            return function(*args)

    return run
