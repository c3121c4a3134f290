"""Pack: the rows of a partition become a few blobs, addressed to the workers (PanJoin, section III-A, steps 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from ..arrays import INT64_MIN, Integers
from ..predicate.slots import SlotValues
from ..side import Side
from .blocks import Blocks, Share, hash_shares
from .identity import identities, places_of
from .key_router import live_keys
from .messages import ARROW_MESSAGE, EVERY_WORKER, POSITION, ROLE, binary_value, to_view
from .process import spare_collector
from .range_keys import RangeKeys, sampled
from .spec import JoinSpec

CHUNK_ROWS, CHUNK_BYTES = 1 << 18, 1 << 26
"""A message is complete once it has so many rows or bytes."""


class Pack:
    """Turns one side's rows into messages; a function for `DataFrame.mapInArrow`."""

    def __init__(self, spec: JoinSpec, side: Side) -> None:
        self._spec, self._side = spec, side

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        spare_collector()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        yield from self.messages(partition, chunks(batches, self._spec.schemas[self._side]))

    def messages(self, partition: int, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """The messages of a partition, whose chunks are these tables.

        Where there are routers, the last ones have a sample of all its keys. It does not depend on the order of the
        rows: all routers must come to the same conclusions, also from a partition that Spark has computed again.
        """
        spec, side = self._spec, self._side
        if not spec.has_routers:
            for chunk, table in enumerate(tables):
                yield from self._of_chunk(partition, chunk, table)
            return
        keys: list[Integers] = []
        rows, latest, chunk = 0, INT64_MIN, -1
        for chunk, table in enumerate(tables):
            yield from self._of_chunk(partition, chunk, table)
            keys.append(_keys(spec, side, spec.slots(side, table)))
            rows, latest = rows + table.num_rows, max(latest, int(spec.times(side, table).max()))
        if rows:
            every = np.concatenate(keys)
            some = sampled(every, -(-rows // CHUNK_ROWS))
            sample = (np.concatenate([[len(every)], some]) if spec.routing == "split" else some).tobytes()
            for worker in spec.workers:
                yield _message(worker, side, partition, chunk + 1, rows, latest, None, None, sample)

    def _of_chunk(self, partition: int, chunk: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """A chunk's messages."""
        spec, side = self._spec, self._side
        times = spec.times(side, table)
        head = side, partition, chunk, len(times), int(times.max())
        if spec.sends_all_to_all:
            yield _message(EVERY_WORKER, *head, None, to_view(table))
            return
        all_times = times.tobytes() if spec.options.needs_order else None
        if spec.has_routers:
            # Not by chunk: if Spark computes the partition again, its rows may lie in other chunks.
            router = spec.workers[partition % len(spec.workers)]
            yield _message(router, *head, all_times, to_view(table))
            return

        def idle(rows: Integers) -> Integers:
            """Rows that can match nothing: any worker will do, but their values choose it."""
            return places_of(identities(spec, side, table.take(pa.array(rows)), times[rows]), len(spec.workers))

        slots = spec.slots(side, table)
        by_hash = spec.routing == "hash"
        shares = hash_shares(spec, side, slots, idle) if by_hash else Blocks(spec).shares(side, slots, idle)
        for worker, share in zip(spec.workers, shares, strict=True):
            yield _message(worker, *head, all_times, self._body(table, share))

    def _body(self, table: pa.Table, share: Share) -> memoryview | None:
        if not len(share.rows):
            return None
        part = table.take(pa.array(share.rows))
        if share.role is not None:
            part = part.append_column(ROLE, pa.array(share.role))
        if self._spec.options.needs_order:
            part = part.append_column(POSITION, pa.array(share.rows.astype(np.int32)))
        return to_view(part)


def _keys(spec: JoinSpec, side: Side, slots: SlotValues) -> Integers:
    """The keys by which routers decide."""
    return live_keys(spec, side, slots) if spec.routing == "split" else RangeKeys.of(spec).keys(side, slots.columns)


def chunks(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of many small batches in a few larger tables."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield _table(waiting, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _table(waiting, schema)


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches(batches).combine_chunks().rename_columns(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)


def _message(
    worker: int, side: Side, partition: int, chunk: int, rows: int, latest: int,
    times: bytes | None, body: memoryview | None, note: bytes | None = None,
) -> pa.RecordBatch:  # fmt: skip
    values = (worker, side, partition, chunk, rows, latest, times, body, note)
    arrays = [
        binary_value(value) if isinstance(value, bytes | memoryview) else pa.array([value], field.type)
        for value, field in zip(values, ARROW_MESSAGE, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_MESSAGE)
