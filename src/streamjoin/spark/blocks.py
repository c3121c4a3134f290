"""Routing by blocks: numbers are cut into blocks of one size, and each block belongs to a worker (see `range_keys`).

A point goes to the worker of its block, and an interval to the workers of all blocks that it touches, to each of them
once. So a point and an interval around it meet once, and no row is decoded by a worker that does not need it. Where the
predicate also has an equality, equal keys share out their blocks by themselves, so that a frequent one is divided too.

Blocks are several times as wide as the band, so that most intervals touch one block. The size is part of the join's
terms: it follows from the predicate alone, and never changes. Blocks are dealt out in rounds, one to each worker, so
that neighbours lie on different workers. Each round begins with a worker chosen by its hash, so that keys with gaps of
the same length are shared out, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import Array, Integers
from ..engine.intake import Intake
from ..engine.rehearsal import made_up
from ..predicate.lower import Lowered
from ..predicate.rearrange import without_widening
from ..predicate.slots import Slot, SlotValues
from ..predicate.types import INTEGER_BITS
from ..side import SIDES, Side, other
from ..store.hashing import hash_keys
from ..store.key_arithmetic import floats
from .messages import RowRole
from .range_keys import PointKey, RangeKeys, point_keys
from .spec import JoinSpec

BANDS = 4
"""How many times as wide as the band a block is, at least: at most a quarter of the intervals touch two blocks."""
MANY = 4
"""With so many blocks for each worker, all workers have about equally much to do."""
ASKED, ALIKE = 64, 1.01
"""So many made-up intervals say whether all are equally wide, up to rounding."""
_FLOAT_BITS = {"f32": 32, "f64": 64, "approximate": 64}
_LAST = 2.0**62
"""Blocks of floats are counted up to here."""


def block_key(lowered: Lowered, schemas: dict[Side, pa.Schema]) -> tuple[PointKey, float] | None:
    """The key for routing by blocks and the size of the blocks, if there is a band that is always equally wide."""
    found = [
        (choice, size)
        for choice in point_keys(lowered)
        if choice[1].bounded and _can_be_cut(lowered, choice)
        if (size := _block_size(lowered, schemas, choice)) is not None
    ]
    return min(found, key=lambda one: _is_moment(lowered, one[0]), default=None)


def _can_be_cut(lowered: Lowered, choice: PointKey) -> bool:
    """Whether the key's slot holds numbers, not beginnings of texts; low bits can be cut off integers only."""
    is_number = _slot(lowered, choice).encoding.domain != "prefix"
    return is_number and (choice[1].stored_bits == 64 or _float_bits(lowered, choice) is None)


def has_many_blocks(lowered: Lowered, choice: PointKey, size: float, workers: int) -> bool:
    """Whether the numbers of a micro-batch may be expected to lie in many blocks for each worker. Dates and times may
    not: those that arrive together are near each other."""
    bits = INTEGER_BITS.get(without_widening(_slot(lowered, choice).expr).type.kind, 64)
    return not _is_moment(lowered, choice) and 2**bits / size >= MANY * workers


def _is_moment(lowered: Lowered, choice: PointKey) -> bool:
    type_ = _slot(lowered, choice).expr.type
    return type_.is_timestamp or type_.kind in ("date", "interval")


def _slot(lowered: Lowered, choice: PointKey) -> Slot:
    side, key = choice
    return lowered.slots[side][key.key]


def _block_size(lowered: Lowered, schemas: dict[Side, pa.Schema], choice: PointKey) -> float | None:
    """The size of blocks for a band, a power of two: made-up tuples say how wide the band is. None if it is not always
    equally wide."""
    side = other(choice[0])
    rows = made_up(schemas[side], ASKED, np.random.default_rng(0), with_nulls=False)
    slots = Intake(lowered, schemas, None).slots(side, rows, "")
    bits = _float_bits(lowered, choice)
    widths: list[float] = []
    for low, high, asks in RangeKeys(lowered, choice).intervals(slots.columns):
        if not asks.all():
            return None
        ends = [end.astype(np.float64) if bits is None else floats(end, bits) for end in (low, high)]
        distances = ends[1] - ends[0]
        if not (distances.max() <= ALIKE * distances.min()):
            return None
        widths.append(float(distances.max()))
    size = BANDS * max(widths) / ALIKE  # so that rounding does not change which power of two comes next
    if bits is None:
        size = max(size, 1)
    return 2.0 ** ceil(log2(size)) if 0 < size < _LAST else None


def _float_bits(lowered: Lowered, choice: PointKey) -> int | None:
    """How wide the floats are whose ordered bits the key's slot holds; None: it holds numbers as they are."""
    return _FLOAT_BITS.get(str(_slot(lowered, choice).encoding.domain))


