"""A grid: the stored tuples that a batch can reach, grouped by one or two keys for this one batch.

Where a window is short and batches are large, to keep an index of the window costs more than it saves, and to compare
every probing tuple with all of its window does too. A grid lies in between. The reachable tuples are counted into cells
of their keys, which takes some nanoseconds for each. A probing tuple is compared with those in the cells that its own
intervals touch. Nothing is kept for the next batch.

With two keys the cells lie in rows and columns. Rows are as wide as the widest interval of the batch, so each probing
tuple touches at most two of them, and in each of these some neighbouring cells.

Invariant: a stored tuple that matches a probing one is among its candidates, which come once each. Cells only add
candidates, so the kernel tests the condition and the window of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Places
from ..predicate.keys import RangeKey
from ..predicate.lower import Lowered
from ..side import Side, other
from .batch import Batch
from .grid_kernels import FEW, fixed, group, layout_of, look_up, scale_of

CELLS_PER_TUPLE = 2
MOST_SPARE, LARGEST_SPARE = 16, 1 << 20
"""How many pairs of arrays are kept for later grids, and their longest length."""


Layout: TypeAlias = tuple[int, int, int, int]
"""How keys fall into cells: where the first cell begins, how many bits of a key a cell takes, how many cells there are,
and how far a top lies above its key at most."""
ONE_ROW: Layout = (INT64_MIN, 63, 1, 0)
"""The rows of a grid that has one key."""


@dataclass(frozen=True, slots=True)
class GridKey:
    """A key, and how many bits its values have if they are floats, whose order their slots have only."""

    key: RangeKey
    float_bits: int | None = None

    def stored(self, slots: Any, begin: int, end: int) -> tuple[Array, Array, float]:
        """The keys of stored tuples, their tops, if they have some, and what floats are multiplied with."""
        keys = np.ascontiguousarray(slots[self.key.key][begin:end])
        tops = keys[:0] if self.key.width is None else np.ascontiguousarray(slots[self.key.width][begin:end])
        if self.float_bits is None:
            return keys, tops, 1.0
        scale = scale_of(keys, *_FLOATS[self.float_bits])
        return self._fixed(keys, scale), self._fixed(tops, scale), scale

    def asked(self, batch: Batch, scale: float) -> tuple[Array, Array]:
        """The ends of the intervals that probing tuples ask for."""
        ((low, high),) = self.key.intervals
        assert low is not None
        assert high is not None
        lows, highs = batch.slots[low], batch.slots[high]
        return (lows, highs) if self.float_bits is None else (self._fixed(lows, scale), self._fixed(highs, scale))

    def _fixed(self, values: Array, scale: float) -> Array:
        assert self.float_bits is not None
        return fixed(values, *_FLOATS[self.float_bits], scale)


@dataclass(frozen=True, slots=True)
class GridKeys:
    """What a grid of one side's tuples is made of."""

    columns: GridKey
    rows: GridKey | None = None

    @property
    def all(self) -> tuple[RangeKey, ...]:
        return (self.columns.key,) if self.rows is None else (self.columns.key, self.rows.key)

    @property
    def runs(self) -> int:
        """How many runs of candidates a probing tuple has."""
        return len(self.all)


def grid_keys(lowered: Lowered, stored: Side) -> GridKeys | None:
    """The keys of a grid of one side's tuples; None: there is no band, or an equality, which a hash table serves."""
    own, probing = lowered.slots[stored], lowered.slots[other(stored)]
    usable: dict[int, GridKey] = {}
    for key in lowered.range_keys[stored] if not lowered.hash_slots else ():
        if key.bounded and len(key.intervals) == 1:
            ((low, high),) = key.intervals
            slots = [own[key.key], *(probing[bound] for bound in (low, high) if bound is not None)]
            if all(slot.required and slot.dtype in ("int32", "int64") for slot in slots):
                usable.setdefault(key.key, GridKey(key, _FLOAT_BITS.get(slots[0].encoding.domain)))
    keys = list(usable.values())[:2]
    return GridKeys(*keys) if keys else None


