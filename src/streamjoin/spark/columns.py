"""Conditions that are columns of PySpark, as the SQL text that says the same.

A column such as `F.col("l.x")` names its stream, as SQL does. One such as `trades.x` belongs to a DataFrame, which must
be one of the two that are joined. On a Connect server a column is made of Python objects, otherwise of the JVM's.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import types as spark_types

from ..errors import PredicateError
from ..side import SIDES, Side

_INFIX = {"==": "=", "=": "=", "!=": "<>", "%": "%", "like": "LIKE", **{op: op for op in ("<=>", "<", "<=", ">", ">=")}}
_INFIX |= {op: op for op in ("+", "-", "*", "/")}
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_SAME_COLUMNS = ("Filter", "SubqueryAlias", "WithWatermark")
"""Steps of a Connect plan whose result has the columns of its input."""
_EPOCH = dt.datetime(1970, 1, 1)


def sql_of(column: Any, frames: Mapping[Side, Any], names: Sequence[str]) -> str:
    """The condition as SQL text, in which the streams have these names."""
    if hasattr(column, "_jc"):
        return _Classic(frames, names).sql(column._jc.node())
    return _Connect(frames, names).sql(column._expr)


class _Reader(ABC):
    """Writes a tree of some kind of nodes as SQL."""

    def __init__(self, frames: Mapping[Side, Any], names: Sequence[str]) -> None:
        self._frames = frames
        self._name_of = dict(zip(SIDES, names, strict=True))

    @abstractmethod
    def function(self, node: Any) -> tuple[str, Sequence[Any]] | None:
        """The name and the arguments of a node that is a function or an operator."""

    @abstractmethod
    def other(self, node: Any) -> str:
        """Any other node as SQL."""

    def sql(self, node: Any) -> str:
        found = self.function(node)
        return self.other(node) if found is None else self._call(*found)

    def _call(self, name: str, nodes: Sequence[Any]) -> str:
        low = name.lower()
        if low in ("and", "or"):
            return f"({f' {low.upper()} '.join(self._chain(low, nodes))})"
        args = [self.sql(node) for node in nodes]
        if low in _INFIX and len(args) == 2:
            return f"({args[0]} {_INFIX[low]} {args[1]})"
        if low in ("not", "!"):
            return f"(NOT {args[0]})"
        if low == "negative":
            return f"(- {args[0]})"
        if low == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if low == "when":
            return self._case(args)
        return f"{name}({', '.join(args)})"

    def _chain(self, name: str, nodes: Sequence[Any]) -> list[str]:
        """The conditions of a long AND or OR, which nests deeply where Python's operators have built it."""
        waiting, found = list(reversed(nodes)), []
        while waiting:
            node = waiting.pop()
            inner = self.function(node)
            if inner is not None and inner[0].lower() == name:
                waiting.extend(reversed(inner[1]))
            else:
                found.append(self.sql(node))
        return found

    def _case(self, args: Sequence[str]) -> str:
        branches = [f"WHEN {when} THEN {then}" for when, then in zip(args[::2], args[1::2], strict=False)]
        return f"CASE {' '.join(branches)}{f' ELSE {args[-1]}' if len(args) % 2 else ''} END"

    def of_side(self, sides: Sequence[Side], name: str) -> str:
        """A column that belongs to DataFrames."""
        if len(sides) == 1:
            return f"{quoted(self._name_of[sides[0]])}.{name}"
        whose = "both DataFrames" if sides else "neither of the two DataFrames"
        example = quoted_for_col(self._name_of["left"], name)
        raise PredicateError(
            f"on: the column {name} belongs to {whose}; name its stream, as in F.col({example!r}), or write SQL text"
        )

    def refused(self, what: str) -> PredicateError:
        return PredicateError(
            f"on: a Column of PySpark with {what} cannot be read; write the condition as SQL text, or with "
            "streamjoin.col, which has the same operators"
        )


class _Connect(_Reader):
    """Expressions of the Connect client."""

    def function(self, node: Any) -> tuple[str, Sequence[Any]] | None:
        kind = type(node).__name__
        if kind == "UnresolvedFunction" and not node._is_distinct:
            return node._name, node._args
        if kind == "CaseWhen":
            return "when", node.children
        return None

    def other(self, node: Any) -> str:
        kind = type(node).__name__
        if kind == "ColumnReference":
            name = _path(node._unparsed_identifier)
            if node._plan_id is None:
                return name
            return self.of_side([side for side in SIDES if node._plan_id in _plans(self._frames[side]._plan)], name)
        if kind == "LiteralExpression":
            return literal(_from_internal(node._value, node._dataType))
        if kind == "CastExpression":
            type_ = node._data_type
            name = type_ if isinstance(type_, str) else type_.simpleString()
            return f"{'TRY_CAST' if node._eval_mode == 'try' else 'CAST'}({self.sql(node._expr)} AS {name})"
        if kind == "UnresolvedExtractValue" and isinstance(getattr(node._extraction, "_value", None), str):
            return f"{self.sql(node._child)}.{quoted(node._extraction._value)}"
        if kind == "ColumnAlias":
            return self.sql(node._child)
        if kind == "SQLExpression":
            return f"({node._expr})"
        raise self.refused(kind)


