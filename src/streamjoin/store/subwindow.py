"""A subwindow's tuples, column by column: what every index stores. An index adds a structure to find them by."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from ..arrays import Array, Integers, Rows
from ..compile.background import is_rehearsing
from ..compile.cache import Kernel, LazyKernel
from ..compile.generic import is_ascending
from ..predicate.lower import Lowered
from ..side import Side, other
from ..tasks import Job, Walk
from .batch import Batch, PairSink, Probing
from .costs import comparison_cost, costs
from .grid import Candidates, Grid, GridKeys, are_regular, grid_source
from .integer_column import IntegerColumn
from .key_choice import KeyChooser
from .keyspace import KeySpace
from .reach import Reach, meeting
from .scan_kernel import PADDING, scan_source
from .table_jobs import store_job
from .words import COMPARED, DONE, NEXT, WordIndex, new_state

FEW_TESTS = 4
"""Tests of a condition that costs little."""
GROUP = 32
"""Probing tuples that scan the same stored tuples together, where each reaches few of them."""
LONG_REACH = 1 << 13
"""Stored tuples. Where probing tuples reach more than this, what they reach does not stay in the cache."""
FEW_STORED = 4
"""Where probing tuples are so many times as many as the stored ones that they reach, each stored tuple is compared with
many probing ones at a time, not each probing tuple with a few stored ones."""
AT_ONCE, AT_ONCE_COMPUTED = 1 << 30, 1 << 23
"""Comparisons of one call of a scan, and of one that computes for each pair, which may take a hundred times longer:
about a tenth of a second, so that Ctrl-C is soon seen."""

FOR_EVER = 1 << 62
"""The places of records that are no ring."""
SPARES, ROOM_TO_GROW = 2, 8
"""How many expired subwindows' records are kept, and what part of them is added, so that they serve larger ones too."""
VAIN_GRIDS = 8
"""After so many grids that were not used, none is made until the paths are compared again."""
FEW_PROBES = 128
"""Probing tuples that are not worth a grid."""

T = TypeVar("T")
Reached = tuple[Integers, Integers, int, int, int]
"""What `Reach.slice` finds."""
Template = Callable[[Lowered, Side], str]
"""Writes the text of a kernel for a lowered predicate and the side that is stored."""


