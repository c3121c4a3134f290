"""A deterministic simulator of Spark: one seed is one schedule of a query, from its first micro-batch to its last.

It runs the product's own packing, routing, worker step, settling and unpacking, without a JVM. Everything that Spark
does not promise, the seed chooses: how rows are dealt out, the order of tasks and of blobs after a shuffle; attempts
that are given up in the middle, that complete and are lost, or that run two at a time; parts of a stage that are
computed again; crashes of the driver before or after the sink has a batch; what a state store combines and what has
become of cache files (`stores`). The rows that the sink has, each batch once, are those of `streamjoin.oracle`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import Row

import streamjoin as sj
from streamjoin.oracle import join_rows, late_rows, pushes
from streamjoin.side import SIDES, Side
from streamjoin.spark import pack
from streamjoin.spark.messages import EVERY_WORKER
from streamjoin.spark.outputs import ARROW_OUTPUT
from streamjoin.spark.pack import Pack
from streamjoin.spark.processor import JoinProcessor, RouteProcessor
from streamjoin.spark.sealed_values import opened
from streamjoin.spark.settle import Settle
from streamjoin.spark.spec import JoinSpec
from streamjoin.spark.unpack import Unpack
from streamjoin.spark.worker_state import NAME
from streamjoin.spark.worker_state import STATES as WORKERS

from .simulated import make_spec
from .stores import Process, Store, View, spoil

FAR = 10**6
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("v", pa.float64()), ("n", pa.int64())])
"""`n` is the number of a row, which no predicate reads: rows may be equal in everything else."""
Values = dict[str, Any]


def _near(l: Values, r: Values, distance: float) -> bool:
    return l["v"] is not None and r["v"] is not None and abs(l["v"] - r["v"]) <= distance


def _alike(l: Values, r: Values) -> bool:
    return l["k"] is not None and l["k"] == r["k"]


PREDICATES: dict[str, tuple[Callable[[Values, Values], bool], tuple[str, ...]]] = {
    "l.k = r.k": (_alike, ("broadcast", "hash", "split")),
    "l.k = r.k AND l.v BETWEEN r.v - 6 AND r.v + 6": (
        lambda l, r: _alike(l, r) and _near(l, r, 6), ("hash", "split", "blocks"),
    ),
    "l.v BETWEEN r.v - 4 AND r.v + 4": (lambda l, r: _near(l, r, 4), ("broadcast", "range", "range", "blocks")),
    "l.v BETWEEN r.v - 30 AND r.v + 30": (lambda l, r: _near(l, r, 30), ("range", "blocks")),
}  # fmt: skip
"""As text, in Python, and the routings that they allow."""
WINDOWS: dict[str, list[tuple[Any, Any]]] = {
    "time": [
        (sj.TimeWindow(10), sj.TimeWindow(10)),
        (sj.TimeWindow(3), sj.TimeWindow(15)),
        (sj.TimeWindow(20), sj.TimeWindow(20)),
    ],
    "count": [(5, 5), (2, 9)],
    "mixed": [(3, sj.TimeWindow(15)), (sj.TimeWindow(6), 4)],
}
KINDS = [
    *((how, "all") for how in ("inner", "left", "right", "full", "semi", "anti")),
    *((how, match) for how in ("inner", "left") for match in ("latest", "nearest")),
]
CASES = [
    (routing, how, match, window)
    for window in WINDOWS
    for how, match in KINDS
    for routing in ("broadcast", "hash", "split", "range", "blocks")
]
"""Schedule number n runs case n modulo their number."""


class Wrong(AssertionError):
    """The sink's rows are not those of the oracle."""


@cache
def _spec(on: str, window: tuple[Any, Any], routing: str, workers: int, **options: Any) -> JoinSpec:
    return make_spec(
        SCHEMA, SCHEMA, on=on, window=window, time="ts", workers=workers, routing=routing, **options
    )  # fmt: skip


def stream(rng: random.Random, rows: int, disorder: int, ties: bool) -> list[Values]:
    """Rows, some of them out of order, and some that match nothing. Without `ties`, timestamps differ."""
    clock, found = 0, []
    for _ in range(rows):
        clock += rng.choice([0, 0, 1, 3]) if ties else rng.choice([1, 1, 2, 4])
        values = {"ts": clock, "k": rng.choice([None, 0, 1, 2]), "v": rng.choice([None, *map(float, range(25))] * 2)}
        found += [dict(values) for _ in range(rng.choice([1, 1, 1, 3]) if ties else 1)]
    found = [found[k] for k in sorted(range(len(found)), key=lambda k: found[k]["ts"] + rng.randrange(disorder + 1))]
    return [{**values, "n": n} for n, values in enumerate(found)]


