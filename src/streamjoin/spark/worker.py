"""A worker stores its share of both windows. It joins in one step per micro-batch (PanJoin, section III-A, step 4).

A step is a function of the state and the messages. Another process on another machine may repeat it and gets the same
result. A worker knows nothing of Spark: it sees its state as a `KeyedState`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ..side import SIDES, Side
from .keyed_state import KeyedState
from .messages import ChunkMessage
from .outputs import Output
from .sealed_values import SealedState
from .segments import Cache
from .spec import JoinSpec
from .step import Step
from .worker_state import WorkerState


class Worker:
    """`number` is this worker's place among all workers.

    After the step, `late` has the late rows that this worker answers for, `questions` what it asks and tells of rows
    that several workers must settle, and `figures` has its figures.
    """

    def __init__(self, spec: JoinSpec, number: int, state: KeyedState) -> None:
        self._spec, self._number, self._state = spec, number, SealedState(state)
        self._cache = Cache(
            spec.identity, str(number), spec.cache_directory, keeps_files=not spec.bounded, ended=spec.ended
        )  # fmt: skip
        self.late: dict[Side, pa.Table] = {}
        self.questions: list[Output] = []
        self.figures: dict[str, Any] = {}

    def step(self, messages: Sequence[ChunkMessage]) -> Iterator[pa.Table]:
        """Join the rows of a micro-batch with the windows, and move the windows on.

        Gives tables of results as they are found. The step is complete once the caller has taken all of them.
        """
        started = time.perf_counter()
        waited = 0.0
        kept = WorkerState.load(self._state, self._spec)
        step = Step(self._spec, self._number, self._state, self._cache, kept)
        out = 0
        for table in step.run(messages):
            out += table.num_rows
            given = time.perf_counter()
            yield table
            waited += time.perf_counter() - given
        kept.save(self._state)
        self._cache.keep_only(entry.file for side in SIDES for entry in kept.held[side].segments)
        self.late = {side: step.found[side].late for side in SIDES}
        self.questions = list(step.questions.outputs())
        seconds = time.perf_counter() - started - waited
        self.figures = {
            **self._counts(messages, step, kept), "out": out, "unmatched": step.unmatched, "seconds": seconds
        }  # fmt: skip

    def _counts(self, messages: Sequence[ChunkMessage], step: Step, kept: WorkerState) -> dict[str, int]:
        first = self._number == 0  # every worker hears of all rows; one counts them
        waiting = step.waiting.values()
        return {
            **{f"{side}_in": sum(m.rows for m in messages if m.side == side) if first else 0 for side in SIDES},
            **{f"{side}_late": step.found[side].late_rows for side in SIDES},
            **{f"{side}_window": kept.held[side].rows for side in SIDES},
            "rows_held": sum(held.rows for held in kept.held.values()) + sum(table.num_rows for table in waiting),
            "bytes_held": sum(held.nbytes for held in kept.held.values()) + sum(table.nbytes for table in waiting),
        }
