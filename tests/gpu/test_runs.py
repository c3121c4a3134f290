"""Sorted runs on a GPU, the memory they lie in, and how work is cut."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamjoin.arrays import INT64_MAX, INT64_MIN
from streamjoin.gpu.arena import Arena
from streamjoin.gpu.condition import GpuCondition
from streamjoin.gpu.pieces import Piece, Search, Span
from streamjoin.gpu.row_numbers import row_pairs
from streamjoin.gpu.runs import Runs
from streamjoin.gpu.search_key import SearchKey, search_key
from streamjoin.gpu.space import Space
from streamjoin.gpu.stretch import Stretch
from streamjoin.predicate.keys import RangeKey
from streamjoin.predicate.lower import lower
from streamjoin.store import Batch
from streamjoin.store.stored_side import StoredSide
from streamjoin.store.subwindow import Subwindow

from .. import interpreted
from ..conformance.cases import CASES
from . import python_machine

EQUAL = SearchKey(0, np.dtype("int32"), 0, 0, None)


class Stored:
    """As much of a subwindow as runs read."""

    def __init__(self, keys: Any) -> None:
        self.slots = {0: keys}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> python_machine.PythonMachine:
    interpreted.install(monkeypatch)
    return python_machine.install(monkeypatch)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_runs_are_sorted_and_name_each_place_once(gpu: python_machine.PythonMachine, kind: str) -> None:
    rng = np.random.default_rng(1)
    runs = Runs(gpu, SearchKey(0, np.dtype(kind), 0, 0, None), None)
    edge = np.iinfo(kind)
    windows = [Stored(np.append(rng.integers(-5, 5, 38), [edge.min, edge.max]).astype(kind)) for _ in range(4)]
    stretches: list[Stretch] = []
    for number, window in enumerate(windows):
        stretches.append(Stretch(weakref.ref(window), 1000 - 50 * number, 40))  # type: ignore[arg-type]
        while stretches[-1].sent < 40:
            stretches[-1].sent = min(stretches[-1].sent + int(rng.integers(1, 9)), 40)
            runs.extend(stretches)
            named = []
            for run in runs.all:
                keys, places = runs.keys[run.begin : run.end], runs.places[run.begin : run.end].tolist()
                assert (np.diff(keys) >= 0).all()
                named += places
                for key, place in zip(keys, places, strict=True):
                    owner = next(s for s in stretches if s.start <= place < s.start + 40)
                    assert key == owner.subwindow().slots[0][place - owner.start]  # type: ignore[union-attr]
            assert sorted(named) == sorted(s.start + k for s in stretches for k in range(s.in_runs))
            assert sum(s.sent - s.in_runs for s in stretches) < 4
    assert len(runs.all) < sum(len(run.members) for run in runs.all)
    stretches[0].is_gone = stretches[1].is_gone = True
    before = len(runs.all)
    assert id(stretches[3]) in runs.forget()
    assert len(runs.all) < before
    for stretch in stretches:
        stretch.is_gone = True
    assert runs.forget() == set()
    assert runs.all == []


def test_bounds_stop_at_the_ends_of_64_bits() -> None:
    low, high = np.array([INT64_MIN, INT64_MIN + 3, 0, INT64_MAX]), np.array([1, 2, 3, 4])
    batch = Batch(low, low, low, low, [low, high])
    key = SearchKey(0, np.dtype("int64"), 0, 1, RangeKey(0, ((0, 1),), width=1))
    assert key.bounds(batch, 5)[0].tolist() == [INT64_MIN, INT64_MIN, -5, INT64_MAX - 5]
    assert key.bounds(batch, 5)[1].tolist() == [1, 2, 3, 4]
    assert key.bounds(batch, INT64_MAX)[0].tolist() == [INT64_MIN, INT64_MIN, -INT64_MAX, 0]
    slots = {0: np.array([INT64_MIN, 5, 7]), 1: np.array([INT64_MAX, 9, 3])}
    assert key.widest(slots, 0, 3) == 2**64 - 1
    assert key.widest(slots, 1, 3) == 4
    assert key.widest(slots, 2, 3) == 0


def test_intervals_of_more_than_half_of_64_bits_are_scanned(gpu: python_machine.PythonMachine) -> None:
    """No key has a place that far below what a probing tuple asks for."""
    key = SearchKey(0, np.dtype("int64"), 0, 1, RangeKey(0, ((0, 1),), width=1))
    for top, serves in ((-1, True), (0, False), (INT64_MAX, False)):
        window = Stored(np.full(4, INT64_MIN))
        window.slots[1] = np.full(4, top)
        runs = Runs(gpu, key, None)
        runs.extend([Stretch(weakref.ref(window), 0, 4, sent=4)])  # type: ignore[arg-type]
        assert runs.serves == serves


def test_keys() -> None:
    found = {name: search_key(lower(CASES[name].plan), "left") for name in ("int32-band", "texts", "disjunction")}
    assert found["int32-band"] is not None
    assert found["int32-band"].band is not None
    assert found["texts"] is not None
    assert found["texts"].band is None
    assert found["disjunction"] is None


def test_space() -> None:
    space = Space(10)
    assert [space.take(4), space.take(4), space.take(4)] == [0, 4, None]
    space.give_back(0, 4)
    assert space.take(5) is None
    space.grow(3)
    assert space.room == 20
    assert space.take(12) == 8
    space.give_back(4, 8)
    assert space.take(8) == 0
    assert space.take(1) is None


def test_memory_of_what_has_expired_is_used_again(gpu: python_machine.PythonMachine) -> None:
    lowered = lower(CASES["int32-band"].plan)
    stored = StoredSide(lowered, "left")
    arena = Arena(gpu, "left", GpuCondition(lowered), search_key(lowered, "left"))
    window: list[Subwindow] = []
    for number in range(60):
        places = np.arange(8 * number, 8 * number + 8)
        slots = [np.resize(np.arange(8), 8).astype(slot.dtype) for slot in lowered.slots.left]
        window = [*window[-3:], Subwindow(8, stored)]
        window[-1].insert(Batch(places, places, places, places, slots))
        stretches = arena.sync(window)
        for subwindow, stretch in zip(window, stretches, strict=True):
            assert (
                arena.coordinate[stretch.start : stretch.start + 8].tolist()
                == subwindow.coordinate.slice(0, 8).tolist()
            )
            places = stretch.start + np.arange(8)
            row_pairs(
                places, np.zeros(1, np.int64), 0, arena.rows, (np.empty(8, np.int64), found := np.empty(8, np.int64))
            )
            assert found.tolist() == subwindow.row.slice(0, 8).tolist()
    assert len(arena.rows.rows) <= 128
    assert arena.runs is not None
    assert len(arena.runs.keys) <= 256


def test_parts_do_all_of_the_work() -> None:
    window: Any = SimpleNamespace(name="a subwindow")
    row = np.arange(5)
    whole = Piece(Batch(row, row, row, row, []), 0, 5, [Span(window, 100, 0, 3), Span(window, 200, 2, 4)])

    def pairs(piece: Piece) -> list[tuple[int, int]]:
        return [
            (i, span.start + k)
            for i in range(piece.first, piece.last)
            for span in piece.spans
            for k in range(span.begin, span.end)
        ]

    waiting, single = [whole], list[tuple[int, int]]()
    while waiting:
        found = pairs(waiting[-1])
        piece = waiting.pop()
        if len(found) > 1:
            waiting += piece.halves()
        else:
            single += found
    assert sorted(single) == sorted(pairs(whole))


def test_a_search_with_too_many_pairs_becomes_a_scan(gpu: python_machine.PythonMachine) -> None:
    window = Stored(np.zeros(9, np.int32))
    stretch = Stretch(weakref.ref(window), 5, 9, sent=9)  # type: ignore[arg-type]
    runs = Runs(gpu, EQUAL, None)
    runs.extend([stretch, Stretch(weakref.ref(window), 50, 9)])  # type: ignore[arg-type]
    row = np.arange(1)
    waiting: list[Any] = [Search(Batch(row, row, row, row, []), 0, 1, runs.all)]
    spans: list[Span] = []
    while waiting:
        work = waiting.pop()
        if isinstance(work, Search):
            waiting += work.halves()
        else:
            spans += work.spans
    assert sum(span.end - span.begin for span in spans) == 9
    assert all(span.start == 5 for span in spans)
