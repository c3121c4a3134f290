"""A window's scans on the GPU: whether it is used, and what happens when it fails.

Work that fails is done on the CPU, like all that follows: nothing of it has been handed on by then.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..compile.background import REHEARSALS, is_first, is_rehearsing
from ..predicate.lower import Lowered
from ..side import SIDES, Side, other
from ..store.batch import Batch, PairSink, Probing
from ..store.device import Found
from ..store.stored_side import StoredSide
from ..store.subwindow import Subwindow
from . import direct
from .arena import Arena
from .condition import GpuCondition
from .launches import GpuFailed, Kernels, Launches, Work
from .pieces import Piece, Search, Span
from .search_key import search_key
from .support import has_driver, is_simulated, missing, unable

STEP, PROBE = 400_000.0, 20.0
"""Nanoseconds to begin a probe, and to send a probing tuple."""
COMPARE = 0.00004
"""Nanoseconds of an operation of the condition, until comparisons have been measured."""
FEWEST_OPERATIONS = 4
MEASURED = 1 << 30
"""Comparisons of a probe whose time says how fast they are."""


def device_scan(lowered: Lowered, side: Side, device: str, workers: int) -> GpuScan | None:
    """What scans a side's window; None: the CPU does, and nobody has asked for a GPU."""
    if device == "cpu" or (device == "auto" and (is_simulated() or not has_driver())):
        return None
    return GpuScan(lowered, side, device == "gpu", workers)


def described_device(lowered: Lowered, device: str) -> str:
    """What would scan windows, as a text for people."""
    if device == "cpu" or (device == "auto" and (is_simulated() or not has_driver())):
        return "cpu"
    reason = unable(lowered)
    if reason is not None:
        return f"cpu: {reason}"
    return "gpu" if device == "gpu" else "gpu where it is likely to take less time than the cpu"


