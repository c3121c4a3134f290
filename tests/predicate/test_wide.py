"""Numbers of over 64 bits: words against Python's integers, and decimals of every precision against rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from streamjoin.errors import PredicateError
from streamjoin.predicate import ops_vector, parse, wide_vector
from streamjoin.predicate.analyse import make_plan
from streamjoin.predicate.bind import Binder, bind
from streamjoin.predicate.evaluate import is_true, row_function, table_rows
from streamjoin.predicate.frames import Frame, read_numbers, read_words
from streamjoin.predicate.lower import Lowered, lower
from streamjoin.predicate.references import Names, filled
from streamjoin.predicate.types import Type, from_arrow
from streamjoin.predicate.values import (
    round_half_up,
    truncated_division,
    truncated_remainder,
    wrap,
)
from streamjoin.predicate.vector import Program
from streamjoin.predicate.wide_scalar import (
    w1,
    w2,
    w4,
    wabs,
    wadd,
    wcut,
    wdiv,
    weq,
    wfloordiv,
    wfloormod,
    wle,
    wlt,
    wmul,
    wnear,
    wneg,
    wratio,
    wrem,
    wround,
    wsub,
)
from streamjoin.side import SIDES

# -- words -------------------------------------------------------------------------------------------------------------


@njit
def compiled_arithmetic(a, b):  # type: ignore[no-untyped-def]
    return (wadd(a, b), wsub(a, b), wmul(a, b), wneg(a), wabs(a)), (weq(a, b), wlt(a, b), wle(a, b))


@njit
def compiled_division(a, b, digits):  # type: ignore[no-untyped-def]
    return (wdiv(a, b), wrem(a, b), wfloordiv(a, b), wfloormod(a, b), wround(a, b)), wratio(a, digits)


@njit
def compiled_short(a, unit):  # type: ignore[no-untyped-def]
    return wcut(a, unit), wnear(a, unit), w2(a), w4(w2(a)), w1(a)


def words_of(number: int, words: int) -> Any:
    return tuple(np.int64(wrap(number >> 64 * i, 64)) for i in range(words))


def number_of(words: Any) -> int:
    return wrap(sum((int(word) % 2**64) << 64 * i for i, word in enumerate(words)), 64 * len(words))


def some_number(bits: int) -> int:
    """Of any length, often at an edge."""
    size = random.randrange(1, bits + 1)
    edges = [random.getrandbits(size), 2**size - 1, 2 ** (size - 1), 10 ** random.randrange(size * 3 // 10 + 1)]
    return random.choice([1, -1]) * random.choice(edges)


def test_words_agree_with_integers() -> None:
    random.seed(0)
    for _ in range(3000):
        a, b, digits = some_number(127), some_number(127), random.randrange(39)
        x, y = words_of(a, 2), words_of(b, 2)
        numbers, truths = compiled_arithmetic(x, y)
        assert list(map(number_of, numbers)) == [wrap(n, 128) for n in (a + b, a - b, a * b, -a, abs(a))]
        assert truths == (a == b, a < b, a <= b)
        if b:
            numbers, ratio = compiled_division(x, y, digits)
            divided = [truncated_division(a, b), truncated_remainder(a, b), a // b, a % b, round_half_up(a, b)]
            assert list(map(number_of, numbers)) == divided, (a, b)
            assert ratio == a / 10**digits, (a, digits)
        long, unit = some_number(254), 10 ** random.randrange(19)
        *numbers, lowest = compiled_short(words_of(long, 4), np.int64(unit))
        short = [truncated_division(long, unit), round_half_up(long, unit), wrap(long, 128), wrap(long, 128)]
        assert list(map(number_of, numbers)) == short, (long, unit)
        assert lowest == wrap(long, 64)


def test_the_nearest_double_of_a_number_between_two() -> None:
    """Halfway, and one step beside it: where rounding twice goes wrong."""
    random.seed(0)
    for _ in range(500):
        mantissa, digits = random.getrandbits(53) | 2**52, random.randrange(1, 20)
        for step in (-1, 0, 1):
            number = (2 * mantissa + 1) * 2 ** random.randrange(3) * 5**digits + step
            if abs(number) < 2**127:
                _, ratio = compiled_division(words_of(number, 2), words_of(1, 2), digits)
                assert ratio == number / 10**digits


# -- decimals of every type --------------------------------------------------------------------------------------------


class Words(NamedTuple):
    """A number, and how many words hold it."""

    number: int
    words: int


def checked(number: int, words: int) -> Words:
    assert abs(number) < 2 ** (64 * words - 1), "the number does not fit into its words"
    return Words(number, words)


def number(x: Any) -> int:
    return x.number if isinstance(x, Words) else int(x)


def in_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `wide_vector` that checks the widths of its operands and of its result."""

    def run(*args: Any) -> Any:
        wide = [arg.words for arg in args if isinstance(arg, Words)]
        assert len(set(wide)) == 1, "operands of different widths"
        result = function(*map(number, args))
        return checked(result, wide[0]) if type(result) is int else result

    return run


