"""Binding: an unbound tree and two schemas become a tree in which every column has a side and every node a type.

Invariant of a bound tree: both operands of a comparison are of one kind of value (two strings, two booleans, two
numbers that are both exact or both of the same floating type, two timestamps of one unit, ...); logical operators
have boolean operands; everything that depends on no column has become a constant. `coerce` has the rules.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ..arguments import ignoring_case
from ..errors import PredicateError
from ..side import SIDES, Side
from .coerce import explicit_cast, fold, typed_call, with_all_digits
from .expr import ARITHMETIC, Call, Cast, Column, Constant, Expr, children, sides
from .render import render, shown
from .types import BOOLEAN, Type

MAX_DEPTH = 200
MAX_NODES = 100_000

Schema = Mapping[str, Type | None]
"""Column names and their types; None for a type that only travels along."""


def bind(
    expr: Expr, left: Schema, right: Schema, aliases: tuple[str, str] = ("l", "r"), case_sensitive: bool = True
) -> Expr:  # fmt: skip
    """Type-check a predicate against two schemas; PredicateError says what is wrong with it."""
    _check_size(expr)
    bound = Binder(left, right, aliases, case_sensitive).bind(expr)
    if bound.type.kind == "null":
        bound = Constant(None, BOOLEAN)
    if bound.type != BOOLEAN:
        raise PredicateError(
            f"on: the predicate {shown(render(bound))} is of type {bound.type}; a join condition must be boolean, "
            "such as l.x = r.y"
        )
    used = sides(bound)
    if len(used) == 1:
        (side,) = used
        raise PredicateError(
            f"on: the predicate {shown(render(bound))} reads only the {side} stream; a join condition compares both "
            f"(columns of the other stream: {_listing(right if side == 'left' else left)}). Filter a single stream "
            "before the join, or give on='TRUE' for every pair in the window"
        )
    return bound


def _check_size(expr: Expr) -> None:
    level, depth, nodes = [expr], 0, 0
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        if depth > MAX_DEPTH:
            raise PredicateError(f"on: the predicate is nested too deeply (over {MAX_DEPTH} levels); split it up")
        if nodes > MAX_NODES:
            raise PredicateError(
                f"on: the predicate has over {MAX_NODES:,} terms; put long lists into a stream instead"
            )
        level = [child for node in level for child in children(node)]


def _listing(schema: Schema) -> str:
    names = list(schema)
    return ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "") if names else "none"


class Binder:
    """Binds expressions of any type; `bind` says what a predicate must be besides."""

    def __init__(self, left: Schema, right: Schema, aliases: tuple[str, str], case_sensitive: bool = True) -> None:
        self.schemas: dict[Side, Schema] = {"left": left, "right": right}
        self.aliases = aliases
        self.case_sensitive = case_sensitive

    def bind(self, expr: Expr) -> Expr:
        match expr:
            case Column():
                return self.column(expr)
            case Constant():
                return expr
            case Cast(arg, type_):
                return explicit_cast(self.bind(arg), type_)
            case Call(op, args):
                bound = tuple(self.bind(arg) for arg in args)
                if op in ARITHMETIC and any(arg.type.kind == "decimal" for arg in bound):
                    bound = tuple(map(with_all_digits, args, bound))
                return fold(typed_call(op, bound))

    def column(self, column: Column) -> Column:
        name, side = column.name, column.side
        if side is None and column.table is not None:
            streams = [column.table] if self.case_sensitive else ignoring_case(column.table, self.aliases)
            if len(streams) == 1 and streams[0] in self.aliases:
                side = "left" if streams[0] == self.aliases[0] else "right"
            elif any(self.names(f"{column.table}.{name}", owner) for owner in SIDES):
                name = f"{column.table}.{name}"
            else:
                raise PredicateError(
                    f"on: unknown stream {column.table!r} in {column.table}.{name}; the streams are called "
                    f"{self.aliases[0]!r} and {self.aliases[1]!r} (aliases= renames them)"
                )
        if side is None:
            owners: list[Side] = [owner for owner in SIDES if self.names(name, owner)]
            if len(owners) == 2:
                raise PredicateError(
                    f"on: column {name!r} is ambiguous, both streams have it; write {self.aliases[0]}.{name} or "
                    f"{self.aliases[1]}.{name}"
                )
            if not owners:
                raise self.unknown(name, self.schemas)
            side = owners[0]
        found = self.names(name, side)
        if not found:
            raise self.unknown(name, {side: self.schemas[side]})
        if len(found) > 1:
            raise PredicateError(
                f"on: column {name!r} is ambiguous, the {side} stream has {' and '.join(map(repr, found))}; write it "
                "as the stream does"
            )
        type_ = self.schemas[side][found[0]]
        if type_ is None:
            raise PredicateError(
                f"on: column {name!r} of the {side} stream has a type that a predicate cannot read; it reads numbers, "
                "booleans, decimals, text, dates, timestamps and durations (others can only travel along)"
            )
        return Column(found[0], None, side, type_)

    def names(self, name: str, side: Side) -> list[str]:
        """The columns of a side that a name may mean."""
        schema = self.schemas[side]
        if self.case_sensitive or name in schema:
            return [name] if name in schema else []
        return ignoring_case(name, schema)

    def unknown(self, name: str, schemas: Mapping[Side, Schema]) -> PredicateError:
        known = [column for schema in schemas.values() for column in schema]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        there = "; ".join(f"the {side} stream has: {_listing(schema)}" for side, schema in schemas.items())
        return PredicateError(f"on: unknown column {name!r}{hint}; {there}")
