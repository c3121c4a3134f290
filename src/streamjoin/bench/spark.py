"""`streamjoin bench spark`: the Spark pipeline's throughput (PanJoin, section V-C, which had Storm in its place).

    l.k BETWEEN r.k - 1 AND r.k + 1      keys uniform over 3W: one match per tuple; time windows of W tuples

Each micro-batch reads one file of each side; the sink drops all rows. A rate is input rows of both streams per second
of a micro-batch (its `triggerExecution`). Micro-batches count once the windows are full. A JVM gets faster for minutes.
So every contestant's first run is not counted, and then they take turns, first in order and then in reverse order. CPU
seconds are those of all processes over a whole run, so they suffer less from others on the machine.

Contestants: the join with each routing that fits; the pipeline with an operator that does nothing, and with one that
returns every tuple once, so that as many rows leave as with the join, both with the first routing; and Spark's own way
to join bands: an equality of bins with the band as a second condition, where the right side's rows are exploded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Row
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from ..engine.replay import join
from ..reporting.files import write_json
from ..spark.handover import Handover
from ..spark.join import pipeline
from ..spark.messages import ROLE, ChunkMessage, RowRole, from_bytes, to_view
from ..spark.outputs import COUNTS, FIGURES, FILED, RESULT
from ..spark.plan_join import plan_join
from ..spark.processor import JoinProcessor
from ..spark.session import session
from ..spark.spec import JoinSpec

ON = "l.k BETWEEN r.k - 1 AND r.k + 1"
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int64())])
FIRST_WRITTEN = 1_000_000_000
STATE_FIGURES = ("numRowsTotal", "memoryUsedBytes")
STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


@dataclass
class QueryRun:
    """Rows per second of each micro-batch, CPU seconds per million rows of the run, how many rows came out altogether,
    and after each micro-batch the state store's keys and bytes."""

    rates: list[float]
    cpu: float
    out: int
    state_keys: list[int]
    state_bytes: list[int]


