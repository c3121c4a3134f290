"""A subwindow whose tuples are found by ranges of a key, over any `WordIndex`.

A tuple can be in one of four places, and each is probed in its own way:
- in the word index: found by range, then tested (unless the key decides alone);
- in the tail: the youngest tuples, not indexed yet (the paper's insertion buffer, section III-D): scanned;
- irregular (see `predicate.keys`): regular probing tuples scan a copy, irregular ones scan everything;
- belated: a few tuples older than what the previous subwindow held (section III-G2). They have a small buffer of their
  own, so that the time range of the rest stays short, and probes can skip it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..arrays import Integers, Words
from ..compile.background import is_rehearsing
from ..compile.entries import address_of_entry
from ..compile.generic import extremes
from ..payload.segments import address_of
from ..side import other
from ..tasks import Job, Walk, one_after_another, together
from .batch import Batch, PairSink, Probing, concatenated
from .check_kernels import ITSELF, check_runs_source, check_source, row_pairs
from .few_scan import Search
from .index import Index, IndexKind, Opening
from .integer_column import IntegerColumn
from .key_choice import KeyChooser
from .keyspace import KeySpace
from .ranges import Ranges
from .run_probe import BLOCK_WORDS, probe_runs, probe_runs_part
from .runs import SLOTS, padded
from .scan import ScanIndex
from .sorting import sort_words
from .stored_side import SPARES, StoredSide
from .subwindow import Subwindow
from .word_jobs import computed_ranges, sorted_words
from .words import COMPARED, DONE, NEXT, PLACE_BITS, RUN, WordIndex, new_state

TAIL = 2048
"""The longest tail: two blocks of a scan. To index it takes as long as to scan a few hundred such blocks."""
SCANNED_TAIL = 1 << 19
"""The most comparisons of a batch with a tail: to sort a few tuples takes as long. Dear ones are fewer."""
SHORTEST_TAIL = 64
"""A key space is chosen from at least so many tuples."""
BELATED = 1024

OpenWords = Callable[[Opening, WordIndex | None], WordIndex]
"""Opens a word index. The second argument is that of the previous subwindow, if its words mean the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedKind(IndexKind):
    """The kind of an `OrderedIndex`; `open_words` opens its word index."""

    open_words: OpenWords


def ordered_kind(name: str, open_words: OpenWords) -> OrderedKind:
    """The kind of index that a word index makes."""

    def open_(opening: Opening) -> Index:
        return OrderedIndex(name, opening, open_words)

    return OrderedKind(name=name, needs="order", open=open_, how=", sorted by a key", open_words=open_words)