@dataclass(frozen=True, slots=True)
class Share:
    """The rows that go to a worker, in ascending order, and their roles there; None: it stores and answers for all."""

    rows: Integers
    role: npt.NDArray[np.int8] | None = None


Idle = Callable[[Integers], Integers]
"""Chooses the workers of rows that can match nothing."""


def hash_shares(spec: JoinSpec, side: Side, slots: SlotValues, idle: Idle) -> list[Share]:
    """Routing by hash: rows with equal keys go to the same worker."""
    workers = len(spec.workers)
    owner = (_hash(_equal_keys(spec, side, slots.columns)) % np.uint64(workers)).astype(np.int64)
    return _dealt(_with_idle(owner, slots, idle), workers)


class Blocks:
    """Shares a side's rows out."""

    def __init__(self, spec: JoinSpec) -> None:
        assert spec.range_key is not None
        assert spec.block_size is not None
        self._spec, self._size, self._workers = spec, spec.block_size, len(spec.workers)
        self._keys = RangeKeys.of(spec)
        self._bits = _float_bits(spec.lowered, spec.range_key)
        kept = self._keys.key.stored_bits
        assert kept is not None
        self._kept = -1 if kept == 64 else (1 << kept) - 1

    def shares(self, side: Side, slots: SlotValues, idle: Idle) -> list[Share]:
        if side != self._keys.point:
            return self._interval_shares(slots, idle)
        block = self._block(self._keys.points(slots.columns))
        owner = self._owner(_equal_keys(self._spec, side, slots.columns), block)
        return _dealt(_with_idle(owner, slots, idle), self._workers)

    def _interval_shares(self, slots: SlotValues, idle: Idle) -> list[Share]:
        """The first of an interval's workers answers for it."""
        columns, workers = slots.columns, self._workers
        count = len(columns[0])
        keys = _equal_keys(self._spec, other(self._keys.point), columns)
        live = np.ones(count, np.bool_) if slots.live is None else slots.live
        everywhere = self._keys.everywhere(columns)
        wide = np.zeros(count, np.bool_) if everywhere is None else everywhere & live
        placed = wide.copy()
        copies: list[Integers] = []  # each is a row and a worker: row * workers + worker
        for low, high, asks in self._keys.intervals(columns):
            asks &= live
            placed |= asks
            first, last = self._block(low), self._block(high)
            further = last.view(np.uint64) - first.view(np.uint64)
            wide |= asks & (further >= workers)
            rows, step = np.flatnonzero(asks), 0
            while len(rows) and step < workers:
                copies.append(rows * workers + self._owner([key[rows] for key in keys], first[rows] + step))
                step += 1
                rows = rows[further[rows] >= step]
        copies.append((np.flatnonzero(wide)[:, None] * workers + np.arange(workers)).ravel())
        alone = np.flatnonzero(~placed)
        copies.append(alone * workers + idle(alone))
        found = np.sort(np.concatenate(copies))
        found = found[np.diff(found, prepend=-1) > 0]
        rows, owner = np.divmod(found, workers)
        role = np.where(np.diff(rows, prepend=-1) > 0, RowRole.ANSWERED, RowRole.STORED).astype(np.int8)
        return [Share(rows[share.rows], role[share.rows]) for share in _dealt(owner, workers)]

    def _block(self, keys: Integers) -> Integers:
        """The blocks of numbers, in the order of the numbers."""
        if self._bits is None:
            return keys >> (int(self._size).bit_length() - 1)
        with np.errstate(invalid="ignore", over="ignore"):
            place = np.floor(floats(keys, self._bits) / self._size)
        place[np.isnan(place)] = _LAST  # NaN is larger than all numbers
        return np.clip(place, -_LAST, _LAST).astype(np.int64)

    def _owner(self, keys: Sequence[Array], block: Integers) -> Integers:
        """The workers of blocks, each beside the keys of the predicate's equalities."""
        if self._kept >= 0:
            block = block & (self._kept >> (int(self._size).bit_length() - 1))
        round_, place = np.divmod(block, self._workers)
        begins = _hash([*keys, round_]).astype(np.int64)
        return (begins + place) % self._workers


def _equal_keys(spec: JoinSpec, side: Side, columns: Sequence[Any]) -> list[Array]:
    return [columns[pair[SIDES.index(side)]] for pair in spec.lowered.hash_slots]


def _hash(keys: Sequence[Array]) -> npt.NDArray[np.uint64]:
    return hash_keys(keys) >> np.uint64(32)


def _with_idle(owner: Integers, slots: SlotValues, idle: Idle) -> Integers:
    if slots.live is None:
        return owner
    rows = np.flatnonzero(~slots.live)
    owner[rows] = idle(rows)
    return owner


def _dealt(owner: Integers, workers: int) -> list[Share]:
    order = np.argsort(owner.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=workers))
    return [Share(rows) for rows in np.split(order, ends[:-1])]
