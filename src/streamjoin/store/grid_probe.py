"""Whether a batch probes by a grid (`store.grid`), and its probing: in one call, or as a job that threads share.

Invariant: as for a scan, all tuples that a probing one matches in its window are found once. All shares of a batch use
one grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..arrays import Array, Integers
from ..compile.background import is_rehearsing
from ..compile.cache import Kernel
from ..payload.segments import address_of
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..side import Side, other
from ..tasks import FULL, Job
from .batch import Batch, Probing
from .costs import costs
from .grid import Candidates, Grid, are_regular
from .integer_column import IntegerColumn
from .reach import Reached
from .stored_side import StoredSide

VAIN_GRIDS = 8
"""After so many grids that were not used, none is made until the paths are compared again."""
GRID_WORDS = 14
"""What all parts of a job share, by place: 0, 1: how many probing tuples there are, and in how many parts they probe.
2 to 4: where the order of the grid lies, and where the candidates of each probing tuple begin and end there. 5: how
many runs of candidates a tuple has. 6, 7: the coordinates of the stored tuples, and how many these are. 8, 9: the place
of the first one, and its row. 10, 11: the rows of the subwindow, and how many (0: they count up). 12: the length of the
order. 13: whether left tuples probe. The addresses of the lower and upper ends of windows, of the rows of the probing
tuples, of the stored slots and of the probing slots follow."""


class Scanned(Protocol):
    """A subwindow, as far as grids must know it."""

    stored: StoredSide
    slots: dict[int, Array]
    coordinate: IntegerColumn
    row: IntegerColumn

    def tested(self, begin: int, end: int) -> list[Array]: ...

    def reached_of(self, probing: Probing, batch: Batch, start: int, stop: int) -> Reached: ...


def grid_of(subwindow: Scanned, probing: Probing, batch: Batch, start: int, stop: int) -> GridProbe | None:
    """How some of the probing tuples find theirs at places [start, stop) by a grid; None: to compare each with all that
    it reaches is likely to take less time, or a grid cannot serve it."""
    stored = subwindow.stored
    if stored.grid_keys is None or stored.vain_grids > VAIN_GRIDS:
        return None
    if stored.to_scan(len(probing.batch), len(probing.batch) * (stop - start), stop - start) < costs().grid_step:
        return None
    grid = probing.once((subwindow, start, stop, Grid), lambda: _made(subwindow, probing, start, stop))
    if grid is None or not grid.serves(batch):
        return None
    if batch is not probing.batch:
        return _with_candidates(subwindow, grid, batch, subwindow.reached_of(probing, batch, start, stop))
    found: GridProbe | None = probing.once(
        (subwindow, start, stop, GridProbe),
        lambda: _with_candidates(subwindow, grid, batch, subwindow.reached_of(probing, batch, start, stop)),
    )
    return found


def _made(subwindow: Scanned, probing: Probing, start: int, stop: int) -> Grid | None:
    known, probes, keys = costs(), len(probing.batch), subwindow.stored.grid_keys
    assert keys is not None
    _, _, begin, end, reached = subwindow.reached_of(probing, probing.batch, start, stop)
    to_begin = known.grid_step + known.to_group(end - begin, keys.runs) + probes * keys.runs * known.grid_probe
    if (
        begin >= end
        or (subwindow.stored.to_scan(probes, reached, end - begin) < to_begin and not is_rehearsing())
        or not are_regular(keys, subwindow.slots, begin, end)
    ):
        return None
    return Grid(keys, subwindow.slots, begin, end, probing.batch)


def _with_candidates(subwindow: Scanned, grid: Grid, batch: Batch, reach: Reached) -> GridProbe | None:
    """None: there are too many candidates."""
    _, _, begin, end, reached = reach
    stored, candidates = subwindow.stored, grid.candidates(batch)
    to_test = candidates.count * (costs().to_test(end - begin) + stored.comparison)
    if is_rehearsing() or to_test < stored.to_scan(len(batch), reached, end - begin):
        stored.vain_grids = 0
        return GridProbe(grid, candidates, batch)
    stored.vain_grids += 1
    return None


@dataclass(frozen=True, slots=True)
class GridProbe:
    """Probing tuples with their candidates. The memory of both is used again once nobody holds them."""

    grid: Grid
    candidates: Candidates
    batch: Batch

    def call(self, subwindow: Scanned) -> tuple[Kernel, tuple[Any, ...]]:
        """The kernel, and its arguments up to where pairs go."""
        grid, batch, found = self.grid, self.batch, self.candidates
        arguments = (
            *subwindow.tested(grid.begin, grid.end), subwindow.coordinate.slice(grid.begin, grid.end),
            *subwindow.stored.tested_of_probes(batch), grid.order, found.first, found.last, found.runs,
            batch.low, batch.high, batch.row, grid.begin, *subwindow.row.parts,
        )  # fmt: skip
        return subwindow.stored.kernel(grid_source, "grid"), arguments

    def job(self, subwindow: Scanned, parts: int, left_probes: bool) -> Job:
        """The same as a job whose parts fill slots: each takes some of the probing tuples."""
        grid, batch, found = self.grid, self.batch, self.candidates
        first_row, rows = subwindow.row.parts
        known = (
            batch.low, batch.high, batch.row,
            *subwindow.tested(grid.begin, grid.end), *subwindow.stored.tested_of_probes(batch),
        )  # fmt: skip
        kept = [np.ascontiguousarray(array) for array in known]
        coordinates = subwindow.coordinate.slice(grid.begin, grid.end)
        block: Integers = np.array([
            len(batch), parts, address_of(grid.order), address_of(found.first), address_of(found.last), found.runs,
            address_of(coordinates), len(coordinates), grid.begin, first_row, address_of(rows) if len(rows) else 0,
            len(rows), len(grid.order), left_probes, *map(address_of, kept),
        ], np.int64)  # fmt: skip
        return Job(subwindow.stored.entry(grid_source, "grid_part"), block, parts, (self, kept, coordinates, rows))


def grid_source(lowered: Lowered, stored: Side) -> str:
    """Test the candidates of a grid, and write the rows of those that match."""
    text = ConditionText(lowered, stored)
    slots = lowered.slots

    def column(place: int, dtype: str, start: str, count: str) -> str:
        width = np.dtype(dtype).itemsize
        return f"carray(pointer(b[{place}] + {width} * {start}), {count}, np.{'bool_' if dtype == 'bool' else dtype})"

    first = GRID_WORDS + 3
    of_stored = [
        column(first + n, slots[stored][number].dtype, "0", "b[7]") for n, number in enumerate(text.stored_slots)
    ]  # fmt: skip
    first += len(of_stored)
    of_probing = [
        column(first + n, slots[other(stored)][number].dtype, "start", "count")
        for n, number in enumerate(text.probing_slots)
    ]
    own = [column(GRID_WORDS + n, "int64", "start", "count") for n in range(3)]
    return f"""{KERNEL_HEADER}from numba import carray
