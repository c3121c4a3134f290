"""An expression as SQL text, for messages and `explain`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from .casts import cast
from .expr import ARITHMETIC, COMPARISONS, Call, Cast, Column, Constant, Expr
from .types import STRING, TICKS_PER_DAY, Type

_BINDING = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(COMPARISONS, 4),
    "in": 4,
    "add": 5,
    "sub": 5,
    "neg": 7,
}
_ATOM = 9


def render(expr: Expr, aliases: tuple[str, str] = ("l", "r")) -> str:
    """SQL text of a bound or unbound expression. Casts that coercion added are left out."""
    return _render(expr, aliases)[0]


def _render(expr: Expr, aliases: tuple[str, str]) -> tuple[str, int]:
    match expr:
        case Column(name, table, side):
            prefix = aliases[side == "right"] if side else table
            plain = name.isidentifier() and name.isascii()
            return (f"{prefix}." if prefix else "") + (name if plain else f"`{name}`"), _ATOM
        case Constant(value, type_):
            text = constant_text(value, type_)
            return text, _ATOM if not text.startswith("-") else 7
        case Cast(arg, type_):
            return f"CAST({render(arg, aliases)} AS {type_})", _ATOM
        case Call(op, args, _):
            return _render_call(op, args, aliases)


def _render_call(op: str, args: tuple[Expr, ...], aliases: tuple[str, str]) -> tuple[str, int]:
    strength = _BINDING.get(op, 6 if op in ARITHMETIC else _ATOM)

    def operand(arg: Expr, tighter: int = 0) -> str:
        if op in ARITHMETIC and isinstance(arg, Constant) and not _says_its_digits(arg):
            return f"CAST({constant_text(arg.value, arg.type)} AS {arg.type})"
        text, own = _render(arg, aliases)
        return text if own >= strength + tighter else f"({text})"

    if op in ("and", "or"):
        return f" {op.upper()} ".join(operand(arg, 1) for arg in args), strength
    if op in COMPARISONS:
        return f"{operand(args[0], 1)} {COMPARISONS[op]} {operand(args[1], 1)}", strength
    if op in ("floormod", "floordiv"):
        return f"{op}({', '.join(render(arg, aliases) for arg in args)})", _ATOM
    if op in ARITHMETIC:
        return f"{operand(args[0])} {ARITHMETIC[op]} {operand(args[1], 1)}", strength
    if op == "not":
        return f"NOT {operand(args[0], 1)}", strength
    if op == "neg":
        return f"-{operand(args[0], 1)}", strength
    if op == "isnull":
        return f"{operand(args[0], -4)} IS NULL", 4
    if op == "in":
        return f"{operand(args[0], 1)} IN ({', '.join(render(arg, aliases) for arg in args[1:])})", strength
    if op == "case":
        whens = zip(args[:-1:2], args[1::2], strict=True)
        text = " ".join(f"WHEN {render(c, aliases)} THEN {render(value, aliases)}" for c, value in whens)
        return f"CASE {text} ELSE {render(args[-1], aliases)} END", _ATOM
    return f"{op}({', '.join(render(arg, aliases) for arg in args)})", _ATOM


def _says_its_digits(constant: Constant) -> bool:
    """Whether a decimal has just the digits that are written. Those of the result of arithmetic depend on them."""
    type_ = constant.type
    if type_.kind != "decimal" or constant.value is None:
        return True
    return type_.precision == max(len(str(abs(constant.value))), type_.scale)


def constant_text(value: Any, type_: Type) -> str:
    """A constant as SQL would write it."""
    if value is None:
        return "NULL"
    if type_.kind == "string":
        return "'" + str(value).replace("'", "''") + "'"
    if type_.kind == "decimal":
        return format(Decimal(value).scaleb(-type_.scale), "f")
    if type_.kind == "date":
        return f"DATE '{cast(value, type_, STRING)}'"
    if type_.is_timestamp:
        return f"TIMESTAMP '{cast(value, type_, STRING)}'"
    if type_.kind == "interval":
        seconds = Decimal(value) / (TICKS_PER_DAY[type_.unit] // 86_400)
        return f"INTERVAL '{seconds.normalize():f}' SECOND"
    return str(value).upper() if type_.kind == "boolean" else str(value)


def shown(value: Any) -> str:
    """What was given, short enough for a message."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else value[:77] + "...")
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
