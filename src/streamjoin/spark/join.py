"""`stream_join`: pack -> route -> join with state -> unpack, as one streaming DataFrame."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, get_args

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StringType, StructField, StructType

from ..arguments import choose
from ..arrow.tables import result_schema
from ..engine.options import IndexName, Late, check_options
from ..engine.window_join import LatenessArgument, WindowArgument
from ..errors import ArgumentError, SchemaError
from ..predicate import Predicate, not_too_deep, plan_for
from ..predicate.expr import Cast, Column, Constant, Expr, walk
from ..predicate.keys import RangeKey
from ..predicate.lower import lower
from ..predicate.render import render
from ..side import Side
from .messages import MESSAGE
from .pack import Pack
from .partitions import spread_workers
from .processor import COUNTS, OUTPUT, JoinProcessor, RouteProcessor
from .ranges import range_key
from .session import check_session
from .spec import JoinSpec, Routing
from .unpack import LATE, Unpack

FEW_WORKERS = 4
"""Up to so many, sending every tuple to all of them costs less than finding out where to send it."""
BINARY = "UTF8_BINARY"
NAMES_OF_UTC = ("UTC", "GMT", "UCT", "ZULU", "Z", "UNIVERSAL", "+00:00", "UTC+0", "GMT+0", "GMT0", "GREENWICH")
MOST_WORKERS = 32
"""Workers where `partitions` is left open and the session has more shuffle partitions."""
_TIME_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
"""Timestamps travel in UTC, whatever the session's time zone is; older versions of PySpark need not be told."""


NOT_ON_SPARK = {
    "algorithm": "Spark's tasks share the work, and routing says how",
    "workers": "give partitions, the number of Spark's tasks",
    "order": "rows of a streaming query have none; sort them where they are read",
    **dict.fromkeys(("max_pending", "max_batch", "max_wait"), "the sources' options say how large a micro-batch is"),
}
"""Arguments of `WindowJoin` that Spark decides on, and what to do instead."""


def stream_join(
    left: Any,
    right: Any,
    *,
    on: Predicate,
    window: WindowArgument | tuple[WindowArgument, WindowArgument],
    time: str | tuple[str, str] | None = None,
    lateness: LatenessArgument = 0,
    partitions: int | None = None,
    routing: Routing = "auto",
    how: str = "inner",
    index: IndexName = "auto",
    aliases: Sequence[str] | None = None,
    late: Late = "drop",
    name: str = "streamjoin",
    cache_dir: str | None = None,
    **others: Any,
) -> Any:
    """Join two DataFrames, both streaming or both not, within windows.

    The meaning is that of `streamjoin.join`, on the same rows. Write the result in append mode. The query's progress
    has figures under `observedMetrics[name]`. With `late="keep"` the result has a column `late` more: NULL for
    results; "left" or "right" for a late row, which has the columns of its own side only.

    `partitions` is the number of workers that share the windows, at most `spark.sql.shuffle.partitions`, which is the
    default. `cache_dir` is where executors keep files that make up for restarted Python processes; by default
    where Spark keeps its own.
    """
    for other in others:
        if other in NOT_ON_SPARK:
            raise ArgumentError(f"{other}: stream_join has no such argument; {NOT_ON_SPARK[other]}")
        raise TypeError(f"stream_join() got an unexpected keyword argument {other!r}")
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"name: {name!r} will not do; give a text")
    spec = plan_join(
        left, right, on=on, window=window, time=time, lateness=lateness, partitions=partitions, routing=routing,
        how=how, index=index, aliases=aliases, late=late, cache_dir=cache_dir,
    )  # fmt: skip
    return pipeline(spec, left, right, name)