from streamjoin.store.grid_kernels import CHUNK, FEW, expand
from streamjoin.store.pair_slots import after_part, room_in_slot
from streamjoin.store.words import COMPARED, DONE, MOST_TUPLES, NEXT, STOPPED


@njit(nogil=True, error_model="numpy")
def grid({text.parameters("coordinates", "order")}, first, last, runs, low, high, probing_rows, start, first_row, rows,
         pairs, out, state):
    found, room = np.uint64(0), len(out[0])
    begin, done, compared = state[NEXT], state[STOPPED], state[COMPARED]
    most = compared + MOST_TUPLES
    counts_up = len(rows) == 0
{text.views(4, "")}    while begin < len(first) and compared <= most:
        limit = min(CHUNK, room - np.int64(found), pairs.shape[1] - FEW)
        if limit < FEW:
            break
        count, begin, done = expand(order, first, last, runs, begin, done, limit, pairs)
        compared += count
        for c in range(count):
            i, j = np.int64(np.uint32(pairs[0, c])), np.int64(np.uint32(pairs[1, c]))
{text.load("i", "i", 12)}{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            out[0][found] = probing_rows[i]
            out[1][found] = first_row + start + j if counts_up else rows[start + j]
            where = coordinates[j]
            found += np.uint64(hit & (where >= low[i]) & (where < high[i]))
    state[NEXT], state[STOPPED], state[COMPARED] = DONE if begin >= len(first) else begin, done, compared
    return np.int64(found)


@njit(nogil=True)
def grid_part(block, part, slot):
    b = carray(pointer(block), {GRID_WORDS + 3 + len(text.stored_slots) + len(text.probing_slots)}, np.int64)
    start, stop = b[0] * part // b[1], b[0] * (part + 1) // b[1]
    count, runs = stop - start, b[5]
    out, pairs, state = room_in_slot(b[13], slot)
    if len(out[0]) <= FEW:
        return {FULL}
    found = grid(
        {"".join(f"{text_}, " for text_ in of_stored)}carray(pointer(b[6]), b[7], np.int64),
        {"".join(f"{text_}, " for text_ in of_probing)}carray(pointer(b[2]), b[12], np.int32),
        carray(pointer(b[3] + 4 * runs * start), runs * count, np.int32)[: runs * count],
        carray(pointer(b[4] + 4 * runs * start), runs * count, np.int32), runs,
        {", ".join(own)}, b[8], b[9], carray(pointer(b[10]), b[11], np.int64), pairs, out, state,
    )
    return after_part(slot, found, state[NEXT] == DONE, len(out[0]) - found <= FEW)
"""
