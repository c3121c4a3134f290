"""A grid: the stored tuples that a batch can reach, grouped by a key for this one batch.

Where a window is short and batches are large, to keep an index of the window costs more than it saves, and to compare
every probing tuple with all of its window does too. A grid lies in between. The reachable tuples are counted into cells
of their key, which takes some nanoseconds for each. A probing tuple is compared with those in the cells that its own
interval touches. Nothing is kept for the next batch.

Invariant: a stored tuple that matches a probing one is among its candidates, which come once each. Cells only add
candidates, so the kernel tests the condition and the window of each of them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Places
from ..compile.cache import compiled
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import Side, other
from .batch import Batch

CELLS_PER_TUPLE = 2
SAMPLE = 64
"""Tuples whose keys say where most keys lie. Keys beyond that share the first and the last cell."""
MOST_SPARE, LARGEST_SPARE = 16, 1 << 20
"""How many pairs of arrays are kept for later grids, and their longest length."""
CHUNK, FEW = 1024, 4
"""Candidates that are tested at a time, so that they stay in the cache; so few of a probing tuple are written without
asking how many there are."""


def grid_key(lowered: Lowered, stored: Side) -> RangeKey | None:
    """The key of a grid of one side's tuples; None: there is no band, or an equality, which a hash table serves."""
    own, probing = lowered.slots[stored], lowered.slots[other(stored)]
    for key in lowered.range_keys[stored] if not lowered.hash_slots else ():
        if key.bounded and len(key.intervals) == 1:
            ((low, high),) = key.intervals
            slots = [own[key.key], *(probing[bound] for bound in (low, high) if bound is not None)]
            if all(slot.required and slot.dtype in ("int32", "int64") for slot in slots):
                return key
    return None


def are_regular(key: RangeKey, slots: Any, begin: int, end: int) -> bool:
    """Whether a key holds for some stored tuples (see `predicate.keys`)."""
    return key.regular[0] is None or bool(slots[key.regular[0]][begin:end].all())


class Grid:
    """The tuples of a subwindow at places [begin, end), grouped by key: those of cell c have the places
    order[starts[c] : starts[c + 1]], counted from `begin`. All shares of a batch use one grid. A sample may be given
    the cells of as many tuples as it stands for (`cells_for`)."""

    def __init__(self, key: RangeKey, slots: Any, begin: int, end: int, cells_for: int = 0) -> None:
        self._memory = _Memory.taken()
        self.begin, self.end, self._key = begin, end, key
        keys = np.ascontiguousarray(slots[key.key][begin:end])
        tops = keys[:0] if key.width is None else np.ascontiguousarray(slots[key.width][begin:end])
        bits = max((CELLS_PER_TUPLE * max(cells_for, len(keys)) - 1).bit_length(), 1)
        self._starts, self.order = self._memory.two((1 << bits) + 2, len(keys) + FEW)
        self._shape = _group(keys, tops, bits, self._starts, self.order)

    def serves(self, batch: Batch) -> bool:
        """Whether all tuples of a batch can be looked up."""
        regular = self._key.regular[1]
        return regular is None or bool(batch.slots[regular].all())

    def candidates(self, batch: Batch) -> Candidates:
        """What each tuple of a batch has to be compared with."""
        found = Candidates(len(batch))
        ((low, high),) = self._key.intervals
        assert low is not None
        assert high is not None
        found.count = _look_up(batch.slots[low], batch.slots[high], *self._shape, self._starts, found.first, found.last)
        return found

    def __del__(self) -> None:
        self._memory.give_back()


class Candidates:
    """Tuple i of a batch has those at order[first[i] : last[i]] of a grid."""

    def __init__(self, tuples: int) -> None:
        self._memory = _Memory.taken()
        self.first, self.last = self._memory.two(tuples, tuples)
        self.first, self.last = self.first[:tuples], self.last[:tuples]
        self.count = 0

    def __del__(self) -> None:
        self._memory.give_back()


class _Memory:
    """Arrays that are used again: fresh memory would take longer to touch than a grid takes to be made."""

    _spare: ClassVar[list[_Memory]] = []

    def __init__(self) -> None:
        self._arrays: list[Places] = [np.empty(0, np.int32), np.empty(0, np.int32)]

    @classmethod
    def taken(cls) -> _Memory:
        try:
            return cls._spare.pop()
        except IndexError:
            return cls()

    def give_back(self) -> None:
        if len(self._spare) < MOST_SPARE and max(map(len, self._arrays)) <= LARGEST_SPARE:
            self._spare.append(self)

    def two(self, *sizes: int) -> tuple[Places, Places]:
        """Two arrays of at least these sizes."""
        for number, size in enumerate(sizes):
            if size > len(self._arrays[number]):
                self._arrays[number] = np.zeros(1 << (size - 1).bit_length(), np.int32)
        return self._arrays[0], self._arrays[1]


@compiled
def _cell(key, base, shift, cells):  # type: ignore[no-untyped-def]
    """Cells ascend with keys."""
    if key <= base:
        return np.int64(0)
    return np.int64(min((np.uint64(key) - np.uint64(base)) >> np.uint64(shift), np.uint64(cells - 1)))


