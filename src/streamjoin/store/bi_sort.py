"""BI-Sort (PanJoin, section III-D): sorted words, a sampled index over them, and a few younger sorted runs.

The paper merges every batch into one main array, which costs N/batch moves per tuple in a large subwindow. Here a
batch becomes a run of its own and is merged only with runs that are not much larger (fewer and larger merges), so a
tuple is moved a few times whatever the subwindow's size; sealing leaves one array. The paper's insertion buffer for
small batches is the unsorted tail that `OrderedIndex` keeps in front.

Invariant: every run ascends, and each is over `GROWTH` times as long as the next. Behind a run's words lies a padding
of the largest word, so that a partition can always be read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from ..arrays import Places, Words
from ..compile.cache import compiled
from ..compile.intrinsics import (
    I32,
    I64,
    compress,
    count_chosen,
    element,
    lane_numbers,
    load_lanes,
    pointer,
    prefetch,
    splat,
    store_lanes,
)
from .sorting import merge_words, split_merge
from .words import AT_ONCE, State

SAMPLE = AT_ONCE
"""Words per partition: two cache lines, compared at once."""
STRIDE = 8
"""Samples that are compared at once."""
BLOCK = 1024
"""Ranges whose partitions are found before they are searched."""
AHEAD = 12
"""How many ranges before its use a partition is asked for."""
DENSE, SPARSE = 1.5, 16
"""Partitions per range up to which they are walked along one by one, and from which on skipping ahead is faster than
walking in strides."""
GROWTH = 4
PIECE = 1 << 17
"""Words that are worth a thread of their own when runs are merged."""
RUN_SHIFT = 40
LARGE = 8
"""A run of more than an eighth of the subwindow is large."""
SPARES = 3

RunAll = Callable[[Sequence[Callable[[], Any]]], Any]


def _one_after_another(tasks: Sequence[Callable[[], None]]) -> None:
    for task in tasks:
        task()


def _counter(sign: str, lanes: int) -> Any:
    @intrinsic
    def count(typing: Any, words: Any, place: Any, bound: Any) -> Any:
        """How many of so many words from `place` on are < (or <=) the bound."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = element(context, builder, signature.args[0], args[0], args[1])
            loaded = load_lanes(builder, where, I64, lanes)
            return count_chosen(builder, builder.icmp_unsigned(sign, loaded, splat(builder, args[2], lanes)))

        return types.int64(words, types.int64, types.uint64), codegen

    return count


_below: Any = _counter("<", SAMPLE)
_up_to: Any = _counter("<=", SAMPLE)
_samples_below: Any = _counter("<", STRIDE)


@compiled
def _sample(words, count, samples):
    """The first word of each partition; pads behind the last word."""
    for k in range(count, min(count + 2 * SAMPLE, len(words))):
        words[k] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for s in range(len(samples)):
        samples[s] = words[s * SAMPLE] if s * SAMPLE < count else np.uint64(0xFFFFFFFFFFFFFFFF)


_NARROW = ir.VectorType(I32, SAMPLE)


@intrinsic
def _copy(
    typing: Any, words: Any, start: Any, mask: Any, number: Any, out_range: Any, out_place: Any, at: Any
) -> Any:  # fmt: skip
    """Write the masked low halves of 16 words from `start` on, and the number of their range beside each."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        loaded = load_lanes(builder, element(context, builder, kinds[0], args[0], args[1]), I64, SAMPLE)
        mask = splat(builder, builder.trunc(args[2], I32), SAMPLE)
        places = builder.and_(builder.trunc(loaded, _NARROW), mask)
        store_lanes(builder, places, element(context, builder, kinds[5], args[5], args[6]))
        store_lanes(builder, splat(builder, args[3], SAMPLE), element(context, builder, kinds[4], args[4], args[6]))
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint64, types.int32, out_range, out_place, types.int64), codegen


@intrinsic
def _copy_within(
    typing: Any, words: Any, start: Any, count: Any, low: Any, high: Any, rest: Any, mask: Any, number: Any,
    out_range: Any, out_place: Any, at: Any
) -> Any:  # fmt: skip
    """The same for those of the first `count` words whose `rest` lies between the rests of both ends, one behind the
    other; returns how many."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        words_, start_, count_, low_, high_, rest_, mask_, number_, out_range_, out_place_, at_ = args
        loaded = load_lanes(builder, element(context, builder, kinds[0], words_, start_), I64, SAMPLE)
        halves = builder.trunc(loaded, _NARROW)
        rests = builder.and_(halves, splat(builder, builder.trunc(rest_, I32), SAMPLE))

        def bound(value: Any) -> Any:
            return splat(builder, builder.trunc(builder.and_(value, rest_), I32), SAMPLE)

        inside = builder.and_(
            builder.icmp_unsigned(">=", rests, bound(low_)), builder.icmp_unsigned("<=", rests, bound(high_))
        )
        counted = splat(builder, builder.trunc(count_, I32), SAMPLE)
        inside = builder.and_(inside, builder.icmp_signed("<", lane_numbers(I32, SAMPLE), counted))
        places = builder.and_(halves, splat(builder, builder.trunc(mask_, I32), SAMPLE))
        store_lanes(builder, compress(builder, places, inside), element(context, builder, kinds[9], out_place_, at_))
        store_lanes(builder, splat(builder, number_, SAMPLE), element(context, builder, kinds[8], out_range_, at_))
        return count_chosen(builder, inside)

    word, whole = types.uint64, types.int64
    return types.int64(words, whole, whole, word, word, word, word, types.int32, out_range, out_place, whole), codegen


