"""One side's window as a topology sees it: a chain of subwindows, and the choice of the index for each new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ..arrays import Words
from ..predicate.lower import Lowered
from ..side import Side
from .batch import LARGEST_PART, Batch, PairSink, Probing
from .bi_sort import BiSort, RunAll
from .chain import LARGEST, Chain, Index
from .hash import HashIndex
from .index_choice import Advice, Advisor
from .key_choice import SideKeys
from .keyspace import PLACE_BITS, KeySpace
from .ordered import OrderedIndex, probe_sorted
from .rap_table import RapTable
from .scan import ScanIndex
from .subwindow import StoredSide, Subwindow
from .wib_tree import WibTree
from .words import WordIndex

LARGEST_SCAN = 1 << 18


class Window:
    """`index` is the name of an index, or "auto"."""

    def __init__(self, lowered: Lowered, side: Side, index: str, run_all: RunAll) -> None:
        self._stored = StoredSide(lowered, side)
        self._keys = SideKeys(lowered, side)
        self._advisor = Advisor(index, self._keys)
        self._index = index
        self._run_all = run_all
        self._spare: list[Words] = []
        self._make_words = {"bi-sort": self._bi_sort, "rap-table": self._rap_table, "wib-tree": self._wib_tree}
        self._advice: Advice | None = None
        self._switches = -1
        self._scans = index == "scan" or (index != "hash" and not self._keys.usable)
        """Whether nothing will be searched, and so nothing needs to be known of keys."""
        self._chain = Chain(self._create, LARGEST_SCAN if self._scans else LARGEST, self._scans)

    def insert(self, batch: Batch) -> None:
        if not self._scans:
            self._keys.observe_stored(batch)
        self._chain.insert(batch)

    def adopt(self, subwindows: Sequence[Subwindow]) -> None:
        """Take in sealed subwindows, oldest first, that were made elsewhere. Those whose words mean the same get one
        key space, so that they are probed together."""
        spaces: dict[Any, KeySpace] = {}
        for subwindow in subwindows:
            subwindow.attach(self._stored)
            if isinstance(subwindow, OrderedIndex) and subwindow.space is not None:
                own = subwindow.space
                fresh = replace(own, widest=dict(own.widest), narrowest=dict(own.narrowest))
                known = spaces.setdefault(own.shape, fresh)
                known.include(own)
                subwindow.space = known
                self._keys.resume(known)
        self._chain.subwindows = [*self._chain.subwindows, *subwindows]

    def insert_sealed(self, batch: Batch) -> list[Subwindow]:
        """Insert a batch as subwindows of its own, which are sealed at once."""
        self._keys.observe_stored(batch)
        made: list[Subwindow] = []
        for start in range(0, len(batch), LARGEST):
            piece = batch.slice(start, start + LARGEST)
            subwindow = self._create(len(piece), self.count + len(piece), None)
            subwindow.insert(piece)
            subwindow.prepare()
            subwindow.seal()
            made.append(subwindow)
            self._chain.subwindows.append(subwindow)
        return made

    def expect(self, batch: Batch) -> None:
        """This batch of the other side is about to probe."""
        if not self._scans:
            self._keys.observe_probing(batch)
            self._advisor.expect(batch)

    def index_early(self) -> None:
        """Index what was inserted, if it is known by now how it will be probed."""
        if self._keys.is_informed:
            self._chain.prepare()

    def prepare(self) -> None:
        if not self._scans:
            self._chain.prepare()

    def shares(self, batch: Batch, workers: int, parts: int = 1) -> list[Probing]:
        """The work of probing with a batch, cut into some parts for so many workers.

        A large batch is cut into pieces that are sorted by whoever probes with them. A smaller one is sorted first and
        then shared out by ranges of the key, so that each worker touches its own part of every subwindow.
        """
        if not len(batch):
            return []
        if workers == 1 or len(batch) > LARGEST_PART:
            return [Probing(piece) for piece in batch.parts()]
        probing = Probing(batch)
        for subwindow in self._chain.subwindows:
            if isinstance(subwindow, OrderedIndex) and subwindow.space is not None:
                space = subwindow.space
                probing.once(space, lambda space=space: space.ranges(batch, workers, self._run_all))  # type: ignore[misc]
        return probing.split(parts)

    def probe(self, probing: Probing, sink: PairSink, part: int = 0, parts: int = 1) -> Iterator[int]:
        """Find pairs; gives the comparisons made so far each time the sink has been filled further.

        With several parts, only what lies in one of them: equally many tuples of each subwindow that is scanned, and
        of the others every n-th subwindow.
        """
        if self._scans:
            return chain.from_iterable(scan.probe(probing, sink, part, parts) for scan in self._chain.subwindows)  # type: ignore[call-arg]
        return self._search(probing, sink, part, parts)

    def _search(self, probing: Probing, sink: PairSink, part: int, parts: int) -> Iterator[int]:
        indexed = 0
        by_space: dict[KeySpace | None, list[OrderedIndex]] = {}
        for subwindow in self._chain.subwindows:
            if isinstance(subwindow, ScanIndex):
                yield from subwindow.probe(probing, sink, part, parts)
                continue
            indexed += 1
            if indexed % parts != part:
                continue
            yield from subwindow.probe(probing, sink)
            if isinstance(subwindow, OrderedIndex) and subwindow.has_runs:
                by_space.setdefault(subwindow.space, []).append(subwindow)
        for subwindows in by_space.values():
            yield from probe_sorted(subwindows, probing, sink)

    def expire(self, floor: int) -> int:
        """Release what lies below; returns how many subwindows that were."""
        return self._chain.expire(floor)

    @property
    def count(self) -> int:
        return self._chain.count

    @property
    def created(self) -> int:
        return self._chain.created

    @property
    def nbytes(self) -> int:
        return self._chain.nbytes

    @property
    def first_row(self) -> int | None:
        return self._chain.first_row

    def _create(self, capacity: int, window: int, previous: Index | None) -> Subwindow:
        advice = self._advisor.advise(window)
        if self._advice is None or advice.index != self._advice.index:
            self._switches += 1
        self._advice = advice
        if advice.index == "scan":
            return ScanIndex(capacity, self._stored)
        if advice.index == "hash":
            return HashIndex(capacity, self._stored)

        return OrderedIndex(
            capacity, self._stored, self._keys, advice.index, self._make_words[advice.index], window, previous
        )

    def _bi_sort(self, capacity: int, space: KeySpace, previous: OrderedIndex | None) -> WordIndex:
        return BiSort(capacity, PLACE_BITS, self._run_all, self._spare)

    def _rap_table(self, capacity: int, space: KeySpace, previous: OrderedIndex | None) -> WordIndex:
        """Splitters are learnt from the table before, if its words mean the same."""
        before = previous.words if previous is not None and previous.space is space else None
        return RapTable(capacity, PLACE_BITS, before if isinstance(before, RapTable) else None)

    def _wib_tree(self, capacity: int, space: KeySpace, previous: OrderedIndex | None) -> WordIndex:
        return WibTree(capacity, PLACE_BITS)

    def figures(self) -> dict[str, Any]:
        """What holds the window, on which keys, and why."""
        kinds: dict[str, int] = {}
        for subwindow in self._chain.subwindows:
            kinds[subwindow.name] = kinds.get(subwindow.name, 0) + 1
        newest = self._chain.subwindows[-1] if self._chain.subwindows else None
        key = self._keys.text if isinstance(newest, OrderedIndex) else None
        return {
            "index": self._index if self._advice is None else self._advice.index,
            "why": "nothing is stored yet" if self._advice is None else self._advice.why,
            "key": key,
            "subwindows": kinds,
            "switches": max(self._switches, 0),
            "key_changes": self._keys.changes,
            "bytes": self.nbytes,
            "newest": {} if newest is None else newest.figures(),
        }
