"""The GPU's copies of one window's tuples: an array for each slot, in which every subwindow has a stretch of its own.

Law: a stretch holds the first `sent` tuples of its subwindow, at `start` and the places that follow. The copies only
follow: `sync` brings what was inserted, and takes the stretches of subwindows back that are gone, once no run names
their places any more.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..side import Side
from ..store.subwindow import Subwindow
from .condition import GpuCondition
from .machine import Machine
from .row_numbers import RowNumbers
from .runs import Runs
from .search_key import SearchKey
from .space import Space
from .stretch import Stretch

MOST = 1 << 31
"""Places that fit into half a word."""
SMALLEST = 1 << 16
"""Tuples that the arrays have room for at least."""


class Arena:
    """Memory of a GPU for the slots of one side that the condition reads, and for coordinates.

    `rows` has the row number of every place. With a `key`, old tuples are also kept in sorted runs.
    """

    def __init__(self, machine: Machine, side: Side, condition: GpuCondition, key: SearchKey | None) -> None:
        self._machine, self._side, self._condition = machine, side, condition
        self._space = Space(SMALLEST)
        self.slots: dict[int, Any] = {
            number: machine.memory(SMALLEST, condition.dtype(side, number)) for number in condition.columns(side)
        }
        self.coordinate: Any = machine.memory(SMALLEST, np.int64)
        self.rows = RowNumbers(SMALLEST)
        self.stream: Any = machine.stream()
        """All copies to the arena, in their order. What reads it has to wait for that."""
        self.runs = None if key is None else Runs(machine, key, self.stream)
        self._stretches: dict[int, Stretch] = {}
        self._gone: list[Stretch] = []

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    @property
    def has_nulls(self) -> bool:
        """Whether a NULL lies where the condition looks."""
        return any(stretch.has_nulls for stretch in self._stretches.values())

    def sync(self, subwindows: Sequence[Subwindow]) -> list[Stretch]:
        """Bring all tuples of these subwindows; no others are stored any more. Their stretches, in the same order."""
        self._forget(subwindows)
        self._machine.wait(self.stream)  # what was sent last may be let go
        stretches = [self._sent(subwindow) for subwindow in subwindows]
        if self.runs is not None:
            self.runs.extend(stretches)
            if not self.runs.serves:
                self.runs = None
        return stretches

    def _forget(self, subwindows: Sequence[Subwindow]) -> None:
        present = {id(subwindow) for subwindow in subwindows}
        going = [k for k, s in self._stretches.items() if k not in present or s.subwindow() is None]
        for key in going:
            stretch = self._stretches.pop(key)
            stretch.is_gone = True
            self._gone.append(stretch)
        if going:
            named = set() if self.runs is None else self.runs.forget()
            for stretch in self._gone:
                if id(stretch) not in named:
                    self._space.give_back(stretch.start, stretch.start + stretch.size)
                    self.rows.free(stretch.start, stretch.start + stretch.size)
            self._gone = [stretch for stretch in self._gone if id(stretch) in named]

    def _sent(self, subwindow: Subwindow) -> Stretch:
        stretch = self._stretches.get(id(subwindow))
        if stretch is None:
            stretch = self._stretches[id(subwindow)] = Stretch(
                weakref.ref(subwindow), self._taken(subwindow.capacity), subwindow.capacity
            )
        begin, end = stretch.sent, subwindow.count
        if begin < end:
            place = stretch.start + begin
            for number, memory in self.slots.items():
                values = self._condition.values(self._side, number, subwindow.slots, begin, end)
                self._machine.put(memory, place, values, self.stream)
            if not stretch.has_nulls:
                stretch.has_nulls = self._condition.has_nulls(self._side, subwindow.slots, begin, end)
            self._machine.put(self.coordinate, place, subwindow.coordinate.slice(begin, end), self.stream)
            self.rows.write(place, subwindow.row.slice(begin, end))
            stretch.sent = end
        return stretch

    def _taken(self, size: int) -> int:
        """Room for so many tuples."""
        start = self._space.take(size)
        while start is None:
            self._space.grow(size)
            room = self._space.room
            if room > MOST:
                raise MemoryError(f"a GPU scans up to {MOST} tuples")
            for number, memory in self.slots.items():
                self.slots[number] = self._machine.copied(memory, room, self.stream)
            self.coordinate = self._machine.copied(self.coordinate, room, self.stream)
            self.rows.grow(room)
            start = self._space.take(size)
        return start
