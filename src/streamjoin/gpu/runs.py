"""Sorted runs of a window's tuples in the memory of a GPU, for predicates with a key.

Tuples are taken in order of insertion, some tens of thousands at a time, and the GPU sorts them. It also merges
neighbouring runs of about equal size, so there are few runs, and a tuple is moved a few times only. A run never gets
larger than a share of the window, because all of it stays until its last tuple has expired.

Law: the runs together name each of a stretch's first `in_runs` places once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, Integers
from ..store.batch import Batch
from . import kernel
from .machine import Machine
from .search_kernel import gpu_group_source, gpu_merge_source, gpu_pairs_source
from .search_key import SearchKey
from .space import Space
from .stretch import Stretch

CHUNK = 1 << 16
"""Tuples that become a run. Younger ones are scanned."""
SAMPLED, ASKED = 256, 32
"""One in so many keys is kept, and so many probing tuples are looked up among them."""
GROUP = 32
"""Keys that the first step of a sort puts in order."""
SELECTIVE = 256
"""A search has to test one in so many tuples at most. Else it takes longer than a scan, which reads them in order."""
SHARE = 8
"""The largest run is this part of the window."""


@dataclass(frozen=True, slots=True)
class Run:
    """Places [begin, end) of the arrays. `members` says where its tuples come from: a stretch, and which of its
    tuples."""

    begin: int
    end: int
    members: tuple[tuple[Stretch, int, int], ...]
    sample: Integers
    """One in `SAMPLED` of its keys, whichever, in order, in main memory."""

    @property
    def size(self) -> int:
        return self.end - self.begin


class Runs:
    """All runs of one window, oldest first."""

    def __init__(self, machine: Machine, key: SearchKey, stream: Any) -> None:
        self._machine, self.key, self._stream = machine, key, stream
        self._space = Space(4 * CHUNK)
        self.keys: Any = machine.memory(self._space.room, key.dtype)
        self.places: Any = machine.memory(self._space.room, np.int32)
        self.all: list[Run] = []
        self.widest = 0
        """How far the upper end of a tuple's interval lies above its key at most."""
        self.serves = True
        """Whether all tuples so far had a place in the order."""

    def extend(self, stretches: Sequence[Stretch]) -> None:
        """Take in what is enough for a run. Stretches are those of the whole window, oldest first."""
        largest = max(sum(stretch.sent for stretch in stretches) // SHARE, CHUNK)
        for stretch in stretches:
            is_newest = stretch is stretches[-1]
            while stretch.sent - stretch.in_runs >= (CHUNK if is_newest else 1):
                begin, end = stretch.in_runs, min(stretch.in_runs + largest, stretch.sent)
                subwindow = stretch.subwindow()
                assert subwindow is not None
                self.widest = max(self.widest, self.key.widest(subwindow.slots, begin, end))
                if self.widest > INT64_MAX or not self.key.holds(subwindow.slots, begin, end):
                    self.serves = False
                    return
                self._add(stretch, subwindow.slots, begin, end)
                stretch.in_runs = end
                self._merge(largest)

    def bounds(self, batch: Batch) -> tuple[Integers, Integers]:
        """The least and the greatest key that each tuple of a batch asks for."""
        return self.key.bounds(batch, self.widest)

    def are_worth(self, batch: Batch) -> bool:
        """Whether a batch can be looked up, and is likely to find few tuples by key."""
        if not self.all or not self.key.serves(batch):
            return False
        some = batch.every(0, -(-len(batch) // ASKED))
        least, most = self.bounds(some)
        found = [run.sample.searchsorted(most, "right") - run.sample.searchsorted(least) for run in self.all]
        tuples = sum(run.size for run in self.all)
        return SELECTIVE * SAMPLED * int(np.sum(found, axis=0).max()) <= max(tuples, SELECTIVE * SAMPLED)

    def forget(self) -> set[int]:
        """Drop the runs of which all has expired. The stretches whose places are still named."""
        for run in self.all:
            if all(stretch.is_gone for stretch, _, _ in run.members):
                self._space.give_back(run.begin, run.end)
        self.all = [run for run in self.all if not all(stretch.is_gone for stretch, _, _ in run.members)]
        return {id(stretch) for run in self.all for stretch, _, _ in run.members}

    def _add(self, stretch: Stretch, slots: Any, begin: int, end: int) -> None:
        keys, size = slots[self.key.number][begin:end], end - begin
        start = self._sorted(keys, stretch.start + begin)
        sample = np.sort(keys[::SAMPLED]).astype(np.int64)
        self.all.append(Run(start, start + size, ((stretch, begin, end),), sample))

    def _sorted(self, keys: Integers, place: int) -> int:
        """Sort the keys of the tuples that lie at a place and behind; where their order begins."""
        size = len(keys)
        spare, start = self._taken(size), self._taken(size)
        widths = [GROUP << n for n in range(64) if GROUP << n < size]
        here, there = (start, spare) if len(widths) % 2 == 0 else (spare, start)
        self._machine.put(self.keys, there, keys, self._stream)
        kind = str(self.key.dtype)
        self._launch(gpu_group_source(kind), "gpu_group", size, [there, size, place, GROUP, here])
        for width in widths:
            self._launch(gpu_pairs_source(kind), "gpu_pairs", size, [here, size, width, there])
            here, there = there, here
        assert here == start
        self._space.give_back(spare, spare + size)
        return start

    def _launch(self, source: str, name: str, size: int, numbers: list[int]) -> None:
        """Run a kernel that has a thread for each of so many keys."""
        blocks = -(-size // kernel.THREADS)
        arguments = [self.keys, self.places, *numbers]
        self._machine.launch(source, name, blocks, kernel.THREADS, self._stream, arguments)

    def _merge(self, largest: int) -> None:
        """Merge the last two runs while they are of about equal size."""
        while len(self.all) > 1:
            older, younger = self.all[-2:]
            size = older.size + younger.size
            if older.size > 2 * younger.size or size > largest:
                return
            self._merge_two(older, younger, size)

    def _merge_two(self, older: Run, younger: Run, size: int) -> None:
        target = self._taken(size)
        numbers = [older.begin, older.end, younger.begin, younger.end, target]
        self._launch(gpu_merge_source(str(self.key.dtype)), "gpu_merge", size, numbers)
        for run in (older, younger):
            self._space.give_back(run.begin, run.end)
        sample = np.sort(np.concatenate([older.sample, younger.sample]))
        self.all[-2:] = [Run(target, target + size, older.members + younger.members, sample)]

    def _taken(self, size: int) -> int:
        start = self._space.take(size)
        while start is None:
            self._space.grow(size)
            self.keys = self._machine.copied(self.keys, self._space.room, self._stream)
            self.places = self._machine.copied(self.places, self._space.room, self._stream)
            start = self._space.take(size)
        return start
