"""Launches of one window's kernels: what of the work is on its way to the GPU, and what waits.

Work that has more pairs than there is room for is done again in halves, and work that is likely to have more is halved
before. Two launches are on their way at a time, so that the GPU works while pairs are taken in.

Law: a pair is handed on once its launch has been waited for, and never again. So `left` is always what has to be done
still.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ..arrays import Array, Integers
from ..side import Side, other
from ..store.batch import Batch, PairSink
from . import direct, kernel
from . import machine as machines
from .arena import Arena
from .condition import GpuCondition
from .kernel import gpu_scan_source, lanes_of
from .lane import Lane
from .pairs import take_in
from .pieces import Piece, Search
from .search_kernel import gpu_search_source
from .search_key import SearchKey

Work: TypeAlias = Piece | Search

AT_ONCE = 1 << 37
"""Comparisons of a launch: less than a tenth of a second."""
IN_FLIGHT = 2
FEWEST = 64
"""Probing tuples that a lane has room for at least."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The kernel of a scan: its text, how many stored tuples a thread holds, and which slots of both sides it reads."""

    source: str
    lanes: int
    stored: tuple[int, ...]
    probing: tuple[int, ...]


class Kernels:
    """The kernels of one window, and the lanes that are not in use. Several threads may launch."""

    def __init__(self, side: Side, condition: GpuCondition, key: SearchKey | None) -> None:
        self.side, self.condition, self.key = side, condition, key
        self.launches = self.comparisons = 0
        self._density: dict[type[Work], float] = {}
        """Pairs of a comparison, and of a search in a run, as the last launches had them."""
        self._scans: dict[bool, Scan] = {}
        self._search = ""
        self._lanes: list[Lane] = []
        self._lock = threading.Lock()

    def scan(self, has_nulls: bool) -> Scan:
        """The scan for tuples of which some may have NULLs, or none."""
        if has_nulls not in self._scans:
            lowered = self.condition.whole if has_nulls else self.condition.without_nulls
            numbers = lowered.tested[self.side], lowered.tested[other(self.side)]
            self._scans[has_nulls] = Scan(gpu_scan_source(lowered, self.side), lanes_of(lowered, self.side), *numbers)
        return self._scans[has_nulls]

    def scan_of(self, batch: Batch, arena: Arena) -> Scan:
        """The scan for a batch."""
        has_nulls = arena.has_nulls or self.condition.has_nulls(other(self.side), batch.slots, 0, len(batch))
        return self.scan(has_nulls)

    @property
    def columns(self) -> tuple[int, ...]:
        """The slots that kernels read of probing tuples."""
        tested = self.condition.columns(other(self.side))
        asked = () if self.key is None else self.key.asked
        return tuple(dict.fromkeys((*tested, *asked)))

    def values(self, batch: Batch) -> list[Array]:
        """These slots of a batch."""
        side = other(self.side)
        return [self.condition.values(side, number, batch.slots, 0, len(batch)) for number in self.columns]

    @property
    def search(self) -> str:
        """The text of the search."""
        if not self._search:
            self._search = gpu_search_source(self.condition.whole, self.side)
        return self._search

    def is_too_much(self, work: Work, compared: int) -> bool:
        """Whether work should be halved before it is begun."""
        expected = compared * self._density.get(type(work), 0.0)
        return compared > 1 and (compared > AT_ONCE or 2 * expected > machines.ROOM)

    def note(self, work: Work, compared: int, count: int) -> None:
        """So many pairs were found."""
        before, now = self._density.get(type(work)), count / compared
        self._density[type(work)] = now if before is None else before + (now - before) / 4
        self.launches += 1
        self.comparisons += compared

    def lane(self, probes: int, items: int) -> Lane:
        """One that has room enough, but not far too much: all of it is copied."""
        with self._lock:
            for place, lane in enumerate(self._lanes):
                if probes <= lane.probes <= 4 * max(probes, FEWEST) and items <= lane.items <= 8 * max(items, FEWEST):
                    return self._lanes.pop(place)
        kinds = [self.condition.dtype(other(self.side), number) for number in self.columns]
        return Lane(direct.machine(), _rounded(probes), _rounded(items), kinds, machines.ROOM)

    def give_back(self, lane: Lane) -> None:
        with self._lock:
            self._lanes.append(lane)

    def clear(self) -> None:
        """No launch is under way."""
        with self._lock:
            for lane in self._lanes:
                lane.close()
            self._lanes = []

    def forget(self) -> None:
        """The GPU has failed, so nothing of it is used again."""
        with self._lock:
            self._lanes = []


