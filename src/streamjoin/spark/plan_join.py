"""From the arguments of `stream_join` to a `JoinSpec`: every check that can be made before there is data."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql.pandas.types import to_arrow_type

from ..arguments import ignoring_case
from ..arrow.fields import readable
from ..arrow.tables import result_schema
from ..arrow.times import time_columns
from ..engine.options import check_options
from ..errors import ArgumentError, SchemaError
from ..predicate import Predicate, check_aliases, not_too_deep, plan_for
from ..predicate.analyse import make_plan
from ..predicate.canonical import canonical
from ..predicate.expr import Cast, Column, Constant, Expr, walk
from ..predicate.lower import lower
from ..predicate.render import render
from ..side import SIDES, Side
from ..window import TimeUnit, lateness_ticks
from .columns import sql_of
from .ended_queries import ended_joins
from .event_time import delays, usual_lateness
from .partitions import spread_workers
from .routing import choose_routing
from .session import check_session
from .spec import JoinSpec
from .unpack import LATE

BINARY = "UTF8_BINARY"
NAMES_OF_UTC = ("UTC", "GMT", "UCT", "ZULU", "Z", "UNIVERSAL", "+00:00", "UTC+0", "GMT+0", "GMT0", "GREENWICH")
MOST_WORKERS = 32
"""The number of workers if `partitions` is not given and the session has more shuffle partitions."""
_TIME_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
"""Timestamps travel in UTC in every time zone of the session. Older versions of PySpark do so without being told."""


def plan_join(
    left: Any, right: Any, *, on: Predicate | SparkColumn, window: Any, time: Any, lateness: Any, partitions: Any,
    routing: Any, how: Any, index: Any, aliases: Any, late: Any, cache_dir: str | None,
    match: Any = "all", null_time: Any = "error", suffix: Any = "_right", idle_timeout: Any = None,
) -> JoinSpec:  # fmt: skip
    """Check the arguments, and plan the join of two DataFrames."""
    session = _check_frames(left, right)
    if cache_dir is not None and not isinstance(cache_dir, str):
        raise ArgumentError(f"cache_dir: {cache_dir!r} is not valid; give a directory's path as a text")
    schemas: dict[Side, pa.Schema] = {"left": _arrow_schema(left, "left"), "right": _arrow_schema(right, "right")}
    if isinstance(on, SparkColumn):
        with not_too_deep():
            on = sql_of(on, {"left": left, "right": right}, check_aliases(aliases))
    if time is None:
        raise ArgumentError(
            "time: the Spark pipeline needs a time column, since the rows of a DataFrame have no other order; "
            'give its name, as in time="ts"'
        )
    case_sensitive = str(session.conf.get("spark.sql.caseSensitive")).lower() == "true"
    if not case_sensitive:
        time = _in_their_case(time, schemas)
    columns = time_columns(schemas["left"], schemas["right"], time)
    assert columns is not None
    delay_of = delays({"left": left, "right": right}, columns)
    with not_too_deep():
        given = plan_for(on, schemas["left"], schemas["right"], aliases, case_sensitive=case_sensitive)
        # What is stored where depends on the plan, so all spellings of a predicate must have the same one.
        plan = make_plan(canonical(given.predicate))
        lowered = lower(plan)
    _check_collations(plan.predicate, {"left": left, "right": right}, schemas)
    _check_time_zone(plan.predicate, str(session.conf.get("spark.sql.session.timeZone")))
    # The order of the right rows breaks ties between closest partners, so their positions must be known.
    order = "none" if match == "all" else "sorted"
    options = check_options(
        schemas["left"], schemas["right"], window=window, time=time,
        lateness=usual_lateness(delay_of) if lateness is None else lateness, how=how, match=match,
        algorithm="auto", index=index, workers=1, order=order, late=late, null_time=null_time,
        has_equality=bool(plan.equalities), has_order=lowered.has_order,
    )  # fmt: skip
    streaming = bool(left.isStreaming)
    shuffle = check_session(session, streaming)
    workers = spread_workers(_partitions(partitions, shuffle), shuffle)
    route = choose_routing(routing, lowered, schemas, len(workers), options.needs_order)
    spec = JoinSpec(
        lowered=lowered,
        schemas=schemas,
        result=result_schema(schemas["left"], schemas["right"], how, suffix),
        options=options,
        workers=workers,
        routing=route.routing,
        bounded=not streaming,
        range_key=route.key,
        block_size=route.block_size,
        why=route.why,
        on=render(plan.predicate),
        spellings=(render(given.predicate),) if replace(given, predicate=plan.predicate) == plan else (),
        cache_directory=cache_dir,
        ended=ended_joins(),
        idle_timeout=_idle_ticks(idle_timeout, columns.unit),
        lateness_declared=lateness is not None or bool(delay_of),
    )
    if not case_sensitive:
        _check_names(spec.result.names)
    if LATE in spec.result.names and spec.keeps_late:
        raise ArgumentError(f"late: the result would have two columns {LATE!r}; rename the stream's own")
    return spec


def _check_frames(left: Any, right: Any) -> Any:
    """The session of two DataFrames, which must have it in common, and must both be streams or both not."""
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
            fields.append(pa.field(field.name, _with_nulls(to_arrow_type(field.dataType, **_TIME_ZONE))))
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


def _with_nulls(type_: pa.DataType) -> pa.DataType:
    """A type whose structs may have NULL in each field: where a struct itself is NULL, its fields are too."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _with_nulls(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_with_nulls(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(type_.key_field, type_.item_field.with_type(_with_nulls(type_.item_type)))
    return type_


