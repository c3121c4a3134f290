"""One launch at a time: the batch's slots on their way to the GPU, and the pairs on their way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, Integers
from . import kernel
from .kernel import ITEM_FIELDS
from .machine import OUTBOXES, Machine

FIRST_FETCH = 1 << 9
"""Pairs that are fetched together with their number."""
STAGED = 1 << 18
"""Bytes that are gathered in pinned memory first and then travel in one copy. Longer columns travel by themselves:
that takes less time."""


class Lane:
    """Has room for some probing tuples and their slots, and for some items.

    Law: a lane whose launch has not been waited for is not used again.
    """

    def __init__(self, machine: Machine, probes: int, items: int, kinds: list[str], room: int) -> None:
        self.probes, self.items = probes, items
        columns: list[tuple[int, Any]] = [(probes, np.int64), (probes, np.int64), (items * ITEM_FIELDS, np.int64)]
        columns += [(probes, kind) for kind in kinds]
        places, size = [], 0
        for count, kind in columns:
            places.append((size, count, kind))
            size += -(-count * np.dtype(kind).itemsize // 8) * 8
        self._machine, self._size = machine, size
        self._is_staged = size <= STAGED
        self._pinned = machine.pinned(size) if self._is_staged else np.empty(0, np.uint8)
        self._memory = machine.memory(size, np.uint8)
        self._host: list[Array] = [
            self._pinned[start : start + count * np.dtype(kind).itemsize].view(kind)
            for start, count, kind in places
            if self._is_staged
        ]
        self._parts = machine.parts(self._memory, places)
        self.low, self.high, self.fields, *self.slots = self._parts
        self._stream = machine.stream()
        self._outbox = OUTBOXES.take(machine, room)

    def send(self, columns: list[Array]) -> None:
        """Begin to send the windows' bounds, the items and the slots."""
        if not self._is_staged:
            for memory, values in zip(self._parts, columns, strict=True):
                self._machine.put(memory, 0, values, self._stream)
            return
        for room, values in zip(self._host, columns, strict=True):
            room[: len(values)] = values
        self._machine.send(self._memory, self._pinned, self._size, self._stream)

    @property
    def outbox(self) -> list[Any]:
        """The last arguments of a kernel that finds pairs."""
        return [self._outbox.memory, self._outbox.total, self._outbox.room]

    def launch(self, source: str, name: str, blocks: int, arguments: list[Any], earlier: Any) -> None:
        """Begin to compare, once another stream has come so far."""
        self._machine.after(self._stream, earlier)
        self._machine.launch(source, name, blocks, kernel.THREADS, self._stream, [*arguments, *self.outbox])

    def wait(self) -> tuple[int, Integers]:
        """How many pairs there are, and those of them for which there was room. They are to be read at once."""
        out = self._outbox
        some = min(FIRST_FETCH, out.room)
        self._machine.fetch(out.pinned, out.memory, 8 * (some + 1), self._stream)
        count = int(out.pinned[0]) - out.total
        out.total += count
        if count > some and count <= out.room:
            self._machine.fetch(out.pinned, out.memory, 8 * (count + 1), self._stream)
        return count, out.pinned[1 : 1 + min(count, out.room)]

    def close(self) -> None:
        """Somebody else may use the outbox. No launch may be under way."""
        OUTBOXES.give(self._outbox)
