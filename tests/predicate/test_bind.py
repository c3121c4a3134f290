"""Binding: which types meet, what folds, and what a user reads when a predicate cannot be typed."""

from __future__ import annotations

import re

import pytest

from streamjoin.errors import PredicateError
from streamjoin.predicate.bind import MAX_DEPTH, bind
from streamjoin.predicate.expr import FALSE, TRUE, UNKNOWN, Call, Cast, Column, Constant, Expr, children, walk
from streamjoin.predicate.reading.sql import parse_sql
from streamjoin.predicate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
    common_type,
)

D5, D38 = Type("decimal", 5, 2), Type("decimal", 38, 10)
NS = Type("timestamp_ntz", unit="ns")
LEFT = {"x": INT, "big": BIGINT, "f": FLOAT, "d": DOUBLE, "m": D5, "s": STRING, "day": DATE, "ts": TIMESTAMP}
LEFT_TOO = {**LEFT, "blob": None}
RIGHT = {"y": INT, "g": DOUBLE, "w": D38, "t": STRING, "on": BOOLEAN, "day": DATE, "tn": TIMESTAMP_NTZ, "ns": NS}


def bound(sql: str) -> Expr:
    return bind(parse_sql(sql), LEFT_TOO, RIGHT)


def operand_types(sql: str) -> tuple[str, str]:
    expr = bound(sql)
    assert isinstance(expr, Call)
    return str(expr.args[0].type), str(expr.args[1].type)


@pytest.mark.parametrize(
    ("sql", "left", "right"),
    [
        ("l.x < r.y", "int", "int"),
        ("l.big = r.y", "bigint", "bigint"),
        ("l.x = r.g", "double", "double"),
        ("l.f = r.y", "float", "float"),
        ("l.f = r.g", "double", "double"),
        ("l.m < r.y", "decimal(5,2)", "int"),  # exact as they are
        ("l.m < r.w", "decimal(5,2)", "decimal(38,10)"),
        ("l.m * 1.000000000000 < r.w * 10000000000000000", "decimal(38,6)", "decimal(38,6)"),  # 38 digits: rounded
        ("l.m = r.g", "double", "double"),
        ("l.day = r.tn", "timestamp_ntz", "timestamp_ntz"),
        ("l.ts = r.tn", "timestamp", "timestamp"),
        ("l.ts = r.ns", "timestamp(9)", "timestamp(9)"),
        ("l.ts - r.ns < INTERVAL 1 DAY", "interval(9)", "interval(9)"),
        ("l.s >= r.t", "string", "string"),
        ("floor(l.x) = r.y", "bigint", "bigint"),
    ],
)
def test_operands_of_comparisons_meet_as_in_spark(sql: str, left: str, right: str) -> None:
    assert operand_types(sql) == (left, right)


def test_every_comparison_in_a_bound_tree_is_of_one_kind() -> None:
    sql = "l.x IN (1, 2.5, r.g) OR l.m BETWEEN r.y AND 7L OR CASE l.day WHEN r.tn THEN l.f END > least(r.y, r.w)"
    for node in walk(bound(sql)):
        if isinstance(node, Call) and node.op in ("eq", "le", "ge", "gt"):
            a, b = (child.type for child in children(node))
            exact = {a.kind, b.kind} <= {"int", "bigint", "decimal"}
            assert a == b or exact, node


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "l.x = r.y AND 1 + 1 = 2",
            Call("eq", (Column("x", None, "left", INT), Column("y", None, "right", INT)), BOOLEAN),
        ),
        ("l.x = r.y AND 1 > 2", FALSE),
        ("l.x = r.y OR TRUE", TRUE),
        ("TRUE", TRUE),
        ("NULL", UNKNOWN),
        ("1 = NULL", UNKNOWN),
    ],
)
def test_constants_fold(sql: str, expected: Expr) -> None:
    assert bound(sql) == expected


def test_text_beside_a_date_or_timestamp_is_read() -> None:
    assert bound("l.day > '1970-01-03' AND r.on").args[0].args[1] == Constant(2, DATE)
    assert bound("l.ts > '1970-01-01 00:00:01' AND r.on").args[0].args[1] == Constant(1_000_000, TIMESTAMP)
    assert bound("r.ns > '1970-01-01 00:00:01' AND l.x > 1").args[0].args[1] == Constant(10**9, NS)


