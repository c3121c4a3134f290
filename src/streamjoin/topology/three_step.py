"""Kang's three-step procedure (handshake join, section 2.2), a batch at a time on one core.

For each arriving tuple: scan the other window, insert into its own, invalidate what expired. The engine calls
`expire` after each step; here a batch is inserted first and then probes, which finds the same pairs, because each
tuple's [low, high) already says whom it may meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..side import Side, other
from ..store import Batch, PairSink, SideWindow
from ..store.batch import Decide
from . import OverWindows, Pairs


class ThreeStep(OverWindows):
    """`windows` hold both sides' tuples; `decide` settles what kernels leave open."""

    def __init__(self, windows: Mapping[Side, SideWindow], decide: Decide) -> None:
        super().__init__(windows)
        self._decide = decide

    def step(self, batches: Mapping[Side, Batch], chores: Sequence[Callable[[], None]] = ()) -> Iterator[Pairs]:
        self._take_in(batches, chores)
        for side, batch in batches.items():
            window = self._windows[other(side)]
            window.prepare()
            for part in window.shares(batch, workers=1):
                sink = PairSink(self._decide, left_probes=side == "left")
                for compared in window.probe(part, sink):
                    self.comparisons += compared
                    if sink.is_full:
                        yield sink.take()
                yield sink.take()

    def workers(self) -> list[dict[str, Any]]:
        return [{"worker": 0, **self.shared_figures()}]

    def close(self) -> None:
        """There are no threads."""