def plan_join(
    left: Any, right: Any, *, on: Predicate, window: Any, time: Any, lateness: Any, partitions: Any, routing: Any,
    how: Any, index: Any, aliases: Any, late: Any, cache_dir: str | None,
) -> JoinSpec:  # fmt: skip
    """Check everything that can be checked before there is data."""
    session = _check_frames(left, right)
    if cache_dir is not None and not isinstance(cache_dir, str):
        raise ArgumentError(f"cache_dir: {cache_dir!r} will not do; give a directory's path as a text")
    schemas: dict[Side, pa.Schema] = {"left": _arrow_schema(left, "left"), "right": _arrow_schema(right, "right")}
    if how != "inner":
        raise ArgumentError(f"how: {how!r} is not in this version of the Spark pipeline; it joins how='inner'")
    if time is None:
        raise ArgumentError(
            "time: the Spark pipeline needs a time column, since the rows of a DataFrame have no other order; "
            'give its name, as in time="ts"'
        )
    with not_too_deep():
        plan = plan_for(on, schemas["left"], schemas["right"], aliases)
        lowered = lower(plan)
    _check_collations(plan.predicate, {"left": left, "right": right})
    _check_time_zone(plan.predicate, str(session.conf.get("spark.sql.session.timeZone")))
    options = check_options(
        schemas["left"], schemas["right"], window=window, time=time, lateness=lateness, how=how,
        algorithm="three-step", index=index, workers=1, order="none", late=late,
        has_equality=bool(plan.equalities), has_order=lowered.has_order,
    )  # fmt: skip
    key = range_key(lowered)
    streaming = bool(left.isStreaming)
    shuffle = check_session(session, streaming)
    workers = spread_workers(_partitions(partitions, shuffle), shuffle)
    chosen = _routing(routing, bool(plan.equalities), key, len(workers), options.needs_order)
    spec = JoinSpec(
        lowered=lowered,
        schemas=schemas,
        result=result_schema(schemas["left"], schemas["right"], how),
        options=options,
        workers=workers,
        routing=chosen,
        bounded=not streaming,
        range_key=key,
        on=render(plan.predicate),
        cache_directory=cache_dir,
    )
    _check_names(session, spec.result.names)
    if LATE in spec.result.names and spec.keeps_late:
        raise ArgumentError(f"late: the result would have two columns {LATE!r}; rename the stream's own")
    return spec


def pipeline(
    spec: JoinSpec, left: Any, right: Any, name: str, processor: Callable[[JoinSpec], StatefulProcessor] = JoinProcessor
) -> Any:
    """The five steps of PanJoin (section III-A) over DataFrames."""
    packed = (
        _plainly_named(left)
        .mapInArrow(_function(Pack(spec, "left")), MESSAGE)
        .unionByName(_plainly_named(right).mapInArrow(_function(Pack(spec, "right")), MESSAGE))
    )
    if spec.routing == "broadcast":
        packed = packed.withColumn("worker", F.explode(F.array(*[F.lit(worker) for worker in spec.workers])))
    if spec.routing == "range":
        packed = packed.groupBy("worker").transformWithState(RouteProcessor(spec), MESSAGE, "Append", "None")
    found = packed.groupBy("worker").transformWithState(processor(spec), OUTPUT, "Append", "None")
    totals = [F.coalesce(F.sum(count), F.lit(0)).alias(count) for count in COUNTS]
    per_worker = F.struct("worker", "left_window", "right_window", "out", "seconds")
    watched = found.observe(
        name,
        *totals,
        F.max("seconds").alias("slowest_s"),
        F.avg("seconds").alias("mean_s"),
        F.collect_list(F.when(F.col("kind") == "figures", per_worker)).alias("workers"),
    )
    return watched.mapInArrow(_function(Unpack(spec)), _result_type(spec, left, right))


def _plainly_named(frame: Any) -> Any:
    """`mapInArrow` does not take names with dots or backticks: numbers will do, the schema has the names."""
    return frame.toDF(*[f"c{number}" for number in range(len(frame.columns))])


