"""Emitting: bound expressions become source text in one small dialect that runs in several places.

The text uses operators on typed values and a few dozen functions (`pick`, `fle`, `intdiv`, ...). With the functions
of `ops_vector` it computes whole columns in NumPy. With those of `ops_scalar` Numba compiles it into the loops over
pairs. With those of `hardware.ops` it becomes a circuit. The text is the same, so the results agree; all are tested
against `values`.

Every value is a pair of texts: the value and its validity (None where it is never NULL). Each intermediate result
gets a name, so nothing is computed twice. Integers keep their width: `i32(a + b)` is 32 bits wide everywhere.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from .dialect import CONVERT, DTYPES, INT64_LIMIT, NotEmittable, Value, both_valid, dtype_of, limit_of
from .emit_decimals import FLOAT_DIGITS, DecimalEmitter
from .expr import COMPARISONS, FLOAT_FUNCTIONS, Call, Cast, Column, Constant, Expr
from .types import BOOLEAN, TICKS_PER_DAY, Type

__all__ = ["DTYPES", "FLOAT_DIGITS", "Emitter", "NotEmittable", "Value", "both_valid", "dtype_of", "limit_of"]


class Emitter(DecimalEmitter):
    """Writes the dialect. A subclass says what its leaves are (columns, or values computed beforehand)."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[Expr, Value] = {}
        self._names: dict[str, str] = {}

    @abstractmethod
    def leaf(self, expr: Expr) -> Value | None:
        """The value of `expr` if it needs no computing; None: compute it from its parts."""

    def value(self, expr: Expr) -> Value:
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self.leaf(expr) or self._compute(expr)
        return known

    def name(self, code: str) -> str:
        """A name for an intermediate result."""
        if self.is_name(code):
            return code
        known = self._names.get(code)
        if known is None:
            known = self._names[code] = self.result_name(len(self._names))
            self.lines.append(f"{known} = {code}")
        return known

    def result_name(self, number: int) -> str:
        return f"t{number}"

    def is_name(self, code: str) -> bool:
        """Whether the text is a name (or True, or False), so that it needs no other."""
        return code.isidentifier()

    def _named(self, code: str, valid: str | None, type_: Type, limit: int = 0) -> Value:
        limit = max(limit, 1) if type_.kind == "decimal" else limit or limit_of(type_)
        return Value(self.name(code), None if valid is None else self.name(valid), type_, limit)

    def _compute(self, expr: Expr) -> Value:
        match expr:
            case Constant(value, type_):
                return self.constant(value, type_)
            case Cast(arg, type_):
                return self._cast(arg, type_)
            case Call(op, args, type_):
                return self._call(op, args, type_)
            case Column():
                raise NotEmittable(expr)

    def constant(self, value: Any, type_: Type) -> Value:
        if type_.kind == "null":
            type_ = BOOLEAN
        if type_.kind == "decimal":
            if value is not None and abs(value) >= INT64_LIMIT:
                return Value(self.wide_constant(value, self._words(abs(value))), None, type_, abs(value))
            return Value(f"i64({value or 0})", "False" if value is None else None, type_, abs(value or 0))
        dtype = dtype_of(type_)
        if value is None:
            return Value(f"{CONVERT[dtype]}({'False' if dtype == 'bool' else 0})", "False", type_, limit_of(type_))
        if dtype == "bool":
            return Value(str(bool(value)), None, type_)
        text = repr(value)
        if isinstance(value, float) and not math.isfinite(value):
            text = "NAN" if value != value else "INF" if value > 0 else "-INF"
        elif value == -(2**63):
            text = "INT64_MIN"
        return Value(f"{CONVERT[dtype]}({text})", None, type_, abs(value) if isinstance(value, int) else 0)

    # -- operators -----------------------------------------------------------------------------------------------

    def _call(self, op: str, args: tuple[Expr, ...], type_: Type) -> Value:
        if op in ("and", "or"):
            return self._logic(op, [self.value(arg) for arg in args])
        if op == "case":
            return self._case(args, type_)
        if op == "coalesce":
            values = [self.value(arg) for arg in args]
            result = values[-1]
            for value in reversed(values[:-1]):
                result = self._pick(value.valid or "True", value, result, type_)
            return result
        if op in ("least", "greatest"):
            return self._extreme(op, [self.value(arg) for arg in args], type_)
        values = [self.value(arg) for arg in args]
        first = values[0]
        if op == "isnull":
            return self._named("False" if first.valid is None else f"not_({first.valid})", None, BOOLEAN)
        if op == "isnan":
            test = f"isnan({first.code})"
            return self._named(test if first.valid is None else f"({test} & {first.valid})", None, BOOLEAN)
        valid = both_valid(*(value.valid for value in values))
        if op in COMPARISONS:
            return self._named(self.compare(op, *values), valid, BOOLEAN)
        if op == "in":
            tests = [f"({self.compare('eq', first, item)})" for item in values[1:]]
            return self._named(self.chain("|", tests), valid, BOOLEAN)
        if op == "not":
            return self._named(f"not_({first.code})", valid, BOOLEAN)
        if op in ("neg", "abs"):
            return self._sign(op, first, valid, type_)
        if op in FLOAT_FUNCTIONS:
            if op == "ln":
                positive = self.name(f"not_({first.code} <= f64(0.0))")
                safe = self.name(f"pick({positive}, {first.code}, f64(1.0))")
                return self._named(f"ln({safe})", both_valid(valid, positive), type_)
            return self._named(f"{op}({first.code})", valid, type_)
        if op == "power":
            return self._named(f"power({first.code}, {values[1].code})", valid, type_)
        if op == "atan2":
            return self._named(f"atan2({first.code} + f64(0.0), {values[1].code} + f64(0.0))", valid, type_)
        if op in ("floor", "ceil"):
            if first.words > 1:
                return self._decimal_floor(op, first, valid, type_)
            if first.type.kind == "decimal":
                unit = 10**first.type.scale
                return self._named(f"{op}_unit({first.code}, i64({unit}))", valid, type_, first.limit // unit + 1)
            return self._named(f"sat64({op}({first.code}))", valid, type_)
        if op in ("add", "sub", "mul", "div", "intdiv", "rem", "floordiv", "floormod"):
            if "decimal" in (first.type.kind, values[1].type.kind):
                return self._decimal(op, first, values[1], valid, type_)
            return self._arithmetic(op, first, values[1], valid, type_)
        raise NotEmittable(op)

    def compare(self, op: str, a: Value, b: Value) -> str:
        """Text of a comparison; floats by Spark's order, in which NaN is largest and equals itself."""
        if not (a.type.is_float or b.type.is_float):
            return self.compare_exactly(op, a, b)
        return {
            "eq": f"feq({a.code}, {b.code})",
            "ne": f"not_(feq({a.code}, {b.code}))",
            "le": f"fle({a.code}, {b.code})",
            "ge": f"fle({b.code}, {a.code})",
            "lt": f"not_(fle({b.code}, {a.code}))",
            "gt": f"not_(fle({a.code}, {b.code}))",
        }[op]

    def _logic(self, op: str, values: list[Value]) -> Value:
        """Kleene's AND and OR."""
        if all(value.valid is None for value in values):
            return self._named(self.chain("&" if op == "and" else "|", [v.code for v in values]), None, BOOLEAN)
        true = [self.name(value.truth) for value in values]
        false = [self.name(f"not_({v.code})" if v.valid is None else f"(not_({v.code}) & {v.valid})") for v in values]
        code = self.name(self.chain("&" if op == "and" else "|", true))
        is_false = self.name(self.chain("|" if op == "and" else "&", false))
        return self._named(code, f"({code} | {is_false})", BOOLEAN)

    def chain(self, symbol: str, codes: list[str]) -> str:
        """Terms joined by & or |; a long chain in steps, since Python nests `a | b | c` one level per term."""
        while len(codes) > 50:
            steps = [codes[i : i + 50] for i in range(0, len(codes), 50)]
            codes = [self.name(self.chain(symbol, step)) for step in steps]
        return codes[0] if len(codes) == 1 else "(" + f" {symbol} ".join(codes) + ")"

    def _pick(self, condition: str, yes: Value, no: Value, type_: Type) -> Value:
        code = self.name(self._picked(condition, yes, no))
        if yes.valid is None and no.valid is None:
            valid = None
        else:
            valid = self.name(f"pick({condition}, {yes.valid or 'True'}, {no.valid or 'True'})")
        return Value(code, valid, type_, max(yes.limit, no.limit))

    def _case(self, args: tuple[Expr, ...], type_: Type) -> Value:
        result = self.value(args[-1])
        for condition, value in reversed(list(zip(args[:-1:2], args[1::2], strict=True))):
            result = self._pick(self.name(self.value(condition).truth), self.value(value), result, type_)
        return result

    def _extreme(self, op: str, values: list[Value], type_: Type) -> Value:
        """LEAST and GREATEST ignore NULLs."""
        result = values[0]
        for value in values[1:]:
            better = self.compare("lt" if op == "least" else "gt", value, result)
            if value.valid is not None or result.valid is not None:
                gone = "False" if result.valid is None else f"not_({result.valid})"
                better = f"(({gone} | {better}) & {value.valid or 'True'})"
            picked = self._pick(self.name(better), value, result, type_)
            valid = None
            if value.valid is not None and result.valid is not None:
                valid = self.name(f"({value.valid} | {result.valid})")
            result = Value(picked.code, valid, type_, picked.limit)
        return result

    def _sign(self, op: str, value: Value, valid: str | None, type_: Type) -> Value:
        if value.words > 1:
            return self._decimal_sign(op, value, valid, type_)
        convert = CONVERT[DTYPES[type_.kind]]
        if convert == "i64":
            negative = f"{'subsat' if type_.kind == 'interval' else 'sub64'}(i64(0), {value.code})"
            code = negative if op == "neg" else f"pick({value.code} < i64(0), {self.name(negative)}, {value.code})"
        else:
            code = f"{convert}(-{value.code})" if op == "neg" else f"abs_({value.code})"
        return self._named(code, valid, type_, value.limit)

    def _arithmetic(self, op: str, a: Value, b: Value, valid: str | None, type_: Type) -> Value:
        convert = CONVERT[dtype_of(type_)]
        if op in ("add", "sub", "mul"):
            if convert == "i64":  # compiled, a plain signed operation on 64 bits must not overflow
                ends = "64" if type_.is_integer else "sat"
                return self._named(f"{op}{ends}({a.code}, {b.code})", valid, type_)
            symbol = {"add": "+", "sub": "-", "mul": "*"}[op]
            return self._named(f"{convert}({a.code} {symbol} {b.code})", valid, type_)
        nonzero = self.name(f"({b.code} != {CONVERT[dtype_of(b.type)]}(0))")
        divisor = self.name(f"pick({nonzero}, {b.code}, {CONVERT[dtype_of(b.type)]}(1))")
        valid = both_valid(valid, nonzero)
        if op == "div":
            return self._named(f"({a.code} / {divisor})", valid, type_)
        function = f"f{op}" if type_.is_float else op
        return self._named(f"{convert}({function}({a.code}, {divisor}))", valid, type_)

    # -- casts ---------------------------------------------------------------------------------------------------

    def _cast(self, arg: Expr, target: Type) -> Value:
        value = self.value(arg)
        source = value.type
        if target.kind == "string" or source.kind == "string":
            raise NotEmittable(target)
        if target.kind == "decimal":
            return self._cast_to_decimal(value, target)
        convert = CONVERT[dtype_of(target)]
        code = value.code
        if source == target:
            return value
        if target.kind == "boolean":
            test = f"({code} != {CONVERT[DTYPES[source.kind]]}(0))"
            if value.words > 1:
                test = self.compare_exactly("ne", value, Value("i64(0)", None, source))
            return self._named(test, value.valid, target)
        if target.is_integer:
            if source.is_float:
                code = f"sat64({code})" if target.bits == 64 else f"sat32({code})"
            elif source.kind == "decimal":
                code = self._decimal_to_integer(value)
            elif source.is_timestamp:
                code = self.name(f"floordiv({code}, i64({TICKS_PER_DAY[source.unit] // 86_400}))")
                fits = None if target.bits == 64 else self.name(f"({code} == {convert}({code}))")
                return self._named(f"{convert}({code})", both_valid(value.valid, fits), target)
        elif target.is_float:
            if source.kind == "decimal":
                code = self._decimal_to_float(value, target)
            elif source.is_timestamp:
                code = f"(f64({code}) / f64({TICKS_PER_DAY[source.unit] / 86_400}))"
        elif target.kind == "date":
            code = f"floordiv({code}, i64({TICKS_PER_DAY[source.unit]}))"
        elif source.kind == "date":
            code = f"times(i64({code}), i64({TICKS_PER_DAY[target.unit]}))"
        elif source.is_float:
            valid = both_valid(value.valid, self.name(f"isfinite({code})"))
            return self._named(f"sat64(f64({code}) * f64({TICKS_PER_DAY[target.unit] / 86_400}))", valid, target)
        elif source.kind == "decimal":
            code = self._decimal_to_integer(value, len(str(TICKS_PER_DAY[target.unit] // 86_400)) - 1)
        elif source.is_integer:
            code = f"times(i64({code}), i64({TICKS_PER_DAY[target.unit] // 86_400}))"
        elif source.kind != "boolean" and source.unit != target.unit:
            code = f"times({code}, i64(1000))" if target.unit == "ns" else f"floordiv({code}, i64(1000))"
        return self._named(f"{convert}({code})", value.valid, target)