def far(first: int, rows: int) -> list[Values]:
    """Rows that match nothing and make windows close."""
    return [{"ts": first + 100 * n, "k": None, "v": None, "n": -1} for n in range(rows)]


@dataclass
class Attempt:
    """A task that runs: its state, and its steps, of which it takes so many at most (None: it completes)."""

    number: int
    base: dict[str, bytes]
    view: View
    process: Process
    steps: Iterator[Any]
    most: int | None


class Schedule:
    """One query. `calm`: nothing fails, to see what takes time."""

    def __init__(self, number: int, directory: Path, calm: bool = False) -> None:
        self._rng = rng = random.Random(f"schedule {number}")
        routing, self._how, self._match, kind = CASES[number % len(CASES)]
        self._on = rng.choice([on for on, (_, routings) in PREDICATES.items() for one in routings if one == routing])
        self._window = rng.choice(WINDOWS[kind])
        self._disorder, self._lateness = rng.choice([(0, 0), (0, 3), (4, 4), (4, 4), (6, 2)])
        options: dict[str, Any] = {"late": "keep"} if rng.random() < 0.3 else {}
        options["index"] = rng.choice(["auto", "scan", "bi-sort", "rap-table", "wib-tree", "hash"])
        if options["index"] == "hash" and "=" not in self._on:
            options["index"] = "auto"
        workers = rng.choice([1, 2, 2, 3])
        self._spec = _spec(
            self._on, self._window, routing, workers, how=self._how, match=self._match, lateness=self._lateness,
            **options,
        )  # fmt: skip
        self._spec = replace(self._spec, identity=f"{number}-0")
        self._names = count(1)
        self._number, self._calm = number, calm
        self._trouble = 0.0 if calm else rng.choice([0.05, 0.2, 0.6])
        directories = [directory / name for name in ("one", "other")]
        self._processes = [Process(directories[0]), Process(directories[0]), Process(rng.choice(directories))]
        self._workers = [Store(rng) for _ in range(workers)]
        self._routers = [Store(rng) for _ in range(workers)]
        self._sink: dict[int, Counter[Any]] = {}
        self.journal: list[str] = []
        """What has happened."""

    def run(self) -> None:
        """Raise an error unless the sink ends with the rows of the oracle."""
        names = (f"{number:032x}" for number in count())  # the same on every run
        size = self._rng.choice([120, 700, 1 << 27])
        with (
            mock.patch("streamjoin.spark.side_segments.new_file", side_effect=names),
            mock.patch("streamjoin.spark.side_segments.SEGMENT_BYTES", size),
        ):
            self._run()

    def _run(self) -> None:
        rng = self._rng
        ties = rng.random() < 0.6
        self._shuffles = not (ties and self._spec.options.needs_order)
        streams = [stream(rng, rng.choice([0, 8, 14, 20, 20]), self._disorder, ties) for _ in SIDES]
        pieces = rng.choice([2, 3, 4, 5])
        cuts = sorted(rng.random() for _ in range(pieces - 1))
        together = rng.random() < 0.7
        batches = [_cut(rows, cuts if together else sorted(rng.random() for _ in cuts)) for rows in streams]
        if rng.random() < 0.2:  # a step without disturbance between the last rows and the end
            for side in batches:
                side.append([])
        for side in batches:
            side.append(far(FAR, 13))
        dealt = [[_dealt(rng, rows) for rows in side] for side in batches]
        for number, parts in enumerate(zip(*dealt, strict=True)):
            self._batch(number, dict(zip(SIDES, parts, strict=True)))
        # Rows of one time are in the order of their partitions, and of their places there.
        self._judge([[[row for part in parts for row in part] for parts in side] for side in dealt])
        self._look_at_states(len(dealt[0]))

    def _look_at_states(self, version: int) -> None:
        """A worker's state has what its memory names, and nothing else: what has expired is gone."""
        for number, store in enumerate(self._workers):
            values = store.load(version)
            kept = WORKERS.load(opened(NAME, values[NAME]))
            named = {entry.name for side in SIDES for entry in (*kept.held[side].segments, *kept.held[side].marks)}
            named |= {NAME, "waiting-left", "waiting-right"}
            if values.keys() - named:
                raise Wrong(f"{self}: worker {number} still has {sorted(values.keys() - named)}")

    # -- the driver ------------------------------------------------------------------------------------------------

    def _batch(self, version: int, partitions: dict[Side, list[list[Values]]]) -> None:
        """One micro-batch until it is committed. If it is repeated, its rows are dealt out as before."""
        rng = self._rng
        while True:
            crash = rng.choice(["stage", "commit"]) if rng.random() < self._trouble / 2 else None
            self.journal.append(f"batch {version}, crash {crash}, rows {partitions}")
            rows = self._stages(version, partitions, stops=crash == "stage")
            if rows is not None:
                found = self._sink.setdefault(version, rows)
                if found != rows:
                    raise Wrong(f"{self}: batch {version} has other rows when it is repeated: {_told(rows, found)}")
            self._disturb()
            if crash is None:
                return
            if rng.random() < 0.5:  # started again: the plan, and so the identity, is new
                self._spec = replace(self._spec, identity=f"{self._number}-{next(self._names)}")
            for process in self._processes:
                process.die()

    def _disturb(self) -> None:
        """What may happen between two micro-batches."""
        rng = self._rng
        for process in self._processes:
            if rng.random() < self._trouble * 0.6:
                process.die()
            if rng.random() < self._trouble:
                spoil(rng, process.directory)

    # -- the stages ------------------------------------------------------------------------------------------------

    def _stages(self, version: int, partitions: dict[Side, list[list[Values]]], stops: bool) -> Counter[Any] | None:
        """The rows of a micro-batch; None if the driver dies in the middle."""
        spec, rng = self._spec, self._rng
        packed = [self._packed(side, number, rows) for side in SIDES for number, rows in enumerate(partitions[side])]
        if spec.has_routers:
            routed = self._stateful(RouteProcessor, self._routers, version, packed)
            packed = [[_by_worker(spec, rows) for rows in attempts] for attempts in routed]
        outputs = self._stateful(JoinProcessor, self._workers, version, packed, stops)
        if stops:
            return None
        if any(spec.settles(side) for side in SIDES):
            places = [[rng.choice(attempts) for attempts in outputs] for _ in spec.workers]
            batches = [self._settled(number, rows) for number, rows in zip(spec.workers, places, strict=True)]
        else:
            batches = [[_as_batch(rng.choice(attempts))] for attempts in outputs]
        found: Counter[Any] = Counter()
        for some in batches:
            for batch in Unpack(spec)(rng.sample(some, len(some))):
                found.update(tuple(row.values()) for row in batch.to_pylist())
        return found

    def _packed(self, side: Side, partition: int, rows: list[Values]) -> list[dict[int, list[Row]]]:
        """What a map task sends to each worker, by some attempts. Where order does not count, each sees the rows of its
        partition in an order of its own: so they come out of a shuffle."""
        rng = self._rng
        found = []
        for _ in range(2 if rng.random() < (0 if self._calm else 0.6) else 1):
            mine: dict[int, list[Row]] = {}
            table = pa.Table.from_pylist(rng.sample(rows, len(rows)) if self._shuffles else rows, SCHEMA)
            batches = table.to_batches(max_chunksize=3)
            for batch in Pack(self._spec, side).messages(partition, pack.chunks(batches, SCHEMA)):
                (message,) = batch.to_pylist()
                to = message.pop("worker")
                for worker in self._spec.workers if to == EVERY_WORKER else [to]:
                    mine.setdefault(worker, []).append(Row(worker=worker, **message))
            found.append(mine)
        return found

    def _stateful(
        self, operator: type[Any], stores: list[Store], version: int, packed: list[list[dict[int, list[Row]]]],
        stops: bool = False,
    ) -> list[list[list[Row]]]:  # fmt: skip
        """The outputs of an operator, for each of its keys those of all attempts that have completed."""
        rng, spec = self._rng, self._spec
        done: list[list[list[Row]]] = [[] for _ in stores]
        waiting: list[tuple[int, bool]] = []
        for number in range(len(stores)):
            completes = 0 if stops and rng.random() < 0.5 else 2 if rng.random() < self._trouble * 0.7 else 1
            gives_up = rng.random() < self._trouble
            waiting += [(number, True)] * completes + [(number, False)] * gives_up
        rng.shuffle(waiting)
        running: list[Attempt] = []
        idle = list(self._processes)
        most = rng.choice([1, 1, 2])
        while waiting or running:
            if waiting and len(running) < most:
                number, completes = waiting.pop()
                base = stores[number].load(version)
                process = idle.pop(rng.randrange(len(idle)))
                rows = [row for attempts in packed for row in rng.choice(attempts).get(spec.workers[number], [])]
                rng.shuffle(rows)
                here = replace(spec, cache_directory=str(process.directory))
                view = View(base)
                steps = _steps(operator(here), view, spec.workers[number], rows)
                running.append(
                    Attempt(number, base, view, process, steps, None if completes else rng.randrange(4))
                )  # fmt: skip
                continue
            attempt = rng.choice(running)
            output = None if attempt.most == 0 else attempt.process.next_of(attempt.steps)
            if attempt.most:
                attempt.most -= 1
            if isinstance(output, list):
                stores[attempt.number].commit(attempt.base, attempt.view.changes, version + 1)
                done[attempt.number].append(output)
                output = None
            if output is None:
                self.journal.append(
                    f"worker {attempt.number} on {self._processes.index(attempt.process)}: {attempt.most}"
                )
                attempt.steps.close()
                running.remove(attempt)
                idle.append(attempt.process)
        return done

    def _settled(self, place: int, outputs: list[list[Row]]) -> list[pa.RecordBatch]:
        """The rows for one place go through `Settle`, as often as its task is run."""
        rng = self._rng
        own = [row for rows in outputs for row in rows if row["worker"] == place]
        found: list[pa.RecordBatch] = []
        for _ in range(2 if rng.random() < self._trouble / 4 else 1):
            rng.shuffle(own)
            cut = [own[start : start + 2] for start in range(0, len(own), 2)]
            found = list(Settle(self._spec)([_as_batch(rows) for rows in cut]))
        return found

    # -- the judge -------------------------------------------------------------------------------------------------

    def _judge(self, batches: list[list[list[Values]]]) -> None:
        left, right = ([row for batch in side for row in batch] for side in batches)
        arrivals = [(side, len(b)) for pair in zip(*batches, strict=True) for side, b in zip(SIDES, pair, strict=True)]
        pairs = join_rows(
            left, right, PREDICATES[self._on][0], _in_ticks(self._window), ("ts", "ts"), arrivals, self._lateness,
            self._how, self._match,
        )  # fmt: skip
        nothing = dict.fromkeys(SCHEMA.names)
        both = self._how not in ("semi", "anti")
        late = (None,) if self._spec.keeps_late else ()

        def result(l: Values, r: Values, late: tuple[Any, ...]) -> tuple[Any, ...]:
            return (*l.values(), *(r.values() if both else ()), *late)

        want: Counter[Any] = Counter()
        for l, r in pairs:
            rows = nothing if l is None else left[l], nothing if r is None else right[r]
            if all((row["ts"] or 0) < FAR for row in rows):
                want[result(*rows, late)] += 1
        if self._spec.keeps_late:
            for side, rows in zip(SIDES, (left, right), strict=True):
                times = pushes(side, [row["ts"] for row in rows], arrivals)
                for place in late_rows(times, self._lateness):
                    own = (rows[place], nothing) if side == "left" else (nothing, rows[place])
                    want[result(*own, (side,))] += 1
        found: Counter[Any] = Counter()
        times = [0, len(SCHEMA)][: 1 + both]
        for rows in self._sink.values():
            found.update({row: n for row, n in rows.items() if all((row[at] or 0) < FAR for at in times)})
        if found != want:
            raise Wrong(f"{self}: {_told(found, want)}")

    def __str__(self) -> str:
        spec = self._spec
        return (
            f"schedule {self._number}: {self._on}, {spec.routing} over {len(spec.workers)}, {self._how}, {self._match},"
            f" windows {self._window}, lateness {self._lateness}"
        )


