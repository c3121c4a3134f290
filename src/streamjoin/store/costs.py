"""What the steps of a probe cost, in nanoseconds, so that paths can be compared before one is taken.

The figures below are those of one machine. Two measurements say how another one differs: how fast it compares whole
vectors, and how fast it sorts and searches (`measure`). They are made once, in the rehearsal of the first join, and are
kept in the cache directory. `$STREAMJOIN_COSTS` overrides single figures, such as "compare=0.02,candidate=20".

What a condition costs that computes something for each pair depends on the condition: products of wide decimals take a
hundred times as long as a band. So it is measured in the rehearsal of each such join (`note_comparison`).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ..compile.cache import cache_directory, compiled
from ..errors import ArgumentError
from ..predicate.lower import Lowered
from ..predicate.pair_emitter import Near
from ..side import SIDES
from .run_probe import NO_REST, probe_run
from .runs import Run, padded
from .sorting import sort_words
from .words import new_state


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds. Only their ratios decide."""

    compare: float = 0.045
    """To test one 32-bit condition of a stored tuple in a scan."""
    scanned_probe: float = 40.0
    """To begin the scan of a probing tuple."""
    turned_probe: float = 12.0
    """The same where few stored tuples are compared with all probing ones."""
    scan_step: float = 30_000.0
    """To begin a step that scans."""
    grid_step: float = 35_000.0
    """To begin a grid of the tuples that a batch reaches."""
    grid_stored: float = 3.0
    """To put a tuple that is reached into a grid that lies in the cache."""
    grid_far: float = 150.0
    """How much more it takes if neither the grid nor what is looked up is in the cache."""
    grid_probe: float = 10.0
    """To find the candidates of a probing tuple there."""
    grid_candidate: float = 3.0
    """To test one of them, if all lie in the cache."""
    insert: float = 40.0
    """To sort a tuple into an index, and to move it when runs are merged."""
    range_: float = 60.0
    """To find the range of a probing tuple in all subwindows."""
    passed: float = 2.0
    """To skip a tuple of the range because of the rest of its key."""
    candidate: float = 15.0
    """To test a tuple of the range that may lie anywhere in memory."""
    irregular: float = 0.1
    """To compare with a tuple that has no place in the order."""
    search_step: float = 80_000.0
    """To begin a step that searches: the batch is sorted, and each run is looked up."""
    hashed: float = 24.0
    """To put a tuple into a hash table, and to find the bucket of a probing one: half of it each."""
    chained: float = 3.0
    """To test a tuple of a bucket."""
    far: float = 30.0
    """To wait for a bucket that is not in the cache."""
    hash_step: float = 45_000.0
    """To begin a step that looks up hashes."""

    def to_group(self, tuples: int, keys: int) -> float:
        """To put so many tuples into a grid of one or two keys."""
        return tuples * (keys * self.grid_stored + self.grid_far * _far(tuples) ** 2)

    def to_look_up(self, keys: int) -> float:
        """To find the candidates of a probing tuple: with two keys there are two runs, each by two intervals."""
        return self.grid_probe * keys**2

    def to_test(self, tuples: int) -> float:
        """To test a candidate that was found in a grid of so many tuples."""
        return self.grid_candidate + self.candidate * _far(tuples)

    def of_window(self, tuples: int) -> Costs:
        """The figures for a window of so many tuples: in a small one, all that is looked at lies in the cache."""
        far = _far(tuples)
        shares = {name: share + (1 - share) * far for name, share in CACHED.items()}
        return replace(self, far=self.far * far, **{name: getattr(self, name) * part for name, part in shares.items()})


VECTORS = ("compare", "irregular")
SEARCHES = (
    "scanned_probe", "turned_probe", "grid_stored", "grid_far", "grid_probe", "grid_candidate", "insert", "range_",
    "passed", "candidate", "hashed", "chained", "far",
)  # fmt: skip
"""The figures that follow each of the two measurements."""
REFERENCE = {"vectors": 0.030, "searches": 37.0}
"""What `measure` finds on the machine that the figures come from, in nanoseconds."""
FILE = f"costs-{re.sub('[^A-Za-z0-9]+', '-', llvm.get_host_cpu_name())}.json"
"""A cache directory may serve several machines."""
MOST_DIFFERENT = 8.0
HALF_CACHED = 200_000
"""Tuples. A window of as many is half in the cache."""
CACHED = {"insert": 0.5, "range_": 0.5, "candidate": 0.2, "hashed": 0.7, "chained": 0.5}
"""Which share of a cost is left where everything is in the cache."""


