"""The compiled call of `few_scan`: two lines of integers, one for each side, say where everything lies.

Invariant: it stores and finds what `few_scan` promises, or refuses before the caller has to note anything.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..compile.cache import compiled
from ..compile.entries import call_entry
from ..compile.intrinsics import pointer
from ..payload.moves import copy_bytes
from ..side import SIDES
from ..tasks import DONE, FULL, MORE
from .reach import find, reaching
from .run_probe import BLOCK_WORDS
from .scan_kernel import SCAN_WORDS
from .stored_side import FEW_STORED
from .subwindow import GROUP, LONG_REACH

STATIC = 16
(
    SCAN, TURNED, ENTRY, MET, FIRST, LAST, NUMBERS, COORDINATES, ROWS, FIRST_ROW, SLOTS, TESTED, STORED,
    SEARCH, SEARCH_ENTRY, SEARCH_SLOTS,
) = range(STATIC)  # fmt: skip
"""What stays in a side's line while the same subwindows serve: the blocks of the scan by this side's tuples and of the
one that takes stored tuples for probing ones, the entry of the former (that of the latter is the other side's), the
line of the other side, memory for `first_place`, `last_place` and row numbers, where its stored coordinates and rows
lie (0: rows count up from the next number), how many slots it has, how many of them are tested, and where in the first
block those go. Then the block and the entry of a search in runs that belong to what is met, and how many tested slots
go there (no block: there are no runs)."""
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
TOO_MANY, REFUSED, FAILED, STORING, PROBING = -3, -2, -1, 0, 1
"""How far a step is. From `PROBING` on there are two stages for each side: it scans, then it searches."""
END = PROBING + 2 * len(SIDES)


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
