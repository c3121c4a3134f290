"""The pipeline without Spark: packing, routing and workers over a dictionary in place of the state store."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from streamjoin.arrow.tables import result_schema
from streamjoin.engine.options import check_options
from streamjoin.predicate import plan_for
from streamjoin.predicate.lower import lower
from streamjoin.side import SIDES
from streamjoin.spark.messages import EVERY_WORKER, ChunkMessage
from streamjoin.spark.outputs import COUNTS
from streamjoin.spark.pack import Pack
from streamjoin.spark.processor import ROUTERS
from streamjoin.spark.routing import choose_routing
from streamjoin.spark.settle import Settle
from streamjoin.spark.spec import JoinSpec
from streamjoin.spark.worker import Worker

PREDICATES = {
    "l.k = r.k": ("broadcast", "hash", "split"),
    "l.k = r.k AND l.v BETWEEN r.v - 20 AND r.v + 20": ("broadcast", "hash", "split", "blocks"),
    "l.v BETWEEN r.v - 3 AND r.v + 3": ("broadcast", "range", "range", "blocks"),
    "abs(l.v - r.v) <= 3": ("range", "blocks"),
    "abs(l.k - r.k) <= 1": ("broadcast", "blocks"),
    "r.v BETWEEN l.v AND l.v + 2 OR r.v BETWEEN l.v + 60 AND l.v + 63": ("range", "blocks"),
    "l.v < r.v AND l.name <> r.name": ("broadcast", "range"),
    "l.v BETWEEN r.v AND r.v + 4 OR l.v BETWEEN r.k - 1 AND r.v - 50": ("broadcast", "range"),
    "l.name = r.name": ("broadcast", "hash", "split"),
    "TRUE": ("broadcast",),
}
WINDOWS = [
    (sj.TimeWindow(30), sj.TimeWindow(30)),
    (sj.TimeWindow(5), sj.TimeWindow(60)),
    (20, 20),
    (3, sj.TimeWindow(25)),
    (sj.TimeWindow(1), 7),
]


def stream(rng: random.Random, rows: int, disorder: int, step: int = 4) -> pa.Table:
    """Rows whose timestamps are all different, at most `disorder` behind the furthest before them."""
    times = np.cumsum([rng.randrange(1, step) for _ in range(rows)], dtype=np.int64)
    order = np.argsort(times + np.array([rng.randrange(disorder + 1) for _ in range(rows)], np.int64), kind="stable")
    texts = ["a", "b", "", "a name that is longer than seven bytes", "another one that is so", None]
    return pa.table(
        {
            "ts": times[order] if rows else pa.array([], pa.int64()),
            "k": pa.array([rng.choice([None, 0, 1, 2, 3, 2**31 - 1]) for _ in range(rows)], pa.int32()),
            "v": pa.array([rng.choice([float("nan"), rng.randrange(200)]) for _ in range(rows)], pa.float64()),
            "name": pa.array([rng.choice(texts) for _ in range(rows)], pa.string()),
            "tags": pa.array([[rng.randrange(3)] * rng.randrange(3) for _ in range(rows)], pa.list_(pa.int16())),
        }
    )


class Dictionary(dict):
    """A `KeyedState`."""

    def put(self, name: str, body: bytes) -> None:
        self[name] = body

    def remove(self, name: str) -> None:
        self.pop(name, None)


def make_spec(
    left: pa.Schema, right: pa.Schema, *, on: Any, workers: int = 1, routing: str = "broadcast", bounded: bool = False,
    cache: str | None = None, lateness: Any = 0, late: str = "drop", how: str = "inner",
    match: str = "all", idle_timeout: int | None = None, index: str = "auto", **options: Any,
) -> JoinSpec:  # fmt: skip
    plan = plan_for(on, left, right)
    lowered = lower(plan)
    route = choose_routing(routing, lowered, {"left": left, "right": right}, workers, needs_order=False)
    checked = check_options(
        left, right, how=how, match=match, order="none" if match == "all" else "sorted", late=late, lateness=lateness,
        algorithm="three-step", index=index, workers=1, has_equality=bool(plan.equalities),
        has_order=lowered.has_order, **options,
    )  # fmt: skip
    return JoinSpec(
        lowered, {"left": left, "right": right}, result_schema(left, right, how), checked,
        tuple(range(workers)), route.routing, bounded, route.key, route.block_size, on=str(on), cache_directory=cache,
        idle_timeout=idle_timeout,
    )  # fmt: skip


class Simulated:
    """All workers of a join. A micro-batch is, for each side, the tables of its partitions."""

    def __init__(self, spec: JoinSpec, shuffle: Callable[[list], None] = lambda messages: None) -> None:
        self.spec = spec
        self.states = [Dictionary() for _ in spec.workers]
        self.routers = [Dictionary() for _ in spec.workers]
        self._shuffle = shuffle
        self.late: dict[str, list[pa.Table]] = {"left": [], "right": []}
        self.figures: list[dict[str, Any]] = []

    def step(self, left: Sequence[pa.Table], right: Sequence[pa.Table]) -> pa.Table:
        inbox: dict[int, list[ChunkMessage]] = defaultdict(list)
        for side, tables in zip(SIDES, (left, right), strict=True):
            for partition, table in enumerate(tables):
                if not table.num_rows:
                    continue
                for batch in Pack(self.spec, side).messages(partition, [table.combine_chunks()]):
                    (row,) = batch.to_pylist()
                    to = self.spec.workers if row["worker"] == EVERY_WORKER else (row["worker"],)
                    del row["worker"]
                    for worker in to:
                        inbox[worker].append(ChunkMessage(**row))
        if self.spec.has_routers:
            inbox = self._routed(inbox)
        results: list[pa.Table] = []
        questions: dict[int, dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
        for number in range(len(self.spec.workers)):
            messages = inbox[number]
            if messages:
                self._shuffle(messages)
                worker = Worker(self.spec, number, self.states[number])
                results += worker.step(messages)
                for output in worker.questions:
                    questions[output.worker][output.kind].append(output.table)
                for side in SIDES:
                    self.late[side].append(worker.late[side])
                self.figures.append(worker.figures)
        for asked in questions.values():
            assert any(self.spec.settles(side) for side in SIDES)
            for table, unmatched in Settle(self.spec).settled(asked):
                self.figures.append(dict.fromkeys(COUNTS, 0) | {"out": table.num_rows, "unmatched": unmatched})
                results.append(table)
        return pa.concat_tables([self.spec.result.empty_table(), *results])

    def _routed(self, inbox: dict[int, list[ChunkMessage]]) -> dict[int, list[ChunkMessage]]:
        routed: dict[int, list[ChunkMessage]] = defaultdict(list)
        for number in range(len(self.spec.workers)):
            if inbox[number]:
                self._shuffle(inbox[number])
                for worker, message in ROUTERS[self.spec.routing](self.spec, self.routers[number]).step(inbox[number]):
                    routed[worker].append(message)
        return routed


def cut(rng: random.Random, table: pa.Table, pieces: int) -> list[pa.Table]:
    """A table in some pieces, one after the other."""
    places = sorted(rng.randrange(table.num_rows + 1) for _ in range(pieces - 1))
    return [table.slice(a, b - a) for a, b in zip([0, *places], [*places, table.num_rows], strict=True)]


def dealt(rng: random.Random, table: pa.Table, partitions: int) -> list[pa.Table]:
    """A table's rows dealt out to partitions, each of which keeps their order."""
    to = [rng.randrange(partitions) for _ in range(table.num_rows)]
    return [table.filter(pa.array([p == k for p in to], pa.bool_())) for k in range(partitions)]
