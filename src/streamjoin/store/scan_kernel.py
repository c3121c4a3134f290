"""The kernel of a scan: a lowered condition inside a loop over slices of stored tuples."""

from __future__ import annotations

from ..arrays import INT64_MAX, INT64_MIN
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..predicate.pair_emitter import SYMBOLS, Near, Test
from ..predicate.references import reference
from ..side import Side, other

BLOCK = 1024
"""The most stored tuples in a slice of a scan: a few 32-bit columns of it stay in the first-level cache."""
PADDING = 64
"""Tuples that a vectorised loop takes at a time. Columns have room for as many behind their last tuple."""
TILE = 4
"""Probing tuples that are compared with a slice together; their slots stay in registers."""
SCAN_WORDS = 18
"""What all parts of a scan share, by place. 0, 1: into how many spans the stored tuples are cut, and into how many
pieces the probing ones. 2: the probing tuples. 3, 4: the place of the first stored tuple and how many there are. 5: the
end of the columns. 6: the group (0: all). 7: comparisons of one call. 8 to 10: the stored rows, how many, the first. 11
to 16: the stored coordinates, the first and last places, the lower and upper ends of windows (0 for these four: every
tuple's window has all that is stored here), the probing rows. 17: whether left tuples probe. The addresses of the
stored and of the probing slots follow.
"""
LONG_CONDITION = 10
"""A condition of more operations than this is computed at once for each slice, without looking for hits first."""


class ScanFilter:
    """A cheaper condition that every matching pair meets. The loop that looks for slices with any hit uses it.

    A band lo <= x <= hi becomes one unsigned comparison, x - lo <= hi - lo: on vector units comparisons cost twice
    as much as arithmetic. Where there are 32-bit tests, 64-bit ones are left out: they would halve the lanes.
    """

    def __init__(self, text: ConditionText) -> None:
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
            partner = next((candidate for candidate in tests if _is_band(test, candidate)), None)
            if partner is None:
                left, right = reference("left", test.left), reference("right", test.right)
                parts.append(f"({left} {SYMBOLS[test.op]} {right})")
            else:
                tests.remove(partner)
                parts.append(self._band(text, test, partner))
        if self.needs_lines:
            parts.append(lowered.others)
        # The filter repeats the condition five times, and compile time grows faster than the text.
        self.worthwhile = len(lowered.lines) + len(lowered.tests) <= LONG_CONDITION
        self.condition = " & ".join(parts) or "True"

    def _near(self, text: ConditionText, test: Near) -> str:
        """|p - s| <= w as one comparison: 2p + 2w - 2s <= 4w, unsigned; s is the stored value.

        Doubled, the difference -2**31, whose absolute value wraps to itself and so is "near", becomes 0. Other
        differences close to it slip through too; the exact condition stops them.
        """
        left, right = reference("left", test.left), reference("right", test.right)
        stored, probing = (left, right) if text.stored == "left" else (right, left)
        high = reference("width", len(self.setup))
        self.setup.append(f"{high} = np.int32(2 * {probing} + {2 * test.width})")
        return f"(np.uint32({high} - np.int32({stored} + {stored})) <= np.uint32({4 * test.width}))"

    def _band(self, text: ConditionText, a: Test, b: Test) -> str:
        """`value` in [low, high], as one comparison."""
        if a.left == b.left:  # l >= r_low and l <= r_high
            bounds: Side = "right"
            value = reference("left", a.left)
            low, high = (reference("right", t.right) for t in ((a, b) if a.op == "ge" else (b, a)))
        else:  # l_low <= r and l_high >= r
            bounds = "left"
            value = reference("right", a.right)
            low, high = (reference("left", t.left) for t in ((a, b) if a.op == "le" else (b, a)))
        unsigned = f"np.uint{a.bits}"

        def above(x: str) -> str:  # 32-bit differences are taken in 64 bits, 64-bit ones must not be signed
            return f"{unsigned}({x} - {low})" if a.bits == 32 else f"({unsigned}({x}) - {unsigned}({low}))"

        if bounds == text.stored:
            return f"({above(value)} <= {above(high)})"
        width = reference("width", len(self.setup))
        self.setup.append(f"{width} = {above(high)} if {high} >= {low} else {unsigned}(0)")
        return f"({above(value)} <= {width})"


