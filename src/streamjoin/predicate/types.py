"""The value types of predicates: Spark SQL's, and how two of them meet.

Arrow columns map onto Spark's types as Spark itself reads them: unsigned integers become the next wider signed
type, uint64 becomes decimal(20,0). One type goes beyond Spark: timestamps in nanoseconds keep their nanoseconds.
Type coercion follows Spark with `spark.sql.ansi.enabled=false`, except that strings never turn into numbers (or
numbers into strings) without a CAST.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

Kind = Literal[
    "null", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
    "string", "date", "timestamp", "timestamp_ntz", "interval",
]  # fmt: skip

MAX_PRECISION = 38
INTEGERS = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*INTEGERS, "float", "double")  # in Spark's order of precedence
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
TICKS_PER_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True, slots=True)
class Type:
    """One SQL type. `precision` and `scale` belong to decimals, `unit` to timestamps and intervals."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    unit: str = "us"

    def __str__(self) -> str:
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"{self.kind}(9)" if self.unit == "ns" else self.kind

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGERS

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "double")

    @property
    def is_numeric(self) -> bool:
        return self.kind in NUMBERS or self.kind == "decimal"

    @property
    def is_timestamp(self) -> bool:
        return self.kind in ("timestamp", "timestamp_ntz")

    @property
    def bits(self) -> int:
        """Width of an integer type."""
        return INTEGER_BITS[self.kind]


NULL = Type("null")
BOOLEAN = Type("boolean")
TINYINT, SMALLINT, INT, BIGINT = Type("tinyint"), Type("smallint"), Type("int"), Type("bigint")
FLOAT, DOUBLE = Type("float"), Type("double")
STRING = Type("string")
DATE = Type("date")
TIMESTAMP, TIMESTAMP_NTZ = Type("timestamp"), Type("timestamp_ntz")
INTERVAL = Type("interval")


def decimal(precision: int, scale: int) -> Type:
    """A decimal type, cut to 38 digits the way Spark does: the fraction gives way first, down to 6 digits."""
    if precision > MAX_PRECISION:
        whole = precision - scale
        scale = max(MAX_PRECISION - whole, min(scale, 6))
        precision = MAX_PRECISION
    return Type("decimal", precision, scale)


def from_arrow(arrow: pa.DataType) -> Type | None:
    """The SQL type of an Arrow type, or None for a type that can only travel along."""
    t = pa.types
    if t.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    if t.is_null(arrow):
        return NULL
    if t.is_boolean(arrow):
        return BOOLEAN
    if t.is_integer(arrow):
        if t.is_signed_integer(arrow):
            return {8: TINYINT, 16: SMALLINT, 32: INT, 64: BIGINT}[arrow.bit_width]
        return {8: SMALLINT, 16: INT, 32: BIGINT, 64: decimal(20, 0)}[arrow.bit_width]
    if t.is_floating(arrow):
        return DOUBLE if arrow.bit_width == 64 else FLOAT
    if t.is_decimal(arrow):
        if arrow.precision > MAX_PRECISION or arrow.scale < 0 or arrow.scale > arrow.precision:
            return None
        return Type("decimal", arrow.precision, arrow.scale)
    if t.is_string(arrow) or t.is_large_string(arrow) or t.is_string_view(arrow):
        return STRING
    if t.is_date(arrow):
        return DATE
    if t.is_timestamp(arrow):
        kind: Kind = "timestamp_ntz" if arrow.tz is None else "timestamp"
        return Type(kind, unit="ns" if arrow.unit == "ns" else "us")
    if t.is_duration(arrow):
        return Type("interval", unit="ns" if arrow.unit == "ns" else "us")
    return None


_NAMES: dict[str, Type] = {
    "bool": BOOLEAN, "byte": TINYINT, "short": SMALLINT, "integer": INT, "long": BIGINT,
    "int8": TINYINT, "int16": SMALLINT, "int32": INT, "int64": BIGINT,
    "real": FLOAT, "float32": FLOAT, "float64": DOUBLE, "str": STRING, "varchar": STRING, "text": STRING,
    "decimal": Type("decimal", 10, 0), "numeric": Type("decimal", 10, 0), "dec": Type("decimal", 10, 0),
    **{kind: Type(kind) for kind in get_args(Kind) if kind not in ("null", "decimal", "interval")},
}  # fmt: skip


def from_name(name: str) -> Type | None:
    """The type that SQL calls `name` ("bigint", "decimal(18,4)"), or None."""
    text = name.strip().lower()
    match = re.fullmatch(r"(?:decimal|numeric|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text)
    if match:
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= MAX_PRECISION and scale <= precision:
            return Type("decimal", precision, scale)
        return None
    return _NAMES.get(text)


def as_decimal(type_: Type) -> Type:
    """The decimal type that holds every value of an integer or decimal type."""
    return type_ if type_.kind == "decimal" else Type("decimal", INTEGER_DIGITS[type_.kind], 0)


def finest(a: Type, b: Type) -> str:
    return "ns" if "ns" in (a.unit, b.unit) else "us"


def common_type(a: Type, b: Type) -> Type | None:
    """The type in which values of `a` and `b` are compared or brought together; None where there is none."""
    if a == b:
        return a
    if a.kind == "null":
        return b
    if b.kind == "null":
        return a
    if a.is_numeric and b.is_numeric:
        if "decimal" not in (a.kind, b.kind):
            return max(a, b, key=lambda t: NUMBERS.index(t.kind))
        if a.is_float or b.is_float:
            return DOUBLE
        a, b = as_decimal(a), as_decimal(b)
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        # Spark's widerDecimalType keeps the whole digits when 38 are not enough for both parts.
        precision = min(whole + scale, MAX_PRECISION)
        return Type("decimal", precision, min(scale, max(precision - whole, 0)))
    if a.kind == b.kind == "interval":
        return Type("interval", unit=finest(a, b))
    if (a.is_timestamp or a.kind == "date") and (b.is_timestamp or b.kind == "date"):
        # The session's time zone is UTC, so both kinds of timestamp count the same microseconds.
        kind: Kind = "timestamp" if "timestamp" in (a.kind, b.kind) else "timestamp_ntz"
        return Type(kind, unit=finest(a, b))
    return None
