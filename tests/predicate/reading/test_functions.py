"""Python functions -> unbound tree: the syntax, finding the source, and each refusal."""

from __future__ import annotations

import datetime as dt
import functools
import math
import time
import types
from decimal import Decimal

import pytest

from streamjoin.errors import PredicateError
from streamjoin.predicate.expr import FALSE, TRUE, UNKNOWN, Call, Cast, Column, Constant, Expr
from streamjoin.predicate.reading.columns import col, when
from streamjoin.predicate.reading.functions import parse_function
from streamjoin.predicate.reading.sql import parse_sql
from streamjoin.predicate.types import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, NULL, STRING, Type

X, Y, S = Column("x", "l", "left"), Column("y", "r", "right"), Column("s", "l", "left")
ONE, TWO = Constant(1, INT), Constant(2, INT)
WIDTH = 10
NOTHING = None
config = types.SimpleNamespace(width=7, sizes=[1, 2], names=frozenset({"b", "a"}), nested=types.SimpleNamespace(deep=1))


def call(op, *args):
    return Call(op, args, BOOLEAN if op in ("and", "or") else NULL)


def text(value):
    return Constant(value, STRING)


def without_sides(expr: Expr) -> Expr:
    """The tree with what the front ends write differently taken out: which side a column is known to be on."""
    match expr:
        case Column(name, table):
            return Column(name, table)
        case Cast(arg, type_):
            return Cast(without_sides(arg), type_)
        case Call(op, args, type_):
            return Call(op, tuple(map(without_sides, args)), type_)
        case _:
            return expr


