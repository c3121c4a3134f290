"""What a GPU can do at most: multiply-adds of 32-bit integers per second. Only for machines with one, or the simulator.

Each thread has several numbers that do not depend on each other, so that the units never wait for a result.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

cuda: Any = importlib.import_module("numba.cuda")
vars(np).setdefault("row_stack", np.vstack)  # numba-cuda asks for it, and NumPy 2.5 has dropped it
THREADS, CHAINS = 256, 8
"""Threads of a block, and numbers that each of them works on."""
BLOCKS_PER_PROCESSOR, STEPS = 32, 4_096
FACTOR, MORE = np.int32(1_103_515_245), np.int32(12_345)
MOST_AT_ONCE = 64
"""Launches before the clock is read again."""


class Integers:
    """A kernel of nothing but multiply-adds."""

    def __init__(self, blocks: int | None = None, threads: int = THREADS, steps: int = STEPS) -> None:
        if blocks is None:
            blocks = BLOCKS_PER_PROCESSOR * int(cuda.get_current_device().MULTIPROCESSOR_COUNT)
        self._shape, self._steps = (blocks, threads), steps
        self._out = cuda.device_array(blocks * threads, np.int32)
        self._launch(1)

    def _launch(self, times: int) -> None:
        for _ in range(times):
            _multiply_adds[self._shape](self._out, FACTOR, MORE, self._steps)
        cuda.synchronize()

    def rate(self, seconds: float) -> float:
        """Multiply-adds per second."""
        started, launched, times = time.perf_counter(), 0, 1
        while launched == 0 or time.perf_counter() - started < seconds:
            self._launch(times)
            launched, times = launched + times, min(2 * times, MOST_AT_ONCE)
        each = self._shape[0] * self._shape[1] * self._steps * CHAINS
        return each * launched / (time.perf_counter() - started)


@cuda.jit
def _multiply_adds(out, factor, more, steps):  # type: ignore[no-untyped-def]
    place = cuda.grid(1)
    a, b, c, d = np.int32(place), np.int32(place + 1), np.int32(place + 2), np.int32(place + 3)
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