WIDE = [
    name for name in ops_vector.__all__ if name.startswith("w") and name not in ("w1", "w2", "w4", "wjoin", "wpick")
]
CHECKED: dict[str, Any] = {
    **{name: getattr(ops_vector, name) for name in ops_vector.__all__},
    **{name: in_words(getattr(wide_vector, name)) for name in WIDE},
    "w1": lambda x: wide_vector.w1(number(x)),
    "w2": lambda x: checked(number(x), 2),
    "w4": lambda x: checked(number(x), 4),
    "wjoin": lambda high, low: checked((int(high) << 64) + int(low) % 2**64, 2),
    "wpick": lambda condition, yes, no: checked((yes if condition else no).number, yes.words),
}


def decimals(draw: Any) -> pa.Array:
    """Some numbers of a decimal type, or of uint64."""
    if draw(st.integers(0, 9)) == 0:
        edges = [None, 0, 2**64 - 1, 2**63]
        return pa.array(edges + draw(st.lists(st.integers(0, 2**64 - 1), max_size=3)), pa.uint64())
    precision = draw(st.one_of(st.sampled_from([9, 18, 19, 38]), st.integers(1, 38)))
    scale = draw(st.one_of(st.sampled_from([0, min(precision, 6)]), st.integers(0, precision)))
    largest = 10**precision - 1
    given = [0, 1, -1, largest, -largest, *draw(st.lists(st.integers(-largest, largest), min_size=1, max_size=3))]
    exact = [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in given]
    return pa.array([None, *exact], pa.decimal128(precision, scale))


