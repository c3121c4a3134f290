"""One side's window as a topology sees it: a chain of subwindows, and the choice of the index for each new one."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..arrays import INT64_MAX, Rows, Words
from ..compile.generic import extremes
from ..predicate.lower import Lowered
from ..side import Side
from ..tasks import Job, RunAll, Walk, together
from . import batch as batches
from .batch import Batch, PairSink, Probing
from .chain import LARGEST, Chain, is_over, spans_many
from .device import Device
from .few import Few, FewHashed, FewSearched, few_of
from .grid import grid_keys
from .hash_table import HashTable
from .index import Index, Opening
from .index_choice import GRID, HASH, SCAN, SEARCH, IndexChoice, IndexChooser, Reached
from .key_choice import KeyChooser
from .scan import ScanIndex
from .stored_side import StoredSide
from .subwindow import FEW_PROBES

SMALL = 1 << 10
"""Tuples of a subwindow that can as well be scanned."""
MOST_MOVED = 1 << 19
"""Tuples of a window that are moved into a hash table at once."""
REACH_SAMPLE = 32
"""Probing tuples whose reach is measured at a review."""
REVIEW = 1 << 20
"""The choice of a path is reviewed after so many probing tuples at the latest."""
ENOUGH_SEEN = 1 << 18
"""Probing tuples since the last comparison of the paths, from which on a new subwindow calls for another one."""
LOOK = 1 << 10
"""Probing tuples between two looks at whether a review is due."""
DEVICE_PART = 1 << 18
"""The most tuples that probe together on a device."""
CHANGED = 2.0
"""The choice is reviewed at once when batches have become so many times as large or as small, or stored tuples so many
times as many."""


class SideWindow:
    """Invariant: a probe finds every stored tuple that matches and lies in the probing tuple's [low, high), once.

    `index` is the name of an index, or "auto". A `device` may scan what is scanned.
    """

    def __init__(
        self, lowered: Lowered, side: Side, index: str, run_all: RunAll, device: Device | None = None
    ) -> None:  # fmt: skip
        by_grid = grid_keys(lowered, side) if index == "auto" else None
        self.stored = StoredSide(lowered, side, by_grid)
        self._keys = KeyChooser(lowered, side)
        self._chooser = IndexChooser(index, self._keys, by_grid, device)
        self._device, self._device_lock = device, threading.Lock()
        self._index = index
        self._run_all = run_all
        self._spare: list[Words] = []
        self._choice: IndexChoice | None = None
        only = self._chooser.only
        self._scanned = only is not None and only.scanned
        """Whether all subwindows are scanned, so that nothing needs to be known of keys."""
        self._is_open = only is None
        """Whether the path is ours to choose."""
        self._unseen, self._patience = 0, 1
        """Probing tuples since the last review of the choice, and after how many the next one is due."""
        self._uncompared = 0
        """Probing tuples since the paths were compared."""
        self._compared = self._probed = 0
        """Comparisons of searches, and the tuples that probed, since the last look."""
        self._unlooked = 0
        """Probing tuples since the last look at whether a review is due."""
        self._few: FewSearched | FewHashed | None = None
        """How few tuples meet this window while nothing has been indexed or dropped since."""
        self._chain = Chain(self._open, self._scanned, self.is_on_device)

    @property
    def is_on_device(self) -> bool:
        """Whether all batches probe on a device."""
        return self._device is not None and self._device.is_sole

    def parts(self, batch: Batch) -> list[Batch]:
        """A batch cut into pieces that probe together."""
        return batch.parts_of(DEVICE_PART) if self.is_on_device else batch.parts()

    def share_among(self, workers: int) -> None:
        """So many threads may share the insertion of a batch."""
        self.stored.workers = workers

    def insert(self, batch: Batch, floor: int | None = None) -> None:
        """Take tuples in. No tuple to come meets one below the floor."""
        together([self.inserting(batch, floor)], self._run_all)
        self._run_all(self.take_deferred())

    def taking_in(self, batch: Batch, floor: int | None = None) -> Walk:
        """`insert` and `index_early`, in stages."""
        yield from self.inserting(batch, floor)
        yield from self.indexing_early()
        yield self.take_deferred()

    def take_deferred(self) -> list[Job]:
        """What is left to be stored after `inserting`; the caller sees it done."""
        return self.stored.take_deferred()

    @property
    def is_scanned(self) -> bool:
        """Whether nothing has to be known or prepared before a batch probes."""
        return self._scanned

    def inserting(self, batch: Batch, floor: int | None = None) -> Walk:
        """The same in stages."""
        if not self._scanned:
            self._keys.observe_stored(batch)
            self._chooser.note_stored(batch)
        yield from self._chain.inserting(batch, floor)

    def few(self, batch: Batch | None, floor: int | None = None, probing: Batch | None = None) -> Few | None:
        """A way for a step of few tuples, those of `batch` to be stored and those of `probing` to meet this window;
        None: they must take the usual way. No tuple to come meets one below the floor."""
        subwindows = self._chain.subwindows
        if not subwindows or (batch is not None and not self._has_room(subwindows[-1], batch, floor, probing)):
            return None
        newest, searches = subwindows[-1], not self._is_open or self._chooser.searches
        if isinstance(newest, ScanIndex):
            probes = FEW_PROBES if probing is None else max(len(probing.row), FEW_PROBES)
            if self._device is not None and self._device.takes_small(probes, newest.tuples, self._on_cpu):
                return None
            return newest if len(subwindows) == 1 and (self._scanned or not searches) else None
        if not searches:
            return None
        if self._few is None or not self._few.serves(subwindows):
            self._few = few_of(subwindows)
        return self._few

    def _has_room(self, newest: Index, batch: Batch, floor: int | None, probing: Batch | None) -> bool:
        """Whether the newest subwindow can take a batch. One that is scanned and has no room, or spans many rows, goes
        on without the tuples that neither those of `probing` nor later ones can meet."""
        if newest.room >= len(batch.row) and not spans_many(newest, batch):
            return True
        # A device may have copied tuples with their places.
        if floor is not None and isinstance(newest, ScanIndex) and self._device is None:
            newest.forget_below(floor if probing is None else min(floor, extremes(probing.low)[0]))
        return newest.room >= len(batch.row) and not is_over(newest, batch, floor)

    def passed_over(self, probes: int) -> None:
        """So many tuples have probed that were not expected: they count for the next review of the choice."""
        self._unseen += probes
        self._uncompared += probes
        self._unlooked += probes

    def adopt(self, subwindows: Sequence[Index]) -> None:
        """Take in sealed subwindows of another window, oldest first."""
        for subwindow in subwindows:
            subwindow.attach(self.stored, self._keys)
        self._chain.subwindows = [*self._chain.subwindows, *subwindows]

    def insert_sealed(self, batch: Batch) -> list[Index]:
        """Insert a batch as subwindows of its own, which are sealed at once."""
        self._keys.observe_stored(batch)
        made: list[Index] = []
        for start in range(0, len(batch), LARGEST):
            piece = batch.slice(start, start + LARGEST)
            subwindow = self._open(len(piece), self.count + len(piece), None, lasting=True)
            subwindow.insert(piece)
            subwindow.prepare()
            subwindow.seal()
            made.append(subwindow)
            self._chain.subwindows.append(subwindow)
        return made

    def expect(self, batch: Batch) -> None:
        """This batch of the other side is about to probe."""
        if self._scanned or not len(batch):
            return
        self._keys.observe_probing(batch)
        self._chooser.expect(batch)
        if self._is_open and self._chain.subwindows:
            self._unseen += len(batch)
            self._uncompared += len(batch)
            self._unlooked += len(batch)
            if self._unlooked >= min(self._patience, LOOK):
                self._unlooked = 0
                out_of_date = self._chooser.is_out_of_date(self.count, CHANGED) or self._is_surprised()
                out_of_date = out_of_date or (not self._chooser.searches and self._has_vain_grids())
                if out_of_date or self._unseen >= min(self._patience, REVIEW):
                    self._review(batch)

    def _has_vain_grids(self) -> bool:
        """Whether grids that the estimates rest on have been in vain."""
        return GRID in self._chooser.estimates and self.stored.are_vain(self._chooser.reached_together)

    def _is_surprised(self) -> bool:
        """Whether searches have had far more comparisons than the estimate was made for."""
        compared, self._compared = self._compared, 0
        probed, self._probed = self._probed, 0
        return probed > 0 and compared / probed > CHANGED * self._chooser.expected_comparisons

    def _review(self, batch: Batch) -> None:
        """See how far probing tuples reach, and whether the path in use is still the best. This happens seldom, but
        soon after the beginning."""
        self._patience = min(2 * max(self._patience, self._unseen), REVIEW)
        self._unseen = self._uncompared = 0
        some = batch.take(np.arange(0, len(batch), -(-len(batch) // REACH_SAMPLE)))
        later = np.full(len(some), INT64_MAX)
        (reach, together), (from_low, _) = (
            np.sum([subwindow.reached(some.low, high) for subwindow in self._chain.subwindows], axis=0).tolist()
            for high in (some.high, later)
        )
        self._chooser.note_reach(Reached(reach / len(some), from_low / len(some), together, self.count))
        self._chooser.grids_are_vain = self.stored.are_vain(together)
        if self._chooser.grids_are_vain:
            self.stored.vain_grids.clear()
        self._chooser.compare_paths(self.count)
        self._chain.scanned = not self._chooser.searches

    def index_early(self) -> None:
        """Index what was inserted, if it is known by now how it will be probed."""
        together([self.indexing_early()], self._run_all)

    def indexing_early(self) -> Walk:
        """The same in stages."""
        if self._keys.is_informed and not self._is_open:
            yield from self._chain.preparing()
        elif self._is_open and self._chooser.estimates:
            yield from self.preparing()

    def prepare(self) -> None:
        """Index what was inserted, where a search is the better path."""
        together([self.preparing()], self._run_all)

    def preparing(self) -> Walk:
        """The same in stages."""
        if self._is_open and self._chooser.hashes and self.count <= MOST_MOVED:
            self._hash_older()
        elif self._is_open and self._chooser.searches:
            self._index_scanned()
        if not self._scanned and (not self._is_open or self._chooser.searches):
            yield from self._chain.preparing()

    def _index_scanned(self) -> None:
        """Give an ordered index to subwindows that were opened to be scanned, unless they are small."""
        subwindows = self._chain.subwindows
        for place, scanned in enumerate(subwindows):
            if scanned.name == SCAN.name and scanned.tuples > SMALL:
                before = subwindows[place - 1] if place else None
                opening = self._opening(scanned.tuples + scanned.room, self.count, before)
                subwindows[place] = SEARCH.open(opening)
                subwindows[place].insert(scanned.as_batch())
                if place < len(subwindows) - 1:
                    subwindows[place].prepare()
                    subwindows[place].seal()

    def _hash_older(self) -> None:
        """Put the tuples of subwindows of other kinds into the hash table: that takes less time than to search them for
        long, unless they are many."""
        subwindows = self._chain.subwindows
        others = [place for place, subwindow in enumerate(subwindows) if subwindow.name != HASH.name]
        if others:
            self.stored.shared(HashTable).reserve(self.count)
        for place in others:
            other_ = subwindows[place]
            subwindows[place] = HASH.open(self._opening(other_.tuples, self.count, None))
            subwindows[place].insert(other_.as_batch())
            other_.release()

    def shares(self, batch: Batch, workers: int, parts: int = 1) -> list[Probing]:
        """The work of probing with a batch, cut into parts that several workers share.

        A large batch is cut into pieces, and the worker that probes with a piece sorts it. A smaller batch is sorted
        first and then shared out by ranges of the key, so that each worker touches its own part of every subwindow.
        """
        if not len(batch):
            return []
        if self.device_takes(Probing(batch)):
            return [Probing(piece) for piece in batch.parts_of(DEVICE_PART)]
        if workers == 1 or len(batch) > batches.LARGEST_PART:
            return [Probing(piece) for piece in batch.parts(-(-len(batch) // parts))]
        probing = Probing(batch)
        together([self.computing_ahead(probing, 1)], self._run_all)
        return probing.split(parts)

    def computing_ahead(self, probing: Probing, workers: int) -> Walk:
        """Compute in stages what all shares of a batch will need."""
        for subwindow in self._chain.subwindows if not self.is_on_device else ():
            yield from subwindow.computing_ahead(probing, workers)

    def jobs(
        self, probing: Probing, parts: int, left_probes: bool, by_stored: bool = False
    ) -> tuple[list[Job], list[Index], list[list[Index]]]:  # fmt: skip
        """The work of probing as jobs that fill slots; and the subwindows and groups of them that must be probed
        without: see `probe_beside_jobs`."""
        jobs: list[Job] = []
        alone: list[Index] = []
        groups: list[list[Index]] = []
        for subwindows in self._groups().values():
            found = subwindows[0].group_jobs(subwindows, probing, parts, left_probes)
            if found is None:
                groups.append(subwindows)
            else:
                jobs += found
        for subwindow in self._chain.subwindows:
            if subwindow.beside_group:
                found = subwindow.scan_jobs(probing, parts, left_probes, by_stored)
                if found is None:
                    alone.append(subwindow)
                else:
                    jobs += found
        return jobs, alone, groups

    def note_probed(self, probes: int, compared: int) -> None:
        """So many tuples have probed with jobs, and were compared so often."""
        if self._is_open and self._chooser.searches:
            self._probed += probes
            self._compared += compared

    def _groups(self) -> dict[Hashable, list[Index]]:
        groups: dict[Hashable, list[Index]] = {}
        for subwindow in self._chain.subwindows:
            group = subwindow.group
            if group is not None:
                groups.setdefault(group, []).append(subwindow)
        return groups

    def probe_beside_jobs(
        self, alone: Sequence[Index], groups: Sequence[Sequence[Index]], probing: Probing, sink: PairSink
    ) -> Iterator[int]:  # fmt: skip
        """Find what the jobs of `jobs` leave out."""
        for subwindow in alone:
            yield from subwindow.probe(probing, sink)
        for subwindows in groups:
            yield from subwindows[0].probe_group(subwindows, probing, sink)

    def probe(self, probing: Probing, sink: PairSink, part: int = 0, parts: int = 1) -> Iterator[int]:
        """Find pairs. Gives the comparisons since the last time, each time the sink was filled further.

        With several parts, look only at one of them: at as many tuples of each subwindow that is divisible, and at
        every n-th one of the other subwindows.
        """
        own, subwindows = probing.within(part, parts), self._chain.subwindows
        if self._device is not None and self.device_takes(probing):
            return self._counted(self._with_device(self._device, probing, own, sink, part, parts), probing)
        if parts == 1 and len(subwindows) == 1 and subwindows[0].group is None:
            return subwindows[0].probe(own, sink)
        if parts == 1 and self._scanned:
            return chain.from_iterable(subwindow.probe(own, sink) for subwindow in subwindows)
        return self._counted(self._search(subwindows, probing, own, sink, part, parts), probing)

    def begun(self, probing: Probing, sink: PairSink) -> Iterator[int] | None:
        """The same as `probe`, but the device has begun with it already; None: no device takes the batch."""
        if self._device is None or not self.device_takes(probing):
            return None
        found = self._device.begin(self._scans, probing.batch)
        return self._counted(chain(found(sink), self._search(self._others, probing, probing, sink, 0, 1)), probing)

    def _counted(self, found: Iterator[int], probing: Probing) -> Iterator[int]:
        """The same, while comparisons are counted for the review. Threads may lose a count."""
        if self._is_open and self._chooser.searches:
            self._probed += probing.share_of_batch
            for compared in found:
                self._compared += compared
                yield compared
        else:
            yield from found

    def device_takes(self, probing: Probing) -> bool:
        """Whether the device scans for a batch. All shares and parts of it must agree, on whatever thread they are."""
        if self._device is None:
            return False
        with self._device_lock:
            taken: bool = probing.once(Device, lambda: self._asked_device(probing.batch))
        return taken

    def _asked_device(self, batch: Batch) -> bool:
        assert self._device is not None
        scanned = self._scans

        def reached() -> int:
            step = -(-len(batch) // REACH_SAMPLE)
            some = batch.every(0, step)
            return step * sum(subwindow.reached(some.low, some.high)[0] for subwindow in scanned)

        tuples = sum(subwindow.tuples for subwindow in scanned)
        return self._device.takes(tuples, batch, reached, lambda pairs: self._on_cpu(pairs, len(batch)))

    def _on_cpu(self, pairs: int, probes: int) -> float:
        """Nanoseconds that scans of so many pairs take."""
        by_grid = probes * self._chooser.estimates.get(GRID, math.inf)
        return min(pairs * self.stored.comparison, by_grid)

    @property
    def _scans(self) -> list[ScanIndex]:
        return [subwindow for subwindow in self._chain.subwindows if isinstance(subwindow, ScanIndex)]

    @property
    def _others(self) -> list[Index]:
        return [subwindow for subwindow in self._chain.subwindows if not isinstance(subwindow, ScanIndex)]

    def _with_device(
        self, device: Device, probing: Probing, own: Probing, sink: PairSink, part: int, parts: int
    ) -> Iterator[int]:  # fmt: skip
        """The device scans all that is scanned, for the first share and part. The others have the rest in common."""
        if part == 0 and probing.is_first:
            yield from device.begin(self._scans, probing.batch)(sink)
        yield from self._search(self._others, probing, own, sink, part, parts)

    def _search(
        self, subwindows: Sequence[Index], probing: Probing, own: Probing, sink: PairSink, part: int, parts: int
    ) -> Iterator[int]:  # fmt: skip
        whole = 0
        groups: dict[Hashable, list[Index]] = {}
        for subwindow in subwindows:
            if subwindow.divisible:
                yield from subwindow.probe(own, sink)
                continue
            whole += 1
            if whole % parts != part:
                continue
            yield from subwindow.probe(probing, sink)
            group = subwindow.group
            if group is not None:
                groups.setdefault(group, []).append(subwindow)
        for members in groups.values():
            yield from members[0].probe_group(members, probing, sink)

    def expire(self, floor: int) -> int:
        """Release the subwindows that lie below the floor; returns how many they are."""
        dropped = self._chain.expire(floor)
        if dropped:
            self._few = None
        return dropped

    def clear(self) -> None:
        """Let all tuples go."""
        self._chain.subwindows = []
        self._few = None
        self._spare.clear()
        self.stored.forget_shared()
        if self._device is not None:
            self._device.clear()

    @property
    def count(self) -> int:
        return self._chain.count

    def at_least(self, coordinate: int) -> int:
        """How many tuples lie at or above a coordinate. Chains drop others only as whole subwindows."""
        return sum(subwindow.at_least(coordinate) for subwindow in self._chain.subwindows)

    def rows(self, low: int, high: int) -> Rows:
        """The row numbers of the tuples at coordinates [low, high), if coordinates ascend."""
        return np.concatenate([np.empty(0, np.int64), *(part.rows(low, high) for part in self._chain.subwindows)])

    @property
    def created(self) -> int:
        return self._chain.created

    @property
    def nbytes(self) -> int:
        return self._chain.nbytes + (0 if self._device is None else self._device.nbytes)

    @property
    def first_row(self) -> int | None:
        return self._chain.first_row

    def _open(self, capacity: int, window: int, previous: Index | None, lasting: bool = False) -> Index:
        if self._is_open and self._uncompared >= ENOUGH_SEEN:
            self._chooser.compare_paths(window)
            self._uncompared = 0
        choice = self._chooser.choose(window, lasting)
        self._choice = choice
        if self._is_open and choice.kind is HASH and window <= MOST_MOVED:
            self._hash_older()
        return choice.kind.open(self._opening(capacity, window, previous))

    def _opening(self, capacity: int, window: int, previous: Index | None) -> Opening:
        return Opening(capacity, self.stored, self._keys, window, previous, self._run_all, self._spare)

    def figures(self) -> dict[str, Any]:
        """What holds the window, on which keys, and why."""
        kinds: dict[str, int] = {}
        for subwindow in self._chain.subwindows:
            kinds[subwindow.name] = kinds.get(subwindow.name, 0) + 1
        newest = self._chain.subwindows[-1] if self._chain.subwindows else None
        only, choice = self._chooser.only, self._choice
        kind = only if choice is None else self._chooser.path(choice.kind)
        return {
            "index": self._index if kind is None else kind.name,
            "why": "nothing is stored yet" if choice is None else self._chooser.why(choice),
            "key": None if newest is None else newest.key,
            "subwindows": kinds,
            "switches": self._chooser.switches,
            "key_changes": self._keys.changes,
            **self._chooser.figures(),
            **({} if self._device is None else self._device.figures()),
            "bytes": self.nbytes,
            "newest": {} if newest is None else newest.figures(),
        }
