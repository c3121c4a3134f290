"""The window of one side as one worker holds it: segments, and the subwindows that find their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Rows
from ..side import Side
from ..store import Batch, SideWindow
from ..tasks import one_after_another
from .messages import BLOB_BYTES, SEGMENT_BYTES, row_bytes
from .segments import Cache, Place, Segment, new_file, packed, unpacked
from .spec import JoinSpec

ARRIVED = 1 << 60
"""Row numbers of the tuples of this micro-batch; those of segments are far below."""
GROWTH, PER_WINDOW, SMALL = 4, 3, 1 << 12
"""Small segments are merged until each is so many times as long as the next, but not beyond a third of the window."""


class Truth(Protocol):
    """Values by name, committed with the micro-batch or not at all."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, body: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


@dataclass(slots=True)
class Remembered:
    """What is remembered of a side's segments from one micro-batch to the next, oldest first."""

    segments: list[Place] = field(default_factory=list)
    next_row: int = 0

    @property
    def rows(self) -> int:
        return sum(place.rows for place in self.segments)


class HeldSide:
    """`windows` by generation of splitters (see `ranges`; elsewhere there is one generation, 0).

    Segments, like what is remembered of them, are sorted by their first row.
    """

    def __init__(
        self, spec: JoinSpec, side: Side, truth: Truth, cache: Cache, memory: Remembered, generation: int
    ) -> None:
        self._spec, self._side, self._truth, self._cache = spec, side, truth, cache
        self._memory, self._generation = memory, generation
        self.arrived: pa.Table = spec.schemas[side].empty_table()
        """This micro-batch's rows."""
        self._segments = [cache.get(place.file, self._rebuilding(place)) for place in memory.segments]
        self.windows: dict[int, SideWindow] = {}
        for number in sorted({generation, *(place.generation for place in memory.segments)}):
            window = self.windows[number] = self._new_window()
            mine = [s for s, place in self._with_places() if place.generation == number]
            window.adopt([subwindow for segment in mine for subwindow in segment.subwindows])

    def _with_places(self) -> Iterator[tuple[Segment, Place]]:
        return zip(self._segments, self._memory.segments, strict=True)

    def _new_window(self) -> SideWindow:
        return SideWindow(self._spec.lowered, self._side, self._spec.options.index, one_after_another)

    def _rebuilding(self, place: Place) -> Callable[[], Segment]:
        """How to make a segment whose file is missing: from the state store."""

        def rebuild() -> Segment:
            table, coordinate = unpacked(self._spec, self._side, self._body(place))
            return self._built(self._new_window(), table, coordinate, place.first)

        return rebuild

    def _body(self, place: Place) -> bytes:
        body = self._truth.get(place.name)
        if body is None:
            raise AssertionError(f"the state store has lost segment {place.name}")
        return body

    def _built(self, window: SideWindow, table: pa.Table, coordinate: Integers, first: int) -> Segment:
        rows = np.arange(first, first + table.num_rows)
        slots = self._spec.slots(self._side, table)
        return Segment(table, window.insert_sealed(Batch(rows, coordinate, coordinate, coordinate, slots.columns)))

    # -- moving on -------------------------------------------------------------------------------------------------

    def store(self, batch: Batch) -> None:
        """Keep some of this micro-batch's tuples as new segments: one, unless they are very large."""
        if not len(batch):
            return
        for piece in batch.parts_of(max(SEGMENT_BYTES // row_bytes(self.arrived), 1)):
            table = self.arrived.take(pa.array(piece.row - ARRIVED)).combine_chunks()
            first = self._memory.next_row
            rows = np.arange(first, first + len(piece))
            kept = Batch(rows, piece.coordinate, piece.low, piece.high, piece.slots)
            made = self.windows[self._generation].insert_sealed(kept)
            self._add(Segment(table, made), kept.coordinate, self._generation)

    def _add(self, segment: Segment, coordinate: Integers, generation: int) -> None:
        memory, rows = self._memory, segment.table.num_rows
        name, file, highest = f"{self._side}-{memory.next_row}", new_file(), int(coordinate.max())
        self._truth.put(name, packed(self._spec, segment.table, coordinate))
        self._cache.put(file, segment)
        place = Place(name, file, memory.next_row, rows, segment.table.nbytes, highest, generation)
        memory.segments.append(place)
        memory.next_row += rows
        self._segments.append(segment)

    def expire(self, floor: int | None) -> None:
        """Let go of segments that lie wholly below a coordinate."""
        if floor is None:
            return
        stays = [place.highest >= floor for place in self._memory.segments]
        self._forget([p for p, kept in zip(self._memory.segments, stays, strict=True) if not kept])
        self._segments = [s for s, kept in zip(self._segments, stays, strict=True) if kept]
        self._memory.segments = [p for p, kept in zip(self._memory.segments, stays, strict=True) if kept]

    def _forget(self, places: Sequence[Place]) -> None:
        for place in places:
            self._truth.remove(place.name)
        self._cache.drop(place.file for place in places)

    def merge_small_segments(self) -> None:
        """Keep segments few: the youngest ones become one, while it is not much smaller than the one before it."""
        places = self._memory.segments
        largest = max(self._memory.rows // PER_WINDOW, SMALL)
        start = len(places) - 1
        while start > 0 and _belongs(places[start - 1], places[start:], largest):
            start -= 1
        if start >= len(places) - 1:
            return
        parts = [unpacked(self._spec, self._side, self._body(place)) for place in places[start:]]
        table = pa.concat_tables([part[0] for part in parts]).combine_chunks()
        coordinate = np.concatenate([part[1] for part in parts])
        generation = places[-1].generation
        merged = self._built(self.windows[generation], table, coordinate, self._memory.next_row)
        self._forget(places[start:])
        del places[start:], self._segments[start:]
        self._add(merged, coordinate, generation)

    # -- rows ------------------------------------------------------------------------------------------------------

    def by_segment(self, rows: Rows) -> Iterator[tuple[int, Any]]:
        """Stored rows in groups: the number of a segment, and which of the rows it has."""
        firsts = [place.first for place in self._memory.segments]
        segment = np.searchsorted(firsts, rows, side="right") - 1
        for number in range(len(firsts)):
            chosen = np.flatnonzero(segment == number)
            if len(chosen) == len(rows):
                yield number, slice(None)
                return
            if len(chosen):
                yield number, chosen

    def rows_of_a_blob(self, number: int, others: pa.Table) -> int:
        """How many rows of a segment, each with a row of another table, make a blob."""
        return max(BLOB_BYTES // (row_bytes(self._segments[number].table) + row_bytes(others)), 1)

    def take_of_segment(self, number: int, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """Columns of stored rows of one segment."""
        table = self._segments[number].table
        return _columns(table, names).take(pa.array(rows - self._memory.segments[number].first))

    def take_arrived(self, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """Columns of this micro-batch's rows."""
        return _columns(self.arrived, names).take(pa.array(rows - ARRIVED))

    def take(self, rows: Rows, names: list[str]) -> pa.Table:
        """Columns of rows that are all stored, or all of this micro-batch, in their order."""
        if not len(rows) or rows[0] >= ARRIVED:
            return self.take_arrived(rows, names)
        groups = list(self.by_segment(rows))
        pieces = [self.take_of_segment(number, rows[chosen], names) for number, chosen in groups]
        if len(pieces) == 1:
            return pieces[0]
        back = np.argsort(np.concatenate([chosen for _, chosen in groups]), kind="stable")
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(back))


def _columns(table: pa.Table, names: list[str] | None) -> pa.Table:
    return table if names is None else table.select(names)


def _belongs(place: Place, younger: Sequence[Place], largest: int) -> bool:
    """Whether a segment is to be merged with the younger ones behind it."""
    rows, size = (sum(getattr(one, what) for one in younger) for what in ("rows", "nbytes"))
    fits = place.rows + rows <= largest and place.nbytes + size <= SEGMENT_BYTES
    return fits and place.generation == younger[-1].generation and place.rows < GROWTH * rows