def _function(step: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A plain function, which is what Spark takes."""

    @functools.wraps(step.__call__)  # type: ignore[operator]
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step(batches)

    return run


def _result_type(spec: JoinSpec, left: Any, right: Any) -> StructType:
    types = [field.dataType for frame in (left, right) for field in frame.schema]
    fields = [StructField(name, type_) for name, type_ in zip(spec.result.names, types, strict=True)]
    return StructType([*fields, StructField(LATE, StringType())] if spec.keeps_late else fields)


# -- checks at the call --------------------------------------------------------------------------------------------


def _check_frames(left: Any, right: Any) -> Any:
    """Both are DataFrames of one session, and both streams or neither."""
    for name, frame in (("left", left), ("right", right)):
        if not hasattr(frame, "mapInArrow") or not hasattr(frame, "isStreaming"):
            raise ArgumentError(f"{name}: {type(frame).__name__} is not a Spark DataFrame")
    if left.isStreaming != right.isStreaming:
        stream, table = ("left", "right") if left.isStreaming else ("right", "left")
        raise ArgumentError(
            f"{table}: the {stream} DataFrame is a stream and this one is not; read both with spark.readStream, or "
            "both with spark.read (for a stream against a fixed table, Spark's own join does it)"
        )
    if left.sparkSession is not right.sparkSession:
        raise ArgumentError("right: the two DataFrames belong to different Spark sessions")
    return left.sparkSession


def _arrow_schema(frame: Any, side: Side) -> pa.Schema:
    fields = []
    for field in frame.schema:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType, **_TIME_ZONE)))
        except (PySparkException, TypeError, ValueError) as error:
            raise SchemaError(
                f"{side}: column {field.name!r} of type {field.dataType.simpleString()} cannot travel as Arrow; leave "
                f"it out or cast it ({error})"
            ) from None
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"{side}: there are several columns {twice[0]!r}; rename or drop all but one")
    return pa.schema(fields)


def _check_names(session: Any, names: list[str]) -> None:
    """The result's columns must be told apart by Spark, which usually does not look at upper and lower case."""
    if str(session.conf.get("spark.sql.caseSensitive")).lower() == "true":
        return
    folded = [name.lower() for name in names]
    for name in names:
        if folded.count(name.lower()) > 1:
            alike = " and ".join(repr(other) for other in names if other.lower() == name.lower())
            raise ArgumentError(f"right: the result would have the columns {alike}, which are one to Spark; rename one")


def _check_collations(predicate: Expr, frames: dict[Side, Any]) -> None:
    """Texts compare byte by byte here; where Spark would compare them otherwise, the result would not be Spark's."""
    for column in (node for node in walk(predicate) if isinstance(node, Column)):
        assert column.side is not None
        collation = getattr(frames[column.side].schema[column.name].dataType, "collation", BINARY)
        if collation != BINARY:
            raise SchemaError(
                f"on: column {column.name!r} of the {column.side} stream has the collation {collation}, which the "
                f"predicate cannot compare by; before the call, give it the collation {BINARY}"
            )


def _check_time_zone(predicate: Expr, zone: str) -> None:
    """Timestamps are moments, and compare as such in every zone; what they are called is decided in UTC here."""
    if zone.removeprefix("Etc/").upper() in NAMES_OF_UTC:
        return
    for node in walk(predicate):
        literal = isinstance(node, Constant) and node.type.kind == "timestamp"
        kinds = {node.type.kind, node.arg.type.kind} if isinstance(node, Cast) else set()
        if literal or ("timestamp" in kinds and kinds & {"string", "date", "timestamp_ntz"}):
            raise ArgumentError(
                "on: the predicate turns timestamps into dates or texts, or the other way round, which is done in UTC, "
                f"and the session's time zone is {zone}; compute it as a column of the stream, or "
                'spark.conf.set("spark.sql.session.timeZone", "UTC")'
            )


def _partitions(partitions: Any, shuffle: int) -> int:
    if partitions is None:
        return min(shuffle, MOST_WORKERS)
    if isinstance(partitions, bool) or not hasattr(partitions, "__index__") or int(partitions) < 1:
        raise ArgumentError(f"partitions: {partitions!r} will not do; give a number of workers, 1 or more")
    if int(partitions) > shuffle:
        raise ArgumentError(
            f"partitions: {partitions} workers need as many shuffle partitions, and the session has {shuffle}; "
            f'spark.conf.set("spark.sql.shuffle.partitions", {partitions})'
        )
    return int(partitions)


def _routing(
    routing: Any, has_equality: bool, key: tuple[Side, RangeKey] | None, workers: int, needs_order: bool
) -> str:  # fmt: skip
    choose("routing", routing, get_args(Routing))
    if routing == "auto":
        many = workers > FEW_WORKERS and key is not None and key[1].bounded and not needs_order
        return "hash" if has_equality else "range" if many else "broadcast"
    if routing == "hash" and not has_equality:
        raise ArgumentError(
            "routing: 'hash' needs an equality between the two streams that every pair must meet, such as l.k = r.k, "
            "and the predicate has none; use 'auto'" + (", 'range'" if key is not None else "") + " or 'broadcast'"
        )
    if routing == "range" and key is None:
        raise ArgumentError(
            "routing: 'range' needs a band or a range that every pair must meet, such as l.x BETWEEN r.a AND r.b, over "
            "numbers that cannot overflow, and the predicate has none; use 'auto' or 'broadcast'"
        )
    return str(routing)
