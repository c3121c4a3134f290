"""What joins: SQL, column expressions or a Python function -> expression tree -> plan -> slots and kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ..arrow.fields import readable
from ..errors import ArgumentError, PredicateError
from .analyse import make_plan
from .bind import bind
from .expr import Expr
from .plan import Plan
from .reading.columns import ColumnExpr, col, lit, when
from .reading.functions import parse_function
from .types import from_arrow

__all__ = ["ColumnExpr", "Plan", "col", "lit", "parse", "plan_for", "when"]

Predicate = str | ColumnExpr | Callable[[Any, Any], Any]


def parse(on: Any) -> Expr:
    """The unbound tree of a predicate in any of its three forms."""
    if isinstance(on, str):
        if not on.isascii() and any("\ud800" <= char <= "\udfff" for char in on):
            raise PredicateError("on: the SQL text holds half a character (a lone surrogate); give valid text")
        from .reading.sql import parse_sql

        return parse_sql(on)
    if isinstance(on, ColumnExpr):
        return on.expr
    if callable(on):
        return parse_function(on)
    raise PredicateError(
        f"on: {on!r} is not a predicate; give a SQL string, an expression of col(...), or a function of two rows"
    )


def check_aliases(aliases: Sequence[str] | None) -> tuple[str, str]:
    """The names of the two streams in SQL and col()."""
    if aliases is None:
        return ("l", "r")
    names = tuple(aliases) if isinstance(aliases, Sequence) and not isinstance(aliases, str) else ()
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names) or names[0] == names[1]:
        raise ArgumentError(
            f"aliases: {aliases!r} is not valid; give two different names, such as ('trades', 'quotes')"
        )
    return names[0], names[1]


def plan_for(
    on: Predicate, left: pa.Schema, right: pa.Schema, aliases: Sequence[str] | None = None, case_sensitive: bool = True
) -> Plan:  # fmt: skip
    """Read, type-check and analyse a predicate against two Arrow schemas. Where case does not matter, a name that no
    column has stands for the column that differs from it in upper and lower case only."""
    names = check_aliases(aliases)
    schemas = [{name: from_arrow(found.type) for name, found in readable(schema).items()} for schema in (left, right)]
    with not_too_deep():
        return make_plan(bind(parse(on), schemas[0], schemas[1], names, case_sensitive))


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Report a RecursionError as an error of the predicate: how deep it may nest depends on the caller's stack."""
    try:
        yield
    except RecursionError:
        raise PredicateError("on: the predicate is nested too deeply; split it up") from None