@pytest.mark.parametrize(
    ("fn", "tree"),
    [
        (lambda l, r: l.x < r.y, call("lt", X, Y)),
        (lambda l, r: l["x"] == r["y"], call("eq", X, Y)),
        (lambda l, r: l["a b"], Column("a b", "l", "left")),
        (lambda a, b: a.x != b.y, call("ne", Column("x", "a", "left"), Column("y", "b", "right"))),
        (lambda l, r: l.x and r.y and l.s, call("and", X, Y, S)),
        (lambda l, r: l.x or r.y, call("or", X, Y)),
        (lambda l, r: not l.x, call("not", X)),
        (lambda l, r: 1 < l.x <= r.y, call("and", call("lt", ONE, X), call("le", X, Y))),
        (lambda l, r: l.x + r.y - l.x * r.y / 2, call("sub", call("add", X, Y), call("div", call("mul", X, Y), TWO))),
        (lambda l, r: l.x // 2 % r.y, call("floormod", call("floordiv", X, TWO), Y)),
        (lambda l, r: l.x**2, call("power", X, TWO)),
        (lambda l, r: -l.x, call("neg", X)),
        (lambda l, r: +l.x, X),
        (lambda l, r: l.x > -2147483648, call("gt", X, Constant(-(2**31), INT))),
        (lambda l, r: l.x & ~r.y | l.s, call("or", call("and", X, call("not", Y)), S)),
        (lambda l, r: l.x in (1, 2), call("in", X, ONE, TWO)),
        (lambda l, r: l.x not in [1, 2], call("not", call("in", X, ONE, TWO))),
        (lambda l, r: l.x in {1, r.y}, call("or", call("eq", X, ONE), call("eq", X, Y))),
        (lambda l, r: l.x in (), FALSE),  # noqa: RUF060
        (lambda l, r: l.x in (1, None), call("or", call("eq", X, ONE), UNKNOWN)),
        (lambda l, r: l.s in config.names, call("in", S, text("a"), text("b"))),
        (lambda l, r: l.x in range(1, 3), call("in", X, ONE, TWO)),
        (lambda l, r: "a" in l.s, call("contains", S, text("a"))),
        (lambda l, r: l.s in "abc", call("contains", text("abc"), S)),
        (lambda l, r: l.x is None, call("isnull", X)),
        (lambda l, r: l.x is not None, call("not", call("isnull", X))),
        (lambda l, r: l.x is NOTHING, call("isnull", X)),
        (lambda l, r: l.x is True, call("coalesce", X, FALSE)),
        (lambda l, r: l.x is not False, call("not", call("coalesce", call("not", X), FALSE))),
        (lambda l, r: 1 if l.x else 2, call("case", X, ONE, TWO)),
        (lambda l, r: 1 if l.x else 2 if r.y else None, call("case", X, ONE, Y, TWO, Constant(None, NULL))),
        (lambda l, r: abs(l.x), call("abs", X)),
        (lambda l, r: min(l.x, r.y, 1), call("least", X, Y, ONE)),
        (lambda l, r: max(l.x, r.y), call("greatest", X, Y)),
        (lambda l, r: int(l.x), Cast(X, BIGINT)),
        (lambda l, r: float(l.x), Cast(X, DOUBLE)),
        (lambda l, r: str(l.x), Cast(X, STRING)),
        (lambda l, r: bool(l.x), Cast(X, BOOLEAN)),
        (lambda l, r: len(l.s), call("length", S)),
        (lambda l, r: l.s.startswith("a"), call("startswith", S, text("a"))),
        (lambda l, r: l.s.endswith(r.y), call("endswith", S, Y)),
        (lambda l, r: l.s.lower().upper(), call("upper", call("lower", S))),
        (lambda l, r: l.s.lower() + "x", call("concat", call("lower", S), text("x"))),
        (lambda l, r: math.sqrt(l.x), call("sqrt", X)),
        (lambda l, r: math.atan2(l.x, r.y), call("atan2", X, Y)),
        (lambda l, r: math.isnan(l.x), call("isnan", X)),
        (lambda l, r: math.floor(l.x), call("floor", X)),
        (lambda l, r: math.log(l.x), call("ln", X)),
        (lambda l, r: pow(l.x, 2), call("power", X, TWO)),
        (lambda l, r: l.x < WIDTH, call("lt", X, Constant(10, INT))),
        (lambda l, r: l.x < WIDTH * 2 + 1, call("lt", X, Constant(21, INT))),
        (lambda l, r: l.x < math.pi, call("lt", X, Constant(math.pi, DOUBLE))),
        (lambda l, r: l.x < config.nested.deep, call("lt", X, ONE)),
        (lambda l, r: l.x < config.sizes[1], call("lt", X, TWO)),
        (lambda l, r, width=2: l.x < width, call("lt", X, TWO)),
        (lambda l, r, *, width=2: l.x < width, call("lt", X, TWO)),
        (lambda l, r: l.x < dt.timedelta(seconds=1), call("lt", X, Constant(1_000_000, INTERVAL))),
        (lambda l, r: l.x < Decimal("0.5"), call("lt", X, Constant(5, Type("decimal", 1, 1)))),
        (lambda l, r: l.x if WIDTH > 5 else r.nonsense(), X),
        (lambda l, r: NOTHING is None or NOTHING.width < l.x, TRUE),
        (lambda l, r: l.x and WIDTH > 5, X),
        (lambda l, r: True, TRUE),
    ],
)  # fmt: skip
def test_forms(fn, tree):
    assert parse_function(fn) == tree


THREE_FORMS = [
    (
        "l.x BETWEEN r.a - 10 AND r.a + 10 AND l.s = r.s",
        col("l.x").between(col("r.a") - 10, col("r.a") + 10) & (col("l.s") == col("r.s")),
        lambda l, r: l.x >= r.a - 10 and l.x <= r.a + 10 and l.s == r.s,
    ),
    ("ABS(l.x - r.a) <= 10", (col("l.x") - col("r.a")).abs() <= 10, lambda l, r: abs(l.x - r.a) <= 10),
    ("l.k IN (1, 2) OR NOT l.b", col("l.k").isin(1, 2) | ~col("l.b"), lambda l, r: l.k in (1, 2) or not l.b),
    (
        "l.a IS NOT NULL AND r.b IS NULL",
        col("l.a").is_not_null() & col("r.b").is_null(),
        lambda l, r: l.a is not None and r.b is None,
    ),
    (
        "CASE WHEN l.a > 1 THEN 1 WHEN l.a > 0 THEN 2 ELSE 3 END = r.b",
        when(col("l.a") > 1, 1).when(col("l.a") > 0, 2).otherwise(3) == col("r.b"),
        lambda l, r: (1 if l.a > 1 else 2 if l.a > 0 else 3) == r.b,
    ),
    ("CAST(l.a AS bigint) = -5", col("l.a").cast(int) == -5, lambda l, r: int(l.a) == -5),
    ("l.t <= r.t + INTERVAL 5 SECONDS", col("l.t") <= col("r.t") + dt.timedelta(seconds=5),
     lambda l, r: l.t <= r.t + dt.timedelta(seconds=5)),
    ("STARTSWITH(UPPER(l.s), 'A')", col("l.s").upper().startswith("A"), lambda l, r: l.s.upper().startswith("A")),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "built", "fn"), THREE_FORMS, ids=[sql for sql, _, _ in THREE_FORMS])
def test_three_forms_give_one_tree(sql, built, fn):
    assert parse_sql(sql) == built.expr == without_sides(parse_function(fn))


# Function definitions


