"""Who competes in a cell: numbers of workers, the default, and the GPU."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from typing import Any

from ...engine.window_join import WindowJoin
from .cells import Cell
from .streams import Source

GPU, DEFAULT = "gpu", "default"


@dataclass(frozen=True)
class Contestant:
    """How a join is opened. Without a number of workers the join decides."""

    workers: int | None = None
    on_gpu: bool = False

    @property
    def name(self) -> str:
        if self.on_gpu:
            return GPU
        return DEFAULT if self.workers is None else str(self.workers)

    def open(self, cell: Cell, source: Source) -> WindowJoin:
        kind = source.kind
        given: dict[str, Any] = {"index": cell.index, "workers": self.workers}
        given["algorithm"] = "auto" if self.on_gpu else cell.algorithm
        if knows_devices():
            given["device"] = "gpu" if self.on_gpu else "cpu"
        return WindowJoin(kind.schemas["left"], kind.schemas["right"], on=kind.sql, window=cell.window, **given)


def knows_devices() -> bool:
    """Whether a join can be told to use a GPU."""
    return "device" in inspect.signature(WindowJoin.__init__).parameters


def contestants(cell: Cell, workers: list[int], has_gpu: bool) -> list[Contestant]:
    """Those of a cell. The topologies of the papers take a number of workers, and none of them runs on a GPU."""
    if cell.is_large:
        return [Contestant(max(workers)), Contestant(on_gpu=True)] if has_gpu else [Contestant(max(workers))]
    found = [Contestant(number) for number in workers]
    if cell.algorithm == "auto":
        found.append(Contestant())
    if has_gpu and cell.algorithm in ("auto", "panjoin"):
        found.append(Contestant(on_gpu=True))
    return found


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_workers() -> list[int]:
    """1, 2, 4 and so on, and all cores."""
    most = cores()
    return sorted({most, *(1 << step for step in range(most.bit_length()) if 1 << step <= most)})
