"""A step of few comparisons over two windows that are one scanned subwindow each, in one compiled call. Behind a
subwindow there may be runs, which are searched in the same call (`store.few`).

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

from ..arrays import INT64_MAX, INT64_MIN, Integers, Rows
from ..compile.cache import has_machine_code
from ..compile.entries import address_of_entry
from ..payload.segments import address_of
from ..side import SIDES, Side, other
from .batch import WORTH_TRIMMING, Batch, Decide
from .few_step import (
    ADDRESSES,
    COUNT,
    EARLIEST,
    END,
    FAILED,
    HIGHEST,
    LEFT_OUT,
    PROBING,
    REFUSED,
    START,
    STATIC,
    STORING,
    TOO_MANY,
    few_step,
)
from .pair_slots import PairSlots
from .ranges import Ranges
from .run_probe import BLOCK_WORDS
from .scan import ScanIndex
from .scan_kernel import PADDING, SCAN_WORDS, scan_source
from .stored_side import StoredSide
from .subwindow import FEW_PROBES

MOST_TUPLES, MOST_REACHED = 1 << 13, 1 << 19
"""Tuples of a side, and comparisons of a step that has more than `FEW_PROBES` of them. Beyond, it is worth to ask for a
better path, or for a second thread."""

_NUMBERS: Integers = np.arange(MOST_TUPLES)
"""The places of the tuples of a batch."""


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

    def release(self) -> None:
        """Hold on to nothing: no step will follow."""
        self.forget()
        self._slots.release()

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
        memory = [*map(address_of, self._memory)]
        stored = met.stored.tested(met.slots)
        first_row, rows = met.row.parts
        self._block: Integers = np.array([
            1, 1, 0, 0, 0, met.capacity + PADDING, 0, met.stored.at_once,
            address_of(rows) if len(rows) else 0, len(rows), first_row,
            met.coordinate.address, *memory[:2], 0, 0, 0, side == "left",
            *map(address_of, stored), *[0] * len(tested),
        ], np.int64)  # fmt: skip
        self._turned: Integers = np.array([
            1, 1, 0, 0, 0, 0, 0, met.stored.at_once, 0, 0, 0, address_of(_NUMBERS), 0, 0, 0, 0, 0, side == "right",
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