def test_a_computed_integer_has_all_its_digits_beside_a_decimal() -> None:
    assert operand_types("l.m * 2 = r.w")[0] == "decimal(7,2)"
    assert operand_types("l.m * (1 + 1) = r.w")[0] == "decimal(16,2)"
    assert operand_types("l.m * l.x = r.w")[0] == "decimal(16,2)"


def test_columns_get_their_side() -> None:
    assert bound("x = y") == bound("l.x = r.y")
    renamed = bind(parse_sql("trades.x = quotes.y"), LEFT, RIGHT, ("trades", "quotes"))
    assert renamed == bound("l.x = r.y")
    dotted = bind(parse_sql("a.b = r.y"), {"a.b": INT}, RIGHT)
    assert isinstance(dotted, Call)
    assert dotted.args[0] == Column("a.b", None, "left", INT)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("l.z = r.y", "unknown column 'z'; the left stream has: x, big, f, d, m, s, day, ts, blob"),
        ("l.bgi = r.y", "unknown column 'bgi' (did you mean 'big'?)"),
        ("day = r.day", "column 'day' is ambiguous, both streams have it; write l.day or r.day"),
        ("q.x = r.y", "unknown stream 'q' in q.x; the streams are called 'l' and 'r' (aliases= renames them)"),
        ("l.blob = r.y", "column 'blob' of the left stream has a type that a predicate cannot read"),
        ("l.x + r.y", "is of type int; a join condition must be boolean"),
        ("l.x > 1", "reads only the left stream; a join condition compares both"),
        ("l.s = r.y", "text is compared with text only; use CAST"),
        ("r.on = l.x", "compare values of one kind, or use CAST"),
        ("l.s + 1 = r.y", "it takes numbers; use CAST to read text as a number, concat() to join text"),
        ("l.x AND r.on", "AND does not apply to 'l.x' (int); its operands must be conditions"),
        ("NOT l.x OR r.on", "its operands must be conditions"),
        ("l.d DIV r.y = 1", "DIV takes whole numbers or decimals; use /"),
        ("l.ts + r.tn = l.ts", "such as l.ts + INTERVAL 5 SECONDS"),
        ("l.ts * 2 = r.tn", "such as l.ts + INTERVAL 5 SECONDS"),
        ("CAST(l.day AS int) = r.y", "cannot cast 'l.day' from date to int"),
        (
            "coalesce(l.x, r.t) = 1",
            "COALESCE does not apply to 'l.x' (int) and 'r.t' (string); its values must be of one kind",
        ),
        ("CASE WHEN l.x THEN r.on ELSE FALSE END", "WHEN does not apply to 'l.x' (int); a condition is needed"),
        ("l.day = '31.01.2026' AND r.on", "'31.01.2026' is not a date; write it like '2026-01-31'"),
        ("r.tn = 'noon' AND l.x = r.y", "'noon' is not a timestamp_ntz; write it like '2026-01-31 12:30:00'"),
        ("sqrt(l.s) = r.g", "SQRT does not apply to 'l.s' (string); it takes numbers"),
        ("length(l.x) = r.y", "it takes text; use CAST(... AS string)"),
        ("substring(l.s, 1.5) = r.t", "its position and length are whole numbers"),
        ("abs(l.s) = r.y", "ABS does not apply to 'l.s' (string); it takes a number"),
        ("floor(l.day) = r.y", "it takes a number"),
    ],
)
def test_messages_say_what_is_wrong_and_what_would_do(sql: str, message: str) -> None:
    with pytest.raises(PredicateError, match=re.escape(message)):
        bound(sql)


def test_size_limits() -> None:
    deep: Expr = Column("x", "l")
    for _ in range(MAX_DEPTH + 1):
        deep = Cast(Call("neg", (deep,)), INT)
    with pytest.raises(PredicateError, match="nested too deeply"):
        bind(Call("eq", (deep, Column("y", "r"))), LEFT, RIGHT)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Type("decimal", 20, 0), D38, D38),
        (Type("decimal", 38, 0), D38, Type("decimal", 38, 0)),
        (Type("decimal", 30, 2), D38, Type("decimal", 38, 10)),
        (BIGINT, FLOAT, FLOAT),
        (D5, FLOAT, DOUBLE),
        (DATE, TIMESTAMP, TIMESTAMP),
        (STRING, INT, None),
        (BOOLEAN, INT, None),
        (DATE, INT, None),
    ],
)
def test_common_types(a: Type, b: Type, expected: Type | None) -> None:
    assert common_type(a, b) == common_type(b, a) == expected
