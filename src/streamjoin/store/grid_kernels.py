"""Compiled code of grids: keys as whole numbers, cells, and the candidates in them (see `store.grid`)."""

from __future__ import annotations

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN
from ..compile.cache import compiled

SAMPLE = 64
"""Tuples whose keys say where most keys lie. Keys beyond that share the first and the last cell."""
FIXED_BITS, LARGEST_FIXED = 40, 2.0**62
"""Floats become whole numbers: a usual one has so many bits. Millions of times larger ones share one number."""
CHUNK, FEW = 1024, 4
"""Candidates that are tested at a time, so that they stay in the cache; so few of a run are written without asking how
many there are."""


@compiled
def _cell(key, base, shift, cells):  # type: ignore[no-untyped-def]
    """Cells ascend with keys."""
    if key <= base:
        return np.int64(0)
    return np.int64(min((np.uint64(key) - np.uint64(base)) >> np.uint64(shift), np.uint64(cells - 1)))


@compiled
def scale_of(bits, real, most):  # type: ignore[no-untyped-def]
    """The power of two that makes usual floats numbers of `FIXED_BITS` bits, by the middle one of a sample."""
    step = max(len(bits) // SAMPLE, 1)
    values = _floats(bits[::step].copy(), real, most)
    sizes = np.empty(len(values), np.float64)
    count = 0
    for value in values:
        size, place = abs(np.float64(value)), count
        if 0.0 < size < np.inf:
            while place > 0 and sizes[place - 1] > size:
                sizes[place] = sizes[place - 1]
                place -= 1
            sizes[place] = size
            count += 1
    exponent = np.floor(np.log2(sizes[count // 2])) if count else 0.0
    return 2.0 ** min(max(FIXED_BITS - exponent, -1000.0), 1000.0)


@compiled
def _floats(bits, real, most):  # type: ignore[no-untyped-def]
    """The floats whose ordered bits these are."""
    raw = np.empty(len(bits), bits.dtype)
    for i in range(len(bits)):
        raw[i] = bits[i] ^ most if bits[i] < 0 else bits[i]
    return raw.view(real.dtype)


@compiled
def fixed(bits, real, most, scale):  # type: ignore[no-untyped-def]
    """Floats as whole numbers in the same order, given their ordered bits. NaN is the largest number of that order."""
    out = np.empty(len(bits), np.int64)
    values = _floats(bits, real, most)
    for i in range(len(bits)):
        scaled = np.floor(np.float64(values[i]) * scale)
        if scaled < LARGEST_FIXED:
            out[i] = np.int64(max(scaled, -LARGEST_FIXED))
        else:
            out[i] = np.int64(INT64_MAX)
    return out


@compiled
def _ends(some, size):  # type: ignore[no-untyped-def]
    """Where most keys lie, as an ascending sample says: the whole of it and a little more, but no further beyond its
    middle half than twice the width of that. So a few far keys do not make all cells wide."""
    lowest = np.uint64(INT64_MIN)
    first, last = np.uint64(some[0]) - lowest, np.uint64(some[size - 1]) - lowest
    low, high = np.uint64(some[size // 4]) - lowest, np.uint64(some[size - 1 - size // 4]) - lowest
    slack, reach = (last - first) >> np.uint64(4), high - low
    top = ~np.uint64(0)
    if reach == 0:
        low, high, reach = first, last, slack
    reach += min(top - reach, reach)
    below = max(first - min(first, slack), low - min(low, reach))
    above = min(last + min(top - last, slack), high + min(top - high, reach))
    return np.int64(below + lowest), np.int64(above + lowest)


@compiled
def layout_of(keys, tops, bits, low, high):  # type: ignore[no-untyped-def]
    """About 2**bits cells for some keys, each of them so wide that any interval [low - widest, high] touches two at
    most; `low` and `high` may be empty."""
    count = len(keys)
    some = np.empty(SAMPLE, np.int64)
    size = min(count, SAMPLE)
    for k in range(size):  # sorted by insertion: NumPy's sort takes a second to compile
        key, place = np.int64(keys[k * count // size]), k
        while place > 0 and some[place - 1] > key:
            some[place] = some[place - 1]
            place -= 1
        some[place] = key
    base, last = _ends(some, size)
    widest, longest = np.uint64(0), np.uint64(0)
    for j in range(len(tops)):
        key, top = np.int64(keys[j]), np.int64(tops[j])
        if top > key:
            widest = max(widest, np.uint64(top) - np.uint64(key))
    for i in range(len(low)):
        lower, upper = np.int64(low[i]), np.int64(high[i])
        if upper > lower:
            longest = max(longest, np.uint64(upper) - np.uint64(lower))
    whole = longest + widest
    if whole < longest:
        whole = ~np.uint64(0)
    span = np.uint64(last) - np.uint64(base)
    shift = np.int64(0)
    while shift < 63 and span >> np.uint64(shift) >> np.uint64(bits) > np.uint64(0):
        shift += 1
    while len(low) and shift < 63 and whole >> np.uint64(shift) > np.uint64(0):
        shift += 1
    cells = np.int64(span >> np.uint64(shift)) + 1
    return base, shift, cells, np.int64(widest)  # its bits: Python would hand on a number of another type


@compiled
def group(keys, columns, row_keys, rows, starts, order, cells):  # type: ignore[no-untyped-def]
    """Count tuples into cells: those of cell c go to order[starts[c] : starts[c + 1]]. Which cell each tuple lies in is
    noted in `cells`: one loop finds it, on vectors, and the loops that go to and fro in memory only read it."""
    count, total = len(keys), np.int32(0)
    _put_cells(keys, columns, cells)
    if len(row_keys):
        _add_rows(row_keys, rows, np.int32(columns[2]), cells)
    last = np.uint64(rows[2] * columns[2] + 2)
    starts[:last] = 0
    for j in range(count):
        starts[np.uint64(cells[j]) + np.uint64(2)] += 1
    for c in range(np.uint64(2), last):
        total = np.int32(total + starts[c])
        starts[c] = total
    for j in range(count):
        cell = np.uint64(cells[j]) + np.uint64(1)
        place = starts[cell]
        order[np.uint64(place)] = j
        starts[cell] = np.int32(place + 1)


@compiled
def _put_cells(keys, layout, cells):  # type: ignore[no-untyped-def]
    base, shift, last = np.int64(layout[0]), np.uint64(layout[1]), np.uint64(layout[2] - 1)
    for j in range(len(keys)):
        key = max(np.int64(keys[j]), base)
        cells[j] = np.int32(min((np.uint64(key) - np.uint64(base)) >> shift, last))


@compiled
def _add_rows(keys, layout, width, cells):  # type: ignore[no-untyped-def]
    """Cells are numbered row by row."""
    base, shift, last = np.int64(layout[0]), np.uint64(layout[1]), np.uint64(layout[2] - 1)
    for j in range(len(keys)):
        key = max(np.int64(keys[j]), base)
        cells[j] += np.int32(min((np.uint64(key) - np.uint64(base)) >> shift, last)) * width


@compiled
def _touched(low, high, layout):  # type: ignore[no-untyped-def]
    """The first and the last cell of an interval.

    A key must be at most `high`, and its top at least `low`: so the key is at least `low` minus the widest distance
    between the two. `low` may be above `high`: a stored interval can contain the probing one. The first cell may then
    lie behind the last one.
    """
    base, shift, cells, widest = layout
    above, most = np.uint64(low) - np.uint64(INT64_MIN), np.uint64(widest)
    lowest = np.int64(np.uint64(INT64_MIN) if above < most else np.uint64(INT64_MIN) + (above - most))
    return _cell(lowest, base, shift, cells), _cell(high, base, shift, cells)


@compiled
def look_up(low, high, columns, row_low, row_high, rows, starts, first, last):  # type: ignore[no-untyped-def]
    """Where in `order` the runs of candidates of each probing tuple begin and end; returns how many candidates all of
    them have. With rows, a tuple has two runs, one in each row that it may touch."""
    total, width = np.int64(0), columns[2]
    if len(row_low) == 0:
        for i in range(len(low)):
            left, right = _touched(np.int64(low[i]), np.int64(high[i]), columns)
            begin = starts[left]
            first[i], last[i] = begin, max(starts[right + 1], begin)
            total += last[i] - begin
        return total
    for i in range(len(low)):
        left, right = _touched(np.int64(low[i]), np.int64(high[i]), columns)
        upper, lower = _touched(np.int64(row_low[i]), np.int64(row_high[i]), rows)
        begin = starts[upper * width + left]
        end = max(starts[upper * width + right + 1], begin) if upper <= lower else begin
        first[2 * i], last[2 * i] = begin, end
        total += end - begin
        begin = end = starts[lower * width + left]
        if upper < lower:
            end = max(starts[lower * width + right + 1], begin)
        first[2 * i + 1], last[2 * i + 1] = begin, end
        total += end - begin
    return total


@compiled
def expand(order, first, last, runs, begin, done, limit, pairs):  # type: ignore[no-untyped-def]
    """Write the candidates of probing tuples, from run `begin` on, of which `done` are written already. Each tuple has
    so many `runs`, one or two. Returns how many were written, at most `limit`, and where to go on."""
    filled, i, half = np.uint64(0), begin, np.int64(runs - 1)
    most = np.uint64(limit - FEW)
    while i < len(first) and filled <= most:
        at = np.uint64(first[i] + done)
        count = np.uint64(last[i]) - at
        for k in range(FEW):
            pairs[0, filled + np.uint64(k)] = i >> half
            pairs[1, filled + np.uint64(k)] = order[at + np.uint64(k)]
        if count > np.uint64(FEW):
            written = min(count, np.uint64(limit) - filled)
            for k in range(FEW, written):
                pairs[0, filled + np.uint64(k)] = i >> half
                pairs[1, filled + np.uint64(k)] = order[at + np.uint64(k)]
            filled += written
            if written < count:
                return np.int64(filled), i, done + np.int64(written)
        else:
            filled += count
        done = np.int64(0)
        i += 1
    return np.int64(filled), i, done
