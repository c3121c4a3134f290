"""Compiled kernels: a lowered condition put into loop templates.

The text of a kernel depends only on the shape of the condition and the widths of its slots, not on column names or
constants of one-sided parts, so most predicates find their kernel compiled already (see `cache`).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .cache import UNREADABLE, Kernel, forget, load
from .expr import Side, other
from .lower import Lowered, Near, Test

BLOCK = 1024
"""Stored tuples per slice of a scan: a few 32-bit columns of it stay in the first-level cache."""
TILE = 4
"""Probing tuples that are held in registers against one slice."""

LONG_CONDITION = 10
"""A condition of more operations than this is evaluated once per slice, without looking for hits first."""

_HEADER = '''"""A kernel that streamjoin generated."""
import numpy as np
from numba import njit
from streamjoin.predicate.collect import collect, prefetch
from streamjoin.predicate.ops_scalar import *

'''


def scan_kernel(lowered: Lowered, stored: Side) -> Kernel:
    """The scan for one stored side: loaded, or compiled the first time on this machine."""
    return _LazyKernel(scan_source(lowered, stored), "scan")


def hash_kernel(lowered: Lowered, stored: Side) -> Kernel:
    """The hash probe for one stored side."""
    return _LazyKernel(hash_source(lowered, stored), "hash_probe")


def check_kernel(lowered: Lowered, stored: Side) -> Kernel:
    """The test of candidate pairs for one stored side."""
    return _LazyKernel(check_source(lowered, stored), "check")


def check_runs_kernel(lowered: Lowered, stored: Side) -> Kernel:
    """The search of BI-Sort's runs together with the test of what it finds, for one stored side."""
    return _LazyKernel(check_runs_source(lowered, stored), "check_runs")


class _LazyKernel:
    """Compiled when it is first called."""

    def __init__(self, source: str, name: str) -> None:
        self._source, self._name = source, name
        self._function: Kernel | None = None

    def __call__(self, *args: Any) -> int:
        if self._function is None:
            try:
                self._function = load(self._source, self._name)
                return self._function(*args)
            except UNREADABLE:  # a damaged file of machine code: compile anew
                forget(self._source, self._name)
                self._function = load(self._source, self._name)
        return self._function(*args)


class _Text:
    """Renames `l3` and `r2` of the lowered condition: stored slots to `v3[j]`, probing ones to `q2_<lane>`."""

    def __init__(self, lowered: Lowered, stored: Side, at: str = "j") -> None:
        self.at = at
        self.lowered = lowered
        self.stored = stored
        self.stored_slots = lowered.tested[stored]
        self.probing_slots = lowered.tested[other(stored)]

    def lane(self, text: str, lane: str) -> str:
        def rename(match: re.Match[str]) -> str:
            kind, number = match[1], match[2]
            if kind == "t":
                return f"t{number}_{lane}"
            return f"v{number}[{self.at}]" if kind == self.stored[0] else f"q{number}_{lane}"

        return re.sub(r"\b([lrt])(\d+)\b", rename, text)

    def lines(self, lane: str, indent: int) -> str:
        return "".join(f"{' ' * indent}{self.lane(line, lane)}\n" for line in self.lowered.lines)

    def load(self, lane: str, place: str, indent: int) -> str:
        return "".join(f"{' ' * indent}q{k}_{lane} = p{k}[{place}]\n" for k in self.probing_slots)

    def views(self, indent: int, cut: str) -> str:
        return "".join(f"{' ' * indent}v{k} = s{k}{cut}\n" for k in self.stored_slots)

    def parameters(self, *middle: str) -> str:
        stored = [f"s{k}" for k in self.stored_slots]
        return ", ".join([*stored, *middle[:-1], *(f"p{k}" for k in self.probing_slots), middle[-1]])


