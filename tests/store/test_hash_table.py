"""The hash table of a window: a ring that grows, numbers that wrap around, ranges that go in any order."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.predicate import plan_for
from streamjoin.predicate.lower import lower
from streamjoin.store import Batch, HashIndex, PairSink, Probing, hash_table
from streamjoin.store.key_choice import KeyChooser
from streamjoin.store.stored_side import StoredSide

SCHEMA = pa.schema([("k", pa.int32()), ("x", pa.int64())])
LOWERED = lower(plan_for("l.k = r.k AND l.x <= r.x", SCHEMA, SCHEMA))


def batch(
    side: Any, first: int, keys: Any, values: Any, low: int = 0, high: int = 0, coordinates: Any = None
) -> Batch:  # fmt: skip
    """Tuples numbered from `first` on, and placed there if nothing else is said."""
    program = LOWERED.sides[side]
    slots = [np.asarray(keys if slot.expr.name == "k" else values, slot.dtype) for slot in program.slots]
    place = np.arange(first, first + len(keys))
    coordinate = place if coordinates is None else np.array(coordinates, np.int64)
    return Batch(place, coordinate, np.full(len(keys), low), np.full(len(keys), high), slots)


def found(subwindows: list[HashIndex], probing: Batch) -> list[tuple[int, int]]:
    sink = PairSink()
    if subwindows:
        list(subwindows[0].probe_group(subwindows, Probing(probing), sink))
    left, right = sink.take()
    return sorted(zip(np.concatenate([[], *left]), np.concatenate([[], *right]), strict=True))


@pytest.mark.parametrize("first_number", [0, 2**31, 2**32 - 40, 2**33 - 7])
@pytest.mark.parametrize("disorder", [0, 2, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_any_life_of_a_table(
    seed: int, disorder: int, first_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Coordinates grow with the numbers, but for some disorder, which most batches do not have."""
    monkeypatch.setattr(hash_table, "SMALLEST", 8)
    monkeypatch.setattr(hash_table, "MOVED", 5)
    monkeypatch.setattr(hash_table, "FIRST_NUMBER", first_number)
    rng, stored = random.Random(seed), StoredSide(LOWERED, "right")
    living: list[tuple[HashIndex, dict[int, tuple[int, int, int]]]] = []
    row = 0
    for _ in range(60):
        if not living or rng.random() < 0.4:
            living.append((HashIndex(1000, stored), {}))
        subwindow, known = living[-1]
        count = rng.choice([1, 3, 30])
        keys, values = [[rng.randrange(6) for _ in range(count)] for _ in range(2)]
        jitter = disorder if rng.random() < 0.2 else 0
        coordinates = [row + n - rng.randint(0, jitter) for n in range(count)]
        subwindow.insert(batch("right", row, keys, values, coordinates=coordinates))
        known |= {row + n: found for n, found in enumerate(zip(keys, values, coordinates, strict=True))}
        row += count
        while len(living) > 1 and rng.random() < 0.5:
            living.pop(rng.randrange(len(living) - 1))[0].release()
        asked, low, high = [rng.randrange(7) for _ in range(9)], rng.randrange(row), rng.randrange(row + 1)
        probing = batch("left", 0, asked, [3] * 9, low, high)
        some = [pair for pair in living if rng.random() < 0.8]
        want = sorted(
            (n, place)
            for n, key in enumerate(asked)
            for _, known in some
            for place, (own, value, coordinate) in known.items()
            if own == key and value >= 3 and low <= coordinate < high
        )
        assert found([subwindow for subwindow, _ in some], probing) == want


def test_the_ends_of_64_bits() -> None:
    """The distance of two coordinates need not fit into 64 bits."""
    stored, ends = StoredSide(LOWERED, "right"), [2**63 - 2, -(2**63) + 1, 0]
    ours = HashIndex(10, stored)
    ours.insert(batch("right", 0, [1, 1, 1], [9, 9, 9], coordinates=ends))
    for low, high, want in ((-(2**63), 2**63 - 1, 3), (-(2**63), 0, 1), (0, 2**63 - 1, 2), (1, 2**63 - 1, 1)):
        assert len(found([ours], batch("left", 0, [1], [0], low, high))) == want


def test_chains_end_where_windows_begin() -> None:
    """Also when tuples that were out of order are gone."""
    stored = StoredSide(LOWERED, "right")

    def compared(subwindows: list[HashIndex]) -> int:
        sink = PairSink()
        return sum(subwindows[0].probe_group(subwindows, Probing(batch("left", 0, [1], [0], 1990, 2000)), sink))

    first = HashIndex(1000, stored)
    first.insert(batch("right", 0, [1] * 1000, [9] * 1000, coordinates=[5, *range(999)]))
    second = HashIndex(1000, stored)
    second.insert(batch("right", 1000, [1] * 1000, [9] * 1000))
    assert compared([first, second]) == 16
    first.release()
    assert compared([second]) == 11


def test_an_empty_range_goes_alone() -> None:
    """Two ranges may begin at the same number."""
    stored = StoredSide(LOWERED, "right")
    empty, ours = HashIndex(10_000, stored), HashIndex(10_000, stored)
    ours.insert(batch("right", 0, [1] * 3000, [9] * 3000))
    empty.release()
    more = HashIndex(10_000, stored)
    more.insert(batch("right", 3000, [1] * 5000, [9] * 5000))
    assert len(found([ours, more], batch("left", 0, [1], [0], 0, 8000))) == 8000


def test_only_the_last_range_has_room() -> None:
    stored = StoredSide(LOWERED, "right")
    first = HashIndex(10, stored)
    first.insert(batch("right", 0, [1], [9]))
    assert first.room == 9
    second = HashIndex(10, stored)
    second.insert(batch("right", 1, [1], [9]))
    assert (first.room, second.room) == (0, 9)


def test_a_subwindow_in_another_window() -> None:
    """Its tuples travel with it."""
    stored = StoredSide(LOWERED, "right")
    ours = HashIndex(10, stored)
    ours.insert(batch("right", 5, [1, 2, 1], [9, 9, 9]))
    theirs: HashIndex = pickle.loads(pickle.dumps(ours))
    other = StoredSide(LOWERED, "right")
    theirs.attach(other, KeyChooser(LOWERED, "right"))
    probing = batch("left", 0, [1], [0], 0, 100)
    assert found([theirs], probing) == found([ours], probing) == [(0, 5), (0, 7)]
