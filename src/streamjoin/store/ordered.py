"""A subwindow whose tuples are found by ranges of a key: BI-Sort, RaP-Table or WiB+-Tree over words.

Four places where a tuple can be, each probed in its own way:
- in the word index: found by range, then tested (unless the key decides alone);
- in the tail: the youngest tuples, not indexed yet (the paper's insertion buffer, section III-D): scanned;
- irregular (see `predicate.keys`): a copy is scanned by regular probing tuples; irregular ones scan everything;
- belated: a few tuples older than what the previous subwindow held (section III-G2): a small buffer of its own, so
  that the rest of the subwindow can be skipped by its time range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..predicate.cache import compiled
from .batch import Batch, PairSink, Probing
from .choice import SideKeys
from .keyspace import PLACE_BITS, KeySpace, Ranges
from .scan import ScanIndex
from .sorting import sort_words
from .subwindow import StoredSide, Subwindow
from .words import Places, WordIndex

TAIL = 1024
"""The longest tail: one block of a scan."""
BELATED = 1024

MakeWords = Callable[[int, KeySpace], WordIndex]


class OrderedIndex(Subwindow):
    """`keys` chooses the key space when the first tuples are indexed; `make_words` then opens the word index.

    `floor` is the highest coordinate of the subwindow before; tuples below are belated.
    """

    def __init__(
        self,
        capacity: int,
        stored: StoredSide,
        keys: SideKeys,
        name: str,
        make_words: MakeWords,
        window: int,
        floor: int | None,
    ) -> None:
        super().__init__(capacity, stored)
        self.name = name
        self._keys, self._make_words, self._window, self._floor = keys, make_words, window, floor
        self._indexed = 0
        self._sealed = False
        self.space: KeySpace | None = None
        self.words: WordIndex | None = None
        self._irregular: list[ScanIndex] = []
        self._belated: ScanIndex | None = None

    @property
    def _extras(self) -> list[ScanIndex]:
        return [] if self._belated is None else [self._belated]

    @property
    def highest(self) -> int:
        return max([self.coordinate.highest, *(extra.highest for extra in self._extras)])

    @property
    def first_row(self) -> int:
        return min([self.row.lowest, *(extra.first_row for extra in self._extras)])

    @property
    def nbytes(self) -> int:
        parts = [*self._irregular, *self._extras] + ([] if self.words is None else [self.words])
        return super().nbytes + sum(part.nbytes for part in parts)

    @property
    def tuples(self) -> int:
        """All tuples, belated ones included."""
        return self.count + sum(extra.count for extra in self._extras)

    def insert(self, batch: Batch) -> None:
        if self._floor is not None and len(batch):
            belated = batch.coordinate < self._floor
            late = int(np.count_nonzero(belated))
            held = 0 if self._belated is None else self._belated.count
            if late and late < len(batch) and held + late <= BELATED:
                if self._belated is None:
                    self._belated = ScanIndex(BELATED, self._stored)
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
            self.words = self._make_words(self.capacity, self.space)
        start, self._indexed = self._indexed, self.count
        words, regular = self.space.words(self.slots, start, self.count)
        if regular is not None:
            self._keep_apart(start, np.flatnonzero(~regular))
            words = words[regular]
        self.words.insert(sort_words(words, PLACE_BITS))
        if self._sealed:
            self.words.seal()

    def _keep_apart(self, start: int, offsets: Any) -> None:
        places = start + offsets
        slots: list[Any] = [None] * len(self._stored.lowered.slots[self._stored.side])
        for number, slot in self.slots.items():
            slots[number] = slot[places]
        coordinate = self.coordinate.take(places)
        apart = ScanIndex(len(places), self._stored)
        apart.insert(_stored_only(self.row.take(places), coordinate, slots))
        self._irregular.append(apart)

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
            yield from self.scan(batch, sink, 0, self.count)
            return
        space = self.space
        ranges: Ranges = probing.once(space, lambda: space.ranges(batch))
        regular, irregular = probing, ranges.irregular
        if ranges.regular is not None:
            regular = probing.once((space, "regular"), lambda: Probing(ranges.regular))  # type: ignore[arg-type]
        yield from self._probe_words(probing, ranges, sink)
        yield from self.scan(regular.batch, sink, self._indexed, self.count)
        for apart in self._irregular:
            yield from apart.probe(regular, sink)
        if irregular is not None:
            yield from self.scan(irregular, sink, 0, self.count)

    def _probe_words(self, probing: Probing, ranges: Ranges, sink: PairSink) -> Iterator[int]:
        assert self.words is not None
        assert self.space is not None
        if not len(ranges.low) or not self.words.count:
            return
        batch = probing.batch
        whole_window = self.coordinate.lowest >= probing.latest_low and self.coordinate.highest < probing.earliest_high
        state = np.zeros(4, np.int64)
        while state[0] >= 0:
            compared = int(state[1])
            out_probe, out_stored = sink.buffers
            found = self.words.probe(ranges.low, ranges.high, out_probe, out_stored, state)
            _owners(out_probe, ranges.owner, found)
            if not self.space.decides:
                found = self._stored.check(
                    *self._stored.tested(self.slots), *self._stored.tested_of_probes(batch),
                    found, out_probe, out_stored,
                )  # fmt: skip
            if not whole_window:
                found = self._inside(out_probe, out_stored, found, batch)
            sink.drain(found, batch.row, self.row)
            yield int(state[1]) - compared

    def _inside(self, out_probe: Places, out_stored: Places, found: int, batch: Batch) -> int:
        """Keep the pairs whose stored tuple lies in the probing tuple's window; returns how many those are."""
        array = self.coordinate.array
        if array is None:
            return _inside_counting(out_probe, out_stored, found, self.coordinate.first, batch.low, batch.high)
        return _inside(out_probe, out_stored, found, array, batch.low, batch.high)

    def figures(self) -> dict[str, Any]:
        return {} if self.words is None else self.words.figures()


def _stored_only(row: Any, coordinate: Any, slots: list[Any]) -> Batch:
    return Batch(row, coordinate, coordinate, coordinate, slots)


@compiled
def _owners(out_probe, owner, count):  # type: ignore[no-untyped-def]
    """From numbers of ranges to the probing tuples they belong to."""
    for c in range(count):
        out_probe[c] = owner[out_probe[c]]


@compiled
def _inside(out_probe, out_stored, count, coordinate, low, high):  # type: ignore[no-untyped-def]
    """Keep the pairs whose stored tuple lies in the probing tuple's window."""
    kept = 0
    for c in range(count):
        i, j = out_probe[c], out_stored[c]
        where = coordinate[j]
        out_probe[kept] = i
        out_stored[kept] = j
        kept += (where >= low[i]) & (where < high[i])
    return kept


@compiled
def _inside_counting(out_probe, out_stored, count, first, low, high):  # type: ignore[no-untyped-def]
    """The same where the coordinates count up from `first`."""
    kept = 0
    for c in range(count):
        i, j = out_probe[c], out_stored[c]
        where = first + j
        out_probe[kept] = i
        out_stored[kept] = j
        kept += (where >= low[i]) & (where < high[i])
    return kept