def test_definition_with_locals_and_branches():
    def match(l, r):
        """Near, with a width that depends on the kind."""
        d = l.x - r.y
        width: int = 1
        width += 1
        a, b = l.s, r.s
        if a is None:
            return False
        elif d < 0:
            d = -d
        else:
            pass
        return d <= width and a == b

    d, s, t = call("sub", X, Y), S, Column("s", "r", "right")
    same = call("eq", s, t)
    assert parse_function(match) == call(
        "case", call("isnull", s), FALSE, call("lt", d, Constant(0, INT)),
        call("and", call("le", call("neg", d), TWO), same), call("and", call("le", d, TWO), same),
    )  # fmt: skip


def test_known_conditions_choose_a_branch():
    strict = False

    def match(l, r):
        if strict:
            return l.nonsense.x()
        return l.x == r.y

    assert parse_function(match) == call("eq", X, Y)


def near(a, b, width=1):
    return abs(a - b) <= width


def test_other_functions_are_inlined():
    local = 2
    rows_near = lambda left, right: near(left.x, right.y)  # noqa: E731
    expected = call("le", call("abs", call("sub", X, Y)), ONE)
    assert parse_function(lambda l, r: near(l.x, r.y)) == expected
    assert parse_function(lambda l, r: rows_near(l, r)) == expected  # noqa: PLW0108
    assert parse_function(lambda l, r: near(b=r.y, a=l.x, width=local)) == call("le", expected.args[0], TWO)


def test_values_are_captured_at_the_call():
    width = 1
    fn = lambda l, r: l.x < width  # noqa: E731
    width = 2
    assert parse_function(fn) == call("lt", X, TWO)


# Finding the source


def first(*fns, **named):
    return parse_function(fns[0])


def test_several_lambdas_on_a_line():
    a, b = lambda l, r: l.x < 1, lambda l, r: l.x < 2
    assert parse_function(a) == call("lt", X, ONE)
    assert parse_function(b) == call("lt", X, TWO)
    fns = [lambda l, r: l.x, lambda l, r: l.x, lambda l, r: l.s, lambda l, r: True, lambda l, r: True]
    assert [parse_function(fn) for fn in fns] == [X, X, S, TRUE, TRUE]


def test_lambdas_in_awkward_places():
    assert first((lambda l, r: (l.x) < (1))) == call("lt", X, ONE)
    assert first(
        lambda l, r: (
            l.x  # a comment: lambda l, r: 0
            < 1
        ),
        lambda l, r: l.s,
        key=(lambda l, r: l.s),
    ) == call("lt", X, ONE)

    def default(fn=lambda l, r: l.x < 1, other=lambda l, r: l.x < 2):
        return parse_function(fn), parse_function(other)

    assert default() == (call("lt", X, ONE), call("lt", X, TWO))
    outer = lambda: lambda l, r: l.x < 1  # noqa: E731
    assert parse_function(outer()) == call("lt", X, ONE)
    size = {"größe": lambda l, r: l.größe < 1, "x": lambda l, r: l.x}
    assert [parse_function(fn) for fn in size.values()] == [call("lt", Column("größe", "l", "left"), ONE), X]
    named = dict(a=lambda l, r: l.x, b=lambda l, r: l.s)
    assert parse_function(named["b"]) == S
    loop = [lambda l, r, i=i: l.x < i for i in (1, 2)]
    assert [parse_function(fn) for fn in loop] == [call("lt", X, ONE), call("lt", X, TWO)]


def passing(fn):
    return fn


@passing
@functools.partial(lambda f: f)
def decorated(l, r):
    return l.x < 1


class Holder:
    width = 1

    def make(self):
        def match(l, r):
            return l.x < self.width

        return match


def test_decorated_and_local_definitions():
    assert parse_function(decorated) == call("lt", X, ONE)
    assert parse_function(Holder().make()) == call("lt", X, ONE)


def test_source_not_available():
    scope: dict = {}
    exec("fn = lambda l, r: l.x < 1", scope)
    with pytest.raises(PredicateError, match=r"on: the source .* not available.*SQL text or with col\(\)"):
        parse_function(scope["fn"])