def _steps(operator: Any, view: View, key: int, rows: list[Row]) -> Iterator[Any]:
    """A task, one output after another, and then all of them: it has completed."""
    operator.init(SimpleNamespace(getMapState=lambda *_: view))
    outputs = []
    if rows:
        for row in operator.handleInputRows((key,), iter(rows), None):
            values = row.asDict()
            for name in ("body", "note", "times"):
                if values.get(name) is not None:
                    values[name] = bytes(values[name])
            outputs.append(Row(**values))
            yield True
    yield outputs


def _by_worker(spec: JoinSpec, rows: list[Row]) -> dict[int, list[Row]]:
    return {worker: [row for row in rows if row["worker"] == worker] for worker in spec.workers}


def _as_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row.asDict() for row in rows], ARROW_OUTPUT)


def _cut(rows: list[Values], shares: Sequence[float]) -> list[list[Values]]:
    """Rows as batches that end after these shares of them, and at their end."""
    places = [round(share * len(rows)) for share in shares]
    return [rows[start:stop] for start, stop in zip([0, *places], [*places, len(rows)], strict=True)]


def _dealt(rng: random.Random, rows: list[Values]) -> list[list[Values]]:
    """Rows in partitions, of which none is empty."""
    partitions: list[list[Values]] = [[] for _ in range(rng.choice([1, 2, 3]))]
    for row in rows:
        rng.choice(partitions).append(row)
    return [partition for partition in partitions if partition]


def _in_ticks(window: tuple[Any, Any]) -> tuple[Any, Any]:
    one, other = (sj.CountWindow(side) if isinstance(side, int) else side for side in window)
    return one, other


def _told(found: Counter[Any], want: Counter[Any]) -> str:
    return f"{list((found - want).elements())[:3]} too many, {list((want - found).elements())[:3]} missing"