class GpuScan:
    """A `store.device.Device`. `always`: every batch probes here if it can."""

    def __init__(self, lowered: Lowered, side: Side, always: bool, workers: int) -> None:
        self._stored = StoredSide(lowered, side)
        self._always, self._workers = always, workers
        self._reason = unable(lowered)
        """Why the GPU is not used (any more)."""
        self._is_warm = False
        """Whether the kernel is compiled."""
        self._comparison = COMPARE * max(len(lowered.lines) + 2 * len(lowered.tests), FEWEST_OPERATIONS)
        self._condition = GpuCondition(lowered)
        self._kernels = Kernels(side, self._condition, search_key(lowered, side) if always else None)
        self._arena: Arena | None = None
        self._lock = threading.Lock()
        """Several threads may probe, but the copies are brought by one."""
        self._probes = self._runs = 0

    # -- whether to be used ----------------------------------------------------------------------------------------

    @property
    def is_sole(self) -> bool:
        return self._always and self._reason is None

    def takes(self, tuples: int, batch: Batch, reached: Callable[[], int], on_cpu: Callable[[int], float]) -> bool:
        if self._reason is not None or not tuples or not len(batch):
            return False
        if self._always:
            return True
        if is_rehearsing() or on_cpu(tuples * len(batch)) < self._workers * self.estimate(len(batch), 0):
            return False
        pairs = reached()
        return on_cpu(pairs) > self._workers * self.estimate(len(batch), pairs) and self.is_ready()

    def takes_small(self, probes: int, tuples: int, on_cpu: Callable[[int, int], float]) -> bool:
        if self._reason is not None:
            return False
        return self._always or on_cpu(tuples * probes, probes) > self._workers * self.estimate(probes, 0)

    def estimate(self, probes: float, reached: float) -> float:
        return STEP + probes * PROBE + reached * self._comparison

    def is_ready(self) -> bool:
        if self._reason is not None or (is_rehearsing() and not self._always):
            return False
        if self._is_warm:
            return True
        if is_first() or is_rehearsing():
            self._warm_up()
            self._is_warm = self._reason is None
            return self._is_warm
        self._is_warm = REHEARSALS.begin(("gpu", self._kernels.scan(True).source), self._warm_up)() and self._works()
        return self._is_warm

    def _works(self) -> bool:
        self._reason = self._reason or missing()
        return self._reason is None

    def _warm_up(self) -> None:
        """Find the GPU, and compile the kernels for it, on made-up tuples: without NULLs, and of nothing else."""
        if self._works():
            try:
                self._reason = self._tried(1)
                if self._condition.has_words:
                    self._reason = self._reason or self._tried(0)
            except Exception as error:
                self._reason = _described(error)

    def _tried(self, value: int) -> str | None:
        """Why one tuple whose slots have this value cannot probe another one; None: it can."""
        lowered, side = self._stored.lowered, self._stored.side
        window = Subwindow(1, self._stored)
        trial = GpuScan(lowered, side, False, 1)
        nothing = np.zeros(1, np.int64)
        columns = {which: [np.full(1, value, slot.dtype) for slot in lowered.slots[which]] for which in SIDES}
        window.insert(Batch(nothing, nothing, nothing, nothing, columns[side]))
        batch = Batch(nothing, nothing, nothing, nothing + 1, columns[other(side)])
        for _ in trial.begin([window], batch)(PairSink()):
            pass
        return trial._reason

    # -- probes ----------------------------------------------------------------------------------------------------

    def begin(self, subwindows: Sequence[Subwindow], batch: Batch) -> Found:
        began = time.perf_counter()
        try:
            arena, work = self._brought(subwindows, batch)
            launches = Launches(self._kernels, arena, batch, work)
            launches.begin()
        except Exception as error:
            self._lose(error)
            return partial(_on_cpu, [Piece(batch, 0, len(batch), [Span(s, 0, 0, s.count) for s in subwindows])])
        return partial(self._found, launches, began)

    def _found(self, launches: Launches, began: float, sink: PairSink) -> Iterator[int]:
        """The pairs of launches that have begun; what the GPU cannot do is done on the CPU."""
        steps, compared = launches.run(sink), 0
        while True:
            try:
                found = next(steps, None)
            except GpuFailed as failure:
                self._lose(failure.__cause__ or failure)
                left = [work.scanned() if isinstance(work, Search) else work for work in launches.left]
                yield from _on_cpu(left, sink)
                return
            if found is None:
                self._measure(time.perf_counter() - began, compared)
                return
            compared += found
            yield found

    def _brought(self, subwindows: Sequence[Subwindow], batch: Batch) -> tuple[Arena, list[Work]]:
        """Send all that is stored. What a batch has to be compared with: sorted runs, and the tuples in none."""
        with self._lock:
            if self._arena is None:
                self._arena = Arena(direct.machine(), self._stored.side, self._condition, self._kernels.key)
            arena = self._arena
            stretches = arena.sync(subwindows)
            self._probes += 1
            runs = arena.runs
            self._runs = 0 if runs is None else len(runs.all)
        work: list[Work] = []
        is_searched = runs is not None and runs.are_worth(batch)
        if is_searched and runs is not None:
            work.append(Search(batch, 0, len(batch), runs.all))
        spans = [
            Span(subwindow, stretch.start, stretch.in_runs if is_searched else 0, stretch.sent)
            for subwindow, stretch in zip(subwindows, stretches, strict=True)
        ]
        spans = [span for span in spans if span.begin < span.end]
        return arena, [*work, *([Piece(batch, 0, len(batch), spans)] if spans else [])]

    def _measure(self, seconds: float, compared: int) -> None:
        """How long a comparison takes, with all that belongs to it."""
        if compared >= MEASURED:
            taken = max(seconds * 1e9 - STEP, 0.0) / compared
            self._comparison += (taken - self._comparison) / 4

    def _lose(self, error: BaseException) -> None:
        """The GPU is of no use any more."""
        with self._lock:
            self._reason = _described(error)
            self._arena = None
        self._kernels.forget()
        if self._always:
            warnings.warn(
                f"the GPU failed, and the join goes on on the CPU: {self._reason}", RuntimeWarning, stacklevel=2
            )

    def clear(self) -> None:
        with self._lock:
            self._arena = None
        self._kernels.clear()

    @property
    def nbytes(self) -> int:
        return 0 if self._arena is None else self._arena.nbytes

    def figures(self) -> dict[str, Any]:
        used = self._probes > 0 and self._reason is None
        why = self._reason or ("asked for" if self._always else "where it is likely to take less time")
        name = {"gpu": direct.machine().name} if used else {}
        return {
            "device": "gpu" if used else "cpu",
            "device_why": why,
            **name,
            "gpu_probes": self._probes,
            "gpu_launches": self._kernels.launches,
            "gpu_comparisons": self._kernels.comparisons,
            "gpu_runs": self._runs,
        }


def _described(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _on_cpu(pieces: Sequence[Piece], sink: PairSink) -> Iterator[int]:
    """The subwindows' own scans."""
    for piece in pieces:
        batch = piece.probing
        for span in piece.spans:
            yield from span.subwindow.scan(Probing(batch), batch, sink, span.begin, span.end)
