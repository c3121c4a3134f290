"""The streams of the topologies' benchmarks: in rounds, or paced by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Array
from ...engine.window_join import WindowJoin
from ...reporting.measure import check
from ...side import SIDES
from ..workloads import CELLJOIN_SCHEMAS, Streams, celljoin_tuples

BATCH, MOST_ROUNDS = 8_192, 64
MICROSECONDS = 1_000_000
STREAM_SCHEMAS = {side: CELLJOIN_SCHEMAS[side].append(pa.field("ts", pa.timestamp("us"))) for side in SIDES}


@dataclass
class Setup:
    """One contestant: `timed` windows reach as many microseconds back as others do tuples, one tuple in each."""

    algorithm: str
    workers: int
    index: str = "scan"
    order: str = "none"
    timed: bool = False


class Feed:
    """The same streams for every contestant, and how many results each round has."""

    def __init__(self, kind: str, window: int, batch: int, seed: int) -> None:
        self.window, self.batch = window, batch
        self._streams = Streams.make(kind, window, MOST_ROUNDS * batch, seed)
        self._expected: dict[bool, list[int]] = {}

    def open(self, setup: Setup) -> WindowJoin:
        left, right = (table.schema for table in self._tables(0, 1, setup.timed))
        given: dict[str, Any] = {"algorithm": setup.algorithm, "index": setup.index, "order": setup.order}
        if setup.timed:
            given |= {"time": "ts", "window": f"{self.window} us"}
        else:
            given["window"] = self.window
        return WindowJoin(left, right, on=self._streams.sql, workers=setup.workers, **given)

    def _tables(self, start: int, stop: int, timed: bool) -> list[pa.Table]:
        """Fresh arrays of both streams."""
        streams = self._streams
        tables = [
            pa.table(list(streams.part(columns, start, stop)), schema=streams.schemas[side])
            for side, columns in zip(SIDES, (streams.left, streams.right), strict=True)
        ]
        if timed:
            ts = pa.array(np.arange(start, start + tables[0].num_rows), pa.timestamp("us"))
            tables = [table.append_column("ts", ts) for table in tables]
        return tables

    def filled(self, opened: WindowJoin, timed: bool) -> int:
        """Fill both windows; returns how many results there were."""
        found = 0
        for start in range(0, self.window, self.batch):
            found += stepped(opened, self._tables(start, min(start + self.batch, self.window), timed))
        return found

    def rounds(self, timed: bool) -> Iterator[list[pa.Table]]:
        for number in range(MOST_ROUNDS):
            start = self.window + number * self.batch
            yield self._tables(start, start + self.batch, timed)

    def expected(self, timed: bool) -> list[int]:
        """Results while the windows are filled, and of every round."""
        if timed not in self._expected:
            with self.open(Setup("three-step", 1, "bi-sort", timed=timed)) as opened:
                filling = self.filled(opened, timed)
                self._expected[timed] = [filling, *(stepped(opened, tables) for tables in self.rounds(timed))]
            for number in () if timed else (0, MOST_ROUNDS - 1):
                found, right = self._expected[timed][1 + number], self._streams.expected(number, self.batch)
                check("the three-step join with an index", found, right)
        return self._expected[timed]


def stepped(opened: WindowJoin, tables: list[pa.Table]) -> int:
    opened.push_left(tables[0])
    opened.push_right(tables[1])
    return int(opened.poll().num_rows)


class PacedStreams:
    """Both streams at one rate: a tuple's timestamp is when it is due."""

    def __init__(self, rate: float, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.count = count
        self.due: Array = (np.arange(count) * (MICROSECONDS / rate)).astype(np.int64)
        ts = pa.array(self.due, pa.timestamp("us"))
        self.tables = [pa.table([*celljoin_tuples(rng, count), ts], schema=STREAM_SCHEMAS[side]) for side in SIDES]

    def push(self, opened: WindowJoin, start: int, stop: int) -> None:
        opened.push_left(self.tables[0].slice(start, stop - start))
        opened.push_right(self.tables[1].slice(start, stop - start))
