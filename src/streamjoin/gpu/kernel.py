"""The kernel of a scan on the GPU: stored tuples in registers, probing ones in shared memory.

A block of threads takes some stored tuples, a few for each thread, and keeps their slots in registers. Probing tuples
pass by, a shared piece at a time. For each of them a thread first asks whether any of its tuples may match, which costs
a few instructions for each pair. Only if so it tests the exact condition and the window, and appends the pairs.

What a block has to do is read from *items*: places [begin, end) of stored tuples that probing tuples [first, last) may
meet. The blocks are shared out among the items by `ITEM_BLOCKS`, the number of blocks of all items before one.
"""

from __future__ import annotations

import re

import numpy as np

from ..predicate.condition import ConditionText
from ..predicate.lower import Lowered
from ..side import Side, other
from ..store.scan_kernel import ScanFilter

THREADS = 256
"""Threads of a block, and probing tuples in shared memory at a time."""
LANES = 16
"""Stored tuples of a thread, where the condition is short and they have few bytes."""
SHORT, LONG, FEW_WORDS = 14, 30, 6
"""Operations of a short condition and of a long one, and words of 32 bits of a tuple with few bytes."""
ITEM_BLOCKS, ITEM_BEGIN, ITEM_END, ITEM_FIRST, ITEM_LAST, ITEM_FIELDS = range(6)

HEADER = '''"""A kernel that streamjoin generated."""
import numpy as np
from numba import cuda
from streamjoin.gpu.dialect import *

'''


def gpu_scan_source(lowered: Lowered, stored: Side) -> str:
    """The text of the kernel.

    `out[0]` counts the pairs that all launches have found, `before` is what it was before this one. Pairs are written
    from `out[1]` on, as place of the probing tuple and place of the stored one in one word, as far as there is `room`.
    More pairs are only counted; the caller then asks again for fewer at a time.

    `lanes` is how many tuples a thread holds. The loops that run seldom do not know it from the text: unrolled, they
    would take registers away from the one that matters.
    """
    text = ConditionText(lowered, other(stored))
    quick = ScanFilter(text)
    lanes = lanes_of(lowered, stored)
    block = THREADS * lanes
    names = [str(lane) for lane in range(lanes)]
    places = "".join(f"    place_{n} = min(start + {THREADS * int(n)} + thread, stop - 1)\n" for n in names)
    setup = "".join(text.load(n, f"place_{n}", 4) for n in names)
    condition, lines = lowered.condition, ""
    if quick.worthwhile:
        condition = quick.condition
        setup += "".join(f"    {text.lane(line, n)}\n" for n in names for line in quick.setup)
    if not quick.worthwhile or quick.needs_lines:
        lines = "".join(text.lines(n, 12) for n in names)
    any_lane = " | ".join(f"({text.lane(condition, n)})" for n in names)
    piece = "".join(f"            v{k}[thread] = s{k}[probe + thread]\n" for k in text.stored_slots)
    slots = lowered.slots[other(stored)]
    shared = "".join(
        f"    v{k} = cuda.shared.array({THREADS}, np.{_TYPES[slots[k].dtype]})\n" for k in text.stored_slots
    )
    source = f"""{HEADER}
@cuda.jit(cache=True)
def gpu_scan({text.parameters("low", "coordinates")}, high, items, count, lanes, out, before, room):
    thread = cuda.threadIdx.x
    block = cuda.blockIdx.x
    nearest, beyond = 0, count
    while beyond - nearest > 1:
        middle = (nearest + beyond) >> 1
        if items[middle * {ITEM_FIELDS} + {ITEM_BLOCKS}] <= block:
            nearest = middle
        else:
            beyond = middle
    item = nearest * {ITEM_FIELDS}
    start = items[item + {ITEM_BEGIN}] + (block - items[item + {ITEM_BLOCKS}]) * {block}
    stop = items[item + {ITEM_END}]
    probe = items[item + {ITEM_FIRST}]
    last_probe = items[item + {ITEM_LAST}]
{shared}{places}{setup}    while probe < last_probe:
        size = np.int32(min({THREADS}, last_probe - probe))
        cuda.syncthreads()
        if thread < size:
{piece or "            pass"}
        cuda.syncthreads()
        for j in range(size):
{lines}            if {any_lane}:
                i = probe + j
                below, beyond = low[i], high[i]
                hits = np.uint32(0)
                for n in range(lanes):
                    place = start + n * {THREADS} + thread
                    if place < stop:
                        where = coordinates[place]
                        if (where >= below) & (where < beyond):
{text.load("x", "place", 28)}{text.lines("x", 28)}                            if {text.lane(lowered.condition, "x")}:
                                hits |= np.uint32(1) << np.uint32(n)
                if hits != 0:
                    at = cuda.atomic.add(out, 0, cuda.popc(hits)) - before
                    for n in range(lanes):
                        if hits & (np.uint32(1) << np.uint32(n)):
                            if at < room:
                                out[1 + at] = (i << 32) | (start + n * {THREADS} + thread)
                            at += 1
        probe += {THREADS}
"""
    return with_apart_products(source)


def with_apart_products(source: str) -> str:
    """The text, in which products of floats are rounded by themselves."""
    return _PRODUCT.sub(r"times\1(\2, \3)", source)


def lanes_of(lowered: Lowered, stored: Side) -> int:
    """How many stored tuples a thread of the kernel holds: as many as its registers and the compiler's time allow."""
    size = len(lowered.lines) + len(lowered.tests)
    if size > SHORT:
        return max(LANES // 4, 1) if size <= LONG else 1
    slots = lowered.slots[stored]
    words = sum(-(-np.dtype(slots[number].dtype).itemsize // 4) for number in lowered.tested[stored])
    return LANES if words <= FEW_WORDS else max(LANES // 2, 1)


_FACTOR = r"([^\s()]+(?:\([^\s()]*\))?)"
_PRODUCT = re.compile(rf"\bf(32|64)\({_FACTOR} \* {_FACTOR}\)")
"""A product of floats. Together with a sum, the compiler would round once where the other dialects round twice."""
_TYPES = {
    "bool": "bool_", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "float32": "float32",
    "float64": "float64",
}  # fmt: skip