@compiled
def probe_run(words, count, samples, low, high, mask, rest, out_range, out_place, state):
    """Sorted ranges against sorted words.

    The partition of each lower bound is found by walking along the samples (a merge of both), or, where ranges are
    few, by the rebounding search of Fig. 6; the place within it by counting smaller words. From there on words are
    copied 16 at a time, and as many kept as lie in the range. state[0] is the range to go on with, state[2] - 1 the
    word where its output stopped, state[3] the partition.
    """
    parts = np.empty(BLOCK, np.int32)
    found, room = 0, len(out_range)
    first_range, compared, resumed, part = state[0], state[1], state[2] - 1, state[3]
    n, last = len(low), len(samples) - STRIDE - 1
    sparse, dense = last > SPARSE * n, last < DENSE * n
    while first_range < n:
        block = min(BLOCK, n - first_range)
        k = 0
        if sparse:
            for k in range(block):
                bound = low[first_range + k]
                step = 1
                while part + step <= last and samples[part + step] < bound:
                    part += step
                    step *= 2
                while step > 1:
                    step //= 2
                    if part + step <= last and samples[part + step] < bound:
                        part += step
                parts[k] = part
        elif not dense:
            for k in range(block):
                bound = low[first_range + k]
                ahead = _samples_below(samples, part + 1, bound)
                while ahead == STRIDE:
                    part += STRIDE
                    ahead = _samples_below(samples, part + 1, bound)
                part = min(part + ahead, last)
                parts[k] = part
        else:
            while k < block and part < last:
                beyond = samples[part + 1] < low[first_range + k]
                parts[k] = part
                part += beyond
                k += not beyond
            while k < block:
                parts[k] = part
                k += 1
        for k in range(block):
            asked = np.int64(parts[min(k + AHEAD, block - 1)]) * SAMPLE
            prefetch(words, asked)
            prefetch(words, asked + 8)
            i = first_range + k
            end = high[i]
            start = resumed
            if resumed < 0:
                place = np.int64(parts[k]) * SAMPLE
                start = place + _below(words, place, low[i])
                compared += SAMPLE
            resumed = np.int64(-1)
            hits = SAMPLE
            while hits == SAMPLE:
                if found + SAMPLE > room:
                    state[0], state[1], state[2], state[3] = i, compared, start + 1, parts[k]
                    return found
                hits = min(_up_to(words, start, end), count - start)
                if rest == 0:
                    _copy(words, start, mask, i, out_range, out_place, found)
                    found += hits
                else:
                    found += _copy_within(words, start, hits, low[i], end, rest, mask, i, out_range, out_place, found)
                compared += hits
                start += SAMPLE
        first_range += block
    state[0], state[1], state[2], state[3] = n, compared, 0, 0
    return found


@compiled
def probe_runs(runs, low, high, mask, rest, owner, probing_rows, window_low, window_high, places, out, state):
    """Ranges against many runs, and the found tuples as row numbers: one call for a whole window.

    Each line of `runs` describes one: the address and number of its words, those of its samples, the first row number
    and the address of the others (0: they count up), the same of the coordinates, and whether all of them lie in every
    probing tuple's window. state[4] is the run to go on with, the others are as in `probe_run`. There is no `rest`
    where a key decides alone.
    """
    found, room = 0, out.shape[1] - places.shape[1]
    number = state[4]
    while number < len(runs) and found <= room:
        run = runs[number]
        count = run[1]
        words = carray(pointer(run[0]), count + SAMPLE, np.uint64)
        samples = carray(pointer(run[2]), run[3], np.uint64)
        hits = probe_run(words, count, samples, low, high, mask, rest, places[0], places[1], state)
        rows = carray(pointer(run[5]), count, np.int64)
        coordinates = carray(pointer(run[7]), count, np.int64)
        for c in range(hits):
            i, j = np.int64(owner[places[0, c]]), np.int64(places[1, c])
            out[0, found] = probing_rows[i]
            out[1, found] = run[4] + j if run[5] == 0 else rows[j]
            where = run[6] + j if run[7] == 0 else coordinates[j]
            found += run[8] | ((where >= window_low[i]) & (where < window_high[i]))
        if state[0] == len(low):
            number += 1
            state[0] = 0
    state[4] = number
    return found


