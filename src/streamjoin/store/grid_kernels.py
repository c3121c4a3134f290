"""Compiled code of grids: keys as whole numbers, cells, and the candidates in them (see `store.grid`)."""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from ..arrays import INT64_MAX, INT64_MIN
from ..compile.cache import compiled
from ..compile.intrinsics import pointer
from ..tasks import DONE

SAMPLE = 64
"""Tuples whose keys say where most keys lie. Keys beyond that share the first and the last cell."""
FIXED_BITS, LARGEST_FIXED = 40, 2.0**62
"""Floats become whole numbers: a usual one has so many bits. Millions of times larger ones share one number."""
CHUNK, FEW = 1024, 4
"""Candidates that are tested at a time, so that they stay in the cache; so few of a run are written without asking how
many there are."""


@compiled
def _cell(key, base, shift, cells):
    """Cells ascend with keys."""
    if key <= base:
        return np.int64(0)
    return np.int64(min((np.uint64(key) - np.uint64(base)) >> np.uint64(shift), np.uint64(cells - 1)))


@compiled
def scale_of(bits, real, most):
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
def _floats(bits, real, most):
    """The floats whose ordered bits these are."""
    raw = np.empty(len(bits), bits.dtype)
    for i in range(len(bits)):
        raw[i] = bits[i] ^ most if bits[i] < 0 else bits[i]
    return raw.view(real.dtype)


@compiled
def fixed(bits, real, most, scale):
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
def _ends(some, size):
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
def layout_of(keys, tops, bits, low, high):
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
def group_part(block, part, slot):
    """The entry (`compile.entries`) that puts all tuples into cells; there is one part.

    The block: how many tuples; where their keys lie, how wide they are, and their layout without the widest top; the
    same of the second keys (0: there are none); where the first places of cells go, the tuples by cells, and the cell
    of each tuple. Those of cell c go to order[starts[c] : starts[c + 1]]. One loop finds the cells, on vectors, and the
    loops that go to and fro in memory only read them.
    """
    b = carray(pointer(block), 14, np.int64)
    count = b[0]
    cells = carray(pointer(b[13]), count, np.int32)
    if b[2] == 4:
        _put_cells(carray(pointer(b[1]), count, np.int32), b[3:6], cells)
    else:
        _put_cells(carray(pointer(b[1]), count, np.int64), b[3:6], cells)
    if b[7] == 4:
        _add_rows(carray(pointer(b[6]), count, np.int32), b[8:11], np.int32(b[5]), cells)
    elif b[7] == 8:
        _add_rows(carray(pointer(b[6]), count, np.int64), b[8:11], np.int32(b[5]), cells)
    total, last = np.int32(0), np.uint64(b[10] * b[5] + 2)
    starts, order = carray(pointer(b[11]), np.int64(last), np.int32), carray(pointer(b[12]), count, np.int32)
    starts[:] = 0
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
    return DONE


@compiled
def _put_cells(keys, layout, cells):
    base, shift, last = np.int64(layout[0]), np.uint64(layout[1]), np.uint64(layout[2] - 1)
    for j in range(len(keys)):
        key = max(np.int64(keys[j]), base)
        cells[j] = np.int32(min((np.uint64(key) - np.uint64(base)) >> shift, last))


@compiled
def _add_rows(keys, layout, width, cells):
    """Cells are numbered row by row."""
    base, shift, last = np.int64(layout[0]), np.uint64(layout[1]), np.uint64(layout[2] - 1)
    for j in range(len(keys)):
        key = max(np.int64(keys[j]), base)
        cells[j] += np.int32(min((np.uint64(key) - np.uint64(base)) >> shift, last)) * width


@compiled
def _touched(low, high, layout):
    """The first and the last cell of an interval.

    A key must be at most `high`, and its top at least `low`: so the key is at least `low` minus the widest distance
    between the two. `low` may be above `high`: a stored interval can contain the probing one. The first cell may then
    lie behind the last one.
    """
    base, shift, cells, widest = layout[0], layout[1], layout[2], layout[3]
    above, most = np.uint64(low) - np.uint64(INT64_MIN), np.uint64(widest)
    lowest = np.int64(np.uint64(INT64_MIN) if above < most else np.uint64(INT64_MIN) + (above - most))
    return _cell(lowest, base, shift, cells), _cell(high, base, shift, cells)


@compiled
def look_up_part(block, part, slot):
    """The entry of a part of the probing tuples, whose candidates are looked up.

    The block: how many tuples there are, and how many parts; where the first places of cells lie, and how many; where
    the beginnings and ends of runs go, and the number of candidates of each part; runs of a tuple; the layouts of
    columns and of rows; and where the lower and upper ends in columns and in rows lie, each with its width.
    """
    b = carray(pointer(block), 24, np.int64)
    start, stop = b[0] * part // b[1], b[0] * (part + 1) // b[1]
    count, runs = stop - start, b[7]
    starts = carray(pointer(b[2]), b[3], np.int32)
    first = carray(pointer(b[4] + 4 * runs * start), runs * count, np.int32)
    last = carray(pointer(b[5] + 4 * runs * start), runs * count, np.int32)
    of_rows = count if runs == 2 else 0
    carray(pointer(b[6]), part + 1, np.int64)[part] = _look_up(
        _ends_at(b[16], b[17], start, count), _ends_at(b[18], b[19], start, count), b[8:12],
        _ends_at(b[20], b[21], start, of_rows), _ends_at(b[22], b[23], start, of_rows), b[12:16], starts, first, last,
    )  # fmt: skip
    return DONE


@compiled
def _ends_at(address, width, start, count):
    """Some integers of 32 or 64 bits, as 64 bits."""
    out = np.empty(count, np.int64)
    if width == 4:
        narrow = carray(pointer(address + 4 * start), count, np.int32)
        for i in range(count):
            out[i] = narrow[i]
    elif count:
        wide = carray(pointer(address + 8 * start), count, np.int64)
        for i in range(count):
            out[i] = wide[i]
    return out


@compiled
def _look_up(low, high, columns, row_low, row_high, rows, starts, first, last):
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
def expand(order, first, last, runs, begin, done, limit, pairs):
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
