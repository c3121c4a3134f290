"""Slots: the few integers or floats per tuple that a condition over two tuples reads, computed once per tuple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ..arrays import Array, Mask, Rows
from ..arrow.tables import raw_values, valid_rows
from ..side import Side
from .encode import LONG_TEXT, OFFSETS, Domain, Mode, approximate, encode, text_words
from .expr import Call, Cast, Column, Constant, Expr, walk
from .frames import PLAIN, Frame, read_words
from .types import Type
from .values import wrap
from .vector import Program, TextColumn, text_column
from .wide_vector import split


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a slot's expression becomes a number. Without a `domain` it keeps its value; `truth` makes NULL false."""

    domain: Domain | None = None
    mode: Mode = "exact"
    scale: int = 0
    truth: bool = False


VALIDITY = Encoding("validity")
"""Marks a slot that holds another slot's validity."""
_NOT_NUMERIC = ("hash", "prefix", "validity")
_NOTHING: Array = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Slot:
    """One number per tuple. `required`: a tuple in which it is NULL can match nothing and is not stored.
    Otherwise, `validity` is the number of the boolean slot that says where it is not NULL."""

    expr: Expr
    encoding: Encoding
    dtype: str
    required: bool = False
    validity: int | None = None


@dataclass(slots=True)
class SlotValues:
    """The slots of a batch: one column per slot, and which tuples are live (None: all)."""

    columns: list[Array]
    live: Mask | None
    long_text: bool = False

    def where(self, rows: Mask | Rows) -> SlotValues:
        """Those of some rows, which a mask or their places say."""
        live = None if self.live is None else self.live[rows]
        return SlotValues([column[rows] for column in self.columns], live, self.long_text)


class SideProgram:
    """Computes one side's slots from a batch."""

    def __init__(self, side: Side, filters: Sequence[Expr], slots: Sequence[Slot]) -> None:
        self.side = side
        self.slots = tuple(slots)
        self._filters, self._has_filters = Program(filters), bool(filters)
        self._validity_of = {slot.validity: i for i, slot in enumerate(self.slots) if slot.validity is not None}
        self._numeric: list[int] = []
        self._texts: dict[Expr, TextColumn] = {}
        exprs: list[Expr] = []
        for i, slot in enumerate(self.slots):
            if slot.encoding.domain in ("hash", "prefix"):
                self._texts[slot.expr] = text_column(slot.expr)
            if slot.encoding.domain not in _NOT_NUMERIC and not _is_word(slot):
                self._numeric.append(i)
                exprs.append(slot.expr)
        self._program = Program(exprs)
        self._plain = [] if filters else _plain(self.slots)
        self.read = (*filters, *(slot.expr for slot in self.slots))
        """All that is computed of a row."""
        self.columns = sorted({n.name for expr in self.read for n in walk(expr) if isinstance(n, Column)})

    def run(self, frame: Frame) -> SlotValues:
        """The slots of all tuples of a frame; those of tuples that are not live are arbitrary."""
        if self._plain:
            plain = self._copied(frame)
            if plain is not None:
                return SlotValues(plain, None)
        live = self._filters.true_rows(frame) if self._has_filters else None
        known = dict(zip(self._numeric, self._program.run(frame), strict=True)) if self._numeric else {}
        columns: list[Array] = []
        valids: dict[int, Mask | None] = {}
        long_text = False
        for i, slot in enumerate(self.slots):
            if i in self._validity_of:
                mask = valids[self._validity_of[i]]
                columns.append(np.ones(frame.length, np.bool_) if mask is None else mask)
                continue
            values, valid = self._encoded(slot, frame, known.get(i))
            if slot.encoding.domain == "hash":
                long_text = long_text or bool(np.count_nonzero(values & LONG_TEXT))
            valids[i] = valid
            if slot.required and valid is not None:
                live = valid if live is None else live & valid
            columns.append(values)
        # Numba would compile anew for arrays that are read-only or not aligned, as Arrow's may be.
        columns = [
            column if column.flags.carray else np.require(column, requirements=["C", "A", "W"]) for column in columns
        ]
        return SlotValues(columns, None if live is None or np.count_nonzero(live) == len(live) else live, long_text)

    def _copied(self, frame: Frame) -> list[Array] | None:
        """The slots as copies of their columns, or sums with a constant; None if a column has NULLs or another layout.
        `run` without this would give the same, but at several times the cost for a few rows."""
        columns: list[Array] = [_NOTHING] * len(self.slots)
        for name, dtype, uses in self._plain:
            column = frame.columns[name]
            if column.null_count or PLAIN.get(column.type.id) is not dtype:
                return None
            values = raw_values(column, dtype)
            for use in uses:
                found = use.of(values)
                if found is None:
                    return None
                columns[use.slot] = found
        return columns

    def _text(self, expr: Expr, frame: Frame) -> pa.Array:
        """The texts of an expression; those of a column as they lie, if that will do, since a cast costs a few us."""
        if isinstance(expr, Column):
            column = frame.arrow(expr)
            if column.type.id in OFFSETS:
                return column
        return self._texts[expr](frame)

    def _encoded(self, slot: Slot, frame: Frame, known: tuple[Array, Mask | None] | None) -> tuple[Array, Mask | None]:
        encoding = slot.encoding
        if encoding.domain in ("hash", "prefix"):
            return text_words(self._text(slot.expr, frame), encoding.domain)
        if isinstance(slot.expr, Column) and _is_word(slot):
            column = frame.arrow(slot.expr)
            return read_words(column)[encoding.domain == "low"], valid_rows(column)
        assert known is not None
        values, valid = known
        if encoding.domain in ("high", "low"):
            return split(values, valid)[encoding.domain == "low"], valid
        if encoding.domain == "approximate":
            return approximate(values, valid, slot.expr.type.scale)
        if encoding.truth:
            return (values if valid is None else values & valid), None
        if encoding.domain is None:
            return values, valid
        return encode(values, valid, slot.expr.type, encoding.domain, encoding.mode, encoding.scale)


