"""The contestants of a cell: joins with the default arguments and with each index, and peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...engine.replay import join
from ...engine.window_join import WindowJoin
from ..columns import Columns
from ..peers import PEERS
from ..peers.base import Peer
from ..peers.streamed import Streamed
from ..peers.table_peers import TablePeer, table_peers
from .work import Cell, Work

DEFAULT = "default"
INDEXES = ("scan", "hash", "bi-sort", "rap-table", "wib-tree")
FILLING = 32_768
"""Tuples per batch while a window is filled, or more."""
COMPARES_ALL = {("celljoin", "DuckDB"), ("celljoin", "Polars")}
"""Peers that are thousands of times slower than the same with bins."""


class Contestant(Protocol):
    """`fill` once, then any number of rounds, each with fresh tuples where the contestant joins streams."""

    @property
    def chosen(self) -> str | None:
        """The index that the join has chosen."""

    def fill(self) -> None: ...

    def prepared(self, number: int) -> Any:
        """The input of a round; None if there is none left."""

    def round(self, given: Any) -> int:
        """Join it, and count the results."""

    def close(self) -> None: ...


class _OfStreams:
    """A contestant that gets a batch of each stream in a round."""

    @property
    def chosen(self) -> str | None:
        return None

    def __init__(self, cell: Cell, work: Work) -> None:
        self.work, self.window, self.batch = work, cell.window, cell.batch or 1
        self.rounds = (len(work.left) - cell.window) // self.batch

    def prepared(self, number: int) -> Any:
        start = self.window + number * self.batch
        return self.work.part(start, start + self.batch) if number < self.rounds else None


class Pushed(_OfStreams):
    """A WindowJoin."""

    def __init__(self, cell: Cell, work: Work, index: str) -> None:
        super().__init__(cell, work)
        more: dict[str, Any] = {} if index == DEFAULT else {"index": index}
        self._join = WindowJoin(work.left.schema, work.right.schema, **work.arguments, **more)

    def fill(self) -> None:
        step = max(self.batch, FILLING)
        for start in range(0, self.window, step):
            self.round(self.work.part(start, min(start + step, self.window)))

    def round(self, given: Any) -> int:
        left, right = given
        self._join.push_left(left)
        self._join.push_right(right)
        return int(self._join.poll().num_rows)

    @property
    def chosen(self) -> str | None:
        return str(self._join.metrics()["index"])

    def close(self) -> None:
        self._join.close()


class Rival(_OfStreams):
    """A peer of tables, batch by batch."""

    def __init__(self, cell: Cell, work: Work, peer: TablePeer) -> None:
        super().__init__(cell, work)
        self._peer = Streamed(peer, work.schemas, cell.window, work.lateness)

    def fill(self) -> None:
        self._peer.fill(*self.work.part(0, self.window))

    def round(self, given: Any) -> int:
        return self._peer.step(*given)

    def close(self) -> None:
        del self._peer


class TunedRival(_OfStreams):
    """A peer of `bench panjoin`. Here it takes Arrow tables and gives one, like everybody else."""

    def __init__(self, cell: Cell, work: Work, peer: Peer) -> None:
        super().__init__(cell, work)
        self._peer = peer

    @staticmethod
    def _columns(table: Any) -> Columns:
        return table.column(0).to_numpy(), table.column(1).to_numpy()

    def fill(self) -> None:
        left, right = self.work.part(0, self.window)
        self._peer.fill(self._columns(left), self._columns(right))

    def round(self, given: Any) -> int:
        left, right = given
        self._peer.step(self._columns(left), self._columns(right))
        return int(self._peer.table().num_rows)

    def close(self) -> None:
        del self._peer


class Whole:
    """A join of two tables by one call; each round does the same."""

    chosen = None

    def __init__(self, work: Work, call: Callable[[Any, Any], int]) -> None:
        self._work, self._call = work, call

    def fill(self) -> None: ...

    def prepared(self, number: int) -> Any:
        return self._work.left, self._work.right

    def round(self, given: Any) -> int:
        return self._call(*given)

    def close(self) -> None: ...


def _joining(work: Work, index: str) -> Whole:
    more: dict[str, Any] = {} if index == DEFAULT else {"index": index}
    # Wrong arguments are known before the first row.
    WindowJoin(work.left.schema, work.right.schema, **work.arguments, **more).close()
    return Whole(work, lambda left, right: int(join(left, right, **work.arguments, **more).num_rows))


def contestants(cell: Cell, work: Work) -> dict[str, Callable[[], Contestant]]:
    """How to make each contestant, by its name. ArgumentError when an index does not suit the predicate."""
    makers: dict[str, Callable[[], Contestant]] = {}
    for index in (DEFAULT, *INDEXES):
        if cell.batch is not None:
            makers[index] = lambda index=index: Pushed(cell, work, index)  # type: ignore[misc]
        else:
            makers[index] = lambda index=index: _joining(work, index)  # type: ignore[misc]
    if work.tuned is not None:
        kind, width = work.tuned
        for tuned in PEERS[kind]:
            if (kind, tuned.name) not in COMPARES_ALL:
                makers[tuned.name] = lambda tuned=tuned: TunedRival(cell, work, tuned(cell.window, kind, width))  # type: ignore[misc]
        return makers
    for name, make in table_peers(work.query, work.schemas).items():
        if cell.batch is None:
            makers[name] = lambda make=make: Whole(work, make().join)  # type: ignore[misc]
        elif name != "NumPy" or cell.batch >= cell.window // 4:  # for small batches it would sort the window each time
            makers[name] = lambda make=make: Rival(cell, work, make())  # type: ignore[misc]
    return makers