_NO_REST = np.uint64(0)


class _Run:
    """Ascending words and their samples, both with padding behind."""

    __slots__ = ("count", "place", "samples", "words")

    def __init__(self, words: Words, count: int) -> None:
        self.words, self.count = words, count
        self.samples = np.empty(max(-(-count // SAMPLE), 1) + STRIDE, np.uint64)
        _sample(words, count, self.samples)
        self.place = self._place()

    def _place(self) -> tuple[int, int, int, int]:
        return self.words.ctypes.data, self.count, self.samples.ctypes.data, len(self.samples)

    def __getstate__(self) -> tuple[Words, int, Words]:
        return self.words, self.count, self.samples

    def __setstate__(self, state: tuple[Words, int, Words]) -> None:
        self.words, self.count, self.samples = state
        self.place = self._place()

    @property
    def view(self) -> Words:
        return self.words[: self.count]


class BiSort:
    """A `WordIndex`. `run_all` runs the pieces of a large merge, on several threads or one after another.

    `spare` are arrays that nobody uses any more: memory that is fresh from the system costs more than a merge. Large
    runs all get arrays of the subwindow's capacity, so that these fit.
    """

    def __init__(
        self, capacity: int, place_bits: int, run_all: RunAll = _one_after_another, spare: list[Words] | None = None
    ) -> None:
        self._capacity = capacity
        self._spare = [] if spare is None else spare
        self._mask = np.uint64((1 << place_bits) - 1)
        self._run_all = run_all
        self._runs: list[_Run] = []
        self._merges = self._moved = 0
        self.count = 0

    def __getstate__(self) -> dict[str, Any]:
        """A sealed index needs neither threads nor spare arrays."""
        return {**self.__dict__, "_run_all": _one_after_another, "_spare": []}

    @property
    def nbytes(self) -> int:
        return sum(run.words.nbytes + run.samples.nbytes for run in self._runs)

    def insert(self, words: Words) -> None:
        if not len(words):
            return
        kept = self._array(len(words))
        kept[: len(words)] = words
        self._runs.append(_Run(kept, len(words)))
        self.count += len(words)
        while len(self._runs) > 1 and self._runs[-2].count < GROWTH * self._runs[-1].count:
            self._merge_last_two()

    def _merge_last_two(self) -> None:
        gone = self._runs.pop(), self._runs.pop()
        b, a = gone[0].view, gone[1].view
        total = len(a) + len(b)
        merged = self._array(total)
        pieces = max(total // PIECE, 1)

        def piece(number: int) -> Callable[[], None]:
            start, stop = total * number // pieces, total * (number + 1) // pieces
            (i, j), (p, q) = (split_merge(a, b, start), split_merge(a, b, stop))
            return lambda: merge_words(a[i:p], b[j:q], merged[start:stop])

        self._run_all([piece(number) for number in range(pieces)])
        self._runs.append(_Run(merged, total))
        self._give_back(gone)
        self._merges += 1
        self._moved += total

    def probe(self, low: Words, high: Words, out_range: Places, out_place: Places, state: State) -> int:
        number, state[0] = int(state[0]) >> RUN_SHIFT, int(state[0]) & ((1 << RUN_SHIFT) - 1)
        found = 0
        while number < len(self._runs):
            run = self._runs[number]
            found += probe_run(
                run.words, run.count, run.samples, low, high, self._mask, _NO_REST,
                out_range[found:], out_place[found:], state,
            )  # fmt: skip
            if state[0] < len(low):
                state[0] |= number << RUN_SHIFT
                return found
            state[0] = 0
            number += 1
        state[0] = -1
        return found

    @property
    def places(self) -> list[tuple[int, int, int, int]]:
        """For `probe_runs`: where each run's words and samples lie, and how many they are."""
        return [run.place for run in self._runs]

    def seal(self) -> None:
        while len(self._runs) > 1:
            self._merge_last_two()

    def release(self) -> None:
        """The subwindow has expired."""
        self._give_back(self._runs)
        self._runs = []

    def _array(self, count: int) -> Words:
        """Room for so many words and padding behind."""
        if count <= self._capacity // LARGE:
            return np.empty(_padded(count), np.uint64)
        size = _padded(max(self._capacity, count))
        while self._spare:
            array = self._spare.pop()
            if len(array) == size:
                return array
        return np.empty(size, np.uint64)

    def _give_back(self, runs: Sequence[_Run]) -> None:
        self._spare += [r.words for r in runs if len(r.words) == _padded(self._capacity)][: SPARES - len(self._spare)]

    def figures(self) -> dict[str, Any]:
        return {"runs": len(self._runs), "merges": self._merges, "moved": self._moved}


def _padded(count: int) -> int:
    return (count // SAMPLE + 2) * SAMPLE
