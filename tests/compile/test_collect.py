"""From masks to pairs, and whole scans whose output is too small: no pair lost, doubled or written out of bounds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamjoin.compile.collect import collect
from streamjoin.predicate import plan_for
from streamjoin.predicate.lower import lower
from streamjoin.predicate.vector import Frame
from streamjoin.store import Batch, HashIndex, PairSink, Probing, ScanIndex
from streamjoin.store.pair_memory import PairMemory
from streamjoin.store.scan_kernel import BLOCK, TILE
from streamjoin.store.stored_side import StoredSide

LOWEST, HIGHEST = -(2**63), 2**63 - 1
UNTOUCHED = -77
SIZES = [0, 1, 2, 15, 16, 17, 31, 47, 63, 64, 65, 127, 128, 500, 1000, 1008, 1009, 1023, 1024]
EDGES = [LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST]


def plain(
    mask: np.ndarray, probe: int, begin: int, coordinate: np.ndarray, low: int, high: int
) -> list[tuple[int, int]]:
    places = coordinate.tolist()
    return [(probe, begin + j) for j in range(len(places)) if mask[j] and low <= places[j] < high]


def check(
    mask: np.ndarray, coordinate: np.ndarray, low: int, high: int, density: int, begin: int = 0, found: int = 0
) -> int:
    """Outputs of exactly the documented size, with a guard behind that must stay as it was."""
    size, probe = len(coordinate), 3
    wanted = plain(mask, probe, begin, coordinate, low, high)
    guard = 64
    # What is hit but outside the window is written too, before it is taken out again: room for all hits of the mask.
    # Written are groups of 16, so a whole slice of BLOCK never needs more than BLOCK.
    room = found + min(int(mask[:size].sum()) + 16, -(-size // 16) * 16)
    outputs = [np.full(room + guard, UNTOUCHED, np.int32) for _ in range(2)]
    scratch = np.ones(BLOCK, np.bool_)  # the rest of the scratch is set: it must not count
    scratch[:size] = mask[:size]
    kept = coordinate.copy()
    end = collect(
        scratch, np.int32(probe), begin, coordinate, low, high, outputs[0][:room], outputs[1][:room], found, density
    )
    pairs = list(zip(*(out[found:end].tolist() for out in outputs), strict=True))
    assert pairs == wanted
    assert end == found + len(wanted)
    for out in outputs:
        assert (out[:found] == UNTOUCHED).all()
        assert (out[room:] == UNTOUCHED).all()
    assert (outputs[0][end + 16 :] == UNTOUCHED).all()
    assert np.array_equal(coordinate, kept)
    return len(wanted)


@st.composite
def slices(draw: Any) -> dict[str, Any]:
    size = draw(st.one_of(st.sampled_from(SIZES), st.integers(0, BLOCK)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    mask = rng.random(size) < draw(st.sampled_from([0, 0.001, 0.02, 0.0625, 0.3, 0.9, 1]))
    if draw(st.booleans()) and size:  # hits in one place only
        start = draw(st.integers(0, size - 1))
        mask[:start] = False
        mask[start + draw(st.integers(1, 80)) :] = False
    spread = draw(st.sampled_from(["order", "near", "far", "edges"]))
    if spread == "order":
        coordinate = np.sort(rng.integers(-1000, 1000, size))
    elif spread == "near":
        coordinate = rng.integers(-3, 4, size)
    elif spread == "far":
        coordinate = rng.integers(LOWEST, HIGHEST, size, endpoint=True)
    else:
        coordinate = rng.choice(np.array(EDGES), size)
    bounds = st.one_of(st.sampled_from(EDGES), st.integers(-1001, 1001), st.integers(LOWEST, HIGHEST))
    return {
        "mask": mask,
        "coordinate": coordinate.astype(np.int64),
        "low": draw(bounds),
        "high": draw(bounds),
        "begin": draw(st.sampled_from([0, BLOCK, 255 * BLOCK])),
        "found": draw(st.sampled_from([0, 1, 15, 4096])),
    }


@settings(max_examples=400, derandomize=True)
@given(slices())
@example({"mask": np.ones(BLOCK, bool), "coordinate": np.zeros(BLOCK, np.int64), "low": 0, "high": 1})
@example({"mask": np.ones(BLOCK, bool), "coordinate": np.zeros(BLOCK, np.int64), "low": 0, "high": 0})
@example({"mask": np.ones(BLOCK, bool), "coordinate": np.zeros(BLOCK, np.int64), "low": 1, "high": LOWEST})
@example({"mask": np.ones(BLOCK, bool), "coordinate": np.full(BLOCK, HIGHEST - 1), "low": LOWEST, "high": HIGHEST})
@example({"mask": np.ones(BLOCK, bool), "coordinate": np.full(BLOCK, LOWEST), "low": LOWEST, "high": HIGHEST})
@example({"mask": np.ones(1009, bool), "coordinate": np.arange(1009), "low": 1000, "high": HIGHEST})
def test_every_density_collects_the_same(case: dict[str, Any]) -> None:
    for density in (0, 1, 2):
        check(**case, density=density)


@pytest.mark.parametrize("density", [0, 1, 2])
def test_every_size(density: int) -> None:
    """One hit in the last place, none, and all, for each size."""
    for size in range(BLOCK + 1):
        coordinate = np.arange(size, dtype=np.int64)
        mask = np.zeros(size, np.bool_)
        assert check(mask, coordinate, LOWEST, HIGHEST, density) == 0
        if size:
            mask[-1] = True
            assert check(mask, coordinate, 0, size, density) == 1
            assert check(mask, coordinate, 0, size - 1, density) == 0
        if size % 16 in (0, 1, 15) or size < 70:
            assert check(np.ones(size, np.bool_), coordinate, 1, size, density) == max(size - 1, 0)


# --- Whole scans -------------------------------------------------------------------------------------

SCHEMA = pa.schema({"k": pa.int64()})
PREDICATES = {
    "l.k = r.k": lambda l, r: l == r,
    "l.k BETWEEN r.k - 1 AND r.k + 1": lambda l, r: abs(l - r) <= 1,
    "TRUE": lambda l, r: np.full(np.broadcast_shapes(l.shape, r.shape), True),
}


@cache
def lowered(on: str) -> Any:
    return lower(plan_for(on, SCHEMA, SCHEMA))


def batch(on: str, side: Any, k: np.ndarray, coordinate: np.ndarray, low: Any, high: Any) -> Batch:
    """Tuples as the engine would make them; row numbers are not places."""
    program = lowered(on).sides[side]
    columns = {(side, name): pa.array(k) for name in program.columns}
    slots = program.run(Frame(len(k), columns))
    bounds = [np.broadcast_to(np.asarray(b, np.int64), len(k)).copy() for b in (low, high)]
    return Batch(np.arange(len(k)) * 7 + 5, coordinate, *bounds, slots.columns)


class CountingSink(PairSink):
    """A sink with outputs of a given size, one behind the other, and a guard behind both."""

    def __init__(self, capacity: int, decide: Any = lambda left, right: None) -> None:
        super().__init__(decide)
        self.capacity, self.drained = capacity, 0
        self.guarded = np.full(2 * capacity + 64, UNTOUCHED, np.int32)
        self._kept = self.guarded[: 2 * capacity].reshape(2, capacity), PairMemory(capacity)

    def add_rows(self, count: int, turned: bool = False) -> None:
        assert count <= self.capacity
        self.drained += 1
        super().add_rows(count, turned)

    def rows(self) -> tuple[Any, Any]:
        """The rows of all pairs, and the guards untouched."""
        assert (self.guarded[2 * self.capacity :] == UNTOUCHED).all()
        self._kept = None  # not to be used by others
        probing, stored = self.take()
        none = np.empty(0, np.int64)
        return np.concatenate([none, *probing]), np.concatenate([none, *stored])


def probe(on: str, index: str, stored: Batch, probing: Batch, capacity: int, parts: int = 3) -> tuple[Any, int]:
    """All pairs (probing row, stored row), sorted, and how many times the output was emptied."""
    made = (ScanIndex if index == "scan" else HashIndex)(max(len(stored), 1), StoredSide(lowered(on), "left"))
    for part in np.array_split(np.arange(len(stored)), parts):
        if len(part):
            made.insert(stored.slice(int(part[0]), int(part[-1]) + 1))
    sink = CountingSink(capacity)
    probes = made.probe(Probing(probing), sink) if index == "scan" else made.probe_group([made], Probing(probing), sink)
    assert sum(probes) <= len(stored) * len(probing)
    left, right = sink.rows()
    order = np.lexsort((right, left))
    return np.stack([left[order], right[order]], axis=1), sink.drained


def reference(on: str, stored: tuple[Any, Any], probing: tuple[Any, Any, Any, Any]) -> np.ndarray:
    (sk, sc), (pk, _, low, high) = stored, probing
    low, high = (np.broadcast_to(np.asarray(b, np.int64), len(pk))[:, None] for b in (low, high))
    hits = PREDICATES[on](sk[None, :], pk[:, None]) & (sc[None, :] >= low) & (sc[None, :] < high)
    return np.argwhere(hits) * 7 + 5


@pytest.mark.parametrize("domain", [1, 2, 40, 3000])
@pytest.mark.parametrize("on", PREDICATES)
def test_a_scan_that_has_to_go_on(on: str, domain: int) -> None:
    """With room for no more than one unit of work: 4 probing tuples times a slice."""
    rng = np.random.default_rng(domain)
    for n, probes in ((2500, 203), (BLOCK, TILE), (BLOCK + 1, TILE + 1), (1, 50), (700, 1)):
        stored = rng.integers(0, domain, n), np.sort(rng.integers(0, 1000, n))
        middle = rng.integers(0, 1000, probes)
        windows = [
            (LOWEST, HIGHEST),
            (middle - 100, middle + 100),
            (middle, middle),  # nothing is inside
            (np.where(middle % 2, 0, middle), np.where(middle % 3, HIGHEST, middle)),
        ]
        for low, high in windows:
            probing = rng.integers(0, domain, probes), middle, low, high
            wanted = reference(on, stored, probing)
            sides = batch(on, "left", *stored, 0, 0), batch(on, "right", *probing)
            found, drained = probe(on, "scan", *sides, TILE * BLOCK)
            assert np.array_equal(found, wanted)
            assert drained >= len(wanted) // (TILE * BLOCK)
            roomy, _ = probe(on, "scan", *sides, 1 << 16)
            assert np.array_equal(roomy, wanted)


@pytest.mark.parametrize("capacity", [1, 2, 64, 4096])
@pytest.mark.parametrize("domain", [1, 40, 3000])
def test_a_hash_probe_that_has_to_go_on(domain: int, capacity: int) -> None:
    rng = np.random.default_rng(domain)
    n, probes = 400, 30
    stored = rng.integers(0, domain, n), np.sort(rng.integers(0, 1000, n))
    middle = rng.integers(0, 1000, probes)
    probing = rng.integers(0, domain, probes), middle, middle - 300, middle + 300
    wanted = reference("l.k = r.k", stored, probing)
    sides = batch("l.k = r.k", "left", *stored, 0, 0), batch("l.k = r.k", "right", *probing)
    found, drained = probe("l.k = r.k", "hash", *sides, capacity)
    assert np.array_equal(found, wanted)
    assert drained >= len(wanted) // capacity


def test_candidates_are_decided_as_the_output_is_emptied() -> None:
    """Every second candidate is turned down, however often the scan has to stop."""
    on, n, probes = "TRUE", 2100, 37
    decided = []

    def decide(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        decided.append(len(left))
        return (left + right) % 2 == 0

    stored = batch(on, "left", np.zeros(n, np.int64), np.zeros(n, np.int64), 0, 0)
    probing = batch(on, "right", np.zeros(probes, np.int64), np.zeros(probes, np.int64), 0, 1)
    index = ScanIndex(n, StoredSide(lowered(on), "left"))
    index.insert(stored)
    sink = CountingSink(TILE * BLOCK, decide)
    assert sum(index.probe(Probing(probing), sink)) == n * probes
    right, left = sink.rows()
    assert sum(decided) == n * probes
    assert max(decided) <= TILE * BLOCK
    assert len(decided) >= n * probes // (TILE * BLOCK)
    wanted = {(p * 7 + 5, s * 7 + 5) for p in range(probes) for s in range(n) if (7 * p + 7 * s + 10) % 2 == 0}
    assert len(left) == len(wanted)
    assert set(zip(right.tolist(), left.tolist(), strict=True)) == wanted
