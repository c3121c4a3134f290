"""A grid: the stored tuples that a batch can reach, grouped by a key for this one batch.

Where a window is short and batches are large, to keep an index of the window costs more than it saves, and to compare
every probing tuple with all of its window does too. A grid lies in between. The reachable tuples are counted into cells
of their key, which takes some nanoseconds for each. A probing tuple is compared with those in the cells that its own
interval touches. Nothing is kept for the next batch.

Invariant: a stored tuple that matches a probing one is among its candidates, which come once each. Cells only add
candidates, so the kernel tests the condition and the window of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Integers, Places
from ..compile.cache import compiled
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import Side, other
from .batch import Batch
from .hashing import hash_keys

CELLS_PER_TUPLE = 2
SAMPLE = 64
"""Tuples whose keys say where most keys lie. Keys beyond that share the first and the last cell."""
MOST_SPARE = 16
CHUNK, FEW = 1024, 4
"""Candidates that are tested at a time, so that they stay in the cache; so few of a probing tuple are written without
asking how many there are."""


@dataclass(frozen=True, slots=True)
class GridKey:
    """What stored tuples of one side are grouped by: their equalities, or else a range key."""

    equalities: tuple[tuple[int, int], ...]
    """Slots of the stored and of the probing tuple."""
    range_: RangeKey | None

    def stored_keys(self, slots: Any, begin: int, end: int) -> tuple[Array, Array]:
        """The keys of stored tuples, and the slot that may lie above each (empty: there is none)."""
        if self.range_ is None:
            return hash_keys([slots[own][begin:end] for own, _ in self.equalities]).view(np.int64), _NONE
        width = self.range_.width
        key = np.ascontiguousarray(slots[self.range_.key][begin:end])
        return key, key[:0] if width is None else np.ascontiguousarray(slots[width][begin:end])

    def intervals(self, slots: Any) -> tuple[Array, Array]:
        """The lowest and the highest key that each probing tuple asks for."""
        if self.range_ is None:
            hashes: Array = hash_keys([slots[probing] for _, probing in self.equalities]).view(np.int64)
            return hashes, hashes
        ((low, high),) = self.range_.intervals
        return slots[low], slots[high]


def grid_key(lowered: Lowered, stored: Side) -> GridKey | None:
    """The key of a grid of one side's tuples; None: the predicate gives none, or tuples may have no key."""
    if lowered.hash_slots:
        mine = stored == "right"
        return GridKey(tuple((pair[mine], pair[not mine]) for pair in lowered.hash_slots), None)
    own, probing = lowered.slots[stored], lowered.slots[other(stored)]
    for key in lowered.range_keys[stored]:
        if key.bounded and len(key.intervals) == 1 and key.regular == (None, None):
            ((low, high),) = key.intervals
            slots = [own[key.key], *(probing[bound] for bound in (low, high) if bound is not None)]
            if all(slot.required and slot.dtype in ("int32", "int64") for slot in slots):
                return GridKey((), key)
    return None


class Grid:
    """The tuples of a subwindow at places [begin, end), grouped by key: those of cell c have the places
    order[starts[c] : starts[c + 1]], counted from `begin`. All shares of a batch use one grid."""

    def __init__(self, key: GridKey, slots: Any, begin: int, end: int) -> None:
        self.begin, self.end, self._key = begin, end, key
        keys, tops = key.stored_keys(slots, begin, end)
        bits = max((CELLS_PER_TUPLE * len(keys) - 1).bit_length(), 1)
        self._memory = _Memory.taken()
        self._starts, self.order = self._memory.two((1 << bits) + 2, len(keys) + FEW)
        self._shape = _group(keys, tops, bits, key.range_ is None, self._starts, self.order)

    def candidates(self, batch: Batch) -> Candidates:
        """What each tuple of a batch has to be compared with."""
        found = Candidates(len(batch))
        low, high = self._key.intervals(batch.slots)
        found.count = _look_up(low, high, *self._shape, self._starts, found.first, found.last)
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
        if len(self._spare) < MOST_SPARE:
            self._spare.append(self)

    def two(self, *sizes: int) -> tuple[Places, Places]:
        """Two arrays of at least these sizes."""
        for number, size in enumerate(sizes):
            if size > len(self._arrays[number]):
                self._arrays[number] = np.zeros(1 << (size - 1).bit_length(), np.int32)
        return self._arrays[0], self._arrays[1]


_NONE: Integers = np.empty(0, np.int64)


@compiled
def _cell(key, base, shift, cells):  # type: ignore[no-untyped-def]
    """Cells ascend with keys."""
    if key <= base:
        return np.int64(0)
    return np.int64(min((np.uint64(key) - np.uint64(base)) >> np.uint64(shift), np.uint64(cells - 1)))


@compiled
def _group(keys, tops, bits, is_hashed, starts, order):  # type: ignore[no-untyped-def]
    """Count tuples into cells: those of cell c go to order[starts[c] : starts[c + 1]]. Returns where the first cell
    begins, how many bits of a key it takes, how many cells there are, and how far a top lies above its key at most."""
    count = len(keys)
    base, shift = np.int64(INT64_MIN), np.int64(64 - bits)
    cells = np.int64(1) << np.int64(bits)
    if not is_hashed:
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
        while span >> np.uint64(shift) >= np.uint64(cells):
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
    widest = np.int64(0)
    for j in range(len(tops)):
        key, top = np.int64(keys[j]), np.int64(tops[j])
        if top > key:
            widest = max(widest, np.int64(min(np.uint64(top) - np.uint64(key), np.uint64(INT64_MAX))))
    return base, shift, cells, widest


@compiled
def _look_up(low, high, base, shift, cells, widest, starts, first, last):  # type: ignore[no-untyped-def]
    """Where in `order` the candidates of each probing tuple begin and end; returns how many all of them have."""
    total = np.int64(0)
    for i in range(len(low)):
        lowest, highest = np.int64(low[i]), np.int64(high[i])
        is_empty = lowest > highest
        lowest = np.int64(INT64_MIN) if lowest < INT64_MIN + widest else lowest - widest
        begin = starts[_cell(lowest, base, shift, cells)]
        end = starts[_cell(highest, base, shift, cells) + 1]
        end = begin if is_empty else max(end, begin)
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
