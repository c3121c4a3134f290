"""Marks: rows that have met a partner on a worker that does not store them.

The worker keeps a mark until the row's window closes. Then it sends the mark where the worker that stores the row sends
the row itself (`settle`).

Marks lie in the state store as blobs, sorted by coordinate. The name of a blob depends only on how many marks came
before, so a micro-batch that is computed again writes the same names (see `segments`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..side import Side
from .keyed_state import KeyedState
from .worker_state import MarksEntry, SideState

GROWTH, LARGEST = 4, 1 << 16
"""Small blobs are merged until each has at least GROWTH times as many marks as the next one, or LARGEST marks."""
MarkRows = npt.NDArray[np.int64]
"""Three rows: coordinates, and the two words of identities."""


class Marks:
    """The marks of one side. `kept` has the blobs' entries, oldest first."""

    def __init__(self, side: Side, state: KeyedState, kept: SideState) -> None:
        self._side, self._state, self._kept = side, state, kept

    def add(self, marks: MarkRows) -> None:
        """Keep marks of rows whose windows are open."""
        if not marks.shape[1]:
            return
        self._put(marks)
        while len(self._kept.marks) > 1 and _belong(*self._kept.marks[-2:]):
            last = self._kept.marks[-2:]
            merged = np.concatenate([self._read(entry) for entry in last], axis=1)
            self._drop(last)
            self._put(merged)

    def close(self, start: int, floor: int) -> MarkRows:
        """The marks with coordinates in [start, floor). All below the floor are forgotten."""
        found = [np.empty((3, 0), np.int64)]
        for entry in list(self._kept.marks):
            if entry.lowest < floor:
                marks = self._read(entry)
                found.append(marks[:, slice(*np.searchsorted(marks[0], (start, floor)))])
            if entry.highest < floor:
                self._drop([entry])
        return np.concatenate(found, axis=1)

    def _put(self, marks: MarkRows) -> None:
        marks = marks[:, np.argsort(marks[0], kind="stable")]
        kept, count = self._kept, marks.shape[1]
        entry = MarksEntry(f"met-{self._side}-{kept.next_mark}", count, int(marks[0, 0]), int(marks[0, -1]))
        self._state.put(entry.name, marks.tobytes())
        kept.marks.append(entry)
        kept.next_mark += count

    def _read(self, entry: MarksEntry) -> MarkRows:
        body = self._state.get(entry.name)
        if body is None:
            raise AssertionError(f"the state store has lost marks {entry.name}")
        return np.frombuffer(body, np.int64).reshape(3, entry.count)

    def _drop(self, entries: list[MarksEntry]) -> None:
        for entry in entries:
            self._state.remove(entry.name)
        self._kept.marks = [entry for entry in self._kept.marks if entry not in entries]


def _belong(older: MarksEntry, younger: MarksEntry) -> bool:
    """Whether to merge two blobs."""
    return older.count < GROWTH * younger.count and older.count + younger.count <= LARGEST
