"""Random predicates as SQL text: trees of every operator over typed columns of two streams."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from streamjoin import testing
from streamjoin.predicate.types import from_arrow
from streamjoin.testing.exact import decimal

NUMBERS = {
    **{name: pa.type_for_alias(name) for name in ("int8", "int16", "int32", "int64")},
    **{name: pa.type_for_alias(name) for name in ("uint8", "uint16", "uint32", "uint64")},
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
}  # fmt: skip
DECIMALS = {
    "d5": pa.decimal128(5, 2), "d9": pa.decimal32(9, 0), "d18": pa.decimal128(18, 4), "d18b": pa.decimal64(18, 1),
    "d20": pa.decimal128(20, 20), "d38": pa.decimal128(38, 10), "d38b": pa.decimal256(38, 0),
}  # fmt: skip
TEXTS = {
    "text": pa.string(), "large": pa.large_string(), "view": pa.string_view(),
    "coded": pa.dictionary(pa.int16(), pa.string()),
}  # fmt: skip
MOMENTS = {
    "date": pa.date32(), "date64": pa.date64(), "sec": pa.timestamp("s"), "ms": pa.timestamp("ms", "UTC"),
    "us": pa.timestamp("us"), "usz": pa.timestamp("us", "Asia/Tokyo"), "ns": pa.timestamp("ns"),
    "nsz": pa.timestamp("ns", "UTC"),
}  # fmt: skip
FAMILIES: dict[str, dict[str, pa.DataType]] = {
    "integers": {name: NUMBERS[name] for name in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")},
    "floats": {name: NUMBERS[name] for name in ("float16", "float32", "float64", "int32", "int64")},
    "decimals": {**DECIMALS, "int32": pa.int32(), "uint64": pa.uint64()},
    "texts": {**TEXTS, "int32": pa.int32()},
    "moments": {**MOMENTS, "int32": pa.int32()},
    "all": {**NUMBERS, **DECIMALS, **TEXTS, **MOMENTS, "flag": pa.bool_(), "nothing": pa.null()},
}

_FEW_TEXTS = ["", "a", "b", "ab", "abcdefg", "abcdefgh", "abcdefgha", "abcdefghb", "7", "é", None]


def values(rng: random.Random, type_: pa.DataType, count: int) -> pa.Array:
    """A column: of hard values, of few values so that pairs match, of both, or of NULLs only."""
    style = rng.choice(["hard", "few", "few", "few", "both", "both", "null" if rng.random() < 0.2 else "few"])
    if style == "null" or pa.types.is_null(type_):
        return pa.nulls(count, type_)
    if type_ in TEXTS.values():
        texts = {"few": _FEW_TEXTS, "hard": testing.hard_values(pa.string()).to_pylist()}
        texts["both"] = texts["few"] + texts["hard"]
        return pa.array([rng.choice(texts[style]) for _ in range(count)], pa.string()).cast(type_)
    hard = testing.hard_values(type_)
    ordinary = few(type_)
    pool = {"hard": hard, "few": ordinary, "both": pa.concat_arrays([hard, *[ordinary] * 3])}[style]
    return pool.take(pa.array([rng.randrange(len(pool)) for _ in range(count)], pa.int64()))


def few(type_: pa.DataType) -> pa.Array:
    """A few ordinary values close to each other, and a NULL."""
    if pa.types.is_boolean(type_):
        return pa.array([True, False, None])
    if pa.types.is_decimal(type_):
        return pa.array([*(decimal(v, type_) for v in (0, 1, 2, 5, 10, 100, -10, -1)), None], type_)
    if pa.types.is_floating(type_):
        return pa.array([0.0, 0.5, 1.0, 1.5, 2.0, -1.0, None]).cast(type_)
    if pa.types.is_integer(type_):
        low = 0 if pa.types.is_unsigned_integer(type_) else -2
        return pa.array([*range(low, 4), None], type_)
    day = 19_782
    if pa.types.is_date32(type_):
        return pa.array([day, day + 1, day + 2, None], pa.int32()).cast(type_)
    if pa.types.is_date64(type_):
        return pa.array([day, day + 1, None], pa.int32()).cast(pa.date32()).cast(type_)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
    base = day * 86_400 * per_second
    ticks = [base, base + 1, base + per_second, base + 2 * per_second, base + 86_400 * per_second, None]
    return pa.array(ticks, pa.int64()).cast(type_)


def kind_of(type_: pa.DataType) -> str:
    """number, text, date, moment, truth or nothing."""
    sql = from_arrow(type_)
    assert sql is not None
    if sql.is_numeric:
        return "number"
    if sql.is_timestamp:
        return "moment"
    return {"string": "text", "date": "date", "boolean": "truth", "null": "nothing"}[sql.kind]


class Writer:
    """Writes random expressions. `rng` decides everything; columns are {side: {name: Arrow type}}."""

    def __init__(self, rng: random.Random, left: dict[str, pa.DataType], right: dict[str, pa.DataType]) -> None:
        self.rng = rng
        self.columns: dict[str, dict[str, list[str]]] = {}
        for side, types in (("l", left), ("r", right)):
            self.columns[side] = {}
            for name, type_ in types.items():
                self.columns[side].setdefault(kind_of(type_), []).append(f"{side}.{name}")
        self.kinds = [
            k for k in ("number", "text", "date", "moment", "truth") if all(k in self.columns[s] for s in "lr")
        ]

    def predicate(self) -> str:
        """A condition over both streams: one sure comparison of both, and up to two others."""
        terms = [self.pair_term()]
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            terms.append(self.rng.choice([self.pair_term, lambda: self.truth(2, "lr"), lambda: self.truth(1, "l")])())
        self.rng.shuffle(terms)
        if self.rng.random() < 0.15:
            return "NOT (" + " OR ".join(terms) + ")"
        return (" OR " if self.rng.random() < 0.2 else " AND ").join(terms)

    def pair_term(self) -> str:
        """What predicates of joins look like: equalities, bands, ranges."""
        kind = self.rng.choice(self.kinds)
        left, right = (self.of(kind, self.rng.choice([0, 0, 1]), side, literals=False) for side in "lr")
        if self.rng.random() < 0.3:  # nothing an index could use: both streams on both sides
            left, right = self.mixed(kind), self.of(kind, self.rng.choice([0, 1]), "lr")
        if self.rng.random() < 0.5:
            left, right = right, left
        if kind == "number" and self.rng.random() < 0.4:
            width = self.literal("number")
            return self.rng.choice([
                f"({left} BETWEEN ({right}) - ({width}) AND ({right}) + ({width}))",
                f"(abs(({left}) - ({right})) {self.comparison()} {width})",
                f"(({left}) - ({right}) {self.comparison()} {width})",
            ])  # fmt: skip
        if kind in ("date", "moment") and self.rng.random() < 0.4:
            return self.rng.choice([
                f"(({left}) - ({right}) {self.comparison()} INTERVAL '1' SECOND)",
                f"(({left}) BETWEEN ({right}) - INTERVAL 1 DAY AND ({right}) + INTERVAL '0.5' SECOND)",
            ])  # fmt: skip
        return f"(({left}) {self.comparison()} ({right}))"

    def comparison(self) -> str:
        return self.rng.choice(["=", "=", "=", "<", "<=", ">", ">=", "<>", "<=>"])

    def mixed(self, kind: str) -> str:
        """A value computed from both streams."""
        left, right = (f"({self.of(kind, 0, side, literals=False)})" for side in self.rng.sample("lr", 2))
        forms = [f"coalesce({left}, {right})", f"greatest({left}, {right})", f"least({left}, {right})"]
        forms.append(f"CASE WHEN {self.truth(1, 'lr')} THEN {left} ELSE {right} END")
        if kind == "number":
            forms += [f"{left} {op} {right}" for op in "+-*/%"] + [f"abs({left} - {right})"] * 3
        if kind == "text":
            forms.append(f"concat({left}, {right})")
        return self.rng.choice(forms)

    def of(self, kind: str, depth: int, sides: str, *, literals: bool = True) -> str:
        """An expression of a kind over columns of these sides."""
        available = [c for side in sides for c in self.columns[side].get(kind, [])]
        if depth <= 0 or not available:
            if available and (not literals or self.rng.random() < 0.85):
                return self.rng.choice(available)
            return self.literal(kind)
        write: Callable[[int, str], str] = getattr(self, kind)
        return write(depth, sides)

    def literal(self, kind: str) -> str:
        return self.rng.choice({
            "number": [
                "0", "1", "2", "-1", "3", "0.5", "0.01", "1.50", "100", "127", "-128", "2147483648", "1e0", "5L",
                "1e300", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "CAST('NaN' AS double)",
                "CAST('-Infinity' AS double)", "CAST(0.1 AS float)", "CAST(NULL AS int)", "CAST('x' AS int)",
            ],
            "text": ["''", "'a'", "'ab'", "'abcdefgh'", "'abcdefgha'", "'it''s'", "'日本語'", "CAST(NULL AS string)"],
            "date": ["DATE '2024-02-29'", "DATE '1970-01-01'", "DATE '9999-12-31'", "CAST(NULL AS date)"],
            "moment": [
                "TIMESTAMP '2024-02-29 00:00:01'", "TIMESTAMP '1969-12-31 23:59:59.999999'",
                "TIMESTAMP_NTZ '2024-02-29 00:00:00.000000001'", "CAST(NULL AS timestamp)",
            ],
            "truth": ["TRUE", "FALSE", "NULL"],
        }[kind])  # fmt: skip

    def number(self, depth: int, sides: str) -> str:
        rng, sub = self.rng, lambda: f"({self.of('number', depth - 1, sides)})"
        form = rng.randrange(13)
        if form < 4:
            return f"{sub()} {rng.choice('+-*')} {sub()}"
        if form == 4:
            whole = f"CAST({sub()} AS bigint) DIV CAST({sub()} AS int)"
            return rng.choice([f"{sub()} / {sub()}", f"{sub()} % {sub()}", whole])
        if form == 5:
            return rng.choice([f"abs({sub()})", f"- {sub()}", f"floor({sub()})", f"ceil({sub()})", f"abs({sub()})"])
        if form == 6:
            return f"CASE WHEN {self.truth(depth - 1, sides)} THEN {sub()} ELSE {sub()} END"
        if form == 7:
            targets = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,6)"]
            return f"CAST({sub()} AS {rng.choice(targets)})"
        if form == 8:
            return f"coalesce({sub()}, {sub()})"
        if form == 9:
            return f"{rng.choice(['least', 'greatest'])}({sub()}, {sub()})"
        if form == 10:
            return f"nullif({sub()}, {sub()})"
        if form == 11 and "text" in self.kinds:
            text = self.of("text", depth - 1, sides)
            return rng.choice([f"length({text})", f"CAST({text} AS int)", f"CAST({text} AS double)"])
        return sub()

    def text(self, depth: int, sides: str) -> str:
        rng, sub = self.rng, lambda: self.of("text", depth - 1, sides)
        form = rng.randrange(7)
        if form == 0:
            return f"CASE WHEN {self.truth(depth - 1, sides)} THEN {sub()} ELSE {sub()} END"
        if form == 1:
            return f"coalesce({sub()}, {sub()})"
        if form == 2:
            return f"{rng.choice(['upper', 'lower', 'trim'])}({sub()})"
        if form == 3:
            return f"substring({sub()}, {rng.choice(['1', '2', '-1', '0'])}, {rng.choice(['1', '3', '8'])})"
        if form == 4:
            return f"concat({sub()}, {sub()})"
        if form == 5:
            return f"CAST({self.of(rng.choice(self.kinds), 0, sides)} AS string)"
        return f"{rng.choice(['least', 'greatest'])}({sub()}, {sub()})"

    def date(self, depth: int, sides: str) -> str:
        sub = lambda: f"({self.of('date', depth - 1, sides)})"  # noqa: E731
        return self.rng.choice([
            lambda: f"{sub()} {self.rng.choice('+-')} {self.rng.choice(['1', '2', '0'])}",
            lambda: f"CAST(({self.of('moment', depth - 1, sides)}) AS date)",
            lambda: f"coalesce({sub()}, {sub()})",
            lambda: f"least({sub()}, {sub()})",
        ])()  # fmt: skip

    def moment(self, depth: int, sides: str) -> str:
        sub = lambda: f"({self.of('moment', depth - 1, sides)})"  # noqa: E731
        return self.rng.choice([
            lambda: f"{sub()} {self.rng.choice('+-')} INTERVAL {self.rng.choice(['1', '2'])} SECOND",
            lambda: f"CAST(({self.of('date', depth - 1, sides)}) AS timestamp)",
            lambda: f"coalesce({sub()}, {sub()})",
            lambda: f"greatest({sub()}, {sub()})",
            lambda: f"CASE WHEN {self.truth(depth - 1, sides)} THEN {sub()} ELSE {sub()} END",
        ])()  # fmt: skip

    def truth(self, depth: int, sides: str) -> str:
        rng = self.rng
        kind = rng.choice(self.kinds)
        sub = lambda: f"({self.of(kind, depth - 1, sides)})"  # noqa: E731
        form = rng.randrange(11 if depth > 0 else 5)
        if form < 2:
            return f"({sub()} {self.comparison()} {sub()})"
        if form == 2:
            return f"({sub()} IS {rng.choice(['NULL', 'NOT NULL'])})"
        if form == 3:
            items = ", ".join(rng.choice([lambda: self.literal(kind), sub])() for _ in range(rng.randint(1, 3)))
            return f"({sub()} {rng.choice(['IN', 'NOT IN'])} ({items}))"
        if form == 4:
            return f"({sub()} {rng.choice(['BETWEEN', 'NOT BETWEEN'])} {sub()} AND {sub()})"
        if form == 5:
            return f"(NOT {self.truth(depth - 1, sides)})"
        if form < 8:
            return f"({self.truth(depth - 1, sides)} {rng.choice(['AND', 'OR'])} {self.truth(depth - 1, sides)})"
        if form == 8:
            when, then, otherwise = (self.truth(depth - 1, sides) for _ in range(3))
            return f"(CASE WHEN {when} THEN {then} ELSE {otherwise} END)"
        if form == 9 and "text" in self.kinds:
            return f"({self.of('text', 0, sides)} LIKE {rng.choice(['%a%', 'ab%', '_', '%'])!r})"
        return f"({self.of('truth', 0, sides)} IS {rng.choice(['TRUE', 'NOT TRUE', 'FALSE', 'NULL'])})"


def schema(rng: random.Random, family: str) -> dict[str, pa.DataType]:
    """A few columns of a family."""
    types = FAMILIES[family]
    return {name: types[name] for name in rng.sample(sorted(types), min(len(types), rng.randint(2, 4)))}


Data = tuple[pa.Table, pa.Table]


def table(rng: random.Random, types: dict[str, pa.DataType], count: int, time: pa.Array) -> pa.Table:
    columns: dict[str, Any] = {"ts": time, **{name: values(rng, type_, count) for name, type_ in types.items()}}
    return pa.table(columns)
