"""A plan as a circuit: what a tuple carries, which tuples take part, and which two of them match.

Invariant: `Circuit.accepts` is true for a tuple iff its side's filters are, and `Circuit.matches` is true for two such
tuples iff the plan's pair conditions are. Both come from the text that `predicate.emit` writes for every target; the
columns are raw, so the circuit needs nobody to prepare them. A column that only filters read is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Const, Module, Signal, Value, signed, unsigned
from amaranth.lib import data

from ..errors import PredicateError
from ..predicate.emit import DTYPES, Emitter, NotEmittable, dtype_of, limit_of
from ..predicate.emit import Value as Text
from ..predicate.expr import Call, Column, Expr, children, conjunction, walk
from ..predicate.plan import Plan
from ..predicate.render import render
from ..predicate.types import Type
from ..side import SIDES, Side
from . import ops

_NAMESPACE = {name: getattr(ops, name) for name in dir(ops) if not name.startswith("_")}
_WIDTHS = {"bool": 1, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
UINT64 = Type("decimal", 20, 0)
NO_CIRCUIT = (
    "the circuit computes with whole numbers: signed integers of up to 64 bits, unsigned ones of up to 32, booleans, "
    "dates, timestamps and decimals of up to 18 digits"
)


@dataclass(frozen=True, slots=True)
class Circuit:
    """A predicate ready to be built: layouts of tuples, and functions from tuples (views) to one-bit values."""

    columns: Mapping[Side, tuple[Column, ...]]
    """What enters with a tuple."""
    stored: Mapping[Side, tuple[Column, ...]]
    """What its window keeps: the columns of the pair conditions."""
    repeated: frozenset[Column]
    """Columns of the right stream that equal one of the left's in every pair, so that results carry them once."""
    nullable: frozenset[Column]
    payload: int
    plan: Plan
    names: Mapping[Column, str]
    """What columns are called in the circuit: their own names, as far as hardware languages allow."""

    def entering(self, side: Side) -> data.StructLayout:
        """A tuple at the input; `occupied` is 0 for a bubble, which moves the window and joins nothing."""
        return data.StructLayout({"occupied": 1, **self._fields(self.columns[side])})

    def tuple_of(self, side: Side) -> data.StructLayout:
        """A tuple in a window; `valid` is the paper's flag, false also for a tuple that its filters exclude."""
        return data.StructLayout({"valid": 1, **self._fields(self.stored[side])})

    @property
    def result(self) -> data.StructLayout:
        """A result: the columns of both tuples, equal ones once, and both payloads (96 bits in the papers)."""
        right = [column for column in self.stored["right"] if column not in self.repeated]
        return data.StructLayout({
            "left": data.StructLayout(self._fields(self.stored["left"])),
            "right": data.StructLayout(self._fields(right)),
        })  # fmt: skip

    def _fields(self, columns: Iterable[Column]) -> dict[str, Any]:
        """Values, which of them are not NULL (where a column may hold NULLs), and the payload."""
        values = {self.names[column]: column_shape(column) for column in columns}
        known = {self.names[column]: 1 for column in columns if column in self.nullable}
        return {
            "values": data.StructLayout(values),
            "known": data.StructLayout(known),
            "payload": unsigned(self.payload),
        }

    def accepts(self, m: Module, side: Side, entering: Any) -> Value:
        """Whether an entering tuple takes part at all."""
        return self._truth(m, conjunction(self.plan.filter_of(side)), {side: entering})

    def matches(self, m: Module, left: Any, right: Any) -> Value:
        """Whether two tuples that take part match."""
        return self._truth(m, conjunction(self.plan.pair), {"left": left, "right": right})

    def _truth(self, m: Module, expr: Expr, tuples: Mapping[Side, Any]) -> Value:
        """Each intermediate result becomes a wire, so that nothing is built twice."""
        emitter = _ColumnEmitter(self.nullable)
        text = emitter.value(expr).truth
        names: dict[str, Any] = {}
        for column, name in emitter.used.items():
            assert column.side is not None
            view = tuples[column.side]
            names[name] = view.values[self.names[column]]
            if column in self.nullable:
                names[f"{name}_valid"] = view.known[self.names[column]]
        for line in emitter.lines:
            name, code = line.split(" = ", 1)
            value = eval(code, _NAMESPACE, names)
            if isinstance(value, Value) and not isinstance(value, Const):
                wire = Signal(value.shape())
                m.d.comb += wire.eq(value)
                value = wire
            names[name] = value
        value = eval(text, _NAMESPACE, names)
        return Const(int(value), 1) if isinstance(value, bool) else Value.cast(value)[0]


