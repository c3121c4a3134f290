"""Kernels that test candidates which an ordered index has found."""

from __future__ import annotations

import numpy as np

from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..side import Side


def check_source(lowered: Lowered, stored: Side) -> str:
    """Candidates that an index gave (the number of a range, whose `owner` is the probing tuple, and the place of a
    stored tuple): keep those that match, as pairs of places."""
    text = ConditionText(lowered, stored)
    ahead = "".join(f"        prefetch(s{k}, ahead)\n" for k in text.stored_slots)
    return f"""{KERNEL_HEADER}
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
    text = ConditionText(lowered, stored, "j, 0")
    slots = [(k, lowered.slots[stored][k].dtype) for k in text.stored_slots]
    views = "".join(
        f"        v{k} = carray(pointer(run[{10 + n}]), (1, run[9] // {np.dtype(dtype).itemsize}), "
        f"np.{'bool_' if dtype == 'bool' else dtype})\n"
        for n, (k, dtype) in enumerate(slots)
    )
    ahead = f"            prefetch(v{slots[0][0]}, ahead * v{slots[0][0]}.shape[1])\n" if slots else ""
    probing = "".join(f", p{k}" for k in text.probing_slots)
    return f"""{KERNEL_HEADER}from numba import carray
from streamjoin.store.bi_sort import probe_run


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
