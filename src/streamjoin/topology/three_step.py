"""Kang's three-step procedure (handshake join, section 2.2), a batch at a time on one core.

For each arriving tuple: scan the other window, insert into its own, invalidate what expired. The engine calls
`expire` after each step. Here a batch is inserted first and then probes, which finds the same pairs, because each
tuple's [low, high) already says whom it may meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..side import Side
from ..store import Batch
from .protocol import NO_FLOORS, Chores, Floors, Pairs
from .shared_windows import SharedWindows


class ThreeStep(SharedWindows):
    """One thread does everything."""

    name: ClassVar[str] = "three-step"
    one_core: ClassVar[bool] = True

    def step(
        self, batches: Mapping[Side, Batch], chores: Chores = (), floors: Floors = NO_FLOORS
    ) -> Iterator[Pairs]:  # fmt: skip
        batches = {side: batch for side, batch in batches.items() if len(batch)}
        small = self._small_step(batches, floors)
        return self._ordinary_step(batches, chores, floors) if small is None else small

    def _ordinary_step(self, batches: Mapping[Side, Batch], chores: Chores, floors: Floors) -> Iterator[Pairs]:
        self._take_in(batches, chores, floors)
        yield from self._probe_all(batches)

    def workers(self, floors: Floors = NO_FLOORS) -> list[dict[str, Any]]:
        return [{"worker": 0, **self._shared_figures(floors)}]