FORMS = (
    "l.a + r.b > l.a", "l.a - r.b <= r.b", "l.a * r.b > 9", "l.a * r.b = l.a", "l.a / r.b < 1", "l.a % r.b = 0",
    "l.a div r.b > 3", "l.a < r.b", "l.a = r.b", "l.a <> r.b", "abs(l.a - r.b) < 10.5", "-(l.a + r.b) >= 0",
    "floor(l.a + r.b) = ceil(l.a - r.b)", "CAST(l.a * r.b AS decimal(9,2)) > 1", "CAST(l.a + r.b AS bigint) > 0",
    "CAST(l.a - r.b AS int) = 0", "CAST(l.a * r.b AS double) > 1e0", "coalesce(l.a + r.b, r.b) > least(l.a, r.b)",
    "CAST(l.a AS decimal(20,3)) <= r.b + 1", "CASE WHEN l.a > r.b THEN l.a ELSE r.b END > l.a - 1",
    "(l.a + r.b) * r.b > l.a", "CAST(l.a - r.b AS boolean)", "l.a - r.b IN (0, 1, 2)",
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_decimals_of_every_type(data: Any) -> None:
    """The text of a kernel, run with checks on every width, and columns; both against rows."""
    left, right = pa.table({"a": decimals(data.draw)}), pa.table({"b": decimals(data.draw)})
    schemas = [{field.name: from_arrow(field.type) for field in table.schema} for table in (left, right)]
    on = data.draw(st.sampled_from(FORMS))
    try:
        expr = bind(parse(on), *schemas)
    except PredicateError:
        return
    tables = {"left": left, "right": right}
    lowered = lower(make_plan(expr))
    check, rows = is_true(expr), [table_rows(table, table.column_names) for table in (left, right)]
    expected = {(i, k) for i, l in enumerate(rows[0]) for k, r in enumerate(rows[1]) if check(l, r)}
    assert kernel_pairs(lowered, tables) == expected, (on, left.schema, right.schema)
    places = np.repeat(np.arange(left.num_rows), right.num_rows), np.tile(np.arange(right.num_rows), left.num_rows)
    frame = Frame(len(places[0]), {("left", "a"): left["a"].chunk(0), ("right", "b"): right["b"].chunk(0)},
                  dict(zip(SIDES, places, strict=True)))  # fmt: skip
    program = Program([expr])
    assert program.slow == ()
    found = program.true_rows(frame)
    assert {(int(i), int(k)) for i, k in zip(places[0][found], places[1][found], strict=True)} == expected


def kernel_pairs(lowered: Lowered, tables: dict[Any, pa.Table]) -> set[tuple[int, int]]:
    """The pairs that the kernel's text and the rechecks find."""
    slots: dict[Any, Any] = {}
    for side, table in tables.items():
        columns = {(side, name): table.column(name).combine_chunks() for name in table.column_names}
        slots[side] = lowered.sides[side].run(Frame(table.num_rows, columns))
    names = (Names("l", ""), Names("r", ""), Names("t", ""), None)
    text = "\n".join(filled(line, *names) for line in (*lowered.lines, f"result = {lowered.condition}"))
    code = compile(text, "<kernel>", "exec")
    checks = [is_true(term) for term in lowered.recheck]
    rows = {side: table_rows(table, table.column_names) for side, table in tables.items()}
    found = set()
    for l in range(tables["left"].num_rows):
        for r in range(tables["right"].num_rows):
            values = dict(CHECKED)
            values |= {f"l{n}": column[l] for n, column in enumerate(slots["left"].columns)}
            values |= {f"r{n}": column[r] for n, column in enumerate(slots["right"].columns)}
            live = all(slots[side].live is None or slots[side].live[row] for side, row in (("left", l), ("right", r)))
            if live:
                with np.errstate(all="ignore"):
                    exec(code, values)
                if values["result"] and all(check(rows["left"][l], rows["right"][r]) for check in checks):
                    found.add((l, r))
    return found


@pytest.mark.parametrize("on", ["l.a * r.b > 9", "l.a + r.b = 1", "l.a < r.b", "l.a % r.b = 0", "l.a - r.b > 0.5"])
@pytest.mark.parametrize("type_", [Type("decimal", 12, 2), Type("decimal", 20, 0), Type("decimal", 38, 10)], ids=str)
def test_nothing_is_left_to_check_again(on: str, type_: Type) -> None:
    lowered = lower(make_plan(bind(parse(on), {"a": type_}, {"b": type_})))
    assert lowered.recheck == ()


@pytest.mark.parametrize(
    "type_", [pa.decimal128(38, 3), pa.decimal256(38, 3), pa.decimal128(19, 0), pa.uint64()], ids=str
)
def test_words_of_columns(type_: pa.DataType) -> None:
    """Cut out of a longer array, coded by a dictionary, without a row."""
    numbers = [5, None, 0, 10**18, 2**63 + 1] if type_ == pa.uint64() else [5, None, -7, 10**18, -(10**19) + 1]
    kind = from_arrow(type_)
    assert kind is not None
    exact = (
        numbers if type_ == pa.uint64() else [None if n is None else Decimal(n).scaleb(-kind.scale) for n in numbers]
    )
    plain = pa.array(exact, type_)
    coded = pa.DictionaryArray.from_arrays(pa.array(range(5), pa.int8()), plain)
    longer = pa.concat_arrays([plain.slice(1, 2), plain, plain]).slice(2, 5)
    for layout in (plain, coded, longer, longer.slice(0, 0)):
        values, valid = read_numbers(layout, kind)
        high, low = read_words(layout)
        again = (high.astype(object) << 64) + low.view(np.uint64).astype(object)
        for result in (values, again):
            kept = [n if valid is None or valid[i] else None for i, n in enumerate(result.tolist())]
            assert kept == numbers[: len(layout)]


# -- text --------------------------------------------------------------------------------------------------------------

TEXTS = pa.table(
    {
        "s": pa.array([None, "", "a", " Ab ", "abc", "ß", "Straße", "bc", "🦆é", "a%_", "x" * 20, "ΑΣ", "a\nb"]),
        "i": pa.array([None, 0, 1, -1, 2, 3, -3, 5, 8, 7, 2, 1, 4], pa.int32()),
    }
)
TEXT_FORMS = (
    "l.s || r.s", "upper(l.s || r.s)", "lower(concat(r.s, l.s, 'É'))", "trim(l.s || r.s)", "length(l.s || r.s)",
    "substring(l.s || r.s, 2, 3)", "substring(l.s || r.s, 0, 2)", "substring(l.s || r.s, -4)", "l.s || r.s LIKE '%b_'",
    "substring(l.s, r.i)", "substring(l.s || r.s, r.i, l.i)", "substring(l.s, r.i - l.i, 3)",
    "substring('grün', l.i, r.i)", "substring(r.s, -3, l.i)",
    "substring(l.s || r.s, -4, 2)", "substring(l.s || r.s, 3, -1)", "substring(l.s || r.s, -30, 31)",
    r"l.s || r.s LIKE 'a\%\_%'", "l.s || r.s LIKE 'a%b'", "startswith(l.s, r.s)", "endswith(l.s, r.s)",
    "contains(l.s, r.s)", "contains(l.s || 'a', lower(r.s))", "startswith(l.s || r.s, 'a')", "l.s || r.s < r.s || l.s",
    "l.s || r.s IN ('aa', 'abc', '')", "(l.s || r.s) IS NULL", "coalesce(l.s || r.s, r.s)", "least(l.s, r.s, 'b')",
    "greatest(l.s || 'a', r.s)", "CASE WHEN l.i < r.i THEN l.s WHEN r.i > 2 THEN r.s || l.s ELSE 'z' END",
    "l.s || CAST(l.i + r.i AS string)", "r.s || CAST(l.i < r.i AS string)", "CAST(l.i AS string) || r.s",
    "upper(l.s) || lower(r.s)", "length(upper(l.s)) + length(r.s)",
)  # fmt: skip


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_texts_of_both_streams_agree_with_rows(form: str) -> None:
    """Each row once, or a row for each pair."""
    schema = {field.name: from_arrow(field.type) for field in TEXTS.schema}
    written = Binder(schema, schema, ("l", "r")).bind(parse(form))
    rows, size = table_rows(TEXTS, TEXTS.column_names), TEXTS.num_rows
    expected = [row_function(written)(l, r) for l in rows for r in rows]
    left, right = np.repeat(np.arange(size), size), np.tile(np.arange(size), size)
    columns: dict[Any, pa.Array] = {(side, name): TEXTS[name].chunk(0) for side in SIDES for name in TEXTS.column_names}
    spread = {name: column.take(pa.array(left if name[0] == "left" else right)) for name, column in columns.items()}
    for frame in (Frame(size**2, columns, {"left": left, "right": right}), Frame(size**2, spread)):
        if written.type.kind == "string":  # a condition that says which text it is
            for text in {*expected}:
                probe = f"({form}) IS NULL" if text is None else "({}) = '{}'".format(form, text.replace("'", "''"))
                program = Program([Binder(schema, schema, ("l", "r")).bind(parse(probe))])
                assert program.slow == ()
                assert program.true_rows(frame).tolist() == [value == text for value in expected], probe
        else:
            program = Program([written])
            assert program.slow == ()
            ((values, valid),) = program.run(frame)
            assert [v if valid is None or valid[i] else None for i, v in enumerate(values.tolist())] == expected


NUMBERS = [
    "1",
    "-",
    "12",
    "0",
    "-7",
    None,
    "",
    " 3 ",
    "1.5",
    "e3",
    "NaN",
    "inf",
    "2020-01-",
    "05",
    "true",
    "9" * 9,
    "٣",
]
PLAIN_NUMBERS = ["1", "12", "0", None, "907"]
READ_AS = (
    "int",
    "bigint",
    "smallint",
    "double",
    "float",
    "decimal(10,2)",
    "decimal(30,2)",
    "date",
    "timestamp",
    "boolean",
)


@pytest.mark.parametrize("kind", READ_AS)
@pytest.mark.parametrize(
    "texts", [NUMBERS, PLAIN_NUMBERS, ["-1", "-12"], [None, None]], ids=["all", "plain", "-", "none"]
)
def test_texts_of_both_streams_are_read_like_those_of_rows(kind: str, texts: list[str | None]) -> None:
    """Plain numbers are read by Arrow, others once for each different text."""
    table = pa.table({"s": pa.array(texts, pa.string())})
    schema = {"s": from_arrow(pa.string())}
    for form in (f"CAST(l.s || r.s AS {kind})", f"CAST(concat(l.s, '.5', r.s) AS {kind})"):
        expr = Binder(schema, schema, ("l", "r")).bind(parse(form))
        rows, size = table_rows(table, ["s"]), len(texts)
        expected = [row_function(expr)(l, r) for l in rows for r in rows]
        left, right = np.repeat(np.arange(size), size), np.tile(np.arange(size), size)
        columns: dict[Any, pa.Array] = {(side, "s"): table["s"].chunk(0) for side in SIDES}
        ((values, valid),) = Program([expr]).run(Frame(size**2, columns, {"left": left, "right": right}))
        found = [v if valid is None or valid[i] else None for i, v in enumerate(values.tolist())]
        assert list(map(repr, found)) == list(map(repr, expected))
