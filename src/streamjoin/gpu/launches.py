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
from typing import TypeAlias

import numpy as np

from ..arrays import Integers
from ..predicate.lower import Lowered
from ..side import other
from ..store.batch import PairSink
from ..store.stored_side import StoredSide
from . import kernel
from . import machine as machines
from .arena import Arena
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


class Kernels:
    """The kernels of one window, and the lanes that are not in use. Several threads may launch."""

    def __init__(self, stored: StoredSide, key: SearchKey | None) -> None:
        self.stored, self.key = stored, key
        self.launches = self.comparisons = 0
        self._density: dict[type[Work], float] = {}
        """Pairs of a comparison, and of a search in a run, as the last launches had them."""
        self._scan = self._search = ""
        self._lanes: list[Lane] = []
        self._lock = threading.Lock()

    @property
    def _lowered(self) -> Lowered:
        return self.stored.lowered

    @property
    def scan(self) -> str:
        """The text of the scan."""
        if not self._scan:
            self._scan = gpu_scan_source(self._lowered, self.stored.side)
        return self._scan

    @property
    def search(self) -> str:
        """The text of the search."""
        if not self._search:
            self._search = gpu_search_source(self._lowered, self.stored.side)
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
        side = other(self.stored.side)
        kinds = [self._lowered.slots[side][number].dtype for number in self._lowered.tested[side]]
        kinds += [] if self.key is None else ["int64", "int64"]
        return Lane(machines.machine(), _rounded(probes), _rounded(items), kinds, machines.ROOM)

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
    """The work of one probe."""

    def __init__(self, kernels: Kernels, arena: Arena, work: list[Work]) -> None:
        self._kernels, self._arena = kernels, arena
        self._waiting: deque[Work] = deque(work)
        self._flying: deque[tuple[Work, int, Lane]] = deque()

    @property
    def left(self) -> list[Work]:
        """What has not been handed on."""
        return [*(work for work, _, _ in self._flying), *self._waiting]

    def run(self, sink: PairSink) -> Iterator[int]:
        """Do all of it; gives the comparisons of each launch. GpuFailed if the GPU cannot."""
        while self._waiting or self._flying:
            try:
                while self._waiting and len(self._flying) < IN_FLIGHT:
                    self._begin_next()
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
            fields, blocks, compared = work.items(
                kernel.THREADS * lanes_of(kernels.stored.lowered, kernels.stored.side)
            )
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
        columns = [batch.low, batch.high, fields.reshape(-1), *kernels.stored.tested_of_probes(batch)]
        if isinstance(work, Piece):
            lane.send(columns)
            slots = lane.slots if kernels.key is None else lane.slots[:-2]
            lane.launch(
                kernels.scan, "gpu_scan", blocks,
                [*slots, lane.low, *arena.slots, arena.coordinate, lane.high, lane.fields, len(fields)],
            )  # fmt: skip
            return
        runs = arena.runs
        assert runs is not None
        lane.send([*columns, *runs.bounds(batch)])
        *slots, least, most = lane.slots
        lane.launch(
            kernels.search, "gpu_search", blocks,
            [*arena.slots, arena.coordinate, *slots, lane.low, lane.high, least, most, len(batch), runs.keys,
             runs.places, lane.fields],
        )  # fmt: skip


def _rounded(count: int) -> int:
    return max(FEWEST, 1 << (count - 1).bit_length())
