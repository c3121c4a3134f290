"""A peer of tables, run on streams: each batch is joined with the other stream's window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...side import SIDES, Side, other
from .table_peers import TablePeer


class Streamed:
    """Windows of tuples, or of time where the query has a window; then timestamps may be `lateness` out of order.

    A window of tuples holds the last `window` tuples. A window of time holds at least the tuples that a later batch
    may meet; the query checks the distance of each pair.
    """

    def __init__(self, peer: TablePeer, schemas: dict[Side, pa.Schema], window: int, lateness: int = 0) -> None:
        self._peer, self._window, self._lateness = peer, window, lateness
        self._windows: dict[Side, Any] = {side: peer.stored(side, schemas[side].empty_table()) for side in SIDES}
        self._rows = dict.fromkeys(SIDES, 0)
        self._reached: dict[Side, Array] = {side: np.empty(0, np.int64) for side in SIDES}
        """The largest timestamp up to each stored tuple."""

    def fill(self, left: pa.Table, right: pa.Table) -> None:
        """Append to both windows without joining."""
        for side, table in zip(SIDES, (left, right), strict=True):
            self._append(side, table)

    def step(self, left: pa.Table, right: pa.Table) -> int:
        """How many pairs the left batch has with the right window, and then the right batch with the left window."""
        found = 0
        for side, table in zip(SIDES, (left, right), strict=True):
            probing, stored = self._peer.probing(side, table), self._windows[other(side)]
            pairs = self._peer.pairs(probing, stored) if side == "left" else self._peer.pairs(stored, probing)
            found += self._peer.count(pairs)
            self._append(side, table)
        return found

    def _append(self, side: Side, table: pa.Table) -> None:
        if self._peer.query.window is None:
            table = table.slice(max(len(table) - self._window, 0))
            drop = max(self._rows[side] + len(table) - self._window, 0)
        else:
            times = table[self._peer.query.window[side == "right"]].to_numpy().astype(np.int64, copy=False)
            before = self._reached[side]
            reached = np.maximum.accumulate(np.concatenate([before, times]))
            # A later tuple of the other side is no older than its newest one less the lateness.
            newest = self._reached[other(side)][-1:]
            oldest = int(newest[0]) - self._lateness - self._window if len(newest) else None
            drop = 0 if oldest is None else min(int(np.searchsorted(reached, oldest)), len(before))
            self._reached[side] = reached[drop:]
        self._windows[side] = self._peer.appended(self._windows[side], self._peer.stored(side, table), drop)
        self._rows[side] += len(table) - drop
