"""The GPU's copies of one window's tuples: an array for each slot, in which every subwindow has a stretch of its own.

Law: a stretch holds the first `sent` tuples of its subwindow, at `start` and the places that follow. The copies only
follow: `sync` brings what was inserted, and takes the stretches of subwindows back that are gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Integers
from ..store.subwindow import StoredSide, Subwindow
from .machine import Machine

SMALLEST = 1 << 16
"""Tuples that the arrays have room for at least."""


@dataclass(slots=True)
class Stretch:
    """Where the tuples of a subwindow lie."""

    subwindow: weakref.ref[Subwindow]
    start: int
    size: int
    sent: int = 0


class Arena:
    """Memory of a GPU for the slots of one side that the condition reads, and for coordinates.

    `rows` has the row number of every place, in main memory.
    """

    def __init__(self, machine: Machine, stored: StoredSide) -> None:
        self._machine = machine
        self._numbers = stored.lowered.tested[stored.side]
        kinds = [stored.dtypes[number] for number in self._numbers]
        self._room = SMALLEST
        self.slots: list[Any] = [machine.memory(self._room, kind) for kind in kinds]
        self.coordinate: Any = machine.memory(self._room, np.int64)
        self.rows: Integers = np.empty(self._room, np.int64)
        self._free: list[tuple[int, int]] = [(0, self._room)]
        """Where nothing lies: first and last place, ascending."""
        self._stretches: dict[int, Stretch] = {}
        self._is_new = False
        """Whether copies may still be under way."""

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def sync(self, subwindows: Sequence[Subwindow]) -> list[Stretch]:
        """Bring all tuples of these subwindows; no others are stored any more. Their stretches, in the same order."""
        present = {id(subwindow) for subwindow in subwindows}
        for key, stretch in list(self._stretches.items()):
            if key not in present or stretch.subwindow() is None:
                self._give_back(self._stretches.pop(key))
        stretches = [self._sent(subwindow) for subwindow in subwindows]
        if self._is_new:
            self._machine.settle()
            self._is_new = False
        return stretches

    def _sent(self, subwindow: Subwindow) -> Stretch:
        stretch = self._stretches.get(id(subwindow))
        if stretch is None:
            start = self._taken(subwindow.capacity)
            stretch = self._stretches[id(subwindow)] = Stretch(weakref.ref(subwindow), start, subwindow.capacity)
        begin, end = stretch.sent, subwindow.count
        if begin < end:
            place = stretch.start + begin
            for memory, number in zip(self.slots, self._numbers, strict=True):
                self._machine.put(memory, place, subwindow.slots[number][begin:end])
            self._machine.put(self.coordinate, place, subwindow.coordinate.slice(begin, end))
            self.rows[place : place + end - begin] = subwindow.row.slice(begin, end)
            stretch.sent = end
            self._is_new = True
        return stretch

    def _taken(self, size: int) -> int:
        """Room for so many tuples."""
        while True:
            for number, (start, end) in enumerate(self._free):
                if end - start >= size:
                    self._free[number : number + 1] = [(start + size, end)] if end - start > size else []
                    return start
            self._grow(size)

    def _grow(self, size: int) -> None:
        room = max(2 * self._room, self._room + size)
        self.slots = [self._machine.copied(memory, room) for memory in self.slots]
        self.coordinate = self._machine.copied(self.coordinate, room)
        rows = np.empty(room, np.int64)
        rows[: self._room] = self.rows
        self.rows = rows
        self._add_free(self._room, room)
        self._room = room

    def _give_back(self, stretch: Stretch) -> None:
        self._add_free(stretch.start, stretch.start + stretch.size)

    def _add_free(self, start: int, end: int) -> None:
        joined: list[tuple[int, int]] = []
        for begin, stop in sorted([*self._free, (start, end)]):
            if joined and joined[-1][1] == begin:
                joined[-1] = joined[-1][0], stop
            else:
                joined.append((begin, stop))
        self._free = joined
