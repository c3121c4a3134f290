"""Measuring: rates per round, the load of other programs, checked counts, and the machine."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass
class Rates:
    """One contestant's rounds: M tuples per second, and its CPU time beside the wall time."""

    rates: list[float] = field(default_factory=list)
    tuples: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    wall: float = 0.0

    @contextmanager
    def round(self, tuples: int, *, by_cpu: bool) -> Iterator[None]:
        """Time a round; `by_cpu`: the rate is per second of this thread's CPU time, not of wall time."""
        wall, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        yield
        thread, cpu, wall = time.thread_time() - thread, time.process_time() - cpu, time.perf_counter() - wall
        self.add(tuples, thread if by_cpu else wall, thread if by_cpu else cpu, wall)

    def add(self, tuples: int, seconds: float, cpu: float, wall: float) -> None:
        self.rates.append(tuples / max(seconds, 1e-9) / 1e6)
        self.tuples, self.seconds = self.tuples + tuples, self.seconds + seconds
        self.cpu, self.wall = self.cpu + cpu, self.wall + wall

    @property
    def median(self) -> float:
        return float(np.median(self.rates))

    @property
    def overall(self) -> float:
        return self.tuples / max(self.seconds, 1e-9) / 1e6

    def figures(self) -> dict[str, Any]:
        return {
            "median": self.median, "min": min(self.rates), "max": max(self.rates), "overall": self.overall,
            "rounds": len(self.rates), "cpu_per_wall": self.cpu / max(self.wall, 1e-9),
        }  # fmt: skip


class Others:
    """How many cores other programs used since this object was made; child processes do not count as others.

    CPU time per wall time does not show this: two threads that share one core look like one thread with its own core.
    """

    WARN = 0.1
    """More cores than this make figures unreliable."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float] | None:
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
            user, nice, system, _, _, irq, soft, steal = (int(number) for number in fields)
        except (OSError, ValueError):
            return None
        busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        return busy, sum(os.times()[:4]), time.perf_counter()

    def cores(self) -> float | None:
        """The mean number of cores; None if the system does not tell."""
        now, before = self._now(), self._before
        if now is None or before is None:
            return None
        busy, own, wall = (a - b for a, b in zip(now, before, strict=True))
        return max(busy - own, 0.0) / max(wall, 1e-9)


def check(who: str, found: int, expected: int) -> None:
    """Raise AssertionError if a contestant found a wrong number of pairs."""
    if found != expected:
        raise AssertionError(f"{who} finds {found:,} pairs where there are {expected:,}")


def machine() -> dict[str, str]:
    """The CPU, and the versions of Python and of the packages that decide the speed."""
    import numba

    from .. import __version__

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
    model = named[1] if named else model
    return {
        "cpu": model, "python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__,
        "pyarrow": pa.__version__, "streamjoin": __version__,
    }  # fmt: skip