class OrderedIndex(Subwindow):
    """The key space is chosen when the first tuples are indexed; the word index is opened then.

    Tuples older than the highest coordinate of the previous subwindow are belated.
    """

    def __init__(self, name: str, opening: Opening, open_words: OpenWords) -> None:
        super().__init__(opening.capacity, opening.stored, scanned=False)
        self.name = name
        self._keys: KeyChooser | None = opening.keys
        self._opening: tuple[Opening, OpenWords] | None = (opening, open_words)
        """What opens the word index; None once that is done."""
        self._floor = None if opening.previous is None else opening.previous.highest
        self._indexed = 0
        self._newest: Batch | None = None
        """The last batch, until it is indexed: its slots need not be read from the records, which may not be there."""
        self._sealed = False
        self._space: KeySpace | None = None
        self._words: WordIndex | None = None
        self._run_all = opening.run_all
        self._in_runs = False
        """Whether the words lie in ascending runs."""
        self._irregular: list[ScanIndex] = []
        self._slot_addresses = self._addresses()
        self._run_table: Integers | None = None
        """The lines of this subwindow in the run table; None if they have changed."""
        self._belated: ScanIndex | None = None

    def _addresses(self) -> list[int]:
        return [slot.ctypes.data for slot in self.stored.tested(self.slots)]

    def __getstate__(self) -> dict[str, Any]:
        assert self._sealed, "only a sealed subwindow may leave its process"
        return {
            **super().__getstate__(), "_keys": None, "_opening": None, "_run_table": None,
            "_run_all": one_after_another, "_newest": None,
        }  # fmt: skip

    def attach(self, stored: StoredSide, keys: KeyChooser) -> None:
        super().attach(stored, keys)
        self._keys = keys
        self._slot_addresses, self._run_table = self._addresses(), None
        for part in (*self._irregular, *([] if self._belated is None else [self._belated])):
            part.attach(stored, keys)
        if self._space is not None:
            self._space = keys.adopt(self._space)

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
        parts = [self._words, self._belated, *self._irregular]
        return super().nbytes + sum(part.nbytes for part in parts if part is not None)

    @property
    def tuples(self) -> int:
        """All tuples, belated ones included."""
        return self.count + (0 if self._belated is None else self._belated.count)

    def at_least(self, coordinate: int) -> int:
        return super().at_least(coordinate) + (0 if self._belated is None else self._belated.at_least(coordinate))

    def as_batch(self) -> Batch:
        own = super().as_batch()
        return own if self._belated is None else concatenated([own, self._belated.as_batch()])

    def insert(self, batch: Batch) -> None:
        super().insert(self._timely(batch))
        self._newest = None

    def inserting(self, batch: Batch) -> Walk:
        timely = self._timely(batch)
        yield from self.storing(timely)
        self._newest = timely

    def _timely(self, batch: Batch) -> Batch:
        """The tuples of a batch that are not belated; the others are put apart, if they are few."""
        if self._floor is not None and extremes(batch.coordinate)[0] < self._floor:
            belated = batch.coordinate < self._floor
            late = int(np.count_nonzero(belated))
            held = 0 if self._belated is None else self._belated.count
            if late and late < len(batch) and held + late <= BELATED:
                if self._belated is None:
                    self._belated = ScanIndex(BELATED, self.stored)
                self._belated.insert(batch.take(np.flatnonzero(belated)))
                return batch.take(np.flatnonzero(~belated))
        return batch

    @property
    def _longest_tail(self) -> int:
        """The more tuples probe at a time, the sooner it pays to sort what they would scan."""
        probing = 0 if self._keys is None else self._keys.probing
        most = int(SCANNED_TAIL / self.stored.dearness)
        return TAIL if probing * TAIL <= most else max(most // probing, SHORTEST_TAIL)

    @property
    def is_to_be_indexed(self) -> bool:
        """Whether more waits to be indexed than can stay in the tail."""
        return self.count - self._indexed > (0 if self._sealed else self._longest_tail)

    def prepare(self) -> None:
        """Index what was inserted, unless it is so little that it can stay in the tail."""
        together([self.preparing()], self._run_all)

    def preparing(self) -> Walk:
        if not self.is_to_be_indexed:
            return
        space, index = self._opened()
        start, self._indexed = self._indexed, self.count
        waiting = self.count - start
        stored, newest = self.stored, self._newest
        slots: Any
        if newest is not None and len(newest) == waiting:
            slots, first = newest.slots, 0
        else:
            yield stored.take_deferred()
            slots, first = self.slots, start
        self._newest, count = None, waiting
        words = yield from sorted_words(space, slots, first, waiting, start, stored.workers, stored.take_deferred)
        if words is None:
            yield stored.take_deferred()
            found: list[Words] = []
            yield [lambda: found.append(self._made(space, start, self.count))]
            words, count = found[0], len(found[0])
            words = np.concatenate([words, np.empty(padded(count) - count, np.uint64)])
        yield from index.inserting(words, count)
        self._run_table = None
        if self._sealed:
            yield from index.sealing()

    def _made(self, space: KeySpace, start: int, stop: int) -> Words:
        """The words of the regular tuples at some places, sorted; the others are kept apart."""
        words, regular = space.words(self.slots, start, stop)
        if regular is not None:
            self._keep_apart(start, np.flatnonzero(~regular))
            words = words[regular]
        return sort_words(words, PLACE_BITS)

    def _opened(self) -> tuple[KeySpace, WordIndex]:
        """The key space and the word index; both are opened at the first call."""
        if self._space is None or self._words is None:
            assert self._opening is not None
            opening, open_words = self._opening
            self._space = opening.keys.space(opening.window)
            before = None if opening.previous is None else opening.previous.words_in(self._space)
            self._words = open_words(opening, before)
            self._in_runs = self._words.runs is not None
            self._opening = None
        return self._space, self._words

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
        self._opening = None
        memory = None if self._records is None else self._records.base
        if isinstance(memory, np.ndarray) and memory.flags.owndata and len(self.stored.spare) < SPARES:
            self.stored.spare.append(memory)
        if self._words is not None:
            self._words.release()

    def seal(self) -> None:
        together([self.sealing()], self._run_all)

    def sealing(self) -> Walk:
        self._sealed = True
        if self._words is not None:
            yield from self.preparing()
            yield from self._words.sealing()
            self._run_table = None

    @property
    def key(self) -> str | None:
        if self._space is not None:
            return self._space.why
        return None if self._keys is None else self._keys.text

    def words_in(self, space: KeySpace) -> WordIndex | None:
        return self._words if self._space is space else None

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        space = self._space
        if space is not None and not probing.knows(space.state):
            state = space.state
            ranges = yield from computed_ranges(space, probing.batch, workers)
            probing.once(state, lambda: ranges)

    @property
    def has_belated(self) -> bool:
        return self._belated is not None

    @property
    def is_only_runs(self) -> bool:
        """Whether there is nothing to find but in runs."""
        return self._in_runs and self._indexed == self.count and self._belated is None and not self._irregular

    @property
    def is_runs_and_tail(self) -> bool:
        """Whether there is nothing to find but in runs and in the tail."""
        return self._belated is None and not self._irregular and (self._space is None or self._in_runs)

    @property
    def serves_all(self) -> bool:
        """Whether its words, if there are some, can be searched for any probing tuple: none is irregular."""
        return self._space is None or all(key.regular[1] is None for key in self._space.keys)

    def probe(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        return _NOTHING if self.is_only_runs else self.probe_beside_runs(probing, sink)

    def probe_beside_runs(self, probing: Probing, sink: PairSink) -> Iterator[int]:
        if self._belated is not None:
            yield from self._belated.probe(probing, sink)
        if not self.count or not self._is_reached(probing):
            return
        batch = probing.batch
        if self._space is None or self._words is None:
            yield from self.scan(probing, probing.mine(batch), sink, 0, self.count)
            return
        ranges = self._ranges(probing)
        regular = batch if ranges.regular is None else ranges.regular
        if self._indexed < self.count:
            yield from self.scan(probing, probing.mine(regular), sink, self._indexed, self.count)
        for apart in self._irregular:
            yield from apart.scan(probing, probing.mine(regular), sink, 0, apart.count)
        if not self._in_runs:
            yield from self._probe_words(probing, ranges, sink)
            if ranges.irregular is not None:
                yield from self.scan(probing, probing.mine(ranges.irregular), sink, 0, self.count)

    @property
    def tail_count(self) -> int:
        """How many tuples are not indexed yet."""
        return self.count - self._indexed

    def tail_copy(self, room: int) -> ScanIndex:
        """These tuples in a scanned subwindow that has room for some more."""
        tail = ScanIndex(self.tail_count + room, self.stored)
        tail.row = IntegerColumn(tail.capacity, explicit=True)
        if tail.room > room:
            where = slice(self._indexed, self.count)
            slots: list[Any] = [None] * len(self.stored.lowered.slots[self.stored.side])
            for number, slot in self.slots.items():
                slots[number] = slot[where]
            row, coordinate = (column.slice(where.start, where.stop) for column in (self.row, self.coordinate))
            tail.insert(_stored_only(row, coordinate, slots))
        return tail

    def probe_tail(self, batch: Batch, sink: PairSink) -> Iterator[int]:
        """Compare few regular tuples with those that are not indexed yet."""
        if self._indexed < self.count:
            reach = self.reach.slice(self.coordinate, self._indexed, self.count, batch.low, batch.high)
            if reach[2] < reach[3]:
                yield from self.scan_reached(batch, sink, reach)

    @property
    def group(self) -> Hashable | None:
        """The runs of all subwindows of one key space are probed in one call."""
        return self._space if self._in_runs else None

    def probe_group(self, group: Sequence[Self], probing: Probing, sink: PairSink) -> Iterator[int]:
        """Probe the runs of the group."""
        space = self._space
        assert space is not None
        ranges = self._ranges(probing)
        mine = probing.share(len(ranges.low))
        reached = [subwindow for subwindow in group if subwindow._is_reached(probing)]
        if ranges.irregular is not None:
            for subwindow in reached:
                yield from subwindow.scan(probing, probing.mine(ranges.irregular), sink, 0, subwindow.count)
        if not reached or mine.start == mine.stop:
            return
        yield from self.probe_runs(np.concatenate([subwindow.run_table() for subwindow in reached]), probing, sink)

    def probe_runs(self, runs: Integers, probing: Probing, sink: PairSink) -> Iterator[int]:
        """Probe runs of this key space, and test what was found unless the key decides alone."""
        space, batch, ranges = self._space, probing.batch, self._ranges(probing)
        assert space is not None
        if space.decides:
            kernel, slots = probe_runs, []
        else:
            kernel, slots = self.stored.kernel(check_runs_source, "check_runs"), self.stored.tested_of_probes(batch)
        if is_rehearsing():  # small steps will call it
            address_of_entry(self._search_entry(space))
        low, high, owner, state = ranges.low, ranges.high, ranges.owner, new_state()
        if not probing.is_whole:
            mine = probing.share(len(low))
            low, high, owner = low[mine], high[mine], owner[mine]
        window = batch.low, batch.high, *probing.bounds[1:3]
        while state[RUN] < len(runs):
            compared = int(state[COMPARED])
            found = kernel(
                runs, low, high, _PLACE_MASK, space.rest_mask, owner,
                batch.row, *window, sink.both_buffers, tuple(sink.row_buffers), state, *slots,
            )  # fmt: skip
            sink.add_rows(found)
            yield int(state[COMPARED]) - compared

    def _search_entry(self, space: KeySpace) -> Any:
        return probe_runs_part if space.decides else self.stored.entry(check_runs_source, "check_runs_part")

    def search(self, runs: Integers, left_probes: bool) -> Search:
        """A search by few tuples in runs of this key space."""
        space = self._space
        assert space is not None
        entry = self._search_entry(space)
        slots = 0 if space.decides else len(self.stored.lowered.tested[other(self.stored.side)])
        block: Integers = np.zeros(BLOCK_WORDS + slots, np.int64)
        block[:9] = address_of(runs), *runs.shape, 0, 0, 0, 1, int(_PLACE_MASK), int(space.rest_mask)
        block[16] = left_probes
        return Search(entry, block, runs)

    def ranges(self, batch: Batch) -> Ranges:
        """What probing tuples ask for in this subwindow's key space."""
        assert self._space is not None
        return self._space.ranges(batch)

    def group_jobs(self, group: Sequence[Self], probing: Probing, parts: int, left_probes: bool) -> list[Job] | None:
        space = self._space
        assert space is not None
        ranges = self._ranges(probing)
        reached = [subwindow for subwindow in group if subwindow._is_reached(probing)]
        if ranges.irregular is not None:
            return None
        if not reached or not len(ranges.low):
            return []
        batch = probing.batch
        entry = self._search_entry(space)
        slots = [] if space.decides else self.stored.tested_of_probes(batch)
        runs = np.concatenate([subwindow.run_table() for subwindow in reached])
        if not len(runs):
            return []
        kept = [np.ascontiguousarray(array) for array in (batch.row, batch.low, batch.high, *slots)]
        where = [address_of(array) for array in kept]
        block: Integers = np.array([
            address_of(runs), *runs.shape, address_of(ranges.low), address_of(ranges.high), len(ranges.low), parts,
            int(_PLACE_MASK), int(space.rest_mask), address_of(ranges.owner), *where[:3], len(batch),
            *probing.bounds[1:3], left_probes, *where[3:],
        ], np.int64)  # fmt: skip
        return [Job(entry, block, parts, (runs, ranges, kept, reached))]

    @property
    def beside_group(self) -> bool:
        return not self.is_only_runs

    def _is_reached(self, probing: Probing) -> bool:
        """Whether any probing tuple's window reaches a tuple."""
        earliest, _, _, latest = probing.bounds
        return self.coordinate.highest >= earliest and self.coordinate.lowest < latest

    def run_table(self) -> Integers:
        """A line for each run of this subwindow, the same array until they change."""
        if self._run_table is None:
            numbers = (self.row.first, self.row.address, self.coordinate.first, self.coordinate.address)
            tuples = (self.coordinate.lowest, self.coordinate.highest, self.stored.record.itemsize)
            runs = () if self._words is None else self._words.runs or ()
            lines = [(*run, *numbers, *tuples, *self._slot_addresses) for run in runs]
            self._run_table = np.array(lines, np.int64).reshape(len(lines), SLOTS + len(self._slot_addresses))
        return self._run_table

    def _is_whole(self, probing: Probing) -> bool:
        """Whether all tuples lie in every probing tuple's window."""
        _, latest_low, earliest_high, _ = probing.bounds
        return self.coordinate.lowest >= latest_low and self.coordinate.highest < earliest_high

    def _ranges(self, probing: Probing) -> Ranges:
        """What the probing tuples ask for in this subwindow's key space."""
        space = self._space
        assert space is not None
        return probing.once(space.state, lambda: space.ranges(probing.batch))

    def _probe_words(self, probing: Probing, ranges: Ranges, sink: PairSink) -> Iterator[int]:
        assert self._words is not None
        assert self._space is not None
        mine = probing.share(len(ranges.low))
        low, high, owner_of_range = ranges.low[mine], ranges.high[mine], ranges.owner[mine]
        if not len(low) or not self._words.count:
            return
        batch = probing.batch
        whole_window = self._is_whole(probing)
        state = new_state()
        while state[NEXT] != DONE:
            compared = int(state[COMPARED])
            out_probe, out_stored = sink.both_buffers
            found = self._words.probe(low, high, out_probe, out_stored, state)
            owner = owner_of_range
            if not self._space.decides:
                found = self.stored.kernel(check_source, "check")(
                    *self.stored.tested(self.slots), *self.stored.tested_of_probes(batch),
                    found, owner, out_probe, out_stored,
                )  # fmt: skip
                owner = ITSELF
            sink.add(*row_pairs(
                out_probe, out_stored, found, owner, batch.row, *self.row.parts,
                whole_window, batch.low, batch.high, *self.coordinate.parts,
            ))  # fmt: skip
            yield int(state[COMPARED]) - compared

    def figures(self) -> dict[str, Any]:
        return {} if self._words is None else self._words.figures()


def _stored_only(row: Any, coordinate: Any, slots: list[Any]) -> Batch:
    return Batch(row, coordinate, coordinate, coordinate, slots)


_NOTHING: Iterator[int] = iter(())
_PLACE_MASK = np.uint64((1 << PLACE_BITS) - 1)
