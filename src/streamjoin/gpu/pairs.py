"""Pairs of places that a GPU has found become pairs of row numbers."""

from __future__ import annotations

from ..arrays import Integers, Rows
from ..store.batch import PairSink
from .row_numbers import RowNumbers, row_pairs


def take_in(found: Integers, probing_rows: Rows, first: int, stored: RowNumbers, sink: PairSink) -> None:
    """Hand pairs on. Probing tuples are counted from place `first`."""
    start = 0
    while start < len(found):
        probing, own = sink.row_buffers
        some = found[start : start + len(own)]
        row_pairs(some, probing_rows, first, stored, (probing, own))
        sink.add_rows(len(some))
        start += len(some)
