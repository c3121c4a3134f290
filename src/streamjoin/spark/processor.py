"""Workers and routers as Spark's stateful operators: messages in, packed results out, state in the state store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ..errors import DataError
from ..side import SIDES
from .handover import Handover
from .key_router import KeyRouter
from .messages import ChunkMessage, to_view
from .outputs import COUNTS, FIGURES, FILED, RESULT, Output, blobs
from .process import spare_collector
from .router import Router
from .spec import JoinSpec
from .worker import Worker

MOST_BYTES = 2**31 - 2**20
NAME, BODY = StructType([StructField("name", StringType())]), StructType([StructField("body", BinaryType())])
"""The types of names and values in the state store. As texts, each task would send them to the JVM to be parsed."""
ROUTERS: dict[str, type[Router | KeyRouter]] = {"range": Router, "split": KeyRouter}
_NO_FIGURES = dict.fromkeys((*COUNTS, "seconds"))


class _StateStore:
    """A `KeyedState` in Spark's state store, which commits it with the micro-batch."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def get(self, name: str) -> bytes | None:
        found = self._values.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, body: bytes) -> None:
        self._values.updateValue((name,), (body,))

    def remove(self, name: str) -> None:
        self._values.removeKey((name,))


class _Stateful(StatefulProcessor):
    """An operator that has a `KeyedState` for each grouping key."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def init(self, handle: StatefulProcessorHandle) -> None:
        spare_collector()
        self._values = handle.getMapState("values", NAME, BODY)

    def close(self) -> None:
        """Nothing to release."""


class JoinProcessor(_Stateful):
    """A grouping key is a worker; all its messages of a micro-batch come in one call."""

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Row]:
        worker = Worker(self._spec, self._spec.workers.index(key[0]), _StateStore(self._values))
        handover, packed = Handover(self._spec), 0
        results = worker.step([ChunkMessage.of(row) for row in rows])
        try:
            for output in chain((Output(key[0], RESULT, table) for table in results), self._behind(key[0], worker)):
                for blob in blobs(output.table):
                    if output.kind == RESULT and handover.takes(blob):
                        continue
                    body = to_view(blob)
                    packed += len(body)
                    if packed > MOST_BYTES:
                        raise DataError(
                            "the results of one worker in one micro-batch exceed 2 GB, which is more than PySpark can "
                            "take; make micro-batches smaller (maxFilesPerTrigger and the like) or give more partitions"
                        )
                    yield Row(worker=output.worker, kind=output.kind, body=body, **_NO_FIGURES)
        except BaseException:  # also if Spark wants no more of it
            handover.discard()
            raise
        handover.close()
        if handover.name is not None:
            yield Row(worker=key[0], kind=FILED, body=os.fsencode(handover.name), **_NO_FIGURES)
        yield Row(worker=key[0], kind=FIGURES, body=None, **worker.figures)

    def _behind(self, number: int, worker: Worker) -> Iterator[Output]:
        """What a worker gives when all its results have been taken."""
        yield from worker.questions
        if self._spec.keeps_late:
            yield from (Output(number, side, worker.late[side]) for side in SIDES)


class RouteProcessor(_Stateful):
    """A grouping key is a router."""

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Row]:
        router = ROUTERS[self._spec.routing](self._spec, _StateStore(self._values))
        for worker, message in router.step([ChunkMessage.of(row) for row in rows]):
            yield message.row(worker)
