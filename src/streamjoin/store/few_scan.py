"""A step of few comparisons over two windows that are one scanned subwindow each, in one compiled call.

Such a step computes little: called piece by piece, most of its time would go into the calls. So Python only says where
the tuples lie; then those of both sides that must be stored are stored, and each side's tuples probe.

Invariant: a step stores and finds what `batch.lasting`, `Subwindow.insert` and `ScanIndex.probe` would. It is refused,
and nothing has changed, unless coordinates ascend, rows count up where no array of them is kept, and the comparisons
are few where the tuples are not. New tuples may lie behind the stored ones by then, where nobody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..arrays import INT64_MAX, INT64_MIN, Integers, Rows
from ..compile.cache import compiled, has_machine_code
from ..compile.entries import address_of_entry, call_entry
from ..compile.intrinsics import pointer
from ..payload.moves import copy_bytes
from ..payload.segments import address_of
from ..side import SIDES, Side, other
from ..tasks import DONE, FULL, MORE
from .batch import WORTH_TRIMMING, Batch, Decide
from .pair_slots import PairSlots
from .ranges import Ranges
from .reach import find, reaching
from .run_probe import BLOCK_WORDS
from .scan import ScanIndex
from .scan_kernel import PADDING, SCAN_WORDS, scan_source
from .stored_side import FEW_STORED, StoredSide
from .subwindow import FEW_PROBES, GROUP, LONG_REACH

STATIC = 17
(
    SCAN, TURNED, ENTRY, MET, FIRST, LAST, NUMBERS, PLACES, COORDINATES, ROWS, FIRST_ROW, SLOTS, TESTED, STORED,
    SEARCH, SEARCH_ENTRY, SEARCH_SLOTS,
) = range(STATIC)  # fmt: skip
"""What stays in a side's line while the same subwindows serve: the blocks of the scan by this side's tuples and of the
one that takes stored tuples for probing ones, the entry of the former (that of the latter is the other side's), the
line of the other side, memory for `first_place`, `last_place` and row numbers, the numbers from 0 on, where its stored
coordinates and rows lie (0: rows count up from the next number), how many slots it has, how many of them are tested,
and where in the first block those go. Then the block and the entry of a search in runs that belong to what is met, and
how many tested slots go there (no block: there are no runs)."""
COUNT, START, COORDINATE, ROW, LOW, HIGH, FLOOR, ASKED, ASKED_LOW, ASKED_HIGH, OWNER = range(STATIC, STATIC + 11)
"""What each step writes: how many new tuples there are and at which place they go, the addresses of their columns,
below which coordinate no tuple to come meets one, how many ranges the new tuples ask runs for, and where these lie."""
EARLIEST, LATEST, IN_ORDER, LEFT_OUT, LOWEST, HIGHEST, REACHED, IS_TURNED = range(OWNER + 1, OWNER + 9)
"""What it finds: where the new tuples' windows begin and end, and whether these ascend; how many of the first tuples
need not be stored, and the extremes of the rows of the others; how many stored tuples are reached, and whether each of
them is compared with many new ones at a time."""
ADDRESSES = IS_TURNED + 1
"""The addresses of the new tuples' slots follow. Then, for each slot, where stored ones lie and their width; then the
numbers of the tested slots."""
MOST_TUPLES, MOST_REACHED = 1 << 13, 1 << 19
"""Tuples of a side, and comparisons of a step that has more than `FEW_PROBES` of them. Beyond, it is worth to ask for a
better path, or for a second thread."""
TOO_MANY, REFUSED, FAILED, STORING, PROBING = -3, -2, -1, 0, 1
"""How far a step is. From `PROBING` on there are two stages for each side: it scans, then it searches."""
END = PROBING + 2 * len(SIDES)


_NUMBERS: Integers = np.arange(MOST_TUPLES)


class Search(NamedTuple):
    """A search in runs as a job of one part: its entry, the words that all steps share (`run_probe.BLOCK_WORDS`), and
    what holds the memory that they speak of."""

    entry: Any
    block: Integers
    keeps: Any


class Searched(Protocol):
    """Tuples that are found by ranges of a key."""

    def search(self, left_probes: bool) -> Search:
        """How they are found. A step adds the probing tuples."""

    def ranges(self, batch: Batch) -> Ranges:
        """What some probing tuples ask for; all of them are regular."""


NOTHING_SEARCHED: Mapping[Side, Searched] = MappingProxyType({})


class FewScans:
    """Steps over the two windows of a join."""

    def __init__(self, decide: Decide) -> None:
        self._slots = PairSlots(1, decide)
        self._slot = address_of(self._slots.words)
        self._sides: Mapping[Side, _Prepared] = {}
        self._lines: Integers = np.zeros((2, 0), np.int64)
        self.comparisons = 0
        self.has_too_many = False
        """Whether the last step was refused because of its comparisons."""

    def step(
        self,
        newest: Mapping[Side, ScanIndex],
        batches: Mapping[Side, Batch],
        floors: Mapping[Side, int | None],
        searched: Mapping[Side, Searched] = NOTHING_SEARCHED,
    ) -> Iterator[tuple[list[Rows], list[Rows]]] | None:
        """Take a step; None: it is refused. No tuple to come meets one of a side below its floor. What is `searched`
        belongs to a side's window as well, and always to the same subwindow there."""
        if not self._serve(newest, searched):
            return None
        lines, most = self._lines, INT64_MAX
        for number, side in enumerate(SIDES):
            batch = batches.get(side)
            if batch is None:
                lines[number, COUNT:ADDRESSES] = 0
                lines[number, START] = newest[side].count
            else:
                asked = searched.get(other(side))
                ranges = None if asked is None else asked.ranges(batch)
                lines[number, COUNT : self._sides[side].end] = self._sides[side].given(batch, floors.get(side), ranges)
                if len(batch.row) > FEW_PROBES:
                    most = MOST_REACHED
        self._slots.make_ready()
        stage = few_step(lines, STORING, self._slot, most)
        self.has_too_many = stage == TOO_MANY
        if stage in (REFUSED, TOO_MANY):
            return None
        for number, side in enumerate(SIDES):
            if side in batches:
                self._sides[side].note(lines[number], batches[side])
        return iter(self._taken()) if stage == END else self._found(stage, batches)

    def forget(self) -> None:
        """Hold on to no subwindow."""
        self._sides = {}

    def _found(self, stage: int, keeps: object) -> Iterator[tuple[list[Rows], list[Rows]]]:
        """Go on with a step, and keep what it reads until then."""
        while stage != END:
            if stage == FAILED:
                raise RuntimeError("a scan failed in compiled code")
            yield from self._taken()
            stage = few_step(self._lines, stage, self._slot, INT64_MAX)
        yield from self._taken()

    def _taken(self) -> list[tuple[list[Rows], list[Rows]]]:
        self.comparisons += self._slots.compared()
        return self._slots.take()

    def _serve(self, newest: Mapping[Side, ScanIndex], searched: Mapping[Side, Searched]) -> bool:
        """Whether these subwindows can take such a step; all is prepared for them then."""
        if self._sides and all(self._sides[side].serves(newest[side], newest[other(side)]) for side in SIDES):
            return True
        self._sides = {}
        if not all(newest[side].reach.is_in_order for side in SIDES):
            return False
        entries = [newest[other(side)].stored.entry(scan_source, "scan_part") for side in SIDES]
        searches = {other(side): met.search(left_probes=side == "right") for side, met in searched.items()}
        if not all(map(has_machine_code, [few_step, *entries, *[search.entry for search in searches.values()]])):
            return False
        addresses = [address_of_entry(entry) for entry in entries]
        if not all(addresses):  # tests run kernels as Python
            return False
        self._sides = {
            side: _Prepared(side, newest[side], newest[other(side)], address, searches.get(side))
            for side, address in zip(SIDES, addresses, strict=True)
        }
        lines = [self._sides[side].line for side in SIDES]
        self._lines = np.zeros((len(SIDES), max(map(len, lines))), np.int64)
        for number, line in enumerate(lines):
            self._lines[number, : len(line)] = line
        return True


def rehearse(stored: Iterable[StoredSide]) -> None:
    """Compile what a step calls."""
    for side in stored:
        address_of_entry(side.entry(scan_source, "scan_part"))
    few_step(np.zeros((0, ADDRESSES), np.int64), PROBING, 0, 0)


class _Prepared:
    """One side's tuples, of which some are stored in `own` and probe `met` at a time."""

    def __init__(self, side: Side, own: ScanIndex, met: ScanIndex, entry: int, search: Search | None) -> None:
        self._own, self._met, self._search = own, met, search
        searching = [0, 0, 0]
        if search is not None:
            slots = len(search.block) - BLOCK_WORDS
            searching = [address_of(search.block), address_of_entry(search.entry), slots]
        self._ranges: Ranges | None = None
        """What was asked for last; it lies where compiled code reads it."""
        self._own_rows, self._met_rows = own.row.array, met.row.array
        tested = own.stored.lowered.tested[side]
        self._kept = list(own.slots)
        self._memory: Integers = np.empty((3, MOST_TUPLES), np.int64)
        memory = [*map(address_of, self._memory), address_of(_NUMBERS)]
        stored = met.stored.tested(met.slots)
        first_row, rows = met.row.parts
        self._block: Integers = np.array([
            1, 1, 0, 0, 0, met.capacity + PADDING, 0, met.stored.at_once,
            address_of(rows) if len(rows) else 0, len(rows), first_row,
            met.coordinate.address, *memory[:2], 0, 0, 0, side == "left",
            *map(address_of, stored), *[0] * len(tested),
        ], np.int64)  # fmt: skip
        self._turned: Integers = np.array([
            1, 1, 0, 0, 0, 0, 0, met.stored.at_once, 0, 0, 0, memory[3], 0, 0, 0, 0, 0, side == "right",
            *[0] * (len(tested) + len(stored)),
        ], np.int64)  # fmt: skip
        stored_slots = [(address_of(slot), slot.itemsize) for slot in own.slots.values()]
        self.end = ADDRESSES + len(self._kept)
        self.line = [
            address_of(self._block), address_of(self._turned), entry, int(side == "left"), *memory,
            own.coordinate.address, own.row.address, own.row.first, len(self._kept), len(tested),
            SCAN_WORDS + len(stored), *searching,
            *[0] * (self.end - STATIC), *[word for slot in stored_slots for word in slot],
            *[self._kept.index(number) for number in tested],
        ]  # fmt: skip

    def serves(self, own: ScanIndex, met: ScanIndex) -> bool:
        """Whether all is still as it was."""
        is_same = own is self._own and met is self._met
        return is_same and own.row.array is self._own_rows and met.row.array is self._met_rows and own.reach.is_in_order

    def given(self, batch: Batch, floor: int | None, ranges: Ranges | None) -> list[int]:
        """What a line says of new tuples."""
        count, asked = len(batch.row), [0, 0, 0, 0]
        if ranges is not None:
            self._ranges = ranges
            asked = [len(ranges.low), address_of(ranges.low), address_of(ranges.high), address_of(ranges.owner)]
        return [
            count, self._own.count, address_of(batch.coordinate), address_of(batch.row), address_of(batch.low),
            address_of(batch.high), INT64_MIN if floor is None or count < WORTH_TRIMMING else floor,
            *asked, *[0] * (ADDRESSES - EARLIEST), *[address_of(batch.slots[number]) for number in self._kept],
        ]  # fmt: skip

    def note(self, line: Integers, batch: Batch) -> None:
        """The tuples have been stored, but for those that need not be."""
        left_out, lowest, highest = line[LEFT_OUT : HIGHEST + 1].tolist()
        own, count = self._own, len(batch.row) - left_out
        own.coordinate.extended(count, int(batch.coordinate[left_out]), int(batch.coordinate[-1]))
        own.row.extended(count, lowest, highest)
        own.count += count


@compiled
def few_step(lines, stage, slot, most):
    """Go on with a step until it is done, the slot for pairs is full, or a scan has made enough comparisons for one
    call; returns the stage to go on with. `most`: the comparisons of the whole step."""
    if stage == STORING:
        for side in range(len(lines)):
            if lines[side, COUNT] and not _follows(lines[side]):
                return REFUSED
        reached = np.int64(0)
        for side in range(len(lines)):
            if lines[side, COUNT] and not _store(lines[side], lines[lines[side, MET]]):
                return REFUSED
        for side in range(len(lines)):
            if lines[side, COUNT]:
                reached += _reaches(lines[side], lines[lines[side, MET]])
        if reached > most:
            return TOO_MANY
        stage = PROBING
    while stage - PROBING < 2 * len(lines):
        line = lines[(stage - PROBING) // 2]
        block = entry = np.int64(0)
        if (stage - PROBING) % 2:
            if line[ASKED]:
                block, entry = line[SEARCH], line[SEARCH_ENTRY]
        elif line[IS_TURNED]:
            block, entry = line[TURNED], lines[line[MET], ENTRY]
        elif line[REACHED]:
            block, entry = line[SCAN], line[ENTRY]
        if entry:
            status: int = call_entry(entry, block, 0, slot)
            if status != DONE:
                return stage if status in (FULL, MORE) else FAILED
        stage += 1
    return stage


@compiled
def _follows(line):
    """Whether the coordinates of new tuples follow those of stored ones. Notes where their windows lie."""
    count, start = line[COUNT], line[START]
    coordinate = carray(pointer(line[COORDINATE]), count, np.int64)
    low, high = carray(pointer(line[LOW]), count, np.int64), carray(pointer(line[HIGH]), count, np.int64)
    ascends = start == 0 or coordinate[0] >= carray(pointer(line[COORDINATES]), start, np.int64)[start - 1]
    in_order = True
    earliest, latest, latest_low, earliest_high = low[0], high[0], low[0], high[0]
    for i in range(1, count):
        ascends &= coordinate[i] >= coordinate[i - 1]
        in_order &= (low[i] >= low[i - 1]) & (high[i] >= high[i - 1])
        earliest, latest = min(earliest, low[i]), max(latest, high[i])
        latest_low, earliest_high = max(latest_low, low[i]), min(earliest_high, high[i])
    line[EARLIEST], line[LATEST], line[IN_ORDER] = earliest, latest, in_order
    if line[ASKED]:
        block = carray(pointer(line[SEARCH]), BLOCK_WORDS + line[SEARCH_SLOTS], np.int64)
        block[3], block[4], block[5], block[9] = line[ASKED_LOW], line[ASKED_HIGH], line[ASKED], line[OWNER]
        block[10], block[11], block[12], block[13] = line[ROW], line[LOW], line[HIGH], count
        block[14], block[15] = latest_low, earliest_high
        for k in range(line[SEARCH_SLOTS]):
            block[BLOCK_WORDS + k] = line[ADDRESSES + line[ADDRESSES + 3 * line[SLOTS] + k]]
    return ascends


@compiled
def _store(line, met):
    """Put new tuples behind the stored ones: those from the first one on that somebody can still meet. Returns whether
    their rows can be told; notes the extremes of these."""
    count, start, slots = line[COUNT], line[START], line[SLOTS]
    coordinate = carray(pointer(line[COORDINATE]), count, np.int64)
    first = reaching(coordinate, 0, 0, count, line[FLOOR])
    if met[COUNT]:
        probed = reaching(coordinate, 0, 0, count, met[EARLIEST])
        if probed < first and coordinate[probed] < met[LATEST]:
            first = probed
    first = min(first, count - 1)
    row = carray(pointer(line[ROW]), count, np.int64)
    lowest = highest = row[first]
    counts_up = row[first] == line[FIRST_ROW] + start
    for i in range(first, count):
        counts_up &= row[i] == row[first] + i - first
        lowest, highest = min(lowest, row[i]), max(highest, row[i])
    line[LEFT_OUT], line[LOWEST], line[HIGHEST] = first, lowest, highest
    if not counts_up and line[ROWS] == 0:
        return False
    copy_bytes(line[COORDINATE] + 8 * first, line[COORDINATES] + 8 * start, 8 * (count - first))
    if line[ROWS]:
        copy_bytes(line[ROW] + 8 * first, line[ROWS] + 8 * start, 8 * (count - first))
    for k in range(slots):
        stored, width = line[ADDRESSES + slots + 2 * k], line[ADDRESSES + slots + 2 * k + 1]
        copy_bytes(line[ADDRESSES + k] + width * first, stored + width * start, width * (count - first))
    return True


@compiled
def _reaches(line, met):
    """Fill in what the scan needs; returns how many stored tuples there are to compare with."""
    count, slots = line[COUNT], line[SLOTS]
    stored = met[START] + met[COUNT] - met[LEFT_OUT]
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
    line[REACHED], line[IS_TURNED] = reached, 0
    begin, end = first[0], last[count - 1]
    if reached and line[IN_ORDER] and FEW_STORED * (end - begin) < count:
        line[IS_TURNED] = 1
        _turn(line, met, begin, end, reached)
    return reached


@compiled
def _turn(line, met, begin, end, reached):
    """Fill in what the scan needs that takes the stored tuples at places [begin, end) for probing ones."""
    count, slots, found = line[COUNT], line[SLOTS], end - begin
    block = carray(pointer(line[TURNED]), SCAN_WORDS + line[TESTED] + met[TESTED], np.int64)
    block[2], block[4], block[5], block[9] = found, count, count, count
    block[6] = GROUP if reached < LONG_REACH * found else 0
    block[8], block[16] = line[ROW], met[ROWS] + 8 * begin
    if met[ROWS] == 0:
        rows = carray(pointer(line[NUMBERS]), found, np.int64)
        for i in range(found):
            rows[i] = met[FIRST_ROW] + begin + i
        block[16] = line[NUMBERS]
    for k in range(12, 16):
        block[k] = 0
    if reached < found * count:  # not all windows have all of them
        low, high = carray(pointer(line[LOW]), count, np.int64), carray(pointer(line[HIGH]), count, np.int64)
        first, last = carray(pointer(line[FIRST]), found, np.int64), carray(pointer(line[LAST]), found, np.int64)
        beyond = carray(pointer(met[COORDINATES]), end, np.int64)[begin:end] + 1
        find(high, low, np.int64(0), count, beyond, beyond, first, last)
        block[12] = block[14] = line[FIRST]
        block[13] = block[15] = line[LAST]
    for k in range(line[TESTED]):
        block[SCAN_WORDS + k] = line[ADDRESSES + line[ADDRESSES + 3 * slots + k]]
    slots = met[SLOTS]
    for k in range(met[TESTED]):
        slot = ADDRESSES + slots + 2 * met[ADDRESSES + 3 * slots + k]
        block[SCAN_WORDS + line[TESTED] + k] = met[slot] + met[slot + 1] * begin
