"""SQL text -> unbound tree: each form, and each refusal."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.errors import PredicateError
from streamjoin.predicate.expr import FALSE, OPERATORS, TRUE, UNKNOWN, Call, Cast, Column, Constant, walk
from streamjoin.predicate.reading.sql import parse_sql
from streamjoin.predicate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
)

A, B, C = Column("a"), Column("b"), Column("c")
MISSING = Constant(None, NULL)


def call(op, *args):
    return Call(op, args, BOOLEAN if op in ("and", "or") else NULL)


def num(value):
    return Constant(value, INT)


def text(value):
    return Constant(value, STRING)


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("l.x", Column("x", "l")), ("x", Column("x")), ("`l`.`a b`", Column("a b", "l")),
        ("l.`x.y`", Column("x.y", "l")),
        ("`x``y`", Column("x`y")), ("l.date", Column("date", "l")), ("comment", Column("comment")),
        ("L.X", Column("X", "L")),
        ("((a))", A), ("a -- note", A), ("/* note */ a", A), ("a;", A),
    ],
)  # fmt: skip
def test_columns(sql, column):
    assert parse_sql(sql) == column


@pytest.mark.parametrize(
    ("sql", "value", "type_"),
    [
        ("1", 1, INT), ("2147483647", 2**31 - 1, INT), ("2147483648", 2**31, BIGINT), ("-2147483648", -(2**31), INT),
        ("-9223372036854775808", -(2**63), BIGINT), ("9223372036854775808", 2**63, Type("decimal", 19, 0)),
        ("+1", 1, INT), ("- -1", 1, INT), ("10.5", 105, Type("decimal", 3, 1)), ("10.", 10, Type("decimal", 2, 0)),
        (".5", 5, Type("decimal", 1, 1)), ("-0.05", -5, Type("decimal", 2, 2)), ("1e3", 1000.0, DOUBLE),
        ("-1.5e-3", -0.0015, DOUBLE), ("5D", 5.0, DOUBLE), ("0.1F", 0.10000000149011612, FLOAT), ("5L", 5, BIGINT),
        ("-5L", -5, BIGINT), ("5S", 5, SMALLINT), ("5Y", 5, TINYINT), ("5BD", 5, Type("decimal", 1, 0)),
        ("5.50BD", 550, Type("decimal", 3, 2)), ("'abc'", "abc", STRING), ('"abc"', "abc", STRING),
        ("'it''s'", "it's", STRING), ("'it' 's'", "its", STRING), (r"'a\nb'", "a\nb", STRING),
        (r"r'a\nb'", r"a\nb", STRING),
        ("''", "", STRING), ("TRUE", True, BOOLEAN), ("false", False, BOOLEAN), ("NULL", None, NULL),
        ("DATE '1970-01-03'", 2, DATE), ("TIMESTAMP '1970-01-01 00:00:01'", 1_000_000, TIMESTAMP),
        ("TIMESTAMP '1970-01-01 01:00:00+01:00'", 0, TIMESTAMP),
        ("TIMESTAMP_NTZ '1970-01-01 00:00:00.5'", 500_000, TIMESTAMP_NTZ),
        ("TIMESTAMP '1970-01-01 00:00:00.000000001'", 1, Type("timestamp", unit="ns")),
    ],
)  # fmt: skip
def test_literals(sql, value, type_):
    assert parse_sql(sql) == Constant(value, type_)


@pytest.mark.parametrize(
    ("sql", "micros"),
    [
        ("INTERVAL 5 SECONDS", 5_000_000), ("INTERVAL '5' SECOND", 5_000_000), ("INTERVAL '5 seconds'", 5_000_000),
        ("INTERVAL '1 hour 30 minutes'", 5_400_000_000), ("INTERVAL '1 02:03:04' DAY TO SECOND", 93_784_000_000),
        ("INTERVAL '-1 02:00' DAY TO MINUTE", -93_600_000_000), ("INTERVAL '01:02.5' MINUTE TO SECOND", 62_500_000),
        ("INTERVAL -5 SECOND", -5_000_000), ("INTERVAL '-5' SECOND", -5_000_000), ("- INTERVAL 5 SECOND", -5_000_000),
        ("INTERVAL 1.5 SECONDS", 1_500_000), ("INTERVAL 2 WEEKS", 1_209_600_000_000), ("INTERVAL 3 MILLISECONDS", 3000),
        ("INTERVAL '1 day -1 hour'", 82_800_000_000), ("INTERVAL (5) SECONDS", 5_000_000),
        ("INTERVAL 7 microseconds", 7),
    ],
)  # fmt: skip
def test_intervals(sql, micros):
    assert parse_sql(sql) == Constant(micros, INTERVAL)


def test_nanosecond_interval():
    assert parse_sql("INTERVAL 1500 NANOSECONDS") == Constant(1500, Type("interval", unit="ns"))
    assert parse_sql("INTERVAL 2000 NANOSECONDS") == Constant(2, INTERVAL)


@pytest.mark.parametrize(
    ("sql", "tree"),
    [
        ("a = b", call("eq", A, B)), ("a == b", call("eq", A, B)), ("a <> b", call("ne", A, B)),
        ("a != b", call("ne", A, B)), ("a < b", call("lt", A, B)), ("a <= b", call("le", A, B)),
        ("a > b", call("gt", A, B)), ("a >= b", call("ge", A, B)),
        ("a + b", call("add", A, B)), ("a - b", call("sub", A, B)), ("a * b", call("mul", A, B)),
        ("a / b", call("div", A, B)), ("a % b", call("rem", A, B)), ("MOD(a, b)", call("rem", A, B)),
        ("a DIV b", call("intdiv", A, B)), ("-a", call("neg", A)), ("a + b * c", call("add", A, call("mul", B, C))),
        ("(a + b) * c", call("mul", call("add", A, B), C)), ("a - b - c", call("sub", call("sub", A, B), C)),
        ("a AND b AND c", call("and", A, B, C)), ("a OR (b OR c)", call("or", A, B, C)),
        ("a AND b OR c", call("or", call("and", A, B), C)), ("NOT a", call("not", A)), ("!a", call("not", A)),
        ("NOT a = b", call("not", call("eq", A, B))), ("a AND TRUE", A), ("a AND a", A),
        ("a OR TRUE", call("or", A, TRUE)),
        ("a BETWEEN b AND c", call("and", call("ge", A, B), call("le", A, C))),
        ("a NOT BETWEEN b AND c", call("not", call("and", call("ge", A, B), call("le", A, C)))),
        ("a IN (1, 2, 2)", call("in", A, num(1), num(2))), ("a IN (1)", call("eq", A, num(1))),
        ("a IN (-1, 2)", call("in", A, num(-1), num(2))),
        ("a NOT IN (1, 2)", call("not", call("in", A, num(1), num(2)))),
        ("a IN (1, 2, NULL)", call("or", call("in", A, num(1), num(2)), UNKNOWN)),
        ("a NOT IN (1, NULL)", call("not", call("or", call("eq", A, num(1)), UNKNOWN))), ("a IN (NULL)", UNKNOWN),
        ("a IN (1, b)", call("or", call("eq", A, num(1)), call("eq", A, B))),
        ("a IS NULL", call("isnull", A)), ("a IS NOT NULL", call("not", call("isnull", A))),
        ("a IS UNKNOWN", call("isnull", A)), ("ISNULL(a)", call("isnull", A)),
        ("ISNOTNULL(a)", call("not", call("isnull", A))), ("ISNAN(a)", call("isnan", A)),
        ("a IS TRUE", call("coalesce", A, FALSE)), ("a IS FALSE", call("coalesce", call("not", A), FALSE)),
        ("a IS NOT TRUE", call("not", call("coalesce", A, FALSE))),
        ("a IS NOT FALSE", call("not", call("coalesce", call("not", A), FALSE))),
        ("CASE WHEN a THEN b END", call("case", A, B, MISSING)),
        ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE c END", call("case", A, num(1), B, num(2), C)),
        ("CASE a WHEN 1 THEN b ELSE c END", call("case", call("eq", A, num(1)), B, C)),
        ("IF(a, b, c)", call("case", A, B, C)), ("NULLIF(a, b)", call("case", call("eq", A, B), MISSING, A)),
        ("NVL(a, b)", call("coalesce", A, B)), ("IFNULL(a, b)", call("coalesce", A, B)),
        ("COALESCE(a, b, c)", call("coalesce", A, B, C)), ("LEAST(a, b)", call("least", A, B)),
        ("GREATEST(a, b, c)", call("greatest", A, B, C)), ("POW(a, b)", call("power", A, B)),
        ("power(a, b)", call("power", A, B)), ("atan2(a, b)", call("atan2", A, B)), ("CEILING(a)", call("ceil", A)),
        ("LOG(a)", call("ln", A)), ("CHAR_LENGTH(a)", call("length", A)),
        ("SUBSTR(a, 1)", call("substring", A, num(1))),
        ("SUBSTRING(a, 1, 2)", call("substring", A, num(1), num(2))),
        ("SUBSTRING(a FROM 1 FOR 2)", call("substring", A, num(1), num(2))),
        ("CONCAT(a, b)", call("concat", A, B)), ("a || b", call("concat", A, B)),
        ("a LIKE 'x%'", call("like", A, text("x%"))), ("a NOT LIKE 'x%'", call("not", call("like", A, text("x%")))),
        (r"a LIKE 'x\_%'", call("like", A, text(r"x\_%"))), ("STARTSWITH(a, 'x')", call("startswith", A, text("x"))),
        ("ENDSWITH(a, 'x')", call("endswith", A, text("x"))), ("CONTAINS(a, 'x')", call("contains", A, text("x"))),
        *((f"{name}(a)", call(name.lower(), A)) for name in (
            "ABS", "SQRT", "EXP", "LN", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "RADIANS", "DEGREES", "FLOOR",
            "CEIL", "LENGTH", "UPPER", "LOWER", "TRIM")),
        ("a + INTERVAL 1 SECOND", call("add", A, Constant(1_000_000, INTERVAL))),
        ("-(a)", call("neg", A)), ("a < b < c", call("lt", call("lt", A, B), C)),
    ],
)  # fmt: skip
def test_forms(sql, tree):
    parsed = parse_sql(sql)
    assert parsed == tree
    assert all(node.op in OPERATORS for node in walk(parsed) if isinstance(node, Call))


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("CAST(a AS INT)", INT), ("TRY_CAST(a AS BIGINT)", BIGINT), ("a::double", DOUBLE), ("CAST(a AS LONG)", BIGINT),
        ("CAST(a AS DECIMAL(10, 2))", Type("decimal", 10, 2)), ("CAST(a AS VARCHAR(9))", STRING),
        ("CAST(a AS TIMESTAMP_NTZ)", TIMESTAMP_NTZ), ("CAST(a AS TIMESTAMP_LTZ)", TIMESTAMP), ("int(a)", INT),
        ("bigint(a)", BIGINT), ("double(a)", DOUBLE), ("string(a)", STRING), ("date(a)", DATE),
        ("timestamp(a)", TIMESTAMP),
        ("boolean(a)", BOOLEAN), ("smallint(a)", SMALLINT), ("decimal(a)", Type("decimal", 10, 0)),
    ],
)  # fmt: skip
def test_casts(sql, type_):
    assert parse_sql(sql) == Cast(A, type_)


def test_casts_of_literals_that_compute_stay():
    assert parse_sql("CAST('5.555' AS DECIMAL(3, 2))") == Cast(text("5.555"), Type("decimal", 3, 2))
    assert parse_sql("CAST('x' AS DATE)") == Cast(text("x"), DATE)
    assert parse_sql("CAST(5.7 AS INT)") == Cast(Constant(57, Type("decimal", 2, 1)), INT)


def test_null_safe_equality_is_never_null():
    null_a, null_b = call("isnull", A), call("isnull", B)
    equal = call("and", call("eq", A, B), call("not", null_a), call("not", null_b))
    same = call("or", equal, call("and", null_a, null_b))
    assert parse_sql("a <=> b") == parse_sql("a IS NOT DISTINCT FROM b") == same
    assert parse_sql("a IS DISTINCT FROM b") == call("not", same)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("", "empty"), ("   ", "empty"), ("-- nothing", "empty"), ("sum(a) > 1", "aggregate"),
        ("count(*) > 1", "aggregate"),
        ("row_number() OVER () = 1", "window function"), ("sum(a) OVER (PARTITION BY b) > 1", "window function"),
        ("(SELECT 1) = a", "subquery"), ("a IN (SELECT 1)", "subquery"), ("EXISTS (SELECT 1)", "subquery"),
        ("a = ANY (SELECT 1)", "subquery"), ("*", "column"), ("l.* = 1", "column"), ("a = ?", "parameter"),
        ("a = :p", "parameter"), ("a = 1; b = 2", "several statements"), ("SELECT a FROM t", "statement"),
        ("CREATE TABLE t (a INT)", "statement"), ("INSERT INTO t VALUES (1)", "statement"),
        ("DROP TABLE t", "statement"),
        ("WITH t AS (SELECT 1) SELECT 2", "statement"), ("foo(a) = 1", "unknown function FOO"),
        ("foo(a) = 1", "there are: abs"),
        ("ROUND(a) = 1", "unknown function ROUND"), ("rand() < 0.5", "unknown function RAND"),
        ("LTRIM(a) = b", "LTRIM"),
        ("a b", "near 'b'"), ("a >", "cannot read"), ("(a > 1", "cannot read"), ("a > 1)", "cannot read"),
        ("a = 'x", "cannot read"), ("a AS b", "cannot read"),
        ("a IN ()", "IN (1, 2, 3)"),
        ("a IN b", "IN (1, 2, 3)"), ("a BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC"), ("a LIKE b", "text literal"),
        ("a LIKE ANY ('x', 'y')", "text literal"), ("a LIKE 'x' ESCAPE '!'", "Escape"),
        ("(a, b) = (1, 2)", "one by one"),
        ("a & b", "not supported"), ("a[1]", "not supported"), ("a[2.5] = 1", "not supported"),
        ("a -> b[1e3]", "on: "), ("ABS(a, b)", "cannot read"), ("FLOOR(a, 1)", "takes 1"),
        ("IF(a, b)", "takes 3"), ("LEAST(a)", "2 or more"), ("CAST(a AS ARRAY<INT>)", "unknown type"),
        ("a IS b", "IS takes"),
        ("a < INTERVAL 2 MONTHS", "fixed length"), ("a < INTERVAL '1-2' YEAR TO MONTH", "fixed length"),
        ("a < INTERVAL 5 FORTNIGHTS", "cannot read"), ("a < INTERVAL b SECONDS", "literal amounts"),
        ("a < INTERVAL '1'", "cannot read"), ("a < INTERVAL '1 25:00' DAY TO MINUTE", "cannot read"),
        ("a < INTERVAL 99999999999999 DAYS", "too long"), ("DATE '2026-02-30' = a", "no date"),
        ("DATE 'x' = a", "no date"),
        ("TIMESTAMP 'x' = a", "no timestamp"), ("TIMESTAMP_NTZ '2026-01-01 00:00:00Z' = a", "no timestamp_ntz"),
        (". 2.5 = a", "no number"), ("1e999 > a", "does not fit double"), ("1e99F > a", "does not fit float"),
        ("300Y = a", "does not fit tinyint"),
        ("1" * 50 + " = a", "digits"), ("1" * 5000 + " = a", "digits"),
        ("a = b BETWEEN 1 AND 2", "parentheses"), ("a = b IN (1, 2)", "parentheses"), ("a = b < c", "parentheses"),
        ("a BETWEEN 1 AND b = 2", "parentheses"),
    ],
)  # fmt: skip
def test_refusals(sql, words, caplog, capfd):
    with pytest.raises(PredicateError) as caught:
        parse_sql(sql)
    message = str(caught.value)
    assert message.startswith("on: ")
    assert words in message
    assert len(message) < 1000
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_long_text_is_refused_at_once():
    start = time.perf_counter()
    with pytest.raises(PredicateError, match="1,000,008 characters"):
        parse_sql("a" * 1_000_001 + " = true")
    assert time.perf_counter() - start < 0.1


def test_long_chains_are_flat():
    long = parse_sql(" AND ".join(f"l.x > {i}" for i in range(3_000)))
    assert isinstance(long, Call)
    assert (long.op, len(long.args)) == ("and", 3_000)
    assert parse_sql(" AND ".join(["l.x > 1"] * 3_000)) == parse_sql("l.x > 1")
    mixed = parse_sql("(" + " OR ".join(f"(l.x = {i} AND r.y = {i})" for i in range(1000)) + ") AND l.z = r.z")
    assert [len(term.args) for term in mixed.args] == [1000, 2]
    assert len(parse_sql(f"a IN ({', '.join(map(str, range(3_000)))})").args) == 3_001


@pytest.mark.parametrize(
    "sql",
    [
        "+".join(["a"] * 10_000), "(" * 5000 + "a" + ")" * 5000, "NOT " * 5000 + "a", "- " * 5000 + "a",
        "abs(" * 300 + "a" + ")" * 300, "CASE WHEN " * 300 + "a" + " THEN 1 END" * 300, " <=> ".join(["a"] * 60),
        "nullif(" * 35 + "a" + ", 1)" * 35, "||".join(["a"] * 5000),
    ],
)  # fmt: skip
def test_deep_nesting_is_refused_quickly(sql):
    start = time.perf_counter()
    with pytest.raises(PredicateError, match="nested too deeply"):
        parse_sql(sql)
    assert time.perf_counter() - start < 10


def test_moderate_nesting_is_fine():
    assert parse_sql("(" * 20 + "a" + ")" * 20) == A
    nested = "a"
    for i in range(20):
        nested = f"({nested} AND b{i})"
    assert len(parse_sql(nested).args) == 21


@given(st.text(alphabet="abl.rx()'\"`*+-/%<>=!~&|^,;:?@#$[]{}0159eE LDF\\\n", max_size=40))
def test_any_text_gives_a_tree_or_a_predicate_error(sql):
    try:
        tree = parse_sql(sql)
    except PredicateError as error:
        assert str(error).startswith("on: ")  # noqa: PT017
    else:
        assert all(node.op in OPERATORS for node in walk(tree) if isinstance(node, Call))


_WORDS = st.sampled_from([
    "a", "b", "l.x", "1", "2.5", "'x'", "(", ")", ",", "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE",
    "CASE", "WHEN", "THEN", "ELSE", "END", "INTERVAL", "SECOND", "DATE", "=", "<", "+", "-", "*", "CAST", "AS",
    "INT", "abs(",
    "EXISTS", "SELECT", "FROM", "DISTINCT", "OVER", "::", "<=>", "||", "TRUE", "IF(", "DIV", "ESCAPE", "ANY", "TO",
    "FOR",
])  # fmt: skip


@given(st.lists(_WORDS, max_size=12))
def test_any_words_give_a_tree_or_a_predicate_error(words):
    try:
        parse_sql(" ".join(words))
    except PredicateError as error:
        assert str(error).startswith("on: ")  # noqa: PT017
