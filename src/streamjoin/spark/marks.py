"""Marks: what a worker has found out about open rows that it need not store itself.

A mark is a row of a table with the coordinate of the row that it is about. The worker keeps it until that row's window
closes. Then it sends the mark where the home of the row sends the row itself (see `questions`).

Marks lie in the state store as blobs, sorted by coordinate. The name of a blob depends only on how many marks came
before, so a micro-batch that is computed again writes the same names (see `segments`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ..side import Side
from .messages import from_bytes, to_bytes
from .sealed_values import SealedState
from .segments import COORDINATE
from .worker_state import MarksEntry, SideState

GROWTH, LARGEST = 4, 1 << 16
"""Small blobs are merged until each has at least GROWTH times as many marks as the next one, or LARGEST marks."""
Reduce = Callable[[pa.Table], pa.Table]


class Marks:
    """The marks of one side, tables with a column `COORDINATE`. `kept` has the blobs' entries, oldest first. `reduce`
    leaves out marks of merged blobs that say nothing new."""

    def __init__(self, side: Side, state: SealedState, kept: SideState, reduce: Reduce = lambda marks: marks) -> None:
        self._side, self._state, self._kept, self._reduce = side, state, kept, reduce

    def add(self, marks: pa.Table, floor: int) -> pa.Table:
        """Keep marks of rows whose windows are open: those from the floor on. Returns the others."""
        is_open = marks.column(COORDINATE).to_numpy() >= floor
        if is_open.any():
            self._put(marks.filter(pa.array(is_open)))
        while len(self._kept.marks) > 1 and _belong(*self._kept.marks[-2:]):
            last = self._kept.marks[-2:]
            merged = pa.concat_tables([self._read(entry) for entry in last])
            self._drop(last)
            self._put(self._reduce(merged))
        return marks.filter(pa.array(~is_open))

    def close(self, start: int, floor: int) -> list[pa.Table]:
        """The marks with coordinates in [start, floor). All below the floor are forgotten."""
        found = []
        for entry in list(self._kept.marks):
            if start < floor and entry.lowest < floor and entry.highest >= start:
                marks = self._read(entry)
                begin, end = np.searchsorted(marks.column(COORDINATE).to_numpy(), (start, floor))
                found.append(marks.slice(begin, end - begin))
            if entry.highest < floor:
                self._drop([entry])
        return found

    def _put(self, marks: pa.Table) -> None:
        order = np.argsort(marks.column(COORDINATE).to_numpy(), kind="stable")
        marks = marks.take(pa.array(order)).combine_chunks()
        kept, coordinate = self._kept, marks.column(COORDINATE).to_numpy()
        name = f"marks-{self._side}-{kept.next_mark}"
        kept.marks.append(MarksEntry(name, len(coordinate), int(coordinate[0]), int(coordinate[-1])))
        kept.next_mark += len(coordinate)
        self._state.put(name, to_bytes(marks))

    def _read(self, entry: MarksEntry) -> pa.Table:
        return from_bytes(self._state.must_get(entry.name))

    def _drop(self, entries: list[MarksEntry]) -> None:
        for entry in entries:
            self._state.remove(entry.name)
        self._kept.marks = [entry for entry in self._kept.marks if entry not in entries]


def _belong(older: MarksEntry, younger: MarksEntry) -> bool:
    """Whether to merge two blobs."""
    return older.count < GROWTH * younger.count and older.count + younger.count <= LARGEST
