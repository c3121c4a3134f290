"""The jobs of scans whose probing tuples all look at the same places."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.parallel.crew import Crew
from streamjoin.predicate import plan_for
from streamjoin.predicate.frames import Frame
from streamjoin.predicate.lower import lower
from streamjoin.side import Side, other
from streamjoin.store import Batch, Probing, SideWindow
from streamjoin.store.pair_slots import PairSlots

from .. import constants
from ..long import LONG
from ..predicates import BAND

SCHEMA = pa.schema([("k", pa.int64())])
TRIES = 300 if LONG else 30
LOWERED = lower(plan_for(BAND, SCHEMA, SCHEMA))


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    made = Crew(3, cores=3)
    yield made
    made.close()


def batch(side: Side, rows: np.ndarray, places: np.ndarray, keys: np.ndarray) -> Batch:
    slots = LOWERED.sides[side].run(Frame(len(rows), {(side, "k"): pa.array(keys)}))
    return Batch(rows, places, places, places, slots.columns)


@pytest.mark.parametrize("stored_side", ["left", "right"])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_pair_at_these_places_is_found_once(
    stored_side: Side, workers: int, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few stored tuples or few probing ones, places with and without gaps, rows that count up or do not."""
    constants.replace(monkeypatch, SMALLEST_SCANNED=700, PAIRS=1 << 15, LEAST_ROOM=1 << 15)
    monkeypatch.setattr("streamjoin.store.scan.SPANNED", 2_500)
    slots = PairSlots(crew.workers, lambda left, right: None)
    for seed in range(TRIES):
        rng, dice = np.random.default_rng(seed), random.Random(seed)
        window = SideWindow(LOWERED, stored_side, "scan", crew.run)
        domain, tail, total = dice.choice([3, 50, 5_000]), 0, 0
        rows, places, keys = [], [], []
        for _ in range(dice.randint(1, 4)):
            count = dice.choice([1, 30, 900, 3_000 if domain > 100 else 300])
            tail += dice.choice([0, 0, 17])
            rows.append(np.arange(total, total + count) * dice.choice([1, 1, 3]))
            places.append(np.arange(tail, tail + count))
            keys.append(rng.integers(0, domain, count))
            window.insert(batch(stored_side, rows[-1], places[-1], keys[-1]))
            tail, total = tail + count, total + 3 * count
        probes = dice.choice([1, 40, 2_000])
        asked_keys = rng.integers(0, domain, probes)
        asked = batch(other(stored_side), np.arange(probes), np.arange(probes), asked_keys)
        start = dice.choice([0, dice.randint(0, tail)])
        stop = dice.choice([tail, dice.randint(start, tail)])
        probing = Probing(asked).at_places(start, stop)
        jobs, alone, groups = window.jobs(probing, dice.choice([1, 7]), stored_side == "right")
        assert not alone
        assert not groups
        slots.make_ready()
        found: list[tuple[int, int]] = []
        for _ in crew.rounds(jobs, slots.words, workers):
            for pairs in slots.take():
                for left, right in zip(*pairs, strict=True):
                    found += zip(left.tolist(), right.tolist(), strict=True)
        all_rows, all_places, all_keys = (np.concatenate(parts) for parts in (rows, places, keys))
        inside = np.flatnonzero((all_places >= start) & (all_places < stop))
        near = np.abs(all_keys[inside][:, None] - asked_keys[None, :]) <= 1
        stored, probe = np.nonzero(near)
        pairs_wanted = zip(all_rows[inside][stored].tolist(), probe.tolist(), strict=True)
        wanted = sorted(pair if stored_side == "left" else pair[::-1] for pair in pairs_wanted)
        assert sorted(found) == wanted, f"seed {seed}"
        assert slots.compared() >= len(inside) * probes