@dataclass(frozen=True, slots=True)
class _Use:
    """A slot that is a column's values, or their sum with a constant; floats become integers of the same order."""

    slot: int
    summand: Any
    """Of the type of the sum; None: nothing is added."""
    floats: tuple[Type, Encoding] | None = None

    def of(self, values: Array) -> Array | None:
        """None: some values have no such number."""
        if self.floats is None:
            return values.copy() if self.summand is None else values + self.summand
        type_, encoding = self.floats
        assert encoding.domain is not None
        sums = values
        if self.summand is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                sums = values + self.summand
        encoded, valid = encode(sums, None, type_, encoding.domain, encoding.mode)
        return encoded if valid is None else None


Plain: TypeAlias = list[tuple[tuple[Side, str], Any, list[_Use]]]
"""Columns, the types that they must have in NumPy, and what they are used for."""


def _plain(slots: Sequence[Slot]) -> Plain:
    """For slots that hold numbers of columns, or sums of these and a constant; empty if there are other slots."""
    found: dict[tuple[tuple[Side, str], Any], list[_Use]] = {}
    for number, slot in enumerate(slots):
        is_float = slot.encoding.domain in ("f32", "f64")
        sum_ = _float_sum(slot.expr) if is_float else _sum(slot.expr)
        if sum_ is None or not (is_float or _keeps_values(slot)):
            return []
        column, summand = sum_
        assert column.side is not None
        if is_float:
            dtype: Any = _FLOATS[column.type.kind]
            use = _Use(number, summand, (slot.expr.type, slot.encoding))
        else:
            dtype = np.dtype(slot.dtype).type
            use = _Use(number, None if summand is None else np.array(summand, dtype))
        found.setdefault(((column.side, column.name), dtype), []).append(use)
    return [(name, dtype, uses) for (name, dtype), uses in found.items()]


_FLOATS: dict[str, Any] = {"float": np.float32, "double": np.float64}


def _float_sum(expr: Expr) -> tuple[Column, Any] | None:
    """A column of floats, and the number that is added to it, if any: as a double where the sum is one."""
    match expr:
        case Column(type=Type(kind="float" | "double")):
            return expr, None
        case Call("add" | "sub" as op, (term, Constant(float() as value))) if expr.type.kind == "double":
            column = term.arg if isinstance(term, Cast) and term.type.kind == "double" else term
            if isinstance(column, Column) and column.type.kind in _FLOATS and term.type.kind == "double":
                return column, np.float64(value if op == "add" else -value)
    return None


def _sum(expr: Expr) -> tuple[Column, int | None] | None:
    """A column, and the whole number that is added to it, if any. Sums wrap at the ends of the type, as NumPy's do."""
    match expr:
        case Column():
            return expr, None
        case Call("add", (Column() as column, Constant(int() as value))):
            pass
        case Call("add", (Constant(int() as value), Column() as column)):
            pass
        case Call("sub", (Column() as column, Constant(int() as value))):
            value = -value
        case _:
            return None
    if expr.type.kind not in ("int", "bigint") or column.type != expr.type:
        return None
    return column, wrap(value, expr.type.bits)


def _keeps_values(slot: Slot) -> bool:
    """Whether a slot holds a number as it is, if that has the slot's width."""
    encoding = slot.encoding
    if encoding.domain is None:
        return not encoding.truth
    return encoding.domain in ("i32", "i64") and encoding.mode == "exact" and slot.expr.type.is_integer


def _is_word(slot: Slot) -> bool:
    """Whether it is a word of a wide number that a column holds as it is."""
    return isinstance(slot.expr, Column) and slot.encoding.domain in ("high", "low")
