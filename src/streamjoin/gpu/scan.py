"""A window's scans on the GPU.

A probe is cut into pieces, each a launch. Two of them are on their way at a time, so that the GPU works while pairs are
taken in. A piece that has more pairs than there is room for is done again in halves. A piece that fails is done on the
CPU, like all that follow: nothing of it has been handed on by then.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Integers, Rows
from ..compile.background import REHEARSALS, is_first, is_rehearsing
from ..compile.cache import compiled
from ..predicate.lower import Lowered
from ..side import Side, other
from ..store.batch import Batch, PairSink, Probing
from ..store.subwindow import StoredSide, Subwindow
from . import kernel
from . import machine as machines
from .arena import Arena
from .kernel import gpu_scan_source, lanes_of
from .lane import Lane
from .machine import Machine
from .pieces import Piece, Search, Span
from .search_kernel import gpu_search_source
from .search_key import search_key
from .support import has_driver, is_simulated, missing, unable

AT_ONCE = 1 << 37
"""Comparisons of a launch: less than a tenth of a second."""
IN_FLIGHT = 2
FEWEST = 64
"""Probing tuples that a lane has room for at least."""
TAKEN_IN = 1 << 17
"""Pairs that are handed on at a time."""
STEP, PROBE = 400_000.0, 20.0
"""Nanoseconds to begin a probe, and to send a probing tuple."""
COMPARE = 0.00004
"""Nanoseconds of an operation of the condition, until comparisons have been measured."""
FEWEST_OPERATIONS = 4
MEASURED = 1 << 30
"""Comparisons of a probe whose time says how fast they are."""


Work: TypeAlias = Piece | Search


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
        self._source = ""
        self._is_warm = False
        """Whether the kernel is compiled."""
        self._comparison = COMPARE * max(len(lowered.lines) + 2 * len(lowered.tests), FEWEST_OPERATIONS)
        self._density: dict[type[Work], float] = {}
        """Pairs of a comparison, and of the search of a run, as the last launches had them."""
        self._key = search_key(lowered, side) if always else None
        self._searches = ""
        self._arena: Arena | None = None
        self._lanes: list[Lane] = []
        self._lock = threading.Lock()
        """Several threads may probe, but the copies are brought by one, and a lane belongs to one."""
        self._figures = {"gpu_probes": 0, "gpu_launches": 0, "gpu_comparisons": 0}

    # -- whether to be used ----------------------------------------------------------------------------------------

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
        self._is_warm = REHEARSALS.begin(("gpu", self._text), self._warm_up)() and self._works()
        return self._is_warm

    def _works(self) -> bool:
        self._reason = self._reason or missing()
        return self._reason is None

    def _warm_up(self) -> None:
        """Find the GPU, and compile the kernel for it, on made-up tuples."""
        if self._works():
            try:
                lowered, side = self._stored.lowered, self._stored.side
                window = Subwindow(1, self._stored)
                trial = GpuScan(lowered, side, False, 1)
                nothing = np.zeros(1, np.int64)
                columns = {
                    which: [np.zeros(1, slot.dtype) for slot in lowered.slots[which]] for which in (side, other(side))
                }
                window.insert(Batch(nothing, nothing, nothing, nothing, columns[side]))
                for _ in trial.probe(
                    [window], Batch(nothing, nothing, nothing, nothing + 1, columns[other(side)]), PairSink()
                ):
                    pass
                self._reason = trial._reason
            except Exception as error:
                self._reason = _described(error)

    @property
    def _search_text(self) -> str:
        if not self._searches:
            self._searches = gpu_search_source(self._stored.lowered, self._stored.side)
        return self._searches

    @property
    def _text(self) -> str:
        if not self._source:
            self._source = gpu_scan_source(self._stored.lowered, self._stored.side)
        return self._source

    # -- probes ----------------------------------------------------------------------------------------------------

    def probe(self, subwindows: Sequence[Subwindow], batch: Batch, sink: PairSink) -> Iterator[int]:
        began, before = time.perf_counter(), self._figures["gpu_comparisons"]
        waiting: deque[Work] = deque()
        flying: deque[tuple[Work, int, Lane]] = deque()
        try:
            arena, all_of_it = self._brought(subwindows, batch)
            waiting.extend(all_of_it)
        except Exception as error:
            self._lose(error)
            yield from _on_cpu([Piece(batch, 0, len(batch), _all_of(subwindows))], sink)
            return
        while waiting or flying:
            try:
                while waiting and len(flying) < IN_FLIGHT:
                    self._begin(arena, waiting, flying)
                if not flying:
                    break
                work, compared, lane = flying.popleft()
                try:
                    count, found = lane.wait()
                except Exception:
                    waiting.appendleft(work)
                    raise
            except Exception as error:
                self._lose(error)
                left = [*(work for work, _, _ in flying), *waiting]
                flying.clear()
                yield from _on_cpu([work.scanned() if isinstance(work, Search) else work for work in left], sink)
                return
            self._note(work, compared, count)
            is_all = count <= len(found)
            if is_all:
                _take_in(work, found, arena.rows, sink)
            else:
                waiting.extendleft(reversed(work.halves()))
            self._return(lane)
            if is_all:
                yield compared
        self._measure(time.perf_counter() - began, self._figures["gpu_comparisons"] - before)

    def _brought(self, subwindows: Sequence[Subwindow], batch: Batch) -> tuple[Arena, list[Work]]:
        """Send all that is stored. What a batch has to be compared with: sorted runs, and the tuples in none."""
        with self._lock:
            if self._arena is None:
                self._arena = Arena(self._machine, self._stored, self._key)
            arena = self._arena
            stretches = arena.sync(subwindows)
            self._figures["gpu_probes"] += 1
            runs = arena.runs
            self._figures["gpu_runs"] = 0 if runs is None else len(runs.all)
        work: list[Work] = []
        is_searched = runs is not None and runs.key.serves(batch)
        if is_searched and runs is not None and runs.all:
            work.append(Search(batch, 0, len(batch), runs.all))
        spans = [
            Span(subwindow, stretch.start, stretch.in_runs if is_searched else 0, stretch.sent)
            for subwindow, stretch in zip(subwindows, stretches, strict=True)
        ]
        spans = [span for span in spans if span.begin < span.end]
        return arena, [*work, *([Piece(batch, 0, len(batch), spans)] if spans else [])]

    def _begin(self, arena: Arena, waiting: deque[Work], flying: deque[tuple[Work, int, Lane]]) -> None:
        """Launch the next piece of work, or cut it if it is too large."""
        work = waiting[0]
        batch = work.probing
        if isinstance(work, Search):
            fields = np.array([(run.begin, run.end) for run in work.runs], np.int64)
            compared = len(batch) * len(work.runs)
        else:
            fields, blocks, compared = work.items(kernel.THREADS * lanes_of(self._stored.lowered, self._stored.side))
        expected = compared * self._density.get(type(work), 0.0)
        if compared > 1 and (compared > AT_ONCE or 2 * expected > machines.ROOM):
            waiting.popleft()
            waiting.extendleft(reversed(work.halves()))
            return
        if not compared:
            waiting.popleft()
            return
        lane = self._lane(len(batch), len(fields))
        columns = [batch.low, batch.high, fields.reshape(-1), *self._stored.tested_of_probes(batch)]
        if isinstance(work, Search):
            assert arena.runs is not None
            lane.send([*columns, *arena.runs.key.bounds(batch, arena.runs.widest)])
            *slots, least, most = lane.slots
            lane.launch(
                self._search_text, "gpu_search", -(-len(batch) // kernel.THREADS) * len(work.runs),
                [*arena.slots, arena.coordinate, *slots, lane.low, lane.high, least, most, len(batch), arena.runs.keys,
                 arena.runs.places, lane.fields],
            )  # fmt: skip
        else:
            lane.send(columns)
            slots = lane.slots if self._key is None else lane.slots[:-2]
            lane.launch(
                self._text, "gpu_scan", blocks,
                [*slots, lane.low, *arena.slots, arena.coordinate, lane.high, lane.fields, len(fields)],
            )  # fmt: skip
        flying.append((waiting.popleft(), compared, lane))

    def _lane(self, probes: int, items: int) -> Lane:
        """One that has room enough, but not far too much: all of it is copied."""
        with self._lock:
            for place, lane in enumerate(self._lanes):
                if probes <= lane.probes <= 4 * max(probes, FEWEST) and items <= lane.items <= 8 * max(items, FEWEST):
                    return self._lanes.pop(place)
        slots, lowered = other(self._stored.side), self._stored.lowered
        kinds = [lowered.slots[slots][number].dtype for number in lowered.tested[slots]]
        kinds += [] if self._key is None else ["int64", "int64"]
        return Lane(self._machine, _rounded(probes), _rounded(items), kinds, machines.ROOM)

    def _return(self, lane: Lane) -> None:
        with self._lock:
            self._lanes.append(lane)

    @property
    def _machine(self) -> Machine:
        return machines.machine()

    def _note(self, work: Work, compared: int, count: int) -> None:
        before, now = self._density.get(type(work)), count / compared
        self._density[type(work)] = now if before is None else before + (now - before) / 4
        self._figures["gpu_launches"] += 1
        self._figures["gpu_comparisons"] += compared

    def _measure(self, seconds: float, compared: int) -> None:
        """How long a comparison takes, with all that belongs to it."""
        if compared >= MEASURED:
            taken = max(seconds * 1e9 - STEP, 0.0) / compared
            self._comparison += (taken - self._comparison) / 4

    def _lose(self, error: Exception) -> None:
        """The GPU is of no use any more."""
        with self._lock:
            self._reason = _described(error)
            self._arena, self._lanes = None, []
        if self._always:
            warnings.warn(
                f"the GPU failed, and the join goes on on the CPU: {self._reason}", RuntimeWarning, stacklevel=2
            )

    def clear(self) -> None:
        with self._lock:
            for lane in self._lanes:
                lane.close()
            self._arena, self._lanes = None, []

    @property
    def nbytes(self) -> int:
        return 0 if self._arena is None else self._arena.nbytes

    def figures(self) -> dict[str, Any]:
        used = self._figures["gpu_probes"] > 0 and self._reason is None
        why = self._reason or ("asked for" if self._always else "where it is likely to take less time")
        name = {"gpu": self._machine.name} if used else {}
        return {"device": "gpu" if used else "cpu", "device_why": why, **name, **self._figures}


def _described(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _rounded(count: int) -> int:
    return max(FEWEST, 1 << (count - 1).bit_length())


def _all_of(subwindows: Sequence[Subwindow]) -> list[Span]:
    return [Span(subwindow, 0, 0, subwindow.count) for subwindow in subwindows]


def _take_in(work: Work, found: Integers, stored_rows: Rows, sink: PairSink) -> None:
    for start in range(0, len(found), TAKEN_IN):
        sink.add(*_rows(found[start : start + TAKEN_IN], work.batch.row, work.first, stored_rows))


def _on_cpu(pieces: Sequence[Piece], sink: PairSink) -> Iterator[int]:
    """The subwindows' own scans."""
    for piece in pieces:
        batch = piece.probing
        for span in piece.spans:
            yield from span.subwindow.scan(Probing(batch), batch, sink, span.begin, span.end)


@compiled
def _unpacked(pairs, probing_rows, first, stored_rows, probing, stored):  # type: ignore[no-untyped-def]
    for k in range(len(pairs)):
        pair = pairs[k]
        probing[k] = probing_rows[first + (pair >> 32)]
        stored[k] = stored_rows[pair & 0xFFFFFFFF]


def _rows(pairs: Integers, probing_rows: Rows, first: int, stored_rows: Rows) -> tuple[Rows, Rows]:
    """The row numbers of pairs of places."""
    probing, stored = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    _unpacked(pairs, probing_rows, first, stored_rows, probing, stored)
    return probing, stored
