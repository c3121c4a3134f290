"""BI-Sort (PanJoin, section III-D): sorted words, a sampled index over them, and a few younger sorted runs.

The paper merges every batch into one main array, which costs N/batch moves per tuple in a large subwindow. Here a
batch becomes a run of its own and is merged only with runs that are not much larger. Merges are fewer and larger, so a
tuple is moved a few times whatever the subwindow's size. Sealing leaves one array. The paper's insertion buffer for
small batches is the unsorted tail that `OrderedIndex` keeps in front.

Invariant: every run ascends, and each is over `GROWTH` times as long as the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Places, Words
from ..tasks import RunAll, Walk, one_after_another, together
from .index import Opening
from .ordered import ordered_kind
from .run_probe import NO_REST, probe_run
from .runs import Run, padded, room_for_samples
from .spare_words import spare_words
from .word_jobs import merge_job
from .words import DONE, NEXT, PLACE_BITS, RUN, RunPlace, State, WordIndex

GROWTH = 4
LARGE = 8
"""A run of more than an eighth of the subwindow is large."""
SPARES = 3


class BiSort(WordIndex):
    """A `WordIndex` of at most `capacity` words. `run_all` runs the pieces of a large merge.

    `spare` holds arrays that are free to use again: fresh memory from the system costs more than a merge. All large
    runs get arrays of the subwindow's capacity, so that spare ones fit.
    """

    def __init__(
        self, capacity: int, place_bits: int, run_all: RunAll = one_after_another, spare: list[Words] | None = None
    ) -> None:
        self._capacity = capacity
        self._spare = [] if spare is None else spare
        self._mask = np.uint64((1 << place_bits) - 1)
        self._run_all = run_all
        self._runs: list[Run] = []
        self._merges = self._moved = 0
        self.count = 0

    def __getstate__(self) -> dict[str, Any]:
        """A sealed index needs neither threads nor spare arrays."""
        return {**self.__dict__, "_run_all": one_after_another, "_spare": []}

    @property
    def nbytes(self) -> int:
        return sum(run.words.nbytes + run.samples.nbytes for run in self._runs)

    def insert(self, words: Words) -> None:
        kept = np.empty(padded(len(words)), np.uint64)
        kept[: len(words)] = words
        together([self.inserting(kept, len(words))], self._run_all)

    def inserting(self, words: Words, count: int) -> Walk:
        if not count:
            return
        if count > self._capacity // LARGE:
            kept = self._array(count)
            kept[:count] = words[:count]
            words = kept
        self._runs.append(Run(words, count))
        self.count += count
        while len(self._runs) > 1 and self._runs[-2].count < GROWTH * self._runs[-1].count:
            yield from self._merging_last_two()

    def _merging_last_two(self) -> Walk:
        gone = self._runs.pop(), self._runs.pop()
        b, a = gone[0].view, gone[1].view
        total = len(a) + len(b)
        merged = self._array(total)
        samples = room_for_samples(total)
        yield [merge_job(a, b, merged[:total], samples)]
        self._runs.append(Run(merged, total, samples))
        self._give_back(gone)
        self._merges += 1
        self._moved += total

    def probe(self, low: Words, high: Words, out_range: Places, out_place: Places, state: State) -> int:
        found = 0
        while state[RUN] < len(self._runs):
            run = self._runs[state[RUN]]
            found += probe_run(
                run.words, run.count, run.samples, low, high, self._mask, NO_REST,
                out_range[found:], out_place[found:], state,
            )  # fmt: skip
            if state[NEXT] < len(low):
                return found
            state[NEXT] = 0
            state[RUN] += 1
        state[NEXT] = DONE
        return found

    @property
    def runs(self) -> list[RunPlace]:
        return [run.place for run in self._runs]

    def seal(self) -> None:
        together([self.sealing()], self._run_all)

    def sealing(self) -> Walk:
        while len(self._runs) > 1:
            yield from self._merging_last_two()

    def release(self) -> None:
        """Keep the arrays for later subwindows."""
        self._give_back(self._runs)
        self._runs = []

    def _array(self, count: int) -> Words:
        """An array for `count` words and the padding behind them; a spare one if it fits."""
        if count <= self._capacity // LARGE:
            return spare_words(padded(count))
        size = padded(max(self._capacity, count))
        while self._spare:
            array = self._spare.pop()
            if len(array) == size:
                return array
        return np.empty(size, np.uint64)

    def _give_back(self, runs: Sequence[Run]) -> None:
        self._spare += [r.words for r in runs if len(r.words) == padded(self._capacity)][: SPARES - len(self._spare)]

    def figures(self) -> dict[str, Any]:
        return {"runs": len(self._runs), "merges": self._merges, "moved": self._moved}


def _open(opening: Opening, before: WordIndex | None) -> WordIndex:
    return BiSort(opening.capacity, PLACE_BITS, opening.run_all, opening.spare)


KIND = ordered_kind("bi-sort", _open)
