"""Several physical streams of a side as one (ScaleJoin, sections II and IV-A): the first ScaleGate, for Arrow data."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import Rows
from ..arrow.tables import as_schema, as_table, conform, contiguous
from ..arrow.times import read_time
from ..errors import ArgumentError, DataError, StateError
from ..parallel.gate import EVER, NEVER, Gate
from ..payload.payload import Payload
from ..tasks import one_after_another
from ..window import time_unit

CAPACITY, MOST_SOURCES = 1 << 12, 1 << 10
"""Rows of a source that the gate holds, beyond which they wait before it; and how many sources there may be."""


class ScaleGate:
    """Merges sources that are each sorted by time, such as the partitions of a topic.

    A row is *ready* when no source can bring one that comes before it. Ready rows come out by timestamp, then source,
    then their order within the source: in the same sequence however the sources interleave. A source that is silent
    holds up the others until it tells how far it is (`heartbeat`) or that nothing more will come (`end`).
    """

    def __init__(self, schema: Any, sources: int, *, time: str) -> None:
        self.schema = as_schema(schema, "schema")
        if isinstance(sources, bool) or not isinstance(sources, int) or not 1 <= sources <= MOST_SOURCES:
            raise ArgumentError(f"sources: {sources!r} is not valid; give a number from 1 to {MOST_SOURCES}")
        if time not in self.schema.names:
            raise ArgumentError(f"time: there is no column {time!r}; there are: {', '.join(self.schema.names)}")
        self._time = self.schema.field(time)
        self._unit = time_unit(self._time.type, "time", time)
        self._payload = Payload(self.schema, one_after_another)
        self._gate = Gate(sources, 1, CAPACITY)
        self._before: list[deque[tuple[Rows, Rows]]] = [deque() for _ in range(sources)]
        """Times and rows that have not found room in the gate, by source."""
        self._inside: list[deque[Rows]] = [deque() for _ in range(sources)]
        """The rows of each source that have not come out."""
        self._reached = [EVER] * sources
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many rows are here."""
        with self._lock:
            return sum(len(rows) for inside in self._inside for rows in inside)

    def add(self, batch: Any, source: int) -> None:
        """Take a batch of a source: anything with the Arrow PyCapsule interface. A batch that goes back in time is
        refused as a whole."""
        self._check(source)
        table = conform(as_table(batch, "add"), self.schema, "add")
        self._payload.check(table, "add")
        if not table.num_rows:
            return
        name = self._time.name
        times = read_time(contiguous(table.column(name)), self._unit, f"add: time column {name!r}")
        with self._lock:
            self._check_times(source, times)
            rows = np.arange(self._payload.end, self._payload.end + len(times))
            self._payload.append(table)
            self._payload.settle()
            self._before[source].append((np.array(times), rows))  # a copy: the batch is the caller's
            self._inside[source].append(rows)
            self._reached[source] = int(times[-1])

    def _check_times(self, source: int, times: Rows) -> None:
        reached = self._reached[source]
        if reached == NEVER:
            raise StateError(f"add: source {source} has ended")
        back = np.flatnonzero(times < np.concatenate([[reached], times[:-1]]))
        if len(back):
            raise DataError(
                f"add: row {back[0]} of the batch is earlier than what source {source} brought before it; the rows of "
                "a source must be sorted by time"
            )

    def heartbeat(self, source: int, time: Any) -> None:
        """The source will bring nothing earlier than this time, given as the time column has it."""
        self._check(source)
        try:
            column = pa.array([time], self._time.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise ArgumentError(f"time: {time!r} is no {self._time.type}, as the time column has it") from None
        tick = int(read_time(column, self._unit, "heartbeat: time")[0])
        with self._lock:
            self._reached[source] = max(self._reached[source], tick)

    def end(self, source: int) -> None:
        """The source will bring nothing more."""
        self._check(source)
        with self._lock:
            self._reached[source] = NEVER

    def ready(self) -> pa.Table:
        """The rows that are ready and have not come out yet."""
        with self._lock:
            found = [np.empty(0, np.int64)]
            while True:
                self._feed()
                _, sources, rows = self._gate.next_ready(0, CAPACITY * len(self._before))
                if not len(rows):
                    break
                found.append(rows)
                for source, count in enumerate(np.bincount(sources)):
                    self._leave(source, int(count))
            table = self._payload.take(np.concatenate(found))
            first = [inside[0][0] for inside in self._inside if inside]
            self._payload.release(int(min(first, default=self._payload.end)))
        return table

    def _feed(self) -> None:
        """Fill the gate. A source's promise holds there once all that it has brought is inside."""
        for source, before in enumerate(self._before):
            while before:
                times, rows = before[0]
                taken = self._gate.add(source, times, rows)
                if taken < len(times):
                    before[0] = times[taken:], rows[taken:]
                    break
                before.popleft()
            if not before and self._reached[source] != EVER:
                self._gate.heartbeat(source, self._reached[source])

    def _leave(self, source: int, count: int) -> None:
        inside = self._inside[source]
        while count:
            rows = inside.popleft()
            if len(rows) > count:
                inside.appendleft(rows[count:])
            count -= min(count, len(rows))

    def _check(self, source: int) -> None:
        if isinstance(source, bool) or not isinstance(source, int) or not 0 <= source < len(self._before):
            raise ArgumentError(f"source: there is no {source!r}; they are numbered 0 to {len(self._before) - 1}")
