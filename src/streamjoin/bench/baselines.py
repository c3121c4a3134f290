"""What the generated kernels are measured against: hand-written C++, and plain NumPy.

Both take columns and give places, as the kernels do, and both look at the window's coordinates too.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from ..arrays import Array

Pairs = tuple[Array, Array]
"""Places of the probing tuples and of the stored tuples that match."""

BAND = 10
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
CAPACITY = 1 << 16


class Cpp:
    """The band join in C++ with AVX-512 intrinsics (`celljoin.cpp`), built by the system's compiler."""

    def __init__(self) -> None:
        """Raises RuntimeError where it cannot be built."""
        compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
        if compiler is None:
            raise RuntimeError(f"no C++ compiler found; looked for {', '.join(COMPILERS)}")
        with tempfile.TemporaryDirectory(prefix="streamjoin-bench-") as directory:
            library = Path(directory) / "celljoin.so"
            source = Path(__file__).with_name("celljoin.cpp")
            built = subprocess.run(
                [compiler, *FLAGS, source, "-o", library], capture_output=True, text=True, check=False
            )
            if built.returncode:
                raise RuntimeError(f"{compiler} cannot build the C++ baseline: {built.stderr.strip()[:500]}")
            self._library = ctypes.CDLL(str(library))
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
        self.compiler = f"{version.splitlines()[0] if version else compiler}, {' '.join(FLAGS[:2])}"
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


def numpy_join(stored: str, columns: tuple[Array, Array], coordinate: Array, probes: tuple[Array, Array],
               low: Array, high: Array) -> Pairs:  # fmt: skip
    """One vectorised expression per probing tuple: what a user would write without a library."""
    number, real = columns
    found: list[Pairs] = []
    band = np.float32(BAND)
    for i, (key, other) in enumerate(zip(*probes, strict=True)):
        if stored == "left":  # x, y are stored; the probing tuple has a, b
            near = (number >= key - BAND) & (number <= key + BAND) & (real >= other - band) & (real <= other + band)
        else:
            near = (key >= number - BAND) & (key <= number + BAND) & (other >= real - band) & (other <= real + band)
        places = np.flatnonzero(near & (coordinate >= low[i]) & (coordinate < high[i]))
        found.append((np.full(len(places), i), places))
    return np.concatenate([p for p, _ in found]), np.concatenate([s for _, s in found])