@dataclass
class StoredSide:
    """What every subwindow of one stored side needs to know of the predicate. Kernels are compiled when first used."""

    lowered: Lowered
    side: Side
    grid_keys: GridKeys | None = None
    """What a scan may group tuples by; None: it compares with all of them."""
    dtypes: dict[int, str] = field(init=False)
    record: np.dtype[Any] = field(init=False)
    """The slots of one tuple side by side, wide ones first."""
    comparison: float = field(init=False)
    """Nanoseconds that a scan takes to compare two tuples."""
    at_once: int = field(init=False)
    """Comparisons of one call of a scan."""
    workers: int = field(init=False, default=1)
    """How many threads may share the insertion of a batch."""
    spare: list[Array] = field(init=False, default_factory=list)
    """Records of subwindows that have expired. Fresh memory takes longer to touch than tuples take to be stored."""
    deferred: list[Job] = field(init=False, default_factory=list)
    """The storing of tuples that have been taken in. It is done together with the next job, or before they are read."""
    vain_grids: int = field(init=False, default=0)
    """How many of the last grids had so many candidates that the batch was scanned. Threads may lose a count."""
    dearness: float = field(init=False)
    """How many times as much a comparison costs as one of a few tests, or 1 if it costs no more."""
    _kernels: dict[Template, Kernel] = field(init=False, default_factory=dict)
    _entries: dict[str, LazyKernel] = field(init=False, default_factory=dict)
    _turned: Kernel | None = field(init=False, default=None)
    _turned_entry: LazyKernel | None = field(init=False, default=None)
    _shared: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        slots = self.lowered.slots[self.side]
        self.dtypes = {number: slots[number].dtype for number in self.lowered.kept[self.side]}
        self.comparison = comparison_cost(self.lowered)
        self.at_once = AT_ONCE_COMPUTED if self.lowered.lines else AT_ONCE
        self.dearness = max(self.comparison / (FEW_TESTS * costs().compare), 1.0)
        by_width = sorted(self.dtypes.items(), key=lambda slot: -np.dtype(slot[1]).itemsize)
        self.record = np.dtype([(str(number), dtype) for number, dtype in by_width], align=True)

    def kernel(self, template: Template, name: str) -> Kernel:
        """A template's kernel for this predicate and side."""
        if template not in self._kernels:
            self._kernels[template] = LazyKernel(template(self.lowered, self.side), name)
        return self._kernels[template]

    def take_deferred(self) -> list[Job]:
        """The deferred jobs, which the caller sees done."""
        jobs, self.deferred = self.deferred, []
        return jobs

    def records(self, count: int) -> Array:
        """Memory for so many records."""
        while self.spare:
            found = self.spare.pop()
            if count <= len(found) < 2 * count:
                return found[:count]
        return np.zeros(count + count // ROOM_TO_GROW, self.record)[:count]

    def entry(self, template: Template, name: str) -> Kernel:
        """The entry of a template's kernel (see `compile.entries`)."""
        if name not in self._entries:
            self._entries[name] = LazyKernel(template(self.lowered, self.side), name)
        return self._entries[name].function

    def turned_entry(self) -> Kernel:
        """The entry of the scan that takes this side's tuples as probing ones."""
        if self._turned_entry is None:
            self._turned_entry = LazyKernel(scan_source(self.lowered, other(self.side)), "scan_part")
        return self._turned_entry.function

    def turned_kernel(self) -> Kernel:
        """The scan that takes this side's tuples as probing ones."""
        if self._turned is None:
            self._turned = LazyKernel(scan_source(self.lowered, other(self.side)), "scan")
        return self._turned

    def shared(self, kind: Callable[[StoredSide], T]) -> T:
        """The one structure of a kind that all subwindows of this window share."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
        found: T = self._shared[kind]
        return found

    def forget_shared(self) -> None:
        """The window has no subwindows any more."""
        self._shared.clear()

    def tested(self, slots: Any) -> list[Array]:
        """A stored tuple's slots that the condition reads, in the kernels' order."""
        return [slots[number] for number in self.lowered.tested[self.side]]

    def tested_of_probes(self, batch: Batch) -> list[Array]:
        return [batch.slots[number] for number in self.lowered.tested[other(self.side)]]


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
        known, first = self.coordinate.array, self.coordinate.first
        if known is not None:
            start, stop = known[: self.count].searchsorted((low, high)).tolist()
            return self.row.slice(start, stop)
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
            reach = self._reached(probing, batch, start, stop)
        _, _, begin, end, reached = reach
        if begin >= end:
            return iter(())
        is_turned = FEW_STORED * (end - begin) < probes
        grid = None if is_small else self._grid(probing, start, stop)
        if grid is not None and grid.serves(batch):
            candidates = grid.candidates(batch)
            to_test = candidates.count * (costs().to_test(end - begin) + self.stored.comparison)
            if is_rehearsing() or to_test < self._to_scan(probes, reached, is_turned):
                self.stored.vain_grids = 0
                return self._probe_grid(grid, candidates, batch, sink)
            self.stored.vain_grids += 1
        if is_turned and is_ascending(batch.low) and is_ascending(batch.high):
            return self._scan_turned(batch, sink, reach)
        return self.scan_reached(batch, sink, reach)

    def scan_reached(self, batch: Batch, sink: PairSink, reach: Reached) -> Iterator[int]:
        """Compare each probing tuple with the tuples that it reaches."""
        first, last, begin, end, reached = reach
        slots = self._tested(begin, end + PADDING)
        group = GROUP if reached < LONG_REACH * len(batch) else len(batch)
        limit = len(slots[0]) if slots else end + PADDING - begin
        arguments = (
            *slots, self.coordinate.slice(begin, end), *self.stored.tested_of_probes(batch), first, last,
            batch.low, batch.high, group, self.stored.at_once, limit, batch.row, begin, *self.row.parts,
        )  # fmt: skip
        return _run(self.stored.kernel(scan_source, "scan"), arguments, sink)

    def _scan_turned(self, batch: Batch, sink: PairSink, reach: Reached) -> Iterator[int]:
        """Compare each tuple that is reached with the probing tuples that reach it."""
        _, _, begin, end, reached = reach
        coordinate, count = self.coordinate.slice(begin, end), end - begin
        group = GROUP if reached < LONG_REACH * count else count
        first, last = meeting(batch.low, batch.high, coordinate)
        arguments = (
            *self.stored.tested_of_probes(batch), np.arange(len(batch)), *self._tested(begin, end), first, last,
            first, last, group, self.stored.at_once, len(batch), self.row.slice(begin, end), 0, 0, batch.row,
        )  # fmt: skip
        return _run(self.stored.turned_kernel(), arguments, sink, turned=True)

    def _tested(self, begin: int, end: int) -> list[Array]:
        """The slots that the condition reads, of the tuples at some places."""
        slots = [slot[begin:end] for slot in self.stored.tested(self.slots)]
        return slots if self._records is None else [np.ascontiguousarray(slot) for slot in slots]

    def _reached(
        self, probing: Probing, batch: Batch, start: int, stop: int
    ) -> Reached:  # fmt: skip
        """What `Reach.slice` says of some of the probing tuples."""
        if batch is not probing.batch:
            return self.reach.slice(self.coordinate, start, stop, batch.low, batch.high)
        found: Reached = probing.once(
            (self, start, stop), lambda: self.reach.slice(self.coordinate, start, stop, batch.low, batch.high)
        )
        return found

    def _to_scan(self, probes: int, reached: int, is_turned: bool) -> float:
        """Nanoseconds to compare probing tuples with all that they reach."""
        known = costs()
        return probes * (known.turned_probe if is_turned else known.scanned_probe) + reached * self.stored.comparison

    def _grid(self, probing: Probing, start: int, stop: int) -> Grid | None:
        """The tuples at places [start, stop) that the batch reaches as a grid, if that may take less time than to
        compare each probing tuple with all that it reaches."""
        if self.stored.grid_keys is None or self.stored.vain_grids > VAIN_GRIDS:
            return None
        if self._to_scan(len(probing.batch), len(probing.batch) * (stop - start), False) < costs().grid_step:
            return None
        found: Grid | None = probing.once((self, start, stop, "grid"), lambda: self._made_grid(probing, start, stop))
        return found

    def _made_grid(self, probing: Probing, start: int, stop: int) -> Grid | None:
        known, probes = costs(), len(probing.batch)
        _, _, begin, end, reached = self._reached(probing, probing.batch, start, stop)
        keys = self.stored.grid_keys
        assert keys is not None
        to_scan = self._to_scan(probes, reached, FEW_STORED * (end - begin) < probes)
        to_begin = known.grid_step + known.to_group(end - begin, keys.runs) + probes * keys.runs * known.grid_probe
        if (
            begin >= end
            or (to_scan < to_begin and not is_rehearsing())
            or not are_regular(keys, self.slots, begin, end)
        ):
            return None
        return Grid(keys, self.slots, begin, end, probing.batch)

    def _probe_grid(self, grid: Grid, candidates: Candidates, batch: Batch, sink: PairSink) -> Iterator[int]:
        """Compare probing tuples with their candidates, whose memory is used again once nobody holds them."""
        arguments = (
            *self._tested(grid.begin, grid.end), self.coordinate.slice(grid.begin, grid.end),
            *self.stored.tested_of_probes(batch), grid.order, candidates.first, candidates.last, candidates.runs,
            batch.low, batch.high, batch.row, grid.begin, *self.row.parts,
        )  # fmt: skip
        yield from _run(self.stored.kernel(grid_source, "grid"), arguments, sink)


def _run(kernel: Kernel, arguments: Sequence[Any], sink: PairSink, turned: bool = False) -> Iterator[int]:
    """Call a kernel until it is done, and take its pairs after each call; gives the comparisons of each call.

    The kernel keeps in its state where to go on. `turned`: it takes stored tuples for probing ones and the other way
    round.
    """
    state = new_state()
    while state[NEXT] != DONE:
        compared = int(state[COMPARED])
        found = kernel(*arguments, sink.both_buffers, sink.row_buffers, state)
        sink.add_rows(found, turned)
        yield int(state[COMPARED]) - compared
