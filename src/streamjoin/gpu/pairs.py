"""Pairs of places that a GPU has found become pairs of row numbers."""

from __future__ import annotations

import numpy as np

from ..arrays import Integers, Rows
from ..compile.cache import compiled
from ..store.batch import PairSink

TAKEN_IN = 1 << 17
"""Pairs that are handed on at a time."""


def take_in(found: Integers, probing_rows: Rows, first: int, stored_rows: Rows, sink: PairSink) -> None:
    """Hand pairs on. Probing tuples are counted from place `first`."""
    for start in range(0, len(found), TAKEN_IN):
        some = found[start : start + TAKEN_IN]
        probing, stored = np.empty(len(some), np.int64), np.empty(len(some), np.int64)
        _unpacked(some, probing_rows, first, stored_rows, probing, stored)
        sink.add(probing, stored)


@compiled
def _unpacked(pairs, probing_rows, first, stored_rows, probing, stored):  # type: ignore[no-untyped-def]
    for k in range(len(pairs)):
        pair = pairs[k]
        probing[k] = probing_rows[first + (pair >> 32)]
        stored[k] = stored_rows[pair & 0xFFFFFFFF]