_FLOAT_BITS: dict[Any, int] = {"f32": 32, "f64": 64}
_FLOATS: dict[int, tuple[Array, Any]] = {
    32: (np.empty(0, np.float32), np.int32(2**31 - 1)),
    64: (np.empty(0, np.float64), np.int64(INT64_MAX)),
}
"""For compiled code: the type of floats of so many bits, and the largest integer of as many."""


def are_regular(keys: GridKeys, slots: Any, begin: int, end: int) -> bool:
    """Whether the keys hold for some stored tuples (see `predicate.keys`)."""
    return all(key.regular[0] is None or bool(slots[key.regular[0]][begin:end].all()) for key in keys.all)


class Grid:
    """The tuples of a subwindow at places [begin, end), grouped by keys: those of cell c have the places
    order[starts[c] : starts[c + 1]], counted from `begin`. All shares of the probing batch use one grid. A sample may
    be given the cells of as many tuples as it stands for (`cells_for`)."""

    def __init__(self, keys: GridKeys, slots: Any, begin: int, end: int, probing: Batch, cells_for: int = 0) -> None:
        self._memory = _Memory.taken()
        self.begin, self.end, self._keys = begin, end, keys
        bits = max((CELLS_PER_TUPLE * max(cells_for, end - begin) - 1).bit_length(), 1)
        column_of, tops, self._scale = keys.columns.stored(slots, begin, end)
        row_of, self._rows, self._row_scale = column_of[:0], ONE_ROW, 1.0
        if keys.rows is not None:
            row_of, row_tops, self._row_scale = keys.rows.stored(slots, begin, end)
            self._rows = layout_of(row_of, row_tops, bits, *keys.rows.asked(probing, self._row_scale))
            bits = max(bits - (self._rows[2] - 1).bit_length(), 0)
        self._columns = layout_of(column_of, tops, bits, _NOTHING, _NOTHING)
        cells = self._rows[2] * self._columns[2]
        self._starts, self.order, cell_of = self._memory.arrays(cells + 2, end - begin + FEW, end - begin)
        group(column_of, self._columns, row_of, self._rows, self._starts, self.order, cell_of)

    def serves(self, batch: Batch) -> bool:
        """Whether all tuples of a batch can be looked up."""
        return all(key.regular[1] is None or bool(batch.slots[key.regular[1]].all()) for key in self._keys.all)

    def candidates(self, batch: Batch) -> Candidates:
        """What each tuple of a batch has to be compared with."""
        keys = self._keys
        found = Candidates(len(batch), keys.runs)
        asked = keys.columns.asked(batch, self._scale)
        of_rows = (_NOTHING, _NOTHING) if keys.rows is None else keys.rows.asked(batch, self._row_scale)
        found.count = look_up(*asked, self._columns, *of_rows, self._rows, self._starts, found.first, found.last)
        return found

    def __del__(self) -> None:
        self._memory.give_back()


class Candidates:
    """Tuple i of a batch has those at order[first[k] : last[k]] of a grid, for `runs` numbers k from runs * i on."""

    def __init__(self, tuples: int, runs: int) -> None:
        self._memory = _Memory.taken()
        self.runs, size = runs, runs * tuples
        self.first, self.last = self._memory.arrays(size, size)
        self.first, self.last = self.first[:size], self.last[:size]
        self.count = 0

    def __del__(self) -> None:
        self._memory.give_back()


class _Memory:
    """Arrays that are used again: fresh memory would take longer to touch than a grid takes to be made."""

    _spare: ClassVar[list[_Memory]] = []

    def __init__(self) -> None:
        self._arrays: list[Places] = [np.empty(0, np.int32)] * 3

    @classmethod
    def taken(cls) -> _Memory:
        try:
            return cls._spare.pop()
        except IndexError:
            return cls()

    def give_back(self) -> None:
        if len(self._spare) < MOST_SPARE and max(map(len, self._arrays)) <= LARGEST_SPARE:
            self._spare.append(self)

    def arrays(self, *sizes: int) -> list[Places]:
        """Arrays of at least these sizes, three at most."""
        for number, size in enumerate(sizes):
            if size > len(self._arrays[number]):
                self._arrays[number] = np.zeros(1 << (size - 1).bit_length(), np.int32)
        return self._arrays[: len(sizes)]


_NOTHING: Array = np.empty(0, np.int64)
