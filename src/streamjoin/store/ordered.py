"""A subwindow whose tuples are found by ranges of a key: BI-Sort, RaP-Table or WiB+-Tree over words.

Four places where a tuple can be, each probed in its own way:
- in the word index: found by range, then tested (unless the key decides alone);
- in the tail: the youngest tuples, not indexed yet (the paper's insertion buffer, section III-D): scanned;
- irregular (see `predicate.keys`): a copy is scanned by regular probing tuples; irregular ones scan everything;
- belated: a few tuples older than what the previous subwindow held (section III-G2): a small buffer of its own, so
  that the rest of the subwindow can be skipped by its time range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..compile.cache import compiled
from .batch import Batch, PairSink, Probing
from .bi_sort import BiSort, probe_runs
from .chain import Index
from .check_kernels import check_runs_source, check_source
from .key_choice import SideKeys
from .keyspace import PLACE_BITS, KeySpace, Ranges
from .scan import ScanIndex
from .sorting import sort_words
from .subwindow import StoredSide, Subwindow
from .words import WordIndex

TAIL = 1024
"""The longest tail: one block of a scan."""
BELATED = 1024

MakeWords = Callable[[int, KeySpace, "OrderedIndex | None"], WordIndex]
"""Opens a word index: its capacity, its key space, the subwindow before it."""


class OrderedIndex(Subwindow):
    """`keys` chooses the key space when the first tuples are indexed; `make_words` then opens the word index.

    Tuples older than the highest coordinate of the `previous` subwindow are belated.
    """

    def __init__(
        self,
        capacity: int,
        stored: StoredSide,
        keys: SideKeys,
        name: str,
        make_words: MakeWords,
        window: int,
        previous: Index | None,
    ) -> None:
        super().__init__(capacity, stored, scanned=False)
        self.name = name
        self._keys, self._make_words, self._window = keys, make_words, window
        self._floor = None if previous is None else previous.highest
        self._previous = previous if isinstance(previous, OrderedIndex) else None
        self._indexed = 0
        self._sealed = False
        self.space: KeySpace | None = None
        self.words: WordIndex | None = None
        self._irregular: list[ScanIndex] = []
        self._slot_addresses = self._addresses()
        self._belated: ScanIndex | None = None

    def _addresses(self) -> list[int]:
        return [slot.ctypes.data for slot in self.stored.tested(self.slots)]

    def __getstate__(self) -> dict[str, Any]:
        assert self._sealed, "only a sealed subwindow may leave its process"
        return {**super().__getstate__(), "_keys": None, "_make_words": None, "_previous": None}

    def attach(self, stored: StoredSide) -> None:
        super().attach(stored)
        self._slot_addresses = self._addresses()
        for part in (*self._irregular, *([] if self._belated is None else [self._belated])):
            part.attach(stored)

    @property
    def highest(self) -> int:
        own = self.coordinate.highest
        return own if self._belated is None else max(own, self._belated.highest)

    @property
    def first_row(self) -> int:
        own = self.row.lowest
        return own if self._belated is None else min(own, self._belated.first_row)

    @property
    def nbytes(self) -> int:
        parts = [self.words, self._belated, *self._irregular]
        return super().nbytes + sum(part.nbytes for part in parts if part is not None)

    @property
    def tuples(self) -> int:
        """All tuples, belated ones included."""
        return self.count + (0 if self._belated is None else self._belated.count)

    def insert(self, batch: Batch) -> None:
        if self._floor is not None and len(batch):
            belated = batch.coordinate < self._floor
            late = int(np.count_nonzero(belated))
            held = 0 if self._belated is None else self._belated.count
            if late and late < len(batch) and held + late <= BELATED:
                if self._belated is None:
                    self._belated = ScanIndex(BELATED, self.stored)
                self._belated.insert(batch.take(np.flatnonzero(belated)))
                batch = batch.take(np.flatnonzero(~belated))
        super().insert(batch)

    def prepare(self) -> None:
        """Index what was inserted, unless it is so little that it can stay in the tail."""
        waiting = self.count - self._indexed
        if waiting <= (0 if self._sealed else TAIL):
            return
        if self.space is None or self.words is None:
            self.space = self._keys.choose(self._window)
            self.words = self._make_words(self.capacity, self.space, self._previous)
            self._previous = None
        start, self._indexed = self._indexed, self.count
        words, regular = self.space.words(self.slots, start, self.count)
        if regular is not None:
            self._keep_apart(start, np.flatnonzero(~regular))
            words = words[regular]
        self.words.insert(sort_words(words, PLACE_BITS))
        if self._sealed:
            self.words.seal()

    def _keep_apart(self, start: int, offsets: Any) -> None:
        places = (start + offsets).astype(np.int32)
        slots: list[Any] = [None] * len(self.stored.lowered.slots[self.stored.side])
        for number, slot in self.slots.items():
            slots[number] = slot[places]
        coordinate = self.coordinate.take(places)
        apart = ScanIndex(len(places), self.stored)
        apart.insert(_stored_only(self.row.take(places), coordinate, slots))
        self._irregular.append(apart)

    def release(self) -> None:
        self._previous = None
        if isinstance(self.words, BiSort):
            self.words.release()

    def seal(self) -> None:
        self._sealed = True
        if self.words is not None:
            self.prepare()
            self.words.seal()

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        if self._belated is not None:
            yield from self._belated.probe(probing, sink)
        if not self.count or self.coordinate.highest < probing.earliest or self.coordinate.lowest >= probing.latest:
            return
        batch = probing.batch
        if self.space is None or self.words is None:
            yield from self.scan(probing.mine(batch), sink, 0, self.count)
            return
        ranges = self.ranges(probing)
        regular = batch if ranges.regular is None else ranges.regular
        if not self.has_runs:
            yield from self._probe_words(probing, ranges, sink)
        if self._indexed < self.count:
            yield from self.scan(probing.mine(regular), sink, self._indexed, self.count)
        for apart in self._irregular:
            yield from apart.scan(probing.mine(regular), sink, 0, apart.count)
        if ranges.irregular is not None:
            yield from self.scan(probing.mine(ranges.irregular), sink, 0, self.count)

    @property
    def has_runs(self) -> bool:
        """Whether the words lie in sorted runs: `probe_sorted` then probes many subwindows at once."""
        return isinstance(self.words, BiSort) and self.space is not None

    def runs(self, probing: Probing) -> list[tuple[int, ...]]:
        """This subwindow's lines for `probe_runs`; none where no probing tuple's window reaches it."""
        assert isinstance(self.words, BiSort)
        if self.coordinate.highest < probing.earliest or self.coordinate.lowest >= probing.latest:
            return []
        whole = self.coordinate.lowest >= probing.latest_low and self.coordinate.highest < probing.earliest_high
        numbers = (self.row.first, self.row.address, self.coordinate.first, self.coordinate.address, int(whole))
        slots = (self.stored.record.itemsize, *self._slot_addresses)
        return [(*place, *numbers, *slots) for place in self.words.places]

    def ranges(self, probing: Probing) -> Ranges:
        """What the probing tuples ask for in this subwindow's key space."""
        space = self.space
        assert space is not None
        return probing.once(space, lambda: space.ranges(probing.batch))

    def _probe_words(self, probing: Probing, ranges: Ranges, sink: PairSink) -> Iterator[int]:
        assert self.words is not None
        assert self.space is not None
        mine = probing.share(len(ranges.low))
        low, high, owner_of_range = ranges.low[mine], ranges.high[mine], ranges.owner[mine]
        if not len(low) or not self.words.count:
            return
        batch = probing.batch
        whole_window = self.coordinate.lowest >= probing.latest_low and self.coordinate.highest < probing.earliest_high
        state = np.zeros(4, np.int64)
        while state[0] >= 0:
            compared = int(state[1])
            out_probe, out_stored = sink.buffers
            found = self.words.probe(low, high, out_probe, out_stored, state)
            owner = owner_of_range
            if not self.space.decides:
                found = self.stored.kernel(check_source, "check")(
                    *self.stored.tested(self.slots), *self.stored.tested_of_probes(batch),
                    found, owner, out_probe, out_stored,
                )  # fmt: skip
                owner = _ITSELF
            sink.add(*_pairs(
                out_probe, out_stored, found, owner, batch.row, *self.row.parts,
                whole_window, batch.low, batch.high, *self.coordinate.parts,
            ))  # fmt: skip
            yield int(state[1]) - compared

    def figures(self) -> dict[str, Any]:
        return {} if self.words is None else self.words.figures()