@compiled
def _group(keys, tops, bits, starts, order):  # type: ignore[no-untyped-def]
    """Count tuples into cells: those of cell c go to order[starts[c] : starts[c + 1]]. Returns where the first cell
    begins, how many bits of a key it takes, how many cells there are, and how far a top lies above its key at most."""
    count = len(keys)
    some = np.empty(SAMPLE, np.int64)
    size = min(count, SAMPLE)
    for k in range(size):  # sorted by insertion: NumPy's sort takes a second to compile
        key, place = np.int64(keys[k * count // size]), k
        while place > 0 and some[place - 1] > key:
            some[place] = some[place - 1]
            place -= 1
        some[place] = key
    edge = 1 if size == SAMPLE else 0
    base, last = some[edge], some[size - 1 - edge]
    slack = np.int64(min((np.uint64(last) - np.uint64(base)) >> np.uint64(4), np.uint64(INT64_MAX)))
    base = np.int64(INT64_MIN) if base < INT64_MIN + slack else base - slack
    last = np.int64(INT64_MAX) if last > INT64_MAX - slack else last + slack
    span = np.uint64(last) - np.uint64(base)
    shift = np.int64(0)
    while span >> np.uint64(shift) >> np.uint64(bits) > np.uint64(0):
        shift += 1
    cells = np.int64(span >> np.uint64(shift)) + 1
    starts[: cells + 2] = 0
    for j in range(count):
        starts[_cell(np.int64(keys[j]), base, shift, cells) + 2] += 1
    for c in range(2, cells + 2):
        starts[c] += starts[c - 1]
    for j in range(count):
        cell = _cell(np.int64(keys[j]), base, shift, cells) + 1
        order[starts[cell]] = j
        starts[cell] += 1
    widest = np.uint64(0)
    for j in range(len(tops)):
        key, top = np.int64(keys[j]), np.int64(tops[j])
        if top > key:
            widest = max(widest, np.uint64(top) - np.uint64(key))
    return base, shift, cells, np.int64(widest)  # its bits: Python would hand on a number of another type


@compiled
def _look_up(low, high, base, shift, cells, widest, starts, first, last):  # type: ignore[no-untyped-def]
    """Where in `order` the candidates of each probing tuple begin and end; returns how many all of them have.

    A key must be at most `high`, and its top at least `low`: so the key is at least `low` minus the widest distance
    between the two. `low` may be above `high`: a stored interval can contain the probing one.
    """
    total, bottom, most = np.int64(0), np.uint64(INT64_MIN), np.uint64(widest)
    for i in range(len(low)):
        above = np.uint64(np.int64(low[i])) - bottom
        lowest = np.int64(bottom if above < most else bottom + (above - most))
        begin = starts[_cell(lowest, base, shift, cells)]
        end = max(starts[_cell(np.int64(high[i]), base, shift, cells) + 1], begin)
        first[i], last[i] = begin, end
        total += end - begin
    return total


@compiled
def expand(order, first, last, begin, done, limit, pairs):  # type: ignore[no-untyped-def]
    """Write the candidates of probing tuples, from tuple `begin` on, of which `done` are written already. Returns how
    many were written, at most `limit`, and where to go on."""
    filled, i = np.uint64(0), begin
    most = np.uint64(limit - FEW)
    while i < len(first) and filled <= most:
        at = np.uint64(first[i] + done)
        count = np.uint64(last[i]) - at
        for k in range(FEW):
            pairs[0, filled + np.uint64(k)] = i
            pairs[1, filled + np.uint64(k)] = order[at + np.uint64(k)]
        if count > np.uint64(FEW):
            written = min(count, np.uint64(limit) - filled)
            for k in range(FEW, written):
                pairs[0, filled + np.uint64(k)] = i
                pairs[1, filled + np.uint64(k)] = order[at + np.uint64(k)]
            filled += written
            if written < count:
                return np.int64(filled), i, done + np.int64(written)
        else:
            filled += count
        done = np.int64(0)
        i += 1
    return np.int64(filled), i, done


def grid_source(lowered: Lowered, stored: Side) -> str:
    """Test the candidates of a grid, and write the rows of those that match."""
    text = ConditionText(lowered, stored)
    return f"""{KERNEL_HEADER}from streamjoin.store.grid import CHUNK, FEW, expand
from streamjoin.store.words import COMPARED, DONE, MOST_TUPLES, NEXT, STOPPED


@njit(nogil=True, error_model="numpy")
def grid({text.parameters("coordinates", "order")}, first, last, low, high, probing_rows, start, first_row, rows,
         pairs, out, state):
    found, room = np.uint64(0), out.shape[1]
    begin, done, compared = state[NEXT], state[STOPPED], state[COMPARED]
    most = compared + MOST_TUPLES
    counts_up = len(rows) == 0
{text.views(4, "")}    while begin < len(first) and compared <= most:
        limit = min(CHUNK, room - np.int64(found), pairs.shape[1] - FEW)
        if limit < FEW:
            break
        count, begin, done = expand(order, first, last, begin, done, limit, pairs)
        compared += count
        for c in range(count):
            i, j = np.int64(np.uint32(pairs[0, c])), np.int64(np.uint32(pairs[1, c]))
{text.load("i", "i", 12)}{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            out[0, found] = probing_rows[i]
            out[1, found] = first_row + start + j if counts_up else rows[start + j]
            where = coordinates[j]
            found += np.uint64(hit & (where >= low[i]) & (where < high[i]))
    state[NEXT], state[STOPPED], state[COMPARED] = DONE if begin >= len(first) else begin, done, compared
    return np.int64(found)
"""
