"""`stream_join`: pack -> route -> join with state -> unpack, as one streaming DataFrame."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StringType, StructField, StructType

from ..arguments import unknown_argument
from ..engine.options import How, IndexName, Late, Match, NullTime
from ..engine.window_join import LatenessArgument, WindowArgument
from ..errors import ArgumentError
from ..predicate import Predicate
from ..side import SIDES
from .checkpoint import check_checkpoint
from .ended_queries import remove_when_ended
from .event_time import ResultTime
from .messages import MESSAGE
from .metric_names import unused_name
from .null_times import with_times
from .outputs import COUNTS, FIGURES, OUTPUT
from .pack import Pack
from .plan_join import plan_join
from .processor import JoinProcessor, RouteProcessor
from .progress import JOIN, UNDECLARED, WorkerFigures, give_advice
from .python_workers import cache_roots
from .settle import Settle
from .spec import JoinSpec, Routing
from .unpack import LATE, Unpack

NOT_ON_SPARK = {
    "algorithm": "Spark's tasks share the work, and routing says how",
    "device": "Spark's workers join on CPUs",
    "workers": "give partitions, the number of Spark's tasks",
    "order": "rows of a streaming query have none; sort them where they are read",
    **dict.fromkeys(("max_pending", "max_batch", "max_wait"), "the sources' options say how large a micro-batch is"),
}
"""Arguments of `WindowJoin` that `stream_join` does not have, and what to do instead."""


def stream_join(
    left: Any,
    right: Any,
    *,
    on: Predicate | Column,
    window: WindowArgument | tuple[WindowArgument, WindowArgument],
    time: str | tuple[str, str] | None = None,
    lateness: LatenessArgument | None = None,
    partitions: int | None = None,
    routing: Routing = "auto",
    how: How = "inner",
    match: Match = "all",
    index: IndexName = "auto",
    aliases: Sequence[str] | None = None,
    late: Late = "drop",
    null_time: NullTime = "error",
    suffix: str = "_right",
    idle_timeout: LatenessArgument | None = None,
    result_time: str | None = None,
    name: str | None = None,
    cache_dir: str | None = None,
    checkpoint: str | None = None,
    **others: Any,
) -> Any:
    """Join two DataFrames, both streaming or both not, within windows.

    The meaning is that of `streamjoin.join`, on the same rows. A row without a partner comes when its window has
    closed, and so does a row with its closest partner (`match`); a row of a semi join comes then at the latest. Write
    the result in append mode. The query's progress has figures under `observedMetrics[name]`; the name is "streamjoin"
    if none is given, or "streamjoin_2" and so on where the inputs are themselves results of joins. With `late="keep"`
    the result has another column, `late`: NULL for results, "left" or "right" for a late row, which has values only in
    the columns of its own side. With `null_time="drop"`, rows without a timestamp take part in nothing and are counted.

    `lateness` is 0 if it is not given, and the first late row is then told in the log; over inputs with a watermark it
    is the watermark's delay. `result_time` names another column, with the later of both timestamps. Where both inputs
    carry a watermark, the result always has it, and it carries the watermark on. With `idle_timeout`, a stream that is
    so far behind the other one no longer holds time back; its rows that come later than that are late.

    `partitions` is the number of workers that share the windows. It is at most `spark.sql.shuffle.partitions`, which
    is also the default, up to 32. Executors keep files in `cache_dir`, so that restarted Python processes need not
    rebuild the windows; by default they lie beside Spark's own files. `checkpoint` is the checkpoint location that the
    query will have: if it belongs to a query with another join, which cannot go on as this one, this call says so.
    """
    for other in others:
        if other in NOT_ON_SPARK:
            raise ArgumentError(f"{other}: stream_join has no such argument; {NOT_ON_SPARK[other]}")
        raise unknown_argument("stream_join", other, _ARGUMENTS)
    if name is not None and (not isinstance(name, str) or not name):
        raise ArgumentError(f"name: {name!r} is not valid; give a text")
    if checkpoint is not None and not isinstance(checkpoint, str):
        raise ArgumentError(f"checkpoint: {checkpoint!r} is not valid; give the location as a text")
    spec = plan_join(
        left, right, on=on, window=window, time=time, lateness=lateness, partitions=partitions, routing=routing,
        how=how, match=match, index=index, aliases=aliases, late=late, suffix=suffix, idle_timeout=idle_timeout,
        cache_dir=cache_dir, null_time=null_time,
    )  # fmt: skip
    its_time = ResultTime.of(spec, {"left": left, "right": right}, result_time)
    if not spec.bounded:
        give_advice(left.sparkSession)
        remove_when_ended(left.sparkSession, spec.identity, cache_roots(left.sparkSession, cache_dir))
    name = name or unused_name(left, right)
    if checkpoint is not None and not spec.bounded:
        check_checkpoint(left.sparkSession, checkpoint, name, spec)
    joined = pipeline(spec, left, right, name)
    return joined if its_time is None else its_time.added_to(joined, spec)


_ARGUMENTS = [name for name, p in inspect.signature(stream_join).parameters.items() if p.kind is p.KEYWORD_ONLY]


def pipeline(
    spec: JoinSpec, left: Any, right: Any, name: str, processor: Callable[[JoinSpec], StatefulProcessor] = JoinProcessor
) -> Any:
    """The five steps of PanJoin (section III-A) over DataFrames."""
    frames = {"left": _plainly_named(left), "right": _plainly_named(right)}
    packs = [
        with_times(spec, side, frames[side], name).mapInArrow(_function(Pack(spec, side)), MESSAGE) for side in SIDES
    ]
    packed = packs[0].unionByName(packs[1])
    if spec.sends_all_to_all:
        packed = packed.withColumn("worker", F.explode(F.array(*[F.lit(worker) for worker in spec.workers])))
    if spec.has_routers:
        packed = packed.groupBy("worker").transformWithState(RouteProcessor(spec), MESSAGE, "Append", "None")
    found = packed.groupBy("worker").transformWithState(processor(spec), OUTPUT, "Append", "None")
    totals = [F.coalesce(F.sum(count), F.lit(0)).alias(count) for count in COUNTS]
    per_worker = F.struct(*WorkerFigures.__dataclass_fields__)
    if spec.has_settling:
        found = found.repartition("worker").mapInArrow(_function(Settle(spec)), OUTPUT)
    routed, identity = F.lit(f"{spec.routing}: {spec.why}"), F.lit(spec.identity)
    undeclared = [] if spec.lateness_declared else [F.max(F.lit(True)).alias(UNDECLARED)]
    watched = found.observe(
        name,
        *totals,
        F.coalesce(F.max(routed), routed).alias("routing"),
        F.coalesce(F.max(identity), identity).alias(JOIN),
        F.max("seconds").alias("slowest_s"),
        F.avg("seconds").alias("mean_s"),
        F.collect_list(F.when(F.col("kind") == FIGURES, per_worker)).alias("workers"),
        *undeclared,
    )
    return watched.mapInArrow(_function(Unpack(spec)), _result_type(spec, left, right))


def _plainly_named(frame: Any) -> Any:
    """`mapInArrow` refuses names with dots or backticks, so columns are numbered. The spec has their real names."""
    return frame.toDF(*[f"c{number}" for number in range(len(frame.columns))])


def _function(step: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A step as a plain function: Spark takes nothing else."""

    @functools.wraps(step.__call__)  # type: ignore[operator]
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step(batches)

    return run


def _result_type(spec: JoinSpec, left: Any, right: Any) -> StructType:
    frames = (left, right) if spec.gives_pairs else (left,)
    types = [field.dataType for frame in frames for field in frame.schema]
    fields = [StructField(name, type_) for name, type_ in zip(spec.result.names, types, strict=True)]
    return StructType([*fields, StructField(LATE, StringType())] if spec.keeps_late else fields)
