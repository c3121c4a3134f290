"""The kernels of ordered indexes: they test the candidates that were found by key, and turn places into rows."""

from __future__ import annotations

import numpy as np

from ..compile.cache import compiled
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..side import Side, other
from .run_probe import BLOCK_WORDS


def check_source(lowered: Lowered, stored: Side) -> str:
    """Test the candidates of an index, and keep those that match as pairs of places.

    A candidate is the number of a range, whose `owner` is the probing tuple, and the place of a stored tuple.
    """
    text = ConditionText(lowered, stored)
    ahead = "".join(f"        prefetch(s{k}, ahead)\n" for k in text.stored_slots)
    return f"""{KERNEL_HEADER}
@njit(nogil=True, error_model="numpy")
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
    """`store.run_probe.probe_runs` with the condition in its loop: one call for all subwindows of a window.

    Where `rest` marks bits of a word, they must lie between those of the range's ends; `probe_run` skips other words
    before their tuples are read.
    """
    text = ConditionText(lowered, stored, "j, 0")
    slots = [(k, lowered.slots[stored][k].dtype) for k in text.stored_slots]
    views = "".join(
        f"        v{k} = carray(pointer(run[SLOTS + {n}]), (1, run[RECORD] // {np.dtype(dtype).itemsize}), "
        f"np.{_numpy(dtype)})\n"
        for n, (k, dtype) in enumerate(slots)
    )
    ahead = f"            prefetch(v{slots[0][0]}, ahead * v{slots[0][0]}.shape[1])\n" if slots else ""
    probing = "".join(f", p{k}" for k in text.probing_slots)
    given = "".join(
        f"        carray(pointer(b[{BLOCK_WORDS + n}]), b[13], np.{_numpy(lowered.slots[other(stored)][k].dtype)}),\n"
        for n, k in enumerate(text.probing_slots)
    )
    return f"""{KERNEL_HEADER}from numba import carray
from streamjoin.store.pair_slots import after_part, room_in_slot
from streamjoin.store.run_probe import probe_run, ranges_of_part
from streamjoin.store.runs import COORDINATES, COUNT, FIRST_COORDINATE, FIRST_ROW, HIGHEST, LOWEST, RECORD, ROWS
from streamjoin.store.runs import SAMPLE_COUNT, SAMPLES, SLOTS, WORDS
from streamjoin.store.words import COMPARED, MOST_TUPLES, NEXT, RUN


@njit(nogil=True, error_model="numpy")
def check_runs(
    runs, low, high, mask, rest, owner, probing_rows, window_low, window_high, latest_low, earliest_high, places, out,
    state{probing}
):
    found, room = 0, len(out[0]) - places.shape[1]
    number, most = state[RUN], state[COMPARED] + MOST_TUPLES
    while number < len(runs) and found <= room and state[COMPARED] <= most:
        run = runs[number]
        words = carray(pointer(run[WORDS]), run[COUNT], np.uint64)
        samples = carray(pointer(run[SAMPLES]), run[SAMPLE_COUNT], np.uint64)
        hits = probe_run(words, run[COUNT], samples, low, high, mask, rest, places[0], places[1], state)
        rows = carray(pointer(run[ROWS]), 1, np.int64)
        coordinates = carray(pointer(run[COORDINATES]), 1, np.int64)
        is_whole = (run[LOWEST] >= latest_low) & (run[HIGHEST] < earliest_high)
        filled = np.uint64(found)
{views}        for c in range(hits):
            ahead = np.int64(places[1, min(c + 16, hits - 1)])
{ahead}            i, j = np.int64(np.uint32(owner[np.uint32(places[0, c])])), np.int64(np.uint32(places[1, c]))
{text.load("i", "i", 12)}{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            out[0][filled] = probing_rows[i]
            out[1][filled] = run[FIRST_ROW] + j if run[ROWS] == 0 else rows[j]
            where = run[FIRST_COORDINATE] + j if run[COORDINATES] == 0 else coordinates[j]
            filled += np.uint64(hit & (is_whole | ((where >= window_low[i]) & (where < window_high[i]))))
        found = np.int64(filled)
        if state[NEXT] == len(low):
            number += 1
            state[NEXT] = 0
    state[RUN] = number
    return found


@njit(nogil=True)
def check_runs_part(block, part, slot):
    b = carray(pointer(block), {BLOCK_WORDS + len(text.probing_slots)}, np.int64)
    runs = carray(pointer(b[0]), (b[1], b[2]), np.int64)[: b[1]]
    low, high, owner = ranges_of_part(b, part)
    out, places, state = room_in_slot(b[16], slot)
    found = check_runs(
        runs, low, high, np.uint64(b[7]), np.uint64(b[8]), owner, carray(pointer(b[10]), b[13], np.int64),
        carray(pointer(b[11]), b[13], np.int64), carray(pointer(b[12]), b[13], np.int64), b[14], b[15],
        places, out, state,
{given}    )
    return after_part(slot, found, state[RUN] == len(runs), len(out[0]) - found <= places.shape[1])
"""


def _numpy(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


ITSELF = np.empty(0, np.int32)
"""Passed as the owners of ranges, it says that the numbers of ranges are the places of probing tuples."""


@compiled
def row_pairs(  # type: ignore[no-untyped-def]
    out_probe, out_stored, count, owner, probing_rows, first_row, rows,
    whole_window, low, high, first_coordinate, coordinates,
):  # fmt: skip
    """Row numbers of the found pairs whose stored tuple lies in the probing tuple's window."""
    probing, stored = np.empty(count, np.int64), np.empty(count, np.int64)
    owned, rows_count_up, counts_up = len(owner) > 0, len(rows) == 0, len(coordinates) == 0
    kept = 0
    for c in range(count):
        i, j = np.int64(out_probe[c]), np.int64(out_stored[c])
        if owned:
            i = np.int64(owner[i])
        probing[kept] = probing_rows[i]
        stored[kept] = first_row + j if rows_count_up else rows[j]
        if whole_window:
            kept += 1
        else:
            where = first_coordinate + j if counts_up else coordinates[j]
            kept += (where >= low[i]) & (where < high[i])
    return probing[:kept], stored[:kept]