def _far(tuples: int) -> float:
    """Which share of what is looked at in so many tuples is not in the cache."""
    return tuples / (tuples + HALF_CACHED)


@cache
def costs() -> Costs:
    """The figures of this machine, as far as they are known."""
    return _overridden(_scaled(_kept()), os.environ.get("STREAMJOIN_COSTS", ""))


_measured: dict[Hashable, float] = {}
"""What comparisons that compute something for each pair have taken, in nanoseconds."""


def note_comparison(lowered: Lowered, nanoseconds: float) -> None:
    """A scan with this condition took so long for each pair."""
    _measured[_condition(lowered)] = nanoseconds


def _condition(lowered: Lowered) -> Hashable:
    return lowered.lines, lowered.condition, tuple(slot.dtype for side in SIDES for slot in lowered.slots[side])


def comparison_cost(lowered: Lowered) -> float:
    """What it costs a scan to compare two tuples: as it was measured, or else by what the condition consists of."""
    measured = _measured.get(_condition(lowered))
    if measured is not None:
        return measured
    tests = sum(2.0 if isinstance(test, Near) else test.bits / 32 for test in lowered.tests)
    return costs().compare * max(tests + 2 * len(lowered.lines), 1.0)


def calibrate() -> None:
    """Measure this machine, unless that has been done."""
    if _kept() is None:
        found = measure()
        with suppress(OSError):
            temporary = _path().with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(found))
            os.replace(temporary, _path())
            costs.cache_clear()


def measure() -> dict[str, float]:
    """Nanoseconds to compare an int32 with a block of others, per comparison, and to sort and search a word."""
    rng = np.random.default_rng(0)
    block = rng.integers(0, 2**30, 1024, np.int32)
    words = rng.integers(0, 2**62, 1 << 16).astype(np.uint64)
    probes = np.sort(rng.integers(0, 2**62, 1 << 14).astype(np.uint64))
    room = np.empty((2, 1 << 16), np.int32)

    def search() -> None:
        kept = np.empty(padded(len(words)), np.uint64)
        kept[: len(words)] = sort_words(words, 22)
        run = Run(kept, len(words))
        probe_run(run.words, run.count, run.samples, probes, probes, np.uint64(1), NO_REST, *room, new_state())

    return {
        "vectors": _seconds(lambda: _compare(block, 256)) * 1e9 / (256 * len(block)),
        "searches": _seconds(search) * 1e9 / len(probes),
    }


def _seconds(work: Callable[[], Any]) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(9):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


@compiled
def _compare(block, rounds):  # type: ignore[no-untyped-def]
    """Whether any of the block lies in one of some bands; each round compares all."""
    hit: Any = False
    for k in range(rounds):
        low = np.int32(-500 * k - 501)
        for j in range(len(block)):
            hit |= np.uint32(np.int32(block[j] - low)) <= np.uint32(500)
    return hit


def _path() -> Path:
    return cache_directory() / FILE


def _kept() -> dict[str, float] | None:
    try:
        found = json.loads(_path().read_text())
        return {name: _clamped(float(found[name]), name) for name in REFERENCE}
    except (OSError, ValueError, KeyError, TypeError, ArgumentError):
        return None


def _clamped(value: float, name: str) -> float:
    """No machine differs by more; a measurement that does was disturbed."""
    if not isfinite(value):
        raise ValueError(value)
    return min(max(value, REFERENCE[name] / MOST_DIFFERENT), REFERENCE[name] * MOST_DIFFERENT)


def _scaled(found: dict[str, float] | None) -> Costs:
    if found is None:
        return Costs()
    usual = Costs()
    factors = {name: found[name] / REFERENCE[name] for name in REFERENCE}
    changed = {name: getattr(usual, name) * factors["vectors"] for name in VECTORS}
    return replace(usual, **changed, **{name: getattr(usual, name) * factors["searches"] for name in SEARCHES})


def _overridden(known: Costs, text: str) -> Costs:
    names = [field.name for field in fields(Costs)]
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            if name.strip() not in names or not 0 <= float(value) < inf:
                raise ValueError
            known = replace(known, **{name.strip(): float(value)})
        except ValueError:
            raise ArgumentError(
                f"STREAMJOIN_COSTS: {part!r} is not valid; give name=nanoseconds, with a name of {', '.join(names)}"
            ) from None
    return known
