"""A step of few tuples over two windows that are one scanned subwindow each, in one compiled call.

Such a step computes little: called piece by piece, most of its time would go into the calls. So Python only says where
the tuples lie; then those of both sides are stored, and each side's tuples probe.

Invariant: a step stores and finds what `Subwindow.insert` and `ScanIndex.probe_few` would. It is refused before
anything has changed, unless coordinates ascend, and rows count up where no array of them is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..arrays import Integers, Rows
from ..compile.cache import compiled, has_machine_code
from ..compile.entries import address_of_entry, call_entry
from ..compile.intrinsics import pointer
from ..payload.moves import copy_bytes
from ..payload.segments import address_of
from ..side import SIDES, Side, other
from ..tasks import DONE, FULL, MORE
from .batch import Batch, Decide
from .pair_slots import PairSlots
from .reach import find
from .scan import ScanIndex
from .scan_kernel import PADDING, SCAN_WORDS, scan_source
from .subwindow import FEW_PROBES, GROUP, LONG_REACH

STATIC = 11
SCAN, ENTRY, MET, FIRST, LAST, COORDINATES, ROWS, FIRST_ROW, SLOTS, TESTED, STORED = range(STATIC)
"""What stays in a side's line while the same subwindows serve: the block and the entry of the scan by this side's
tuples, the line of the other side, memory for `first_place` and `last_place`, where its stored coordinates and rows lie
(0: rows count up from the next number), how many slots it has, how many of them are tested, and where in the block
those go."""
COUNT, START, COORDINATE, ROW, LOW, HIGH, LOWEST, HIGHEST = range(STATIC, STATIC + 8)
"""What each step writes: how many new tuples there are and at which place they go, the addresses of their columns; and
what it finds: the extremes of the new rows."""
VARYING, ADDRESSES = slice(COUNT, HIGH + 1), HIGHEST + 1
"""The addresses of the new tuples' slots follow. Then, for each slot, where stored ones lie and their width; then the
numbers of the tested slots."""
REFUSED, FAILED, STORING, PROBING = -2, -1, 0, 1
"""How far a step is. From `PROBING` on, the sides before have probed."""


class FewScans:
    """Steps over the two windows of a join."""

    def __init__(self, decide: Decide) -> None:
        self._slots = PairSlots(1, decide)
        self._slot = address_of(self._slots.words)
        self._sides: Mapping[Side, _Prepared] = {}
        self._lines: Integers = np.zeros((2, 0), np.int64)
        self.comparisons = 0
        """Since somebody took them into account."""

    def step(
        self, newest: Mapping[Side, ScanIndex], batches: Mapping[Side, Batch]
    ) -> Iterator[tuple[list[Rows], list[Rows]]] | None:  # fmt: skip
        """Take a step; None: it is refused."""
        if not self._serve(newest):
            return None
        lines = self._lines
        for number, side in enumerate(SIDES):
            batch = batches.get(side)
            if batch is None:
                lines[number, COUNT : START + 1] = 0, newest[side].count
            else:
                lines[number, COUNT : self._sides[side].end] = self._sides[side].given(batch)
        self._slots.make_ready()
        stage = few_step(lines, STORING, self._slot)
        if stage == REFUSED:
            return None
        for number, side in enumerate(SIDES):
            if side in batches:
                self._sides[side].note(lines[number], batches[side])
        return self._found(stage)

    def forget(self) -> None:
        """Hold on to no subwindow."""
        self._sides = {}

    def _found(self, stage: int) -> Iterator[tuple[list[Rows], list[Rows]]]:
        while True:
            if stage == FAILED:
                raise RuntimeError("a scan failed in compiled code")
            self.comparisons += self._slots.compared()
            yield from self._slots.take()
            if stage > len(SIDES):
                return
            stage = few_step(self._lines, stage, self._slot)

    def _serve(self, newest: Mapping[Side, ScanIndex]) -> bool:
        """Whether these subwindows can take such a step; all is prepared for them then."""
        if self._sides and all(self._sides[side].serves(newest[side], newest[other(side)]) for side in SIDES):
            return True
        self._sides = {}
        if not all(newest[side].count and newest[side].reach.is_in_order for side in SIDES):
            return False
        entries = [newest[other(side)].stored.entry(scan_source, "scan_part") for side in SIDES]
        if not all(map(has_machine_code, [few_step, *entries])):
            return False
        addresses = [address_of_entry(entry) for entry in entries]
        if not all(addresses):  # tests run kernels as Python
            return False
        self._sides = {
            side: _Prepared(side, newest[side], newest[other(side)], address)
            for side, address in zip(SIDES, addresses, strict=True)
        }
        lines = [self._sides[side].line for side in SIDES]
        self._lines = np.zeros((len(SIDES), max(map(len, lines))), np.int64)
        for number, line in enumerate(lines):
            self._lines[number, : len(line)] = line
        return True


def rehearse() -> None:
    """Compile what a step calls. An ordinary step has the scans compiled."""
    few_step(np.zeros((0, ADDRESSES), np.int64), PROBING, 0)


class _Prepared:
    """One side's tuples, of which few are stored in `own` and probe `met` at a time."""

    def __init__(self, side: Side, own: ScanIndex, met: ScanIndex, entry: int) -> None:
        self._own, self._met = own, met
        self._own_rows, self._met_rows = own.row.array, met.row.array
        tested = own.stored.lowered.tested[side]
        self._kept = list(own.slots)
        self._places: Integers = np.empty((2, FEW_PROBES), np.int64)
        stored = met.stored.tested(met.slots)
        first_row, rows = met.row.parts
        self._block: Integers = np.array([
            1, 1, 0, 0, 0, met.capacity + PADDING, 0, met.stored.at_once,
            address_of(rows) if len(rows) else 0, len(rows), first_row,
            met.coordinate.address, *map(address_of, self._places), 0, 0, 0, side == "left",
            *map(address_of, stored), *[0] * len(tested),
        ], np.int64)  # fmt: skip
        stored_slots = [(address_of(slot), slot.itemsize) for slot in own.slots.values()]
        self.end = ADDRESSES + len(self._kept)
        self.line = [
            address_of(self._block), entry, int(side == "left"), *map(address_of, self._places), own.coordinate.address,
            own.row.address, own.row.first, len(self._kept), len(tested), SCAN_WORDS + len(stored),
            *[0] * (self.end - STATIC), *[word for slot in stored_slots for word in slot],
            *[self._kept.index(number) for number in tested],
        ]  # fmt: skip

    def serves(self, own: ScanIndex, met: ScanIndex) -> bool:
        """Whether all is still as it was."""
        is_same = own is self._own and met is self._met
        return is_same and own.row.array is self._own_rows and met.row.array is self._met_rows and own.reach.is_in_order

    def given(self, batch: Batch) -> list[int]:
        """What a line says of new tuples."""
        return [
            len(batch.row), self._own.count, address_of(batch.coordinate), address_of(batch.row), address_of(batch.low),
            address_of(batch.high), 0, 0, *[address_of(batch.slots[number]) for number in self._kept],
        ]  # fmt: skip

    def note(self, line: Integers, batch: Batch) -> None:
        """The tuples have been stored."""
        own, count = self._own, len(batch.row)
        own.coordinate.extended(count, int(batch.coordinate[0]), int(batch.coordinate[-1]))
        own.row.extended(count, int(line[LOWEST]), int(line[HIGHEST]))
        own.count += count