def _is_band(a: Test, b: Test) -> bool:
    """Whether two tests bound one value from both sides."""
    same = (a.left == b.left) != (a.right == b.right)
    return same and a.bits == b.bits and {a.op, b.op} == {"le", "ge"}


def scan_source(lowered: Lowered, stored: Side) -> str:
    """Every probing tuple against the stored ones that it may meet: slice by slice, four probes at a time.

    `first_place` and `last_place` say where the stored tuples lie that a probing tuple may meet. `group` probing tuples
    pass over a slice before the next slice follows: all of them where each meets many tuples, so that a slice stays in
    the cache, and a few where each meets few, so that they meet the same ones.

    A vectorised loop first asks whether any of the four matches anything in the slice; only if so the exact
    condition is computed into a mask. Where hits are frequent the question is skipped for a while. A unit of work
    (slice x tile) starts only if all its possible pairs fit into the output and the number of comparisons stays below
    `most`, so the caller can drain, look around and go on.

    `places` has room for the places of found pairs, which become row numbers in `out`. That of a stored tuple is
    `rows[base + place]`, or `first_row + base + place` where that array is empty.

    Loops over a slice go on to a multiple of `PADDING` tuples, as far as `limit`, the end of the columns: the rest of a
    vector loop, tuple by tuple, would cost as much as all of a short slice. What they find beyond the slice is dropped.
    """
    text = ConditionText(lowered, stored)
    quick = ScanFilter(text)

    def search(lanes: int) -> str:
        if not quick.worthwhile:
            return f"{' ' * 20}hit = True\n"
        names = [str(lane) for lane in range(lanes)]
        setup = "".join(text.load(n, f"first + {n}", 20) for n in names)
        setup += "".join(f"{' ' * 20}{text.lane(line, n)}\n" for n in names for line in quick.setup)
        inner = "".join(text.lines(n, 24) for n in names) if quick.needs_lines else ""
        any_lane = " | ".join(f"({text.lane(quick.condition, n)})" for n in names)
        return f"{setup}                    for j in range(padded):\n{inner}                        hit |= {any_lane}\n"

    def column(slot: int, side: Side, cut: str) -> str:
        dtype = lowered.slots[side][slot].dtype
        name, width = ("bool_", 1) if dtype == "bool" else (dtype, int(dtype.lstrip("uintfloa")) // 8)
        return f"carray(pointer(b[{{}}] + {width} * {cut}), {'b[5]' if side == stored else 'count'}, np.{name})"

    columns = [column(k, stored, "0") for k in text.stored_slots] + [
        column(k, other(stored), "start") for k in text.probing_slots
    ]
    given = [text_.format(SCAN_WORDS + n) for n, text_ in enumerate(columns)]
    stored_slots, probing_slots = (
        "".join(f"        {text_},\n" for text_ in part)
        for part in (given[: len(text.stored_slots)], given[len(text.stored_slots) :])
    )
    return f"""{KERNEL_HEADER}from numba import carray
from streamjoin.store.integer_column import paired
from streamjoin.store.pair_slots import PLACES, after_part, room_in_slot
from streamjoin.store.words import COMPARED, DONE, NEXT, PARTITION, STOPPED
from streamjoin.tasks import FULL


@njit(nogil=True, error_model="numpy")
def scan({text.parameters("coordinates", "first_place")}, last_place, low, high, group, most, limit,
         probing_rows, base, first_row, rows, places, out, state):
    out_probe, out_stored = places[0], places[1]
    found = np.int64(0)
    leader, begin, next_probe, compared = state[NEXT], state[STOPPED] - 1, state[PARTITION], state[COMPARED]
    most += compared
    probes = len(low)
    room = len(out_probe) - {TILE * BLOCK}
    mask = np.empty({BLOCK}, np.bool_)
    sure = 0
    density = np.int64(0)
    while leader < probes:
        # The group passes over the slices that any of it may meet.
        followers = min(leader + group, probes)
        final = last_place[leader]
        nearest = first_place[leader]
        for i in range(leader + 1, followers):
            nearest = min(nearest, first_place[i])
            final = max(final, last_place[i])
        if begin < 0:
            begin, next_probe = nearest, leader
        while begin < final:
            end = min(begin + {BLOCK}, final)
            while next_probe < followers:
                if found > room or compared > most:
                    state[NEXT], state[STOPPED], state[PARTITION] = leader, begin + 1, next_probe
                    state[COMPARED] = compared
                    paired(places, found, probing_rows, base, first_row, rows, out)
                    return found
                first = next_probe
                last = first + {TILE} if first + {TILE} <= followers else first + 1
                next_probe = last
                start, stop = first_place[first], last_place[first]
                for i in range(first + 1, last):
                    start = min(start, first_place[i])
                    stop = max(stop, last_place[i])
                start, stop = max(start, begin), min(stop, end)
                if start >= stop:
                    continue
                size = stop - start
                compared += (last - first) * size
                padded = min((size + {PADDING - 1}) & -{PADDING}, limit - start)
{text.views(16, "[start:start + padded]")}                coordinate = coordinates[start:stop]
                # Does anything in the slice match one of the tile? Not asked where the last slices had many hits.
                hit = False
                if sure == 0:
                    density = np.int64(0)
                if sure > 0:
                    sure -= 1
                    hit = True
                elif last - first == {TILE}:
{search(TILE)}                else:
{search(1)}                # Then compute the exact condition for each probe, and collect the pairs in its window.
                if hit:
                    before = found
                    for i in range(first, last):
{text.load("i", "i", 24)}                        for j in range(padded):
{text.lines("i", 28)}                            mask[j] = {text.lane(lowered.condition, "i")}
                        found = collect(mask, np.int32(i), start, coordinate, low[i], high[i],
                                        out_probe, out_stored, found, density)
                    pairs = (found - before) * 64
                    if found - before >= last - first:
                        sure = 8
                        density = 2 if pairs > 4 * (last - first) * size else 1 if pairs > (last - first) * size else 0
            begin, next_probe = end, leader
        begin = np.int64(-1)
        leader = followers
    state[NEXT], state[COMPARED] = DONE, compared
    paired(places, found, probing_rows, base, first_row, rows, out)
    return found


@njit(nogil=True)
def scan_part(block, part, slot):
    b = carray(pointer(block), {SCAN_WORDS + len(columns)}, np.int64)
    out, places, state = room_in_slot(b[17], slot)
    if len(out[0]) < PLACES:
        return FULL
    span, piece = part % b[0], part // b[0]
    start, stop = b[2] * piece // b[1], b[2] * (piece + 1) // b[1]
    count, least, most = stop - start, b[4] * span // b[0], b[4] * (span + 1) // b[0]
    first, last = np.empty(count, np.int64), np.empty(count, np.int64)
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    if b[12] == 0:
        first[:], last[:] = least, most
        low[:], high[:] = {INT64_MIN}, {INT64_MAX}
    else:
        firsts = carray(pointer(b[12] + 8 * start), count, np.int64)
        lasts = carray(pointer(b[13] + 8 * start), count, np.int64)
        low[:] = carray(pointer(b[14] + 8 * start), count, np.int64)[:count]
        high[:] = carray(pointer(b[15] + 8 * start), count, np.int64)[:count]
        for i in range(count):
            first[i], last[i] = max(firsts[i], least), min(lasts[i], most)
    found = scan(
{stored_slots}        carray(pointer(b[11]), b[4], np.int64),
{probing_slots}        first, last,
        low, high,
        b[6] if b[6] > 0 else count, b[7], b[5], carray(pointer(b[16] + 8 * start), count, np.int64),
        b[3], b[10], carray(pointer(b[8]), b[9], np.int64)[: b[9]], places, out, state,
    )
    return after_part(slot, found, state[NEXT] == DONE, len(out[0]) - found < PLACES)

"""