class _Classic(_Reader):
    """Nodes of columns in the JVM: those that API functions make, and expressions that belong to a DataFrame."""

    def function(self, node: Any) -> tuple[str, Sequence[Any]] | None:
        kind = _kind(node)
        if kind == "UnresolvedFunction" and not node.isDistinct():
            return node.functionName(), _sequence(node.arguments())
        if kind == "CaseWhenOtherwise":
            args = [part for pair in _sequence(node.branches()) for part in (pair._1(), pair._2())]
            last = node.otherwise()
            return "when", [*args, last.get()] if last.isDefined() else args
        return None

    def other(self, node: Any) -> str:
        kind = _kind(node)
        if kind == "UnresolvedAttribute":
            return ".".join(map(quoted, _sequence(node.nameParts())))
        if kind == "AttributeReference":
            id_ = node.exprId().id()
            return self.of_side([side for side in SIDES if id_ in self._ids(side)], quoted(node.name()))
        if kind == "GetStructField":
            return f"{self.sql(node.child())}.{quoted(node.extractFieldName())}"
        if kind == "Literal":
            return literal(_from_java(node.value()))
        if kind == "Cast":
            cast = "TRY_CAST" if node.sql().startswith("TRY") else "CAST"
            return f"{cast}({self.sql(node.child())} AS {node.dataType().sql()})"
        if kind == "UnresolvedExtractValue" and isinstance(name := node.extraction().value(), str):
            return f"{self.sql(node.child())}.{quoted(name)}"
        if kind == "Alias":
            return self.sql(node.child())
        if kind == "ExpressionColumnNode":
            return self.sql(node.expression())
        if kind == "SqlExpression":
            return f"({node.expression()})"
        raise self.refused(kind)

    def _ids(self, side: Side) -> set[int]:
        return {one.exprId().id() for one in _sequence(self._frames[side]._jdf.queryExecution().analyzed().output())}


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _sequence(values: Any) -> list[Any]:
    return [values.apply(number) for number in range(values.size())]


def _plans(plan: Any) -> set[int]:
    """The numbers of a DataFrame's plan, and of those before it that have the same columns."""
    found = {plan._plan_id}
    while type(plan).__name__ in _SAME_COLUMNS and plan._child is not None:
        plan = plan._child
        found.add(plan._plan_id)
    return found


def _path(identifier: str) -> str:
    """A name as Spark reads it, with each part in backticks."""
    return ".".join(quoted((tick or plain).replace("``", "`")) for tick, plain in _PART.findall(identifier))


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def quoted_for_col(stream: str, name: str) -> str:
    """A column of a stream as one would write it, if its name is plain."""
    plain = name.strip("`")
    return f"{stream}.{plain if plain.isidentifier() else name}"


def _from_java(value: Any) -> Any:
    """A value as it was given: dates and times come as objects of the JVM."""
    kind = _kind(value) if hasattr(value, "getClass") else None
    if kind == "Timestamp":
        seconds = dt.timedelta(seconds=value.getTime() // 1000, microseconds=value.getNanos() // 1000)
        return (_EPOCH + seconds).replace(tzinfo=dt.UTC)
    if kind == "Date":
        return dt.date.fromisoformat(value.toString())
    if kind == "Duration":
        return dt.timedelta(seconds=value.getSeconds(), microseconds=value.getNano() // 1000)
    return value


def _from_internal(value: Any, type_: Any) -> Any:
    """A value as it was given: a Connect client keeps times as numbers."""
    if value is None:
        return None
    if isinstance(type_, spark_types.DateType):
        return (_EPOCH + dt.timedelta(days=value)).date()
    if isinstance(type_, spark_types.TimestampNTZType | spark_types.TimestampType):
        moment = _EPOCH + dt.timedelta(microseconds=value)
        return moment if isinstance(type_, spark_types.TimestampNTZType) else moment.replace(tzinfo=dt.UTC)
    if isinstance(type_, spark_types.DayTimeIntervalType):
        return dt.timedelta(microseconds=value)
    return value


def literal(value: Any) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, float):
        return f"({value!r}D)" if math.isfinite(value) else f"CAST('{value!r}' AS double)"
    if isinstance(value, int):
        return f"({value})"
    if isinstance(value, decimal.Decimal):
        return f"({value:f}BD)"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{kind} '{value.replace(tzinfo=None).isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        return f"INTERVAL '{value // dt.timedelta(microseconds=1)}' MICROSECOND"
    raise PredicateError(
        f"on: a Column of PySpark with a value of {type(value).__name__} cannot be read; write SQL text"
    )