class GpuFailed(Exception):
    """A call of the GPU has failed; `__cause__` says how."""


class Launches:
    """The work of probing with a batch."""

    def __init__(self, kernels: Kernels, arena: Arena, batch: Batch, work: list[Work]) -> None:
        self._kernels, self._arena, self._batch = kernels, arena, batch
        self._waiting: deque[Work] = deque(work)
        self._flying: deque[tuple[Work, int, Lane]] = deque()

    @cached_property
    def _scan(self) -> Scan:
        return self._kernels.scan_of(self._batch, self._arena)

    @property
    def left(self) -> list[Work]:
        """What has not been handed on."""
        return [*(work for work, _, _ in self._flying), *self._waiting]

    def begin(self) -> None:
        """Launch as much as may be on its way."""
        while self._waiting and len(self._flying) < IN_FLIGHT:
            self._begin_next()

    def run(self, sink: PairSink) -> Iterator[int]:
        """Do all of it; gives the comparisons of each launch. GpuFailed if the GPU cannot."""
        while self._waiting or self._flying:
            try:
                self.begin()
                if not self._flying:
                    return
                work, compared, lane = self._flying[0]
                count, found = lane.wait()
            except Exception as error:
                raise GpuFailed from error
            self._flying.popleft()
            self._kernels.note(work, compared, count)
            is_all = count <= len(found)
            if is_all:
                take_in(found, work.batch.row, work.first, self._arena.rows, sink)
            else:
                self._waiting.extendleft(reversed(work.halves()))
            self._kernels.give_back(lane)
            if is_all:
                yield compared

    def _begin_next(self) -> None:
        work, kernels = self._waiting[0], self._kernels
        if isinstance(work, Search):
            fields = np.array([(run.begin, run.end) for run in work.runs], np.int64)
            blocks = -(-(work.last - work.first) // kernel.THREADS) * len(work.runs)
            compared = (work.last - work.first) * len(work.runs)
        else:
            fields, blocks, compared = work.items(kernel.THREADS * self._scan.lanes)
        if kernels.is_too_much(work, compared):
            self._waiting.popleft()
            self._waiting.extendleft(reversed(work.halves()))
            return
        if compared:
            lane = kernels.lane(work.last - work.first, len(fields))
            self._launch(work, lane, fields, blocks)
            self._flying.append((work, compared, lane))
        self._waiting.popleft()

    def _launch(self, work: Work, lane: Lane, fields: Integers, blocks: int) -> None:
        kernels, arena, batch = self._kernels, self._arena, work.probing
        lane.send([batch.low, batch.high, fields.reshape(-1), *kernels.values(batch)])
        probing = dict(zip(kernels.columns, lane.slots, strict=True))
        if isinstance(work, Piece):
            scan = self._scan
            slots, stored = [probing[n] for n in scan.probing], [arena.slots[n] for n in scan.stored]
            lane.launch(
                scan.source, "gpu_scan", blocks,
                [*slots, lane.low, *stored, arena.coordinate, lane.high, lane.fields, len(fields), scan.lanes],
                arena.stream,
            )  # fmt: skip
            return
        runs, key = arena.runs, kernels.key
        assert runs is not None
        assert key is not None
        tested = kernels.condition.columns(other(kernels.side))
        lane.launch(
            kernels.search, "gpu_search", blocks,
            [*arena.slots.values(), arena.coordinate, *(probing[n] for n in tested), lane.low, lane.high,
             probing[key.low], probing[key.high], runs.widest, len(batch), runs.keys, runs.places, lane.fields],
            arena.stream,
        )  # fmt: skip


def _rounded(count: int) -> int:
    return max(FEWEST, 1 << (count - 1).bit_length())
