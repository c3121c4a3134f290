"""CellJoin's band join in C++ with AVX-512 intrinsics (`celljoin.cpp`)."""

from __future__ import annotations

import ctypes

import numpy as np

from ...arrays import Array
from ..columns import Pairs
from .build import load

CAPACITY = 1 << 16
BAND = 10


class CppBandJoin:
    """The band join in C++ with AVX-512 intrinsics (`celljoin.cpp`), built by the system's compiler."""

    def __init__(self) -> None:
        """Raises RuntimeError where it cannot be built."""
        self._library, self.compiler = load("celljoin.cpp")
        self.avx512 = bool(self._library.celljoin_avx512())
        self._units = self._library.celljoin_units
        self._units.argtypes, self._units.restype = [ctypes.c_int64] * 2, ctypes.c_int64
        self._out = np.empty(CAPACITY, np.int32), np.empty(CAPACITY, np.int32)

    def join(self, stored: str, columns: tuple[Array, Array], coordinate: Array, probes: tuple[Array, Array],
             low: Array, high: Array) -> Pairs:  # fmt: skip
        """`columns` and `probes` are an int32 and a float32 column each: (x, y) of the left or (a, b) of the right."""
        function = self._library.celljoin_l if stored == "left" else self._library.celljoin_r
        function.restype = ctypes.c_int64
        count, size, unit = len(coordinate), len(low), ctypes.c_int64(0)
        found: list[Pairs] = []
        while unit.value < self._units(count, size):
            written = function(
                ctypes.c_int64(count), *map(_pointer, (*columns, coordinate)),
                ctypes.c_int64(size), *map(_pointer, (*probes, low, high)),
                ctypes.c_int32(BAND), ctypes.c_float(BAND), *map(_pointer, self._out),
                ctypes.c_int64(CAPACITY), ctypes.byref(unit),
            )  # fmt: skip
            found.append((self._out[0][:written].copy(), self._out[1][:written].copy()))
        return np.concatenate([p for p, _ in found]), np.concatenate([s for _, s in found])


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
