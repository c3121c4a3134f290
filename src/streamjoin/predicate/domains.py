"""Which domain a comparison between the streams takes place in, and how each operand enters it (see `encode`).

A 32-bit domain if one operand is at home in it (all its values are elements), else a 64-bit one. Strict comparisons
become closed ones: the operand that is not at home is rounded to the next element.
"""

from __future__ import annotations

from dataclasses import replace

from ..side import Side
from .coerce import comparable
from .encode import Domain, Mode
from .expr import MIRRORED, Cast, Expr
from .slots import Encoding, Slot
from .types import INTEGER_DIGITS, STRING, Type


def comparison_slots(op: str, left: Expr, right: Expr) -> tuple[Slot, Slot, str]:
    """Slots for a comparison of a left expression with a right one, and the closed comparison between them."""
    domain, scale, home = _domain(op, left, right)
    closed, modes = _closed(op, home, domain)
    if home is not None:
        left, right = _without_cast(left, domain), _without_cast(right, domain)
    return (*_slots(left, right, domain, modes, scale), closed)


def key_slots(op: str, key: Expr, bound: Expr, stored: Side) -> tuple[Slot, Slot]:
    """Slots for `key op bound` such that the key enters the domain as it is, whatever the bound and the operator."""
    left, right = (key, bound) if stored == "left" else (bound, key)
    op = op if stored == "left" else MIRRORED[op]
    left, right = comparable(op, left, right)
    domain, scale, home = _domain(op, left, right)
    if home is not None:
        if _at_home(left if stored == "left" else right, domain):
            left, right = _without_cast(left, domain), _without_cast(right, domain)
        else:
            domain, scale = _wide_domain(left, right)
    _, modes = _closed(op, stored, domain)
    slots = _slots(left, right, domain, modes, scale)
    return slots if stored == "left" else slots[::-1]


def simplest(type_: Type, encoding: Encoding) -> Encoding:
    """One name for encodings that give the same numbers, so that they share a slot."""
    if encoding == Encoding() and type_.kind in ("int", "bigint"):
        return Encoding("i32" if type_.kind == "int" else "i64")
    rounds = (encoding.domain == "i32" and not _is_small(type_)) or (encoding.domain == "f32" and type_.kind != "float")
    return encoding if encoding.mode in ("below", "above") or rounds else replace(encoding, mode="exact")


def _slots(left: Expr, right: Expr, domain: Domain, modes: tuple[Mode, Mode], scale: int) -> tuple[Slot, Slot]:
    dtype = "int32" if domain in ("i32", "f32") else "int64"
    return Slot(left, Encoding(domain, modes[0], scale), dtype), Slot(right, Encoding(domain, modes[1], scale), dtype)


def _domain(op: str, left: Expr, right: Expr) -> tuple[Domain, int, Side | None]:
    """The domain of a comparison, its decimal scale, and, if it is a narrow one, a side that is at home in it."""
    if left.type == STRING:
        return ("hash" if op in ("eq", "ne") else "prefix"), 0, None
    operands = (left, right)
    numbers = all(x.type.is_numeric or _is_small(x.type) for x in operands)
    narrow: tuple[Domain, ...] = ("f32", "i32") if numbers else ()
    for domain in narrow:
        home = [_at_home(x, domain) for x in operands]
        if not any(home) or (domain == "f32" and not (left.type.is_float and right.type.is_float)):
            continue
        if all(home):
            return domain, 0, "left"
        if op != "ne" and all(_encodable(x.type) for x in operands):
            return domain, 0, "left" if home[0] else "right"
    return (*_wide_domain(left, right), None)


def _wide_domain(left: Expr, right: Expr) -> tuple[Domain, int]:
    """The 64-bit domain in which numbers or moments of both types lie, and its decimal scale."""
    a, b = left.type, right.type
    if a.is_float:
        return "f64", 0
    if "decimal" in (a.kind, b.kind):
        scale = max(a.scale, b.scale)
        finer = [type_ for type_ in (a, b) if type_.scale == scale]
        fits = _encodable(a) and _encodable(b) and any(t.kind != "decimal" or t.precision <= 18 for t in finer)
        return ("decimal", scale) if fits else ("approximate", 0)
    return "i64", 0


_FROM_ABOVE: dict[str, Mode] = {"lt": "below", "le": "floor", "gt": "above", "ge": "ceil"}
_FROM_BELOW: dict[str, Mode] = {"lt": "above", "le": "ceil", "gt": "below", "ge": "floor"}


def _closed(op: str, home: Side | None, domain: Domain) -> tuple[str, tuple[Mode, Mode]]:
    """Turn < and > into <= and >= by rounding the operand that is not at home."""
    if op in ("eq", "ne"):
        return op, ("exact", "exact")
    closed = {"lt": "le", "le": "le", "gt": "ge", "ge": "ge"}[op]
    if domain in ("prefix", "approximate"):
        return closed, ("exact", "exact")
    if home == "right":  # the left operand is rounded: seen from the right, l < r is r > l
        return closed, (_FROM_BELOW[op], "exact")
    return closed, ("exact", _FROM_ABOVE[op])


def _at_home(expr: Expr, domain: Domain) -> bool:
    """Whether every value of the expression is an element of the domain."""
    type_ = _without_cast(expr, domain).type
    return type_.kind == "float" if domain == "f32" else _is_small(type_)


def _without_cast(expr: Expr, domain: Domain) -> Expr:
    """Drop a lossless widening cast of the operand that is at home in the domain."""
    if not isinstance(expr, Cast):
        return expr
    inner, outer = expr.arg.type, expr.type
    if domain == "f32":
        return expr.arg if inner.kind == "float" and outer.kind == "double" else expr
    if domain != "i32" or not _is_small(inner) or inner.kind == "date":
        return expr
    digits = INTEGER_DIGITS.get(inner.kind, 1)
    holds = outer.kind in ("double", "bigint") or (outer.kind == "decimal" and outer.precision - outer.scale >= digits)
    return expr.arg if holds else expr


def _is_small(type_: Type) -> bool:
    return type_.kind in ("boolean", "tinyint", "smallint", "int", "date")


def _encodable(type_: Type) -> bool:
    return type_.kind != "decimal" or type_.precision <= 18
