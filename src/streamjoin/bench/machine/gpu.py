"""The GPU of this machine, and what it can do at most: integer multiply-adds per second."""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np
from numba.core import config

THREADS, CHAINS = 256, 8
"""Threads of a block, and numbers that each of them works on at the same time."""
BLOCKS_PER_PROCESSOR, STEPS = 32, 4_096


def gpu_name() -> str | None:
    """The GPU's name; None if there is none that Numba can use, or only a simulator."""
    if config.ENABLE_CUDASIM:
        return None
    try:
        cuda = numba_cuda()
        return str(_text(cuda.get_current_device().name)) if cuda.is_available() else None
    except Exception:  # no driver, no package, or a driver that fails: each raises its own
        return None


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def numba_cuda() -> Any:
    """Numba's compiler for GPUs. Some releases of it ask NumPy for a name that NumPy 2.5 has dropped."""
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]
    return importlib.import_module("numba.cuda")


class Integers:
    """A kernel of nothing but multiply-adds of 32-bit integers, which depend on each other in `CHAINS` chains."""

    def __init__(self, blocks: int | None = None, threads: int = THREADS, steps: int = STEPS) -> None:
        self._cuda = numba_cuda()
        if blocks is None:
            blocks = BLOCKS_PER_PROCESSOR * self._cuda.get_current_device().MULTIPROCESSOR_COUNT
        self._shape, self._steps = (blocks, threads), steps
        self._out = self._cuda.device_array(blocks * threads, np.int32)
        self._kernel = _multiply_adds(self._cuda)
        self._launch(1)

    def _launch(self, times: int) -> None:
        for _ in range(times):
            self._kernel[self._shape](self._out, np.int32(1_103_515_245), np.int32(12_345), self._steps)
        self._cuda.synchronize()

    def rate(self, seconds: float) -> float:
        """Multiply-adds per second."""
        started, launched, times = time.perf_counter(), 0, 1
        while launched == 0 or time.perf_counter() - started < seconds:
            self._launch(times)
            launched, times = launched + times, min(2 * times, 64)
        each = self._shape[0] * self._shape[1] * self._steps * CHAINS
        return each * launched / (time.perf_counter() - started)


def _multiply_adds(cuda: Any) -> Any:
    def multiply_adds(out, factor, more, steps):  # type: ignore[no-untyped-def]
        place = cuda.grid(1)
        a = np.int32(place)
        b, c, d = np.int32(place + 1), np.int32(place + 2), np.int32(place + 3)
        e, f, g, h = np.int32(place + 4), np.int32(place + 5), np.int32(place + 6), np.int32(place + 7)
        for _ in range(steps):
            a = np.int32(a * factor + more)
            b = np.int32(b * factor + more)
            c = np.int32(c * factor + more)
            d = np.int32(d * factor + more)
            e = np.int32(e * factor + more)
            f = np.int32(f * factor + more)
            g = np.int32(g * factor + more)
            h = np.int32(h * factor + more)
        out[place] = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h

    return cuda.jit(multiply_adds)
