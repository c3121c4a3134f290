"""A subwindow's tuples, column by column: what every index stores. An index adds a structure to find them by."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from ..arrays import Array, Integers, Rows
from ..compile.cache import Kernel
from ..compile.generic import is_ascending
from ..tasks import Job, Walk
from .batch import Batch, PairSink, Probing
from .grid_probe import GridProbe, grid_of
from .integer_column import IntegerColumn
from .key_choice import KeyChooser
from .keyspace import KeySpace
from .reach import Reach, Reached, meeting
from .scan_kernel import PADDING, scan_source
from .stored_side import FEW_STORED, StoredSide
from .table_jobs import store_job
from .words import COMPARED, DONE, NEXT, WordIndex, new_state

GROUP = 32
"""Probing tuples that scan the same stored tuples together, where each reaches few of them."""
LONG_REACH = 1 << 13
"""Stored tuples. Where probing tuples reach more than this, what they reach does not stay in the cache."""
FOR_EVER = 1 << 62
"""The places of records that are no ring."""
FEW_PROBES = 128
"""Probing tuples that are not worth a grid."""


class Subwindow:
    """Up to `capacity` tuples in the order of insertion: an `Index` but for `probe`.

    `scanned`: probes read the tuples one after the other, so each slot lies in an array of its own. Else they read
    single tuples here and there, so all slots of a tuple lie side by side: one miss of the cache instead of several.
    Without `keeps_slots`, slots are kept elsewhere.
    """

    name: str
    divisible = False

    def __init__(
        self, capacity: int, stored: StoredSide, *, scanned: bool = True, keeps_slots: bool = True
    ) -> None:  # fmt: skip
        self.stored = stored
        self.capacity = capacity
        self._records: Array | None = None
        self.slots: dict[int, Array] = {}
        if not keeps_slots:
            scanned = False
        elif scanned:
            self.slots = {number: np.empty(capacity + PADDING, dtype) for number, dtype in stored.dtypes.items()}
        else:
            self._records = stored.records(capacity + PADDING)
            self.slots = self._views(self._records)
        self.coordinate = IntegerColumn(capacity, explicit=scanned)
        self.reach = Reach(capacity)
        self.row = IntegerColumn(capacity)
        self.count = 0

    @property
    def room(self) -> int:
        return self.capacity - self.count

    @property
    def tuples(self) -> int:
        return self.count

    def at_least(self, coordinate: int) -> int:
        return self.reach.at_least(self.coordinate, self.count, coordinate)

    def rows(self, low: int, high: int) -> Rows:
        first = self.coordinate.first
        return self.row.slice(min(max(low - first, 0), self.count), min(max(high - first, 0), self.count))

    @property
    def highest(self) -> int:
        return self.coordinate.highest

    @property
    def first_row(self) -> int:
        return self.row.lowest

    @property
    def nbytes(self) -> int:
        return (
            self.stored.record.itemsize * self.capacity + self.coordinate.nbytes + self.reach.nbytes + self.row.nbytes
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what `attach` restores: kernels belong to a process, and pickled views of the records would
        become arrays of their own."""
        left_out = {"stored"} if self._records is None else {"stored", "slots"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def _views(self, records: Array) -> dict[int, Array]:
        return {number: records[str(number)] for number in self.stored.dtypes}

    def attach(self, stored: StoredSide, keys: KeyChooser) -> None:
        self.stored = stored
        if "reach" not in self.__dict__:  # the state of an older version
            self.reach = Reach(self.capacity)
            self.reach.append(self.coordinate, 0, self.count, is_ascending(self.coordinate.slice(0, self.count)))
        if self._records is not None:
            self.slots = self._views(self._records)

    def insert(self, batch: Batch) -> None:
        for number, stored in self.slots.items():
            stored[self.count : self.count + len(batch)] = batch.slots[number]
        self._note(batch)

    def storing(self, batch: Batch) -> Walk:
        """The same in stages. The records are filled with the jobs that the window defers."""
        if self._records is None:
            Subwindow.insert(self, batch)
            return
        fields = self.stored.record.fields
        if fields:
            columns = [(batch.slots[number], fields[str(number)][1]) for number in self.slots]
            self.stored.deferred.append(
                store_job(columns, self._records, FOR_EVER, self.count, self.stored.workers)
            )  # fmt: skip
        self._note(batch)
        yield from ()

    def _note(self, batch: Batch) -> None:
        """Tuples have been stored."""
        start, end = self.count, self.count + len(batch)
        in_order = self.coordinate.append(batch.coordinate)
        self.reach.append(self.coordinate, start, end, in_order)
        self.row.append(batch.row)
        self.count = end

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        raise NotImplementedError

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        """Nothing to compute."""
        yield from ()

    @property
    def group(self) -> Hashable | None:
        return None

    def probe_group(self, group: Sequence[Self], probing: Probing, sink: PairSink) -> Iterator[int]:
        return iter(())

    def group_jobs(self, group: Sequence[Self], probing: Probing, parts: int, left_probes: bool) -> list[Job] | None:
        return None

    @property
    def beside_group(self) -> bool:
        return True

    def scan_jobs(self, probing: Probing, parts: int, left_probes: bool, by_stored: bool) -> list[Job] | None:
        return None

    @property
    def key(self) -> str | None:
        return None

    def words_in(self, space: KeySpace) -> WordIndex | None:
        return None

    def inserting(self, batch: Batch) -> Walk:
        self.insert(batch)
        yield from ()

    def preparing(self) -> Walk:
        self.prepare()
        yield from ()

    def sealing(self) -> Walk:
        self.seal()
        yield from ()

    def prepare(self) -> None:
        """Nothing to build."""

    def seal(self) -> None:
        """Nothing to build."""

    def release(self) -> None:
        """Nothing to give back."""

    def figures(self) -> dict[str, Any]:
        return {}

    def as_batch(self) -> Batch:
        """All tuples as they are stored; nobody is said to be in their windows."""
        for job in self.stored.take_deferred():
            job()
        slots: list[Any] = [None] * len(self.stored.lowered.slots[self.stored.side])
        for number, slot in self.slots.items():
            slots[number] = np.ascontiguousarray(slot[: self.count])
        coordinate = self.coordinate.slice(0, self.count)
        return Batch(self.row.slice(0, self.count), coordinate, coordinate, coordinate, slots)

    def reached(self, low: Integers, high: Integers) -> tuple[int, int]:
        if not self.count:
            return 0, 0
        _, _, begin, end, reached = self.reach.slice(self.coordinate, 0, self.count, low, high)
        return reached, end - begin

    def scan(self, probing: Probing, batch: Batch, sink: PairSink, start: int, stop: int) -> Iterator[int]:
        """Compare some of the probing tuples with the tuples at places [start, stop) that they may meet."""
        probes = len(batch)
        if stop <= start or not probes:
            return iter(())
        is_small = probes <= FEW_PROBES
        if is_small:
            reach = self.reach.slice(self.coordinate, start, stop, batch.low, batch.high)
        else:
            reach = self.reached_of(probing, batch, start, stop)
        _, _, begin, end, _ = reach
        if begin >= end:
            return iter(())
        is_turned = FEW_STORED * (end - begin) < probes
        found = None if is_small else grid_of(self, probing, batch, start, stop)
        if found is not None:
            return self._by_grid(found, sink)
        if is_turned and is_ascending(batch.low) and is_ascending(batch.high):
            return self._scan_turned(batch, sink, reach)
        return self.scan_reached(batch, sink, reach)

    def _by_grid(self, found: GridProbe, sink: PairSink) -> Iterator[int]:
        """Holds the grid meanwhile: its memory is used again once nobody does."""
        yield from run_kernel(*found.call(self), sink)

    def scan_reached(self, batch: Batch, sink: PairSink, reach: Reached) -> Iterator[int]:
        """Compare each probing tuple with the tuples that it reaches."""
        first, last, begin, end, reached = reach
        slots = self.tested(begin, end + PADDING)
        group = GROUP if reached < LONG_REACH * len(batch) else len(batch)
        limit = len(slots[0]) if slots else end + PADDING - begin
        arguments = (
            *slots, self.coordinate.slice(begin, end), *self.stored.tested_of_probes(batch), first, last,
            batch.low, batch.high, group, self.stored.at_once, limit, batch.row, begin, *self.row.parts,
        )  # fmt: skip
        return run_kernel(self.stored.kernel(scan_source, "scan"), arguments, sink)

    def _scan_turned(self, batch: Batch, sink: PairSink, reach: Reached) -> Iterator[int]:
        """Compare each tuple that is reached with the probing tuples that reach it."""
        _, _, begin, end, reached = reach
        coordinate, count = self.coordinate.slice(begin, end), end - begin
        group = GROUP if reached < LONG_REACH * count else count
        first, last = meeting(batch.low, batch.high, coordinate)
        arguments = (
            *self.stored.tested_of_probes(batch), np.arange(len(batch)), *self.tested(begin, end), first, last,
            first, last, group, self.stored.at_once, len(batch), self.row.slice(begin, end), 0, 0, batch.row,
        )  # fmt: skip
        return run_kernel(self.stored.turned_kernel(), arguments, sink, turned=True)

    def tested(self, begin: int, end: int) -> list[Array]:
        """The slots that the condition reads, of the tuples at some places."""
        slots = [slot[begin:end] for slot in self.stored.tested(self.slots)]
        return slots if self._records is None else [np.ascontiguousarray(slot) for slot in slots]

    def reached_of(
        self, probing: Probing, batch: Batch, start: int, stop: int
    ) -> Reached:  # fmt: skip
        """What `Reach.slice` says of some of the probing tuples."""
        if batch is not probing.batch:
            return self.reach.slice(self.coordinate, start, stop, batch.low, batch.high)
        found: Reached = probing.once(
            (self, start, stop), lambda: self.reach.slice(self.coordinate, start, stop, batch.low, batch.high)
        )
        return found


def run_kernel(kernel: Kernel, arguments: Sequence[Any], sink: PairSink, turned: bool = False) -> Iterator[int]:
    """Call a kernel until it is done, and take its pairs after each call; gives the comparisons of each call.

    The kernel keeps in its state where to go on. `turned`: it takes stored tuples for probing ones and the other way
    round.
    """
    state = new_state()
    while state[NEXT] != DONE:
        compared = int(state[COMPARED])
        found = kernel(*arguments, sink.both_buffers, tuple(sink.row_buffers), state)
        sink.add_rows(found, turned)
        yield int(state[COMPARED]) - compared