def _idle_ticks(idle_timeout: Any, unit: TimeUnit) -> int | None:
    if idle_timeout is None:
        return None
    idle = lateness_ticks(idle_timeout, unit, "idle_timeout")
    if not idle:
        raise ArgumentError(
            f'idle_timeout: {idle_timeout!r} is not valid; give a duration such as "10 minutes", by which a stream may '
            "be behind the other one before time moves on without it"
        )
    return idle


def _in_their_case(time: Any, schemas: dict[Side, pa.Schema]) -> Any:
    """The names of the time columns as the streams spell them, where each has one that differs in case only."""
    names = (time, time) if isinstance(time, str) else time
    if not isinstance(names, (tuple, list)) or len(names) != len(SIDES):
        return time
    alike = [ignoring_case(name, schemas[side].names) for side, name in zip(SIDES, names, strict=True)]
    return tuple(found[0] if len(found) == 1 else name for found, name in zip(alike, names, strict=True))


def _check_names(names: list[str]) -> None:
    """Spark must be able to tell the result's columns apart; usually it ignores upper and lower case."""
    folded = [name.lower() for name in names]
    for name in names:
        if folded.count(name.lower()) > 1:
            alike = " and ".join(repr(other) for other in names if other.lower() == name.lower())
            raise ArgumentError(f"right: the result would have the columns {alike}, which are one to Spark; rename one")


def _check_collations(predicate: Expr, frames: dict[Side, Any], schemas: dict[Side, pa.Schema]) -> None:
    """The join compares texts byte by byte. A collation by which Spark would compare them otherwise is refused."""
    for column in (node for node in walk(predicate) if isinstance(node, Column)):
        assert column.side is not None
        found = readable(schemas[column.side])[column.name]
        type_ = frames[column.side].schema.fields[found.place].dataType
        for part in found.path:
            type_ = type_[part].dataType
        collation = getattr(type_, "collation", BINARY)
        if collation != BINARY:
            raise SchemaError(
                f"on: column {column.name!r} of the {column.side} stream has the collation {collation}, which the "
                f"predicate cannot compare by; before the call, give it the collation {BINARY}"
            )


def _check_time_zone(predicate: Expr, zone: str) -> None:
    """Timestamps compare alike in every zone. Their dates and texts do not: the join takes those of UTC."""
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
        raise ArgumentError(f"partitions: {partitions!r} is not valid; give a number of workers, 1 or more")
    if int(partitions) > shuffle:
        raise ArgumentError(
            f"partitions: {partitions} workers need as many shuffle partitions, and the session has {shuffle}; "
            f'spark.conf.set("spark.sql.shuffle.partitions", {partitions})'
        )
    return int(partitions)
