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
from streamjoin.store.subwindow import StoredSide

SCHEMA = pa.schema([("k", pa.int32()), ("x", pa.int64())])
LOWERED = lower(plan_for("l.k = r.k AND l.x <= r.x", SCHEMA, SCHEMA))


def batch(side: Any, first: int, keys: Any, values: Any, low: int = 0, high: int = 0) -> Batch:
    """Tuples numbered and placed from `first` on."""
    program = LOWERED.sides[side]
    slots = [np.asarray(keys if slot.expr.name == "k" else values, slot.dtype) for slot in program.slots]
    place = np.arange(first, first + len(keys))
    return Batch(place, place, np.full(len(keys), low), np.full(len(keys), high), slots)


def found(subwindows: list[HashIndex], probing: Batch) -> list[tuple[int, int]]:
    sink = PairSink()
    if subwindows:
        list(subwindows[0].probe_group(subwindows, Probing(probing), sink))
    left, right = sink.take()
    return sorted(zip(np.concatenate([[], *left]), np.concatenate([[], *right]), strict=True))


@pytest.mark.parametrize("first_number", [0, 2**31, 2**32 - 40, 2**33 - 7])
@pytest.mark.parametrize("seed", range(4))
def test_any_life_of_a_table(seed: int, first_number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_table, "SMALLEST", 8)
    monkeypatch.setattr(hash_table, "FIRST_NUMBER", first_number)
    rng, stored = random.Random(seed), StoredSide(LOWERED, "right")
    living: list[tuple[HashIndex, dict[int, tuple[int, int]]]] = []
    row = 0
    for _ in range(60):
        if not living or rng.random() < 0.4:
            living.append((HashIndex(1000, stored), {}))
        subwindow, known = living[-1]
        count = rng.choice([1, 3, 30])
        keys, values = [[rng.randrange(6) for _ in range(count)] for _ in range(2)]
        subwindow.insert(batch("right", row, keys, values))
        known |= {row + n: pair for n, pair in enumerate(zip(keys, values, strict=True))}
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
            for place, (own, value) in known.items()
            if own == key and value >= 3 and low <= place < high
        )
        assert found([subwindow for subwindow, _ in some], probing) == want


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