@dataclass
class SparkContestant:
    """A pipeline: how it is built from both streams' frames, how many rows it must give, and its runs."""

    name: str
    build: Callable[[Any, Any], Any]
    expected: int | None
    time_type: str = "timestamp_ntz"
    runs: list[QueryRun] = field(default_factory=list)

    @property
    def rates(self) -> list[float]:
        return [rate for run in self.runs for rate in run.rates]

    @property
    def last_to_first(self) -> float:
        """The median rate in the last quarters of the runs over that in the first ones."""
        quarters = [(run.rates, max(len(run.rates) // 4, 1)) for run in self.runs]
        first, last = [r for rates, n in quarters for r in rates[:n]], [r for rates, n in quarters for r in rates[-n:]]
        return float(np.median(last) / np.median(first))


class EmptyOperator(JoinProcessor):
    """Takes every message and does nothing."""

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Row]:
        taken = sum(row.rows for row in rows)
        yield Row(worker=key[0], kind=FIGURES, body=None, seconds=0.0, **dict.fromkeys(COUNTS, 0) | {"left_in": taken})


class GivingBack(EmptyOperator):
    """Returns every tuple, in the columns of both sides: as many rows leave as if each had one match."""

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Row]:
        number, workers = self._spec.workers.index(key[0]), len(self._spec.workers)
        handover, nothing = Handover(self._spec), dict.fromkeys((*COUNTS, "seconds"))
        for message in map(ChunkMessage.of, rows):
            if message.body is not None:
                own = from_bytes(message.body)
                if self._spec.routing == "broadcast":
                    start, stop = (own.num_rows * part // workers for part in (number, number + 1))
                    own = own.slice(start, stop - start)
                elif ROLE in own.column_names:
                    own = own.filter(pc.equal(own[ROLE], RowRole.ANSWERED)).drop_columns(ROLE).combine_chunks()
                both = pa.Table.from_arrays([*own.columns, *own.columns], schema=self._spec.result)
                if not handover.takes(both):
                    yield Row(worker=key[0], kind=RESULT, body=to_view(both), **nothing)
        handover.close()
        if handover.name is not None:
            yield Row(worker=key[0], kind=FILED, body=os.fsencode(handover.name), **nothing)


def run(
    console: Console, *, window: int, rows: int, batches: int, routings: list[str], peer: bool, master: str, seed: int,
    json_file: Path | None,
) -> None:  # fmt: skip
    """Measure all contestants on the same files."""
    filling = -(-2 * window // rows) + 1
    directory = Path(tempfile.mkdtemp(prefix="streamjoin-bench-"))
    try:
        console.print(f"writing {filling + batches} micro-batches of {rows:,} rows to files")
        tables = _write(directory, window, rows // 2, filling + batches, seed)
        expected = join(tables[0], tables[1], on=ON, window=f"{window} us", time="ts").num_rows
        spark = session(master, **{STATE_FORMAT: 4, "spark.sql.streaming.numRecentProgressUpdates": 10_000})
        taken = tables[0].num_rows + tables[1].num_rows
        contestants = [
            SparkContestant(f"join, {routing}", _pipeline(JoinProcessor, routing, window), expected)
            for routing in routings
        ]
        contestants += [
            SparkContestant("nothing", _pipeline(EmptyOperator, routings[0], window), 0),
            SparkContestant("giving back", _pipeline(GivingBack, routings[0], window), taken),
        ]
        for one in contestants:
            with console.status(f"warming up: {one.name} ..."):
                _measure(spark, directory, one, filling)
        for one in [*contestants, *reversed(contestants)]:
            with console.status(f"{one.name} ..."):
                one.runs.append(_measure(spark, directory, one, filling))
            console.print(_line(one))
        if peer:
            contestants.append(SparkContestant("Spark, bins", lambda l, r: _bins(l, r, window), None, "timestamp"))
            with console.status("Spark, bins and explode ..."):
                contestants[-1].runs.append(_measure(spark, directory, contestants[-1], filling))
        spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print(_table(contestants, window, rows))
    for one in contestants:
        for out in {run.out for run in one.runs} - {one.expected}:
            if one.expected is not None:
                console.print(f"[red]{one.name}: {out} rows instead of {one.expected}[/red]")
    write_json(json_file, {one.name: [asdict(run) for run in one.runs] for one in contestants})


def _write(directory: Path, window: int, half: int, count: int, seed: int) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)
    sides = []
    for side in ("left", "right"):
        (directory / side).mkdir()
        pieces = []
        for number in range(count):
            times = np.arange(number * half, (number + 1) * half)
            keys = rng.integers(0, 3 * window, half, dtype=np.int32)
            columns = [pa.array(times).cast(pa.timestamp("us", "UTC")), keys, rng.integers(0, 1000, half)]
            pieces.append(pa.Table.from_arrays([pa.array(c) for c in columns], schema=SCHEMA))
            path = directory / side / f"{number:05}.parquet"
            pq.write_table(pieces[-1], path)
            os.utime(path, (FIRST_WRITTEN + number, FIRST_WRITTEN + number))  # Spark reads files in this order
        sides.append(pa.concat_tables(pieces))
    return sides[0], sides[1]


def _pipeline(processor: Callable[[JoinSpec], Any], routing: str, window: int) -> Callable[[Any, Any], Any]:
    def build(left: Any, right: Any) -> Any:
        spec = plan_join(
            left, right, on=ON, window=f"{window} us", time="ts", lateness=0, partitions=None, routing=routing,
            how="inner", index="auto", aliases=None, late="drop", cache_dir=None,
        )  # fmt: skip
        return pipeline(spec, left, right, "streamjoin", processor)

    return build


def _bins(left: Any, right: Any, window: int) -> Any:
    """What a user writes today: bins as wide as the band; the right's rows are copied into each bin they touch."""
    width = 3
    l = left.select(F.col("ts").alias("lt"), F.col("k").alias("lk"), F.col("v").alias("lv"))
    l = l.withWatermark("lt", "0 seconds").withColumn("bin", F.floor(F.col("lk") / width))
    r = right.select(F.col("ts").alias("rt"), F.col("k").alias("rk"), F.col("v").alias("rv"))
    first, last = F.floor((F.col("rk") - 1) / width), F.floor((F.col("rk") + 1) / width)
    r = r.withWatermark("rt", "0 seconds").withColumn("rbin", F.explode(F.sequence(first, last)))
    near = F.expr(f"lt > rt - INTERVAL '{window / 1e6:.6f}' SECOND AND lt < rt + INTERVAL '{window / 1e6:.6f}' SECOND")
    return l.join(r, (F.col("bin") == F.col("rbin")) & F.expr("lk BETWEEN rk - 1 AND rk + 1") & near)


def _measure(spark: Any, directory: Path, contestant: SparkContestant, filling: int) -> QueryRun:
    schema = f"ts {contestant.time_type}, k int, v bigint"
    frames = [
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory / side))
        for side in ("left", "right")
    ]
    checkpoint = tempfile.mkdtemp(dir=directory, prefix="checkpoint-")
    cpu_before = _cpu_seconds()
    counted = contestant.build(*frames).observe("rows", F.count(F.lit(1)).alias("out"))
    query = (
        counted.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    cpu = (_cpu_seconds() - cpu_before) / sum(p["numInputRows"] for p in progress) * 1e6
    rates = [1000 * p["numInputRows"] / p["durationMs"]["triggerExecution"] for p in progress[filling:]]
    out = sum(p["observedMetrics"]["rows"]["out"] for p in progress)
    operators = [p["stateOperators"] for p in progress[filling:]]
    keys, memory = ([sum(o[figure] for o in of_batch) for of_batch in operators] for figure in STATE_FIGURES)
    return QueryRun(rates, cpu, out, keys, memory)


def _cpu_seconds() -> float:
    """What this process and all that it has started have used; NaN where the system does not say."""
    used: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            used[int(entry.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_mine(pid: int) -> bool:
        return pid == os.getpid() or (pid in used and is_mine(used[pid][0]))

    return sum(seconds for pid, (_, seconds) in used.items() if is_mine(pid)) if used else float("nan")


def _line(one: SparkContestant) -> str:
    run = one.runs[-1]
    rates = sorted(run.rates)
    speed = f"{np.median(rates):,.0f} rows/s ({rates[0]:,.0f} - {rates[-1]:,.0f})"
    return f"{one.name}: {speed}, {run.cpu:.2f} CPU s per million rows, {run.out:,} rows out"


def _table(contestants: list[SparkContestant], window: int, rows: int) -> Table:
    table = Table(title=f"rows/s, windows of {window:,}, micro-batches of {rows:,} rows")
    quarters = "last / first quarter"
    ratios = "of nothing", "of giving back"
    columns = "median (min - max)", "micro-batches", "CPU s / M rows", "rows out", *ratios, quarters, "state keys"
    for column in ("contestant", *columns):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    medians = {one.name: float(np.median(one.rates)) for one in contestants}
    for one in contestants:
        mine = medians[one.name]
        spread = f"{mine:,.0f} ({min(one.rates):,.0f} - {max(one.rates):,.0f})"
        of_others = [f"{mine / medians[name]:.2f}x" for name in ("nothing", "giving back")]
        cpu = " ".join(f"{run.cpu:.2f}" for run in one.runs)
        keys = f"{one.runs[0].state_keys[0]:,} .. {one.runs[-1].state_keys[-1]:,}"
        out = f"{one.runs[0].out:,}"
        table.add_row(one.name, spread, str(len(one.rates)), cpu, out, *of_others, f"{one.last_to_first:.2f}", keys)
    return table
