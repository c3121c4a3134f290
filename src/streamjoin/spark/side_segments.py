"""The part of one side's window that a worker stores: segments, and the subwindows that find their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Mask, Rows
from ..side import Side
from ..store import Batch, SideWindow
from ..tasks import one_after_another
from .messages import BLOB_BYTES, SEGMENT_BYTES, row_bytes
from .sealed_values import SealedState
from .segments import Cache, Segment, new_file, packed, unpacked
from .spec import JoinSpec
from .worker_state import SegmentEntry, SideState

ARRIVED = 1 << 60
"""Row numbers of this micro-batch start here; those of segments are far below."""
GROWTH, PER_WINDOW, SMALL = 4, 3, 1 << 12
"""Small segments are merged until each is at least GROWTH times as long as the next one. A merged segment has at most
SMALL rows, or a PER_WINDOW-th of the window if that is more."""


@dataclass(slots=True)
class _Held:
    """A segment, its entry in the state, and which of its rows have met a partner on this worker.

    `places` are those of its rows among the rows of this micro-batch, if they came with it. Otherwise `met_before` says
    which rows had met a partner before.
    """

    entry: SegmentEntry
    segment: Segment
    met: Mask
    places: Rows | None = None
    met_before: Mask | None = None


@dataclass(frozen=True, slots=True)
class ClosingRows:
    """Stored rows whose windows close: their columns, their coordinates, for which of them this worker is the home, and
    which have met a partner here."""

    table: pa.Table
    coordinate: Integers
    home: Mask
    met: Mask


class SideSegments:
    """`windows` has a window for each generation of splitters (see `router`; other routings have one, number 0).

    Segments are sorted by their first row. Where rows of the side may be reported alone, each keeps a bit until its
    window closes: whether it has met a partner on this worker.
    """

    def __init__(
        self, spec: JoinSpec, side: Side, state: SealedState, cache: Cache, kept: SideState, generation: int
    ) -> None:
        self._spec, self._side, self._state, self._cache = spec, side, state, cache
        self._kept, self._generation = kept, generation
        self._reports = spec.reports_alone(side)
        self._keeps_coordinate = self._reports or spec.options.match != "all"
        self._coordinate: Integers = np.empty(0, np.int64)
        self._times: Integers = np.empty(0, np.int64)
        self._times_of: dict[int, Integers] = {}
        """The timestamps of segments, as far as somebody has asked for them."""
        self.arrived: pa.Table = spec.schemas[side].empty_table()
        """This micro-batch's rows."""
        self.live: Mask | None = None
        self._home: Mask | None = None
        self.met_arrived: Mask = np.empty(0, np.bool_)
        """Which of this micro-batch's rows have met a partner here while they probed."""
        self._segments: list[_Held] = []
        met = _bits(kept.met, kept.rows if self._reports else 0)
        for entry in kept.segments:
            segment, own = cache.get(entry.file, self._rebuilding(entry)), met[: entry.rows]
            self._segments.append(_Held(entry, segment, own, met_before=own.copy()))
            met = met[entry.rows :]
        self.windows: dict[int, SideWindow] = {}
        for number in sorted({generation, *(entry.generation for entry in kept.segments)}):
            window = self.windows[number] = self._new_window()
            mine = [held.segment for held in self._segments if held.entry.generation == number]
            window.adopt([subwindow for segment in mine for subwindow in segment.subwindows])

    def _new_window(self) -> SideWindow:
        return SideWindow(self._spec.lowered, self._side, self._spec.options.index, one_after_another)

    def _rebuilding(self, entry: SegmentEntry) -> Callable[[], Segment]:
        """A function that builds a segment from the state store; it is called if the segment's file is missing."""

        def rebuild() -> Segment:
            return self._built(self._new_window(), *unpacked(self._spec, self._side, self._body(entry)), entry.first)

        return rebuild

    def _body(self, entry: SegmentEntry) -> bytes | memoryview:
        return self._state.must_get(entry.name)

    def _built(
        self, window: SideWindow, table: pa.Table, coordinate: Integers, home: Mask | None, first: int
    ) -> Segment:
        slots = self._spec.slots(self._side, table, are_checked=True)
        rows = np.arange(first, first + table.num_rows)
        batch = Batch(rows, coordinate, coordinate, coordinate, slots.columns)
        return self._indexed(window, table, batch, slots.live, home)

    def _indexed(
        self, window: SideWindow, table: pa.Table, batch: Batch, live: Mask | None, home: Mask | None
    ) -> Segment:
        """A segment of the rows of a batch; the window finds those that are live."""
        subwindows = window.insert_sealed(batch if live is None else batch.take(np.flatnonzero(live)))
        return Segment(table, subwindows, batch.coordinate if self._keeps_coordinate else None, home)

    # -- moving on -------------------------------------------------------------------------------------------------

    def arrive(self, table: pa.Table, live: Mask | None, home: Mask | None) -> None:
        """The rows of this micro-batch, which of them can match anything, and for which this worker is the home (None:
        for all that it stores)."""
        self.arrived, self.live, self._home = table, live, home
        self.met_arrived = np.zeros(table.num_rows if self._reports else 0, np.bool_)

    def store(self, batch: Batch) -> None:
        """Store some of this micro-batch's tuples: as one new segment, or as several if they are very large."""
        if not len(batch):
            return
        for piece in pieces(batch, max(SEGMENT_BYTES // row_bytes(self.arrived), 1)):
            places = piece.row - ARRIVED
            table = self._arrived_at(places)
            rows = np.arange(self._kept.next_row, self._kept.next_row + len(piece))
            kept = Batch(rows, piece.coordinate, piece.low, piece.high, piece.slots)
            live = None if self.live is None else self.live[places]
            home = self._home[places] if self._reports and self._home is not None else None
            segment = self._indexed(self.windows[self._generation], table, kept, live, home)
            met = np.zeros(len(rows) if self._reports else 0, np.bool_)
            self._add(segment, kept.coordinate, self._generation, met, places)

    def _arrived_at(self, places: Rows) -> pa.Table:
        """These rows of this micro-batch; mostly they are all of them."""
        if len(places) == self.arrived.num_rows and np.all(places[1:] > places[:-1]):
            return self.arrived.combine_chunks()
        return self.arrived.take(pa.array(places)).combine_chunks()

    def _add(
        self, segment: Segment, coordinate: Integers, generation: int, met: Mask, places: Rows | None = None
    ) -> None:
        kept, rows = self._kept, segment.table.num_rows
        name = f"{self._side}-{kept.next_row}"
        file, highest = self._new_file(name), int(coordinate.max())
        self._state.put(name, packed(self._spec, segment.table, coordinate, segment.home))
        self._cache.put(file, segment)
        entry = SegmentEntry(name, file, kept.next_row, rows, segment.table.nbytes, highest, generation)
        kept.next_row += rows
        self._segments.append(_Held(entry, segment, met, places))

    def _new_file(self, name: str) -> str:
        """A name for the file of a segment, not its own: other attempts have segments of that name too."""
        return new_file()

    def expire(self, floor: int | None) -> None:
        """Drop the segments that lie wholly below a coordinate."""
        if floor is not None:
            self._forget([held for held in self._segments if held.entry.highest < floor])

    def _forget(self, gone: Sequence[_Held]) -> None:
        for held in gone:
            self._state.remove(held.entry.name)
        self._cache.drop(held.entry.file for held in gone)
        names = {held.entry.name for held in gone}
        self._segments = [held for held in self._segments if held.entry.name not in names]

    def merge_small_segments(self) -> None:
        """Keep segments few: merge the youngest ones until they are much smaller than the segment before them."""
        entries = [held.entry for held in self._segments]
        largest = max(sum(entry.rows for entry in entries) // PER_WINDOW, SMALL)
        start = len(entries) - 1
        while start > 0 and _belongs(entries[start - 1], entries[start:], largest):
            start -= 1
        if start >= len(entries) - 1:
            return
        merging = self._segments[start:]
        parts = [unpacked(self._spec, self._side, self._body(held.entry)) for held in merging]
        table = pa.concat_tables([part[0] for part in parts]).combine_chunks()
        coordinate = np.concatenate([part[1] for part in parts])
        homes = [part[2] for part in parts if part[2] is not None]
        home = np.concatenate(homes) if homes else None
        met = np.concatenate([held.met for held in merging])
        if self._reports and np.any(coordinate[1:] < coordinate[:-1]):
            order = np.argsort(coordinate, kind="stable")
            table, coordinate, met = table.take(pa.array(order)).combine_chunks(), coordinate[order], met[order]
            home = None if home is None else home[order]
        generation = entries[-1].generation
        merged = self._built(self.windows[generation], table, coordinate, home, self._kept.next_row)
        self._forget(merging)
        self._add(merged, coordinate, generation, met)

    def save(self) -> None:
        """Note in the worker's state what is stored now."""
        self._kept.segments = [held.entry for held in self._segments]
        if self._reports:
            met = np.concatenate([np.empty(0, np.bool_), *(held.met for held in self._segments)])
            self._kept.met = np.packbits(met).tobytes()

    # -- rows that are reported alone ------------------------------------------------------------------------------

    def take_part(self, batch: Batch, times: Integers) -> None:
        """These rows of this micro-batch take part; `times` are those of all that have come."""
        self._times, self._coordinate = times, np.zeros(len(times), np.int64)
        self._coordinate[batch.row - ARRIVED] = batch.coordinate

    def whereabouts(self, rows: Rows) -> tuple[Integers, Integers]:
        """The coordinates and the timestamps of rows. Either all are stored, or all are of this micro-batch."""
        if not len(rows) or rows[0] >= ARRIVED:
            return self._coordinate[rows - ARRIVED], self._times[rows - ARRIVED]
        coordinate, times = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        for number, chosen in self.by_segment(rows):
            held = self._segments[number]
            assert held.segment.coordinate is not None
            places = rows[chosen] - held.entry.first
            coordinate[chosen] = held.segment.coordinate[places]
            if number not in self._times_of:
                self._times_of[number] = self._spec.times(self._side, held.segment.table)
            times[chosen] = self._times_of[number][places]
        return coordinate, times

    def first_met(self, rows: Rows) -> Mask:
        """These stored rows have met a partner while others probed. Which of them had met none before this
        micro-batch."""
        first = np.ones(len(rows), np.bool_)
        for number, chosen in self.by_segment(rows):
            held = self._segments[number]
            places = rows[chosen] - held.entry.first
            if held.met_before is not None:
                first[chosen] = ~held.met_before[places]
            held.met[places] = True
        return first

    def meet_of_segment(self, number: int, rows: Rows) -> None:
        """These stored rows of one segment have met a partner."""
        if self._reports:
            held = self._segments[number]
            held.met[rows - held.entry.first] = True

    def meet_arrived(self, rows: Rows) -> None:
        """These rows of this micro-batch have met a partner while they probed."""
        if self._reports:
            self.met_arrived[rows - ARRIVED] = True

    def unite(self) -> Mask:
        """Tell stored rows of this micro-batch what they have met while they probed. Returns which rows have met a
        partner and are not stored here."""
        away = self.met_arrived.copy()
        for held in self._segments:
            if held.places is not None:
                held.met |= self.met_arrived[held.places]
                away[held.places] = False
        return away

    def newly_met(self) -> Iterator[pa.Table]:
        """The rows that this worker answers for and that have met their first partner here in this micro-batch."""
        for held in self._segments:
            newly = held.met if held.met_before is None else held.met & ~held.met_before
            if held.segment.home is not None:
                newly = newly & held.segment.home
            if newly.any():
                yield held.segment.table.filter(pa.array(newly))

    def closing(self, floor: int) -> Iterator[ClosingRows]:
        """The stored rows below the floor whose windows were open before: those of this micro-batch, and older ones
        from the floor before on."""
        for held in self._segments:
            segment = held.segment
            assert segment.coordinate is not None
            begin, end = np.searchsorted(segment.coordinate, (self._kept.floor, floor))
            if held.places is not None:
                begin = 0
            if begin < end:
                some = slice(begin, end)
                home = np.ones(end - begin, np.bool_) if segment.home is None else segment.home[some]
                yield ClosingRows(
                    segment.table.slice(begin, end - begin), segment.coordinate[some], home, held.met[some]
                )  # fmt: skip

    # -- rows ------------------------------------------------------------------------------------------------------

    def by_segment(self, rows: Rows) -> Iterator[tuple[int, Any]]:
        """Stored rows in groups: the number of a segment, and which of the rows lie in it."""
        firsts = [held.entry.first for held in self._segments]
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
        return max(BLOB_BYTES // (row_bytes(self._segments[number].segment.table) + row_bytes(others)), 1)

    def take_of_segment(self, number: int, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """Columns of stored rows of one segment."""
        held = self._segments[number]
        return _columns(held.segment.table, names).take(pa.array(rows - held.entry.first))

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


def pieces(batch: Batch, size: int) -> Iterator[Batch]:
    """A batch, which is sorted by coordinate, in pieces of about this size. Rows of one coordinate stay together: other
    attempts may have them in another order, and must find the same rows in a segment of the same name."""
    start = 0
    while start < len(batch):
        last = batch.coordinate[min(start + size, len(batch)) - 1]
        stop = int(np.searchsorted(batch.coordinate, last, side="right"))
        yield batch if stop - start == len(batch) else batch.slice(start, stop)
        start = stop


def _columns(table: pa.Table, names: list[str] | None) -> pa.Table:
    return table if names is None else table.select(names)


def _bits(body: bytes, count: int) -> Mask:
    """Bits as truth values, which may be changed."""
    return np.unpackbits(np.frombuffer(body, np.uint8), count=count).view(np.bool_)


def _belongs(entry: SegmentEntry, younger: Sequence[SegmentEntry], largest: int) -> bool:
    """Whether to merge a segment with the younger ones behind it."""
    rows, size = (sum(getattr(one, what) for one in younger) for what in ("rows", "nbytes"))
    fits = entry.rows + rows <= largest and entry.nbytes + size <= SEGMENT_BYTES
    return fits and entry.generation == younger[-1].generation and entry.rows < GROWTH * rows