class _Filter:
    """A cheaper condition that every matching pair meets, for the loop that looks for slices with a hit at all.

    A band lo <= x <= hi becomes one unsigned comparison, x - lo <= hi - lo: on vector units comparisons cost twice
    as much as arithmetic. Where 32-bit tests can select, 64-bit ones, which would halve the lanes, are left out.
    """

    def __init__(self, text: _Text) -> None:
        lowered = text.lowered
        tests = [test for test in lowered.tests if isinstance(test, Test)]
        self.needs_lines = lowered.others != "True"
        self.setup: list[str] = []
        parts = [self._near(text, test) for test in lowered.tests if isinstance(test, Near)]
        narrow = bool(parts) or any(test.bits == 32 and test.op != "ne" for test in tests)
        if narrow and not self.needs_lines:
            tests = [test for test in tests if test.bits == 32]
        while tests:
            test = tests.pop(0)
            partner = next((other_ for other_ in tests if _is_band(test, other_)), None)
            if partner is None:
                symbol = {"eq": "==", "ne": "!=", "le": "<=", "ge": ">="}[test.op]
                parts.append(f"(l{test.left} {symbol} r{test.right})")
            else:
                tests.remove(partner)
                parts.append(self._band(text, test, partner))
        if self.needs_lines:
            parts.append(lowered.others)
        # The filter repeats the condition five times over, and compiling takes longer than linearly in its size.
        self.worthwhile = len(lowered.lines) + len(lowered.tests) <= LONG_CONDITION
        self.condition = " & ".join(parts) or "True"

    def _near(self, text: _Text, test: Near) -> str:
        """|p - s| <= w as one comparison: 2p + 2w - 2s <= 4w, unsigned; s is the stored value.

        Doubled, the difference -2**31, whose absolute value wraps to itself and so is "near", becomes 0. Other
        differences close to it slip through too; the exact condition stops them.
        """
        left, right = f"l{test.left}", f"r{test.right}"
        stored, probing = (left, right) if text.stored == "left" else (right, left)
        high = f"w{len(self.setup)}"
        self.setup.append(f"{high} = np.int32(2 * {probing} + {2 * test.width})")
        return f"(np.uint32({high} - np.int32({stored} + {stored})) <= np.uint32({4 * test.width}))"

    def _band(self, text: _Text, a: Test, b: Test) -> str:
        """`value` in [low, high], as one comparison."""
        if a.left == b.left:  # l >= r_low and l <= r_high
            bounds: Side = "right"
            value, low, high = (f"l{a.left}", *(f"r{t.right}" for t in ((a, b) if a.op == "ge" else (b, a))))
        else:  # l_low <= r and l_high >= r
            bounds = "left"
            value, low, high = (f"r{a.right}", *(f"l{t.left}" for t in ((a, b) if a.op == "le" else (b, a))))
        unsigned = f"np.uint{a.bits}"

        def above(x: str) -> str:  # 32-bit differences are taken in 64 bits, 64-bit ones must not be signed
            return f"{unsigned}({x} - {low})" if a.bits == 32 else f"({unsigned}({x}) - {unsigned}({low}))"

        if bounds == text.stored:
            return f"({above(value)} <= {above(high)})"
        width = f"w{len(self.setup)}"
        self.setup.append(f"{width} = {above(high)} if {high} >= {low} else {unsigned}(0)")
        return f"({above(value)} <= {width})"

    def lane(self, text: _Text, source: str, lane: str) -> str:
        return re.sub(r"\bw(\d+)\b", rf"w\1_{lane}", text.lane(source, lane))


def _is_band(a: Test, b: Test) -> bool:
    """Whether two tests bound one value from both sides."""
    same = (a.left == b.left) != (a.right == b.right)
    return same and a.bits == b.bits and {a.op, b.op} == {"le", "ge"}


def scan_source(lowered: Lowered, stored: Side) -> str:
    """Every probing tuple against every stored one: slice by slice, four probes at a time.

    A vectorised loop first asks whether any of the four matches anything in the slice; only if so the exact
    condition is computed into a mask. Where hits are frequent the question is skipped for a while. A unit of work
    (slice x tile) starts only if all its possible pairs fit into the output, so the caller can drain and go on.
    """
    text = _Text(lowered, stored)
    quick = _Filter(text)

    def search(lanes: int) -> str:
        if not quick.worthwhile:
            return f"{' ' * 16}hit = True\n"
        names = [str(lane) for lane in range(lanes)]
        setup = "".join(text.load(n, f"first + {n}", 16) for n in names)
        setup += "".join(f"{' ' * 16}{quick.lane(text, line, n)}\n" for n in names for line in quick.setup)
        inner = "".join(text.lines(n, 20) for n in names) if quick.needs_lines else ""
        any_lane = " | ".join(f"({quick.lane(text, quick.condition, n)})" for n in names)
        return f"{setup}                for j in range(size):\n{inner}                    hit |= {any_lane}\n"

    return f"""{_HEADER}
@njit(nogil=True, cache=True, error_model="numpy")
def scan({text.parameters("coordinates", "block_low", "block_high", "count", "low")}, high, probes,
         out_probe, out_stored, state):
    found = np.int64(0)
    unit, compared = state[0], state[1]
    whole = probes // {TILE}
    tiles = whole + probes % {TILE}
    blocks = (count + {BLOCK - 1}) // {BLOCK}
    room = len(out_probe) - {TILE * BLOCK}
    mask = np.empty({BLOCK}, np.bool_)
    sure = 0
    density = 0
    while unit < blocks * tiles:
        block = unit // tiles
        begin = block * {BLOCK}
        end = min(begin + {BLOCK}, count)
{text.views(8, "[begin:end]")}        coordinate = coordinates[begin:end]
        size = len(coordinate)
        for tile in range(unit % tiles, tiles):
            if found > room:
                state[0], state[1] = block * tiles + tile, compared
                return found
            if tile < whole:
                first, last = tile * {TILE}, tile * {TILE} + {TILE}
            else:
                first = whole * {TILE} + (tile - whole)
                last = first + 1
            near = False
            for i in range(first, last):
                near |= (block_high[block] >= low[i]) & (block_low[block] < high[i])
            if not near:
                continue
            compared += (last - first) * size
            hit = False
            if sure == 0:
                density = 0
            if sure > 0:
                sure -= 1
                hit = True
            elif tile < whole:
{search(TILE)}            else:
{search(1)}            if hit:
                before = found
                for i in range(first, last):
{text.load("i", "i", 20)}                    for j in range(size):
{text.lines("i", 24)}                        mask[j] = {text.lane(lowered.condition, "i")}
                    found = collect(mask, np.int32(i), begin, coordinate, low[i], high[i],
                                    out_probe, out_stored, found, density)
                if found - before > 4 * (last - first):
                    sure = 8
                    density = 2 if (found - before) * 16 > (last - first) * size else 1
        unit = (block + 1) * tiles
    state[0], state[1] = -1, compared
    return found
"""