class _ColumnEmitter(Emitter):
    """Writes the dialect over raw columns, named by their side and a number."""

    def __init__(self, nullable: frozenset[Column]) -> None:
        super().__init__()
        self.used: dict[Column, str] = {}
        self._nullable = nullable

    def leaf(self, expr: Expr) -> Text | None:
        if not isinstance(expr, Column):
            return None
        assert expr.side is not None
        name = self.used.setdefault(expr, f"{expr.side[0]}{len(self.used)}")
        valid = f"{name}_valid" if expr in self._nullable else None
        return Text(name, valid, expr.type, limit_of(expr.type))


def column_shape(column: Column) -> Any:
    width = _WIDTHS[DTYPES[column.type.kind]]
    return unsigned(1) if width == 1 else signed(width)


def circuit_of(plan: Plan, nullable: Iterable[tuple[Side, str]], payload: int) -> Circuit:
    """Check that a plan has a circuit, and lay out its tuples."""
    _check(plan)
    terms = {side: [*plan.filter_of(side), *plan.pair] for side in SIDES}
    columns = {side: _columns(terms[side], side) for side in SIDES}
    stored = {side: _columns(plan.pair, side) for side in SIDES}
    equal = [
        (term.args[0], term.args[1]) for term in plan.pair if isinstance(term, Call) and term.op == "eq"
    ]  # fmt: skip
    repeated = frozenset(r for l, r in equal if isinstance(l, Column) and isinstance(r, Column) and l.type == r.type)
    with_nulls = set(nullable)
    all_columns = [column for side in SIDES for column in columns[side]]
    nulls = frozenset(column for column in all_columns if (column.side, column.name) in with_nulls)
    return Circuit(columns, stored, repeated, nulls, payload, plan, _names(columns))


def _names(columns: Mapping[Side, tuple[Column, ...]]) -> dict[Column, str]:
    """Letters, digits and underscores only, and no two alike."""
    names: dict[Column, str] = {}
    for side in SIDES:
        taken: set[str] = set()
        for number, column in enumerate(columns[side]):
            name = re.sub(r"[^A-Za-z0-9_]", "_", column.name)
            if not name or name[0].isdigit() or name in taken:
                name = f"column{number}_{name}"
            taken.add(name)
            names[column] = name
    return names


def _columns(terms: Iterable[Expr], side: Side) -> tuple[Column, ...]:
    found = {n: None for term in terms for n in walk(term) if isinstance(n, Column) and n.side == side}
    return tuple(sorted(found, key=lambda column: column.name))


def _is_whole(expr: Expr) -> bool:
    try:
        return dtype_of(expr.type) in _WIDTHS
    except NotEmittable:
        return False


def _check(plan: Plan) -> None:
    """An expression that no circuit computes is an error of the predicate, and named."""
    whole = conjunction([*plan.filter_of("left"), *plan.filter_of("right"), *plan.pair])
    for node in walk(whole):
        if not _is_whole(node) and all(_is_whole(child) for child in children(node)):
            hint = " (an unsigned integer of 64 bits is one; cast it to bigint)" if node.type == UINT64 else ""
            raise PredicateError(f"on: {NO_CIRCUIT}; {render(node)} is {node.type}{hint}")
    try:
        _ColumnEmitter(frozenset()).value(whole)
    except NotEmittable as reason:
        raise PredicateError(f"on: {NO_CIRCUIT}; there is none for {reason}") from None
