"""The contestants: a WindowJoin, and the peers."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from ...engine.window_join import WindowJoin
from ...side import Side
from ..columns import Columns
from ..peers.base import Peer
from ..workloads import Streams


class JoinContestant(Protocol):
    name: str
    one_sided: bool

    def fill(self, streams: Streams) -> None: ...

    def step(self, left: Any, right: Any) -> int: ...

    def close(self) -> None: ...


class Joined:
    """A WindowJoin. A scan's left window is filled only: all its tuples come from the right."""

    def __init__(self, streams: Streams, index: str, workers: int, batch: int) -> None:
        self.name = f"{index}, {workers} thread{'s' if workers > 1 else ''}"
        self.index, self.workers, self._batch = index, workers, batch
        self.one_sided = index == "scan"
        self._streams = streams
        self.join = WindowJoin(
            streams.schemas["left"], streams.schemas["right"], on=streams.sql, window=streams.window,
            index=index, workers=workers,  # type: ignore[arg-type]
        )  # fmt: skip

    def fill(self, streams: Streams) -> None:
        if self.one_sided:
            self.join.push_left(self._table("left", streams.part(streams.left, 0, streams.window)))
            self.join.poll()
            return
        for start in range(0, streams.window, self._batch):
            stop = min(start + self._batch, streams.window)
            self.join.push_left(self._table("left", streams.part(streams.left, start, stop)))
            self.join.push_right(self._table("right", streams.part(streams.right, start, stop)))
            self.join.poll()

    def _table(self, side: Side, columns: Columns) -> pa.Table:
        return pa.table(list(columns), schema=self._streams.schemas[side])

    def prepared(self, left: Columns, right: Columns) -> tuple[Any, Any]:
        return self._table("left", left), self._table("right", right)

    def step(self, left: Any, right: Any) -> int:
        if not self.one_sided:
            self.join.push_left(left)
        self.join.push_right(right)
        return int(self.join.poll().num_rows)

    def close(self) -> None:
        self.join.close()


class Rival:
    """One of the peers."""

    one_sided = False

    def __init__(self, streams: Streams, peer: type[Peer]) -> None:
        self.name = peer.name
        self._peer = peer(streams.window, streams.kind, streams.width)

    def fill(self, streams: Streams) -> None:
        window = streams.window
        self._peer.fill(streams.part(streams.left, 0, window), streams.part(streams.right, 0, window))

    def step(self, left: Any, right: Any) -> int:
        return self._peer.step(left, right)

    def close(self) -> None:
        del self._peer