def _stored_only(row: Any, coordinate: Any, slots: list[Any]) -> Batch:
    return Batch(row, coordinate, coordinate, coordinate, slots)


def probe_sorted(subwindows: Sequence[OrderedIndex], probing: Probing, sink: PairSink) -> Iterator[int]:
    """Probe the sorted runs of all subwindows of one key space in one call, and test what was found unless the key
    decides alone."""
    first = subwindows[0]
    ranges = first.ranges(probing)
    mine = probing.share(len(ranges.low))
    runs = [run for subwindow in subwindows for run in subwindow.runs(probing)]
    if not runs or mine.start == mine.stop:
        return
    batch, stored = probing.batch, first.stored
    assert first.space is not None
    if first.space.decides:
        kernel, slots = probe_runs, []
    else:
        kernel, slots = stored.kernel(check_runs_source, "check_runs"), stored.tested_of_probes(batch)
    low, high, owner = ranges.low[mine], ranges.high[mine], ranges.owner[mine]
    table, state, masks = np.array(runs, np.int64), np.zeros(5, np.int64), (_PLACE_MASK, first.space.rest_mask)
    while state[4] < len(runs):
        compared = int(state[1])
        rows = sink.row_buffers
        found = kernel(
            table, low, high, *masks, owner, batch.row, batch.low, batch.high, sink.both_buffers, rows, state, *slots
        )
        sink.add(rows[0, :found].copy(), rows[1, :found].copy())
        yield int(state[1]) - compared


_PLACE_MASK = np.uint64((1 << PLACE_BITS) - 1)
_ITSELF = np.empty(0, np.int32)
"""Says that what looks like numbers of ranges are the probing tuples themselves."""


@compiled
def _pairs(  # type: ignore[no-untyped-def]
    out_probe, out_stored, count, owner, probing_rows, first_row, rows,
    whole_window, low, high, first_coordinate, coordinates,
):  # fmt: skip
    """Row numbers of the found pairs whose stored tuple lies in the probing tuple's window."""
    probing, stored = np.empty(count, np.int64), np.empty(count, np.int64)
    owned, rows_count_up, counts_up = len(owner) > 0, len(rows) == 0, len(coordinates) == 0
    kept = 0
    for c in range(count):
        i, j = np.int64(out_probe[c]), np.int64(out_stored[c])
        if owned:
            i = np.int64(owner[i])
        probing[kept] = probing_rows[i]
        stored[kept] = first_row + j if rows_count_up else rows[j]
        if whole_window:
            kept += 1
        else:
            where = first_coordinate + j if counts_up else coordinates[j]
            kept += (where >= low[i]) & (where < high[i])
    return probing[:kept], stored[:kept]
