"""The kernels of an ordered search on the GPU: one looks probing tuples up in sorted runs, others sort and merge."""

from __future__ import annotations

from ..predicate.condition import ConditionText
from ..predicate.lower import Lowered
from ..side import Side
from . import kernel

RUN_BEGIN, RUN_END, RUN_FIELDS = range(3)


def gpu_search_source(lowered: Lowered, stored: Side) -> str:
    """The text of the search: a thread looks one probing tuple up in one run, and tests the tuples of its range.

    Pairs are counted and written as by a scan (`gpu.kernel`). The range of tuple `i` begins `widest` below `least[i]`.
    """
    text = ConditionText(lowered, stored, "place")
    source = f"""{kernel.HEADER}
@cuda.jit(cache=True)
def gpu_search({text.parameters("coordinates", "low")}, high, least, most, widest, probes, keys, places, runs,
               out, before, room):
    per_run = (probes + {kernel.THREADS - 1}) // {kernel.THREADS}
    run = cuda.blockIdx.x // per_run
    i = (cuda.blockIdx.x - run * per_run) * {kernel.THREADS} + cuda.threadIdx.x
    if i < probes:
{text.views(8, "")}        first = runs[run * {RUN_FIELDS} + {RUN_BEGIN}]
        end = runs[run * {RUN_FIELDS} + {RUN_END}]
        beyond = end
        smallest, greatest = np.int64(least[i]), most[i]
        smallest = INT64_MIN if smallest < INT64_MIN + widest else smallest - widest
        while first < beyond:
            middle = (first + beyond) >> 1
            if keys[middle] < smallest:
                first = middle + 1
            else:
                beyond = middle
        below, above = low[i], high[i]
{text.load("x", "i", 8)}        while first < end and keys[first] <= greatest:
            place = places[first]
            first += 1
            where = coordinates[place]
            if (where >= below) & (where < above):
{text.lines("x", 16)}                if {text.lane(lowered.condition, "x")}:
                    at = cuda.atomic.add(out, 0, 1) - before
                    if at < room:
                        out[1 + at] = (np.int64(i) << 32) | np.int64(place)
"""
    return kernel.with_apart_products(source)


def gpu_merge_source(kind: str) -> str:
    """The text of the merge of keys of one type: every tuple of two runs counts those of the other run that come before
    it."""
    return f"""{kernel.HEADER}# keys: {kind}
@cuda.jit(cache=True)
def gpu_merge(keys, places, older, older_end, younger, younger_end, target):
    own = np.int64(cuda.blockIdx.x) * {kernel.THREADS} + cuda.threadIdx.x
    size = older_end - older
    if own < size + younger_end - younger:
        is_older = own < size
        if is_older:
            k, first, beyond = older + own, younger, younger_end
        else:
            own -= size
            k, first, beyond = younger + own, older, older_end
        key, begin = keys[k], first
        while first < beyond:
            middle = (first + beyond) >> 1
            if (keys[middle] < key) | ((keys[middle] == key) & (not is_older)):
                first = middle + 1
            else:
                beyond = middle
        keys[target + own + first - begin] = key
        places[target + own + first - begin] = places[k]
"""


def gpu_group_source(kind: str) -> str:
    """The text of the first step of a sort: each `group` of neighbouring keys is put in order. Key `k` is that of the
    tuple at place `first + k`."""
    return f"""{kernel.HEADER}# keys: {kind}
@cuda.jit(cache=True)
def gpu_group(keys, places, source, size, first, group, target):
    own = np.int64(cuda.blockIdx.x) * {kernel.THREADS} + cuda.threadIdx.x
    if own < size:
        begin = own - own % group
        end = min(begin + group, size)
        key, rank = keys[source + own], begin
        for k in range(begin, end):
            its = keys[source + k]
            if (its < key) | ((its == key) & (k < own)):
                rank += 1
        keys[target + rank] = key
        places[target + rank] = first + own
"""


def gpu_pairs_source(kind: str) -> str:
    """The text of every further step: of the sorted groups of `width` keys, each two neighbours become one."""
    return f"""{kernel.HEADER}# keys: {kind}
@cuda.jit(cache=True)
def gpu_pairs(keys, places, source, size, width, target):
    own = np.int64(cuda.blockIdx.x) * {kernel.THREADS} + cuda.threadIdx.x
    if own < size:
        older = own - own % (2 * width)
        younger = min(older + width, size)
        is_older = own < younger
        if is_older:
            rank, first, beyond = own, younger, min(younger + width, size)
        else:
            rank, first, beyond = own - (younger - older), older, younger
        key, begin = keys[source + own], first
        while first < beyond:
            middle = (first + beyond) >> 1
            its = keys[source + middle]
            if (its < key) | ((its == key) & (not is_older)):
                first = middle + 1
            else:
                beyond = middle
        keys[target + rank + first - begin] = key
        places[target + rank + first - begin] = places[source + own]
"""