def test_edited_source_is_noticed(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text("fn = lambda l, r: l.x < 1\n")
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    assert parse_function(scope["fn"]) == call("lt", X, ONE)
    path.write_text("fn = lambda l, r: l.x < 2\n")
    with pytest.raises(PredicateError, match="as it was loaded"):
        parse_function(scope["fn"])
    path.write_text("fn = lambda l, r: l.x <<< 1\n")
    with pytest.raises(PredicateError, match="cannot be read"):
        parse_function(scope["fn"])


# Refusals


def generator(l, r):
    yield l.x


async def coroutine(l, r):
    return l.x


def falls_through(l, r):
    if l.x:
        return True


def bare_return(l, r):
    return


def loop(l, r):
    for _ in range(3):
        pass
    return l.x


def recursive(l, r):
    return recursive(l, r)


def unassigned(l, r):
    if l.x:
        value = 1
    return value == r.y


def doubling(l, r):
    a = l.x
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    a = a + a
    return a > r.y


def twice(v):
    return v + v


def eight(v):
    return twice(twice(twice(v)))


def many_ifs(l, r):
    a = 0
    if l.a:
        a = 1
    if l.b:
        a = 2
    if l.c:
        a = 3
    if l.d:
        a = 4
    if l.e:
        a = 5
    if l.f:
        a = 6
    if l.g:
        a = 7
    if l.h:
        a = 8
    if l.i:
        a = 9
    if l.j:
        a = 10
    if l.k:
        a = 11
    if l.m:
        a = 12
    return a == r.y


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda l: l.x, "two rows"), (lambda: True, "two rows"), (lambda l, r, w: l.x < w, "two rows"),
        (lambda l, r, *, w: l.x < w, "two rows"), (lambda *rows: True, "two rows"),
        (lambda l, r, *more: True, "*args"), (lambda l, r, **more: True, "*args"),
        (generator, "generator"), (coroutine, "async"), (max, "not a plain Python function"),
        (functools.partial(near, 1), "not a plain Python function"), (Holder, "not a plain Python function"),
        (Holder().make, "not a plain Python function"), (falls_through, "end without return"),
        (bare_return, "return without a value"), (loop, "For is not supported"), (loop, "for _ in range(3):"),
        (recursive, "functions deep"), (unassigned, "value is used before"), (doubling, "nested too deeply"),
        (many_ifs, "too many branches"), (lambda l, r: l, "whole row"), (lambda l, r: l == r, "whole row"),
        (lambda l, r: l.x == None, "is None"), (lambda l, r: l.x < NOTHING, "is None"),  # noqa: E711
        (lambda l, r: l.x is WIDTH, "`is` takes"), (lambda l, r: [v for v in l.x], "ListComp"),  # noqa: C416
        (lambda l, r: f"{l.x}" == r.y, "JoinedStr"), (lambda l, r: (v := l.x), "NamedExpr"),  # noqa: F841
        (lambda l, r: l.x ^ r.y, "BitXor"), (lambda l, r: l.x @ r.y, "MatMult"), (lambda l, r: l.x << 1, "LShift"),
        (lambda l, r: (l.x + 1).y, "methods"), (lambda l, r: l.x[0], "Subscript"), (lambda l, r: l[0], "named by text"),
        (lambda l, r: l.s.title(), ".title() is unknown"), (lambda l, r: l.s.upper("x"), "0 arguments"),
        (lambda l, r: l.s.strip() == r.s, ".strip() is unknown"),
        (lambda l, r: l.x(), "cannot be called"), (lambda l, r: round(l.x), "round"),
        (lambda l, r: print(l.x), "print"),
        (lambda l, r: min(l.x), "min"), (lambda l, r: min(l.x, r.y, key=abs), "min"), (lambda l, r: near(*l.x), "*"),
        (lambda l, r: near(l.x), "missing a required argument"),
        (lambda l, r: l.x < undefined, "undefined"),  # noqa: F821
        (lambda l, r: l.x < config, "no constant"), (lambda l, r: l.x < config.missing, "AttributeError"),
        (lambda l, r: l.x < config.sizes[9], "IndexError"), (lambda l, r: l.x < WIDTH / 0, "ZeroDivisionError"),
        (lambda l, r: l.x < 10**10**10, "too large"), (lambda l, r: l.x < pow(10, 10**10), "too large"),
        (lambda l, r: l.s < "a" * 10**10, "multiplied"), (lambda l, r: l.x < 10**50, "no constant"),
        (lambda l, r: l.x in 5, "no collection"), (lambda l, r: l.x in range(10**9), "1,000,000,000 items"),
        (lambda l, r: eight(eight(eight(eight(eight(l.x))))), "nested too deeply"),
    ],
)  # fmt: skip
def test_refusals(fn, words):
    start = time.perf_counter()
    with pytest.raises(PredicateError) as caught:
        parse_function(fn)
    message = str(caught.value)
    assert message.startswith("on: ")
    assert words in message
    assert time.perf_counter() - start < 5


def test_nothing_is_run():
    ran = []

    def noisy(l, r):
        ran.append(1)
        return l.x < r.y

    with pytest.raises(PredicateError, match="Expr is not supported"):
        parse_function(noisy)
    assert ran == []
