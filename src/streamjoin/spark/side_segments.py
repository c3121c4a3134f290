"""The part of one side's window that a worker stores: segments, and the subwindows that find their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Rows
from ..side import Side
from ..store import Batch, SideWindow
from ..tasks import one_after_another
from .keyed_state import KeyedState
from .messages import BLOB_BYTES, SEGMENT_BYTES, row_bytes
from .segments import Cache, Segment, new_file, packed, unpacked
from .spec import JoinSpec
from .worker_state import SegmentEntry, SideState

ARRIVED = 1 << 60
"""Row numbers of this micro-batch start here; those of segments are far below."""
GROWTH, PER_WINDOW, SMALL = 4, 3, 1 << 12
"""Small segments are merged until each is at least GROWTH times as long as the next one. A merged segment has at most
SMALL rows, or a PER_WINDOW-th of the window if that is more."""


class SideSegments:
    """`windows` has a window for each generation of splitters (see `router`; other routings have one, number 0).

    Segments and their entries in the state are sorted by their first row.
    """

    def __init__(
        self, spec: JoinSpec, side: Side, state: KeyedState, cache: Cache, kept: SideState, generation: int
    ) -> None:
        self._spec, self._side, self._state, self._cache = spec, side, state, cache
        self._kept, self._generation = kept, generation
        self.arrived: pa.Table = spec.schemas[side].empty_table()
        """This micro-batch's rows."""
        self._segments = [cache.get(entry.file, self._rebuilding(entry)) for entry in kept.segments]
        self.windows: dict[int, SideWindow] = {}
        for number in sorted({generation, *(entry.generation for entry in kept.segments)}):
            window = self.windows[number] = self._new_window()
            mine = [s for s, entry in self._with_entries() if entry.generation == number]
            window.adopt([subwindow for segment in mine for subwindow in segment.subwindows])

    def _with_entries(self) -> Iterator[tuple[Segment, SegmentEntry]]:
        return zip(self._segments, self._kept.segments, strict=True)

    def _new_window(self) -> SideWindow:
        return SideWindow(self._spec.lowered, self._side, self._spec.options.index, one_after_another)

    def _rebuilding(self, entry: SegmentEntry) -> Callable[[], Segment]:
        """A function that builds a segment from the state store; it is called if the segment's file is missing."""

        def rebuild() -> Segment:
            table, coordinate = unpacked(self._spec, self._side, self._body(entry))
            return self._built(self._new_window(), table, coordinate, entry.first)

        return rebuild

    def _body(self, entry: SegmentEntry) -> bytes:
        body = self._state.get(entry.name)
        if body is None:
            raise AssertionError(f"the state store has lost segment {entry.name}")
        return body

    def _built(self, window: SideWindow, table: pa.Table, coordinate: Integers, first: int) -> Segment:
        rows = np.arange(first, first + table.num_rows)
        slots = self._spec.slots(self._side, table, are_checked=True)
        return Segment(table, window.insert_sealed(Batch(rows, coordinate, coordinate, coordinate, slots.columns)))

    # -- moving on -------------------------------------------------------------------------------------------------

    def store(self, batch: Batch) -> None:
        """Store some of this micro-batch's tuples: as one new segment, or as several if they are very large."""
        if not len(batch):
            return
        for piece in batch.parts_of(max(SEGMENT_BYTES // row_bytes(self.arrived), 1)):
            table = self.arrived.take(pa.array(piece.row - ARRIVED)).combine_chunks()
            first = self._kept.next_row
            rows = np.arange(first, first + len(piece))
            kept = Batch(rows, piece.coordinate, piece.low, piece.high, piece.slots)
            made = self.windows[self._generation].insert_sealed(kept)
            self._add(Segment(table, made), kept.coordinate, self._generation)

    def _add(self, segment: Segment, coordinate: Integers, generation: int) -> None:
        kept, rows = self._kept, segment.table.num_rows
        name, file, highest = f"{self._side}-{kept.next_row}", new_file(), int(coordinate.max())
        self._state.put(name, packed(self._spec, segment.table, coordinate))
        self._cache.put(file, segment)
        entry = SegmentEntry(name, file, kept.next_row, rows, segment.table.nbytes, highest, generation)
        kept.segments.append(entry)
        kept.next_row += rows
        self._segments.append(segment)

    def expire(self, floor: int | None) -> None:
        """Drop the segments that lie wholly below a coordinate."""
        if floor is None:
            return
        stays = [entry.highest >= floor for entry in self._kept.segments]
        self._forget([e for e, stay in zip(self._kept.segments, stays, strict=True) if not stay])
        self._segments = [s for s, stay in zip(self._segments, stays, strict=True) if stay]
        self._kept.segments = [e for e, stay in zip(self._kept.segments, stays, strict=True) if stay]

    def _forget(self, entries: Sequence[SegmentEntry]) -> None:
        for entry in entries:
            self._state.remove(entry.name)
        self._cache.drop(entry.file for entry in entries)

    def merge_small_segments(self) -> None:
        """Keep segments few: merge the youngest ones until they are much smaller than the segment before them."""
        entries = self._kept.segments
        largest = max(self._kept.rows // PER_WINDOW, SMALL)
        start = len(entries) - 1
        while start > 0 and _belongs(entries[start - 1], entries[start:], largest):
            start -= 1
        if start >= len(entries) - 1:
            return
        parts = [unpacked(self._spec, self._side, self._body(entry)) for entry in entries[start:]]
        table = pa.concat_tables([part[0] for part in parts]).combine_chunks()
        coordinate = np.concatenate([part[1] for part in parts])
        generation = entries[-1].generation
        merged = self._built(self.windows[generation], table, coordinate, self._kept.next_row)
        self._forget(entries[start:])
        del entries[start:], self._segments[start:]
        self._add(merged, coordinate, generation)

    # -- rows ------------------------------------------------------------------------------------------------------

    def by_segment(self, rows: Rows) -> Iterator[tuple[int, Any]]:
        """Stored rows in groups: the number of a segment, and which of the rows lie in it."""
        firsts = [entry.first for entry in self._kept.segments]
        segment = np.searchsorted(firsts, rows, side="right") - 1
        for number in range(len(firsts)):
            chosen = np.flatnonzero(segment == number)
            if len(chosen) == len(rows):
                yield number, slice(None)
                return
            if len(chosen):
                yield number, chosen

    def rows_of_a_blob(self, number: int, others: pa.Table) -> int:
        """How many rows of a segment, each beside a row of another table, fill a blob."""
        return max(BLOB_BYTES // (row_bytes(self._segments[number].table) + row_bytes(others)), 1)

    def take_of_segment(self, number: int, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """Columns of stored rows of one segment."""
        table = self._segments[number].table
        return _columns(table, names).take(pa.array(rows - self._kept.segments[number].first))

    def take_arrived(self, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """Columns of this micro-batch's rows."""
        return _columns(self.arrived, names).take(pa.array(rows - ARRIVED))

    def take(self, rows: Rows, names: list[str]) -> pa.Table:
        """Columns of rows, in the order given. Either all are stored, or all are of this micro-batch."""
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


def _belongs(entry: SegmentEntry, younger: Sequence[SegmentEntry], largest: int) -> bool:
    """Whether to merge a segment with the younger ones behind it."""
    rows, size = (sum(getattr(one, what) for one in younger) for what in ("rows", "nbytes"))
    fits = entry.rows + rows <= largest and entry.nbytes + size <= SEGMENT_BYTES
    return fits and entry.generation == younger[-1].generation and entry.rows < GROWTH * rows