@compiled
def few_step(lines, stage, slot):
    """Go on with a step until it is done, the slot for pairs is full, or a scan has made enough comparisons for one
    call; returns the stage to go on with."""
    if stage == STORING:
        for side in range(len(lines)):
            if lines[side, COUNT] and not _follows(lines[side]):
                return REFUSED
        for side in range(len(lines)):
            if lines[side, COUNT]:
                _store(lines[side])
        stage = PROBING
    while stage - PROBING < len(lines):
        line = lines[stage - PROBING]
        if line[COUNT] and _reaches(line, lines[line[MET]]):
            status: int = call_entry(line[ENTRY], line[SCAN], 0, slot)
            if status != DONE:
                return stage if status in (FULL, MORE) else FAILED
        stage += 1
    return stage


@compiled
def _follows(line):
    """Whether new tuples can be put behind the stored ones, in order. Notes the extremes of their rows."""
    count, start = line[COUNT], line[START]
    coordinate, row = carray(pointer(line[COORDINATE]), count, np.int64), carray(pointer(line[ROW]), count, np.int64)
    before = carray(pointer(line[COORDINATES]), start, np.int64)[start - 1]
    lowest = highest = row[0]
    ascends, counts_up = True, row[0] == line[FIRST_ROW] + start
    for i in range(count):
        ascends &= coordinate[i] >= before
        before = coordinate[i]
        counts_up &= row[i] == row[0] + i
        lowest, highest = min(lowest, row[i]), max(highest, row[i])
    line[LOWEST], line[HIGHEST] = lowest, highest
    return ascends and (counts_up or line[ROWS] != 0)


@compiled
def _store(line):
    count, start, slots = line[COUNT], line[START], line[SLOTS]
    copy_bytes(line[COORDINATE], line[COORDINATES] + 8 * start, 8 * count)
    if line[ROWS]:
        copy_bytes(line[ROW], line[ROWS] + 8 * start, 8 * count)
    for k in range(slots):
        stored, width = line[ADDRESSES + slots + 2 * k], line[ADDRESSES + slots + 2 * k + 1]
        copy_bytes(line[ADDRESSES + k], stored + width * start, width * count)


@compiled
def _reaches(line, met):
    """Fill in what the scan needs; returns whether there is anything to compare."""
    count, slots = line[COUNT], line[SLOTS]
    stored = met[START] + met[COUNT]
    first, last = carray(pointer(line[FIRST]), count, np.int64), carray(pointer(line[LAST]), count, np.int64)
    coordinates = carray(pointer(met[COORDINATES]), stored, np.int64)
    low, high = carray(pointer(line[LOW]), count, np.int64), carray(pointer(line[HIGH]), count, np.int64)
    find(coordinates, coordinates, np.int64(0), stored, low, high, first, last)
    reached = np.int64(0)
    for i in range(count):
        reached += last[i] - first[i]
    block = carray(pointer(line[SCAN]), line[STORED] + line[TESTED], np.int64)
    block[2], block[4], block[6] = count, stored, GROUP if reached < LONG_REACH * count else 0
    block[14], block[15], block[16] = line[LOW], line[HIGH], line[ROW]
    for k in range(line[TESTED]):
        block[line[STORED] + k] = line[ADDRESSES + line[ADDRESSES + 3 * slots + k]]
    return reached > 0
