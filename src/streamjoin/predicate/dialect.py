"""What the writers of the dialect share (see `emit`): its values, and what each of them fits into."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Type

DTYPES = {
    "boolean": "bool", "tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "date": "int32",
    "timestamp": "int64", "timestamp_ntz": "int64", "interval": "int64", "float": "float32", "double": "float64",
    "decimal": "int64", "null": "bool",
}  # fmt: skip
CONVERT = {
    "bool": "b1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64",
}  # fmt: skip
INT64_LIMIT = 2**63


class NotEmittable(Exception):
    """The expression has no form in the dialect: text, or decimals that need too many bits."""


@dataclass(frozen=True, slots=True)
class Value:
    """The text of a value. `limit` bounds the magnitude of a decimal or integer, to rule out overflow."""

    code: str
    valid: str | None
    type: Type
    limit: int = 0

    @property
    def truth(self) -> str:
        """For a boolean: true and not NULL."""
        return self.code if self.valid is None else f"({self.code} & {self.valid})"

    @property
    def words(self) -> int:
        """How many words of 64 bits it has. A decimal has as many as its limit needs."""
        return words_for(self.limit) if self.type.kind == "decimal" else 1


def words_for(limit: int) -> int:
    """The words of 64 bits that hold whole numbers up to a magnitude: 1, 2, 4, or 8 for what is larger."""
    return next((words for words in (1, 2, 4) if limit < 1 << (64 * words - 1)), 8)


def is_wide(type_: Type) -> bool:
    """Whether values need over 64 bits: in columns they are Python's integers."""
    return type_.kind == "decimal" and type_.precision > 18


def dtype_of(type_: Type) -> str:
    """The NumPy type of a value; NotEmittable where 64 bits do not hold it."""
    if type_.kind not in DTYPES or is_wide(type_):
        raise NotEmittable(type_)
    return DTYPES[type_.kind]


def column_dtype(type_: Type) -> str:
    """The NumPy type of a column of values; NotEmittable for text."""
    return "object" if is_wide(type_) else dtype_of(type_)


def limit_of(type_: Type) -> int:
    """The largest magnitude of a decimal or an integer."""
    if type_.kind == "decimal":
        return 10**type_.precision - 1
    return 1 << (type_.bits - 1) if type_.is_integer else 0


def both_valid(*parts: str | None) -> str | None:
    """The text that is true where all these validities are."""
    known = list(dict.fromkeys(part for part in parts if part is not None))
    return None if not known else known[0] if len(known) == 1 else "(" + " & ".join(known) + ")"