def hash_source(lowered: Lowered, stored: Side) -> str:
    """Every probing tuple against its bucket: a chain through the stored tuples that may share its keys."""
    text = _Text(lowered, stored)
    return f"""{_HEADER}
@njit(nogil=True, cache=True, error_model="numpy")
def hash_probe({text.parameters("coordinate", "heads", "following", "hashes")}, low, high, probes,
               out_probe, out_stored, state):
    found = 0
    compared, resumed = state[1], state[2]
    buckets = np.uint64(len(heads) - 1)
{text.views(4, "")}    for i in range(state[0], probes):
{text.load("i", "i", 8)}        j = resumed if resumed >= 0 else np.int64(heads[hashes[i] & buckets])
        resumed = np.int64(-1)
        while j >= 0:
{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            if hit and low[i] <= coordinate[j] and coordinate[j] < high[i]:
                if found == len(out_probe):
                    state[0], state[1], state[2] = i, compared, j
                    return found
                out_probe[found] = i
                out_stored[found] = j
                found += 1
            compared += 1
            j = np.int64(following[j])
    state[0], state[1] = -1, compared
    return found
"""


def check_source(lowered: Lowered, stored: Side) -> str:
    """Candidates that an index gave (the number of a range, whose `owner` is the probing tuple, and the place of a
    stored tuple): keep those that match, as pairs of places."""
    text = _Text(lowered, stored)
    ahead = "".join(f"        prefetch(s{k}, ahead)\n" for k in text.stored_slots)
    return f"""{_HEADER}
@njit(nogil=True, cache=True, error_model="numpy")
def check({text.parameters("count")}, owner, out_probe, out_stored):
    kept = 0
{text.views(4, "")}    for c in range(count):
        ahead = np.int64(out_stored[min(c + 16, count - 1)])
{ahead}        i, j = owner[out_probe[c]], out_stored[c]
{text.load("i", "i", 8)}{text.lines("i", 8)}        out_probe[kept] = i
        out_stored[kept] = j
        kept += {text.lane(lowered.condition, "i")}
    return kept
"""


def check_runs_source(lowered: Lowered, stored: Side) -> str:
    """`store.bi_sort.probe_runs` with the condition in its loop: one call for all subwindows of a window.

    A line of `runs` goes on with the bytes from one tuple to the next and the addresses of the stored slots that the
    condition reads. Where `rest` marks bits of
    a word, they must lie between those of the range's ends: this is looked at before the tuple is.
    """
    text = _Text(lowered, stored, "j, 0")
    slots = [(k, lowered.slots[stored][k].dtype) for k in text.stored_slots]
    views = "".join(
        f"        v{k} = carray(pointer(run[{10 + n}]), (1, run[9] // {np.dtype(dtype).itemsize}), "
        f"np.{'bool_' if dtype == 'bool' else dtype})\n"
        for n, (k, dtype) in enumerate(slots)
    )
    ahead = f"            prefetch(v{slots[0][0]}, ahead * v{slots[0][0]}.shape[1])\n" if slots else ""
    probing = "".join(f", p{k}" for k in text.probing_slots)
    return f"""{_HEADER}from numba import carray
from streamjoin.store.bi_sort import pointer, probe_run


@njit(nogil=True, cache=True, error_model="numpy")
def check_runs(
    runs, low, high, mask, rest, owner, probing_rows, window_low, window_high, places, out, state{probing}
):
    found, room = 0, out.shape[1] - places.shape[1]
    number = state[4]
    while number < len(runs) and found <= room:
        run = runs[number]
        words = carray(pointer(run[0]), run[1], np.uint64)
        samples = carray(pointer(run[2]), run[3], np.uint64)
        hits = probe_run(words, run[1], samples, low, high, mask, rest, places[0], places[1], state)
        rows = carray(pointer(run[5]), 1, np.int64)
        coordinates = carray(pointer(run[7]), 1, np.int64)
{views}        for c in range(hits):
            ahead = np.int64(places[1, min(c + 16, hits - 1)])
{ahead}            i, j = np.int64(owner[places[0, c]]), np.int64(places[1, c])
{text.load("i", "i", 12)}{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            out[0, found] = probing_rows[i]
            out[1, found] = run[4] + j if run[5] == 0 else rows[j]
            where = run[6] + j if run[7] == 0 else coordinates[j]
            found += hit & ((run[8] != 0) | ((where >= window_low[i]) & (where < window_high[i])))
        if state[0] == len(low):
            number += 1
            state[0] = 0
    state[4] = number
    return found
"""
