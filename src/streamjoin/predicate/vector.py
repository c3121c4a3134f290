"""Whole columns at a time: the values of bound expressions over Arrow data, in NumPy.

Everything that reads one stream only is computed here (filters and slots, once per tuple), and rechecks of candidate
pairs, whose columns are gathered from both streams. Text is computed as Arrow's text; `value_to_text` and
`text_to_value` lead to it and back. What none of these can say is evaluated row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import Array, Mask
from ..arrow.tables import valid_rows
from ..side import Side
from . import ops_vector, texts
from .dialect import column_dtype, is_wide
from .emit import DTYPES, FLOAT_DIGITS, Emitter, NotEmittable, Value, both_valid, limit_of
from .evaluate import like_pattern
from .expr import COMPARISONS, Call, Cast, Column, Constant, Expr, sides
from .frames import PLAIN, Frame, read_numbers
from .text_to_value import read
from .texts import TEXT, plain_text
from .types import BOOLEAN, DOUBLE, STRING, Type
from .value_to_text import shortest_text, text_of

__all__ = ["PLAIN", "Frame", "Program", "plain_text", "read_numbers"]

_NAMESPACE = {name: getattr(ops_vector, name) for name in ops_vector.__all__}
# Constants of the dialect, which are converted once, not in each call.
_CONSTANT = re.compile(r"\b[if]\d+\(-?\d[\d.e+-]*\)")

TextColumn = Callable[[Frame], pa.Array]
"""The texts of an expression: one of large_string for each row of a frame."""


class _FrameEmitter(Emitter):
    """Writes the dialect over the columns of a frame; `inputs` says how to fetch each named input.

    In a program over pairs, a part that reads one stream is an input: it is computed once per row of that stream.
    """

    words: ClassVar[int] = 8

    def __init__(self, over_pairs: bool) -> None:
        super().__init__()
        self.inputs: list[tuple[str, Callable[[Frame], Any]]] = []
        self.slow: list[Expr] = []
        """What is evaluated row by row, pair by pair."""
        self.per_row: set[Side] = set()
        """The sides of which something is computed once per row."""
        self._over_pairs = over_pairs

    def wide_constant(self, number: int, words: int) -> str:
        return f"w{min(words, 4)}({number})"

    def value(self, expr: Expr) -> Value:
        try:
            return super().value(expr)
        except NotEmittable:
            dtype = column_dtype(expr.type)
        fetch = self._read_texts(expr, dtype) if isinstance(expr, Cast) else None
        self._known[expr] = self._input(expr.type, fetch or self._one_by_one(expr, dtype))
        return self._known[expr]

    def _read_texts(self, expr: Cast, dtype: str) -> Callable[[Frame], tuple[Array, Mask]] | None:
        """Texts that are read as values, and floats that become decimals by way of their texts."""
        if expr.arg.type == STRING:
            text = self.text(expr.arg)
            return lambda frame: read(text(frame), expr.type, dtype)
        return self._long_decimals(expr, dtype) if expr.arg.type.is_float else None

    def _long_decimals(self, expr: Cast, dtype: str) -> Callable[[Frame], tuple[Array, Mask]]:
        """Floats that become decimals of more digits than the dialect can make: those that need few by the dialect, the
        others by way of their texts."""
        few = Type("decimal", FLOAT_DIGITS, min(expr.type.scale, FLOAT_DIGITS))
        program = self._program([Cast(expr.arg, DOUBLE), Cast(expr.arg, few)])

        def fetch(frame: Frame) -> tuple[Array, Mask]:
            (floats, known), (numbers, made) = program.run(frame)
            values, valid = numbers.astype(dtype), np.ones(len(floats), np.bool_) if made is None else made.copy()
            if few.scale < expr.type.scale:
                valid[:] = False
            rest = ~valid & np.isfinite(floats) & (True if known is None else known)
            if rest.any():
                values[rest], valid[rest] = read(shortest_text(floats[rest], None), expr.type, dtype)
            return values, valid

        return fetch

    def _one_by_one(self, expr: Expr, dtype: str) -> Callable[[Frame], tuple[Array, Mask]]:
        function = self._row_by_row(expr)

        def fetch(frame: Frame) -> tuple[Array, Mask]:
            values = function(frame)
            valid = np.fromiter((x is not None for x in values), np.bool_, len(values))
            return np.array([0 if x is None else x for x in values], dtype), valid

        return fetch

    def _program(self, exprs: Sequence[Expr]) -> Program:
        """A program for parts of an expression."""
        program = Program(exprs)
        self.slow += program.slow
        self.per_row |= program.per_row
        return program

    def _row_by_row(self, expr: Expr) -> Callable[[Frame], list[Any]]:
        if self._over_pairs:
            self.slow.append(expr)
        return lambda frame: frame.rowwise(expr)

    def leaf(self, expr: Expr) -> Value | None:
        if isinstance(expr, Column):
            column_dtype(expr.type)
            if is_wide(expr.type) and expr.side is not None:
                self.per_row.add(expr.side)
            return self._input(expr.type, lambda frame: frame.numbers(expr))
        side = self._only_side(expr)
        if side is not None:
            column_dtype(expr.type)
            program = Program([expr])
            return self._input(expr.type, lambda frame: frame.spread(side, *program.run(frame.of(side))[0]))
        if isinstance(expr, Call) and expr.args[0].type == STRING and expr.type != STRING:
            fetch = self._text_test(expr)
            if fetch is not None:
                return self._input(expr.type, fetch)
        if isinstance(expr, Call) and expr.op == "in" and len(expr.args) > 8:
            return self._long_list(expr)
        return None

    def _only_side(self, expr: Expr) -> Side | None:
        """In a program over pairs: the side that a computed expression reads if it reads one only."""
        used = sides(expr) if self._over_pairs and not isinstance(expr, Constant | Column) else ()
        if len(used) != 1:
            return None
        self.per_row |= used
        return next(iter(used))

    def _long_list(self, expr: Call) -> Value | None:
        value = self.value(expr.args[0])
        items = [item.value for item in expr.args[1:] if isinstance(item, Constant)]
        if value.type.is_float or value.type.kind == "boolean" or value.words > 1:
            return None
        name = f"k{len(self.inputs)}"
        table = np.array(sorted(set(items)), DTYPES[value.type.kind])
        self.inputs.append((name, lambda frame: (table, None)))
        return self._named(f"isin({value.code}, {name})", value.valid, BOOLEAN)

    def _input(self, type_: Type, fetch: Callable[[Frame], tuple[Any, Mask | None]]) -> Value:
        name = f"c{len(self.inputs)}"
        self.inputs.append((name, fetch))
        return Value(name, f"{name}_valid", type_, limit_of(type_))

    # -- text ------------------------------------------------------------------------------------------------------

    def _text_test(self, expr: Call) -> Callable[[Frame], tuple[Array, Mask | None]] | None:
        """What is asked of texts: a condition, or a length. None: no function here does that."""
        text, *others = (self.text(arg) for arg in expr.args if arg.type == STRING)
        op = expr.op
        if op in COMPARISONS:
            compare = texts.COMPARISONS[op]
            return lambda frame: read_numbers(compare(text(frame), others[0](frame)), BOOLEAN)
        if op == "in":
            items = pa.array([item.value for item in expr.args[1:] if isinstance(item, Constant)], TEXT)

            def fetch_in(frame: Frame) -> tuple[Array, Mask | None]:
                column = text(frame)
                found, _ = read_numbers(pc.is_in(column, value_set=items), BOOLEAN)
                return found, valid_rows(column)

            return fetch_in
        if op == "isnull":
            return lambda frame: (np.asarray(text(frame).is_null()), None)
        if op == "length":
            return lambda frame: read_numbers(texts.length(text(frame)), expr.type)
        if op in ("startswith", "endswith", "contains"):
            return lambda frame: texts.found(op, text(frame), others[0](frame))
        if op == "like" and isinstance(expr.args[1], Constant) and expr.args[1].value is not None:
            pattern = like_pattern(expr.args[1].value)
            return lambda frame: read_numbers(texts.like(text(frame), pattern), BOOLEAN)
        return None

    def text(self, expr: Expr) -> TextColumn:
        """The texts of an expression, computed once per frame."""
        side = expr.side if isinstance(expr, Column) else self._only_side(expr)
        if side is not None:
            inner = _FrameEmitter(over_pairs=False)._texts(expr)
            of = side
            return lambda frame: frame.texts(expr, lambda: frame.spread_arrow(of, inner(frame.of(of))))
        compute = self._texts(expr)
        return lambda frame: frame.texts(expr, lambda: compute(frame))

    def _texts(self, expr: Expr) -> TextColumn:
        match expr:
            case Constant(value):
                return lambda frame: pa.repeat(pa.scalar(value, TEXT), frame.length)
            case Column():
                return lambda frame: plain_text(frame.arrow(expr))
            case Cast(arg) if arg.type.kind not in ("string", "null"):
                program = self._program([arg])
                return lambda frame: text_of(*program.run(frame)[0], arg.type)
            case Call(op, args) if all(arg.type == STRING for arg in args):
                parts = [self.text(arg) for arg in args]
                if op in texts.FUNCTIONS:
                    function = texts.FUNCTIONS[op]
                    return lambda frame: function(*(part(frame) for part in parts))
            case Call("substring", (arg, *numbers)) if all(isinstance(n, Constant) for n in numbers):
                whole = self.text(arg)
                bounds = [number.value for number in numbers if isinstance(number, Constant)]
                if None not in bounds:
                    return lambda frame: texts.substring(whole(frame), *bounds)
            case Call("substring", (arg, *numbers)) if any(not isinstance(n, Constant) for n in numbers):
                whole, program = self.text(arg), self._program(numbers)
                return lambda frame: texts.substring_of_each(whole(frame), *program.run(frame))
            case Call("case", args):
                conditions = [self._program([condition]) for condition in args[:-1:2]]
                choices = [self.text(choice) for choice in (*args[1::2], args[-1])]

                def choose(frame: Frame) -> pa.Array:
                    result = choices[-1](frame)
                    for condition, choice in zip(reversed(conditions), reversed(choices[:-1]), strict=True):
                        result = pc.if_else(pa.array(condition.true_rows(frame)), choice(frame), result)
                    return result

                return choose
        slow = self._row_by_row(expr)
        return lambda frame: pa.array(slow(frame), TEXT)


def text_column(expr: Expr) -> TextColumn:
    """The texts of an expression that reads one stream."""
    return _FrameEmitter(over_pairs=False).text(expr)


class Program:
    """Bound expressions, compiled once to a NumPy function of a frame."""

    def __init__(self, exprs: Sequence[Expr]) -> None:
        emitter = _FrameEmitter(over_pairs=any(len(sides(expr)) == 2 for expr in exprs))
        results = [emitter.value(expr) for expr in exprs]
        self.slow = tuple(emitter.slow)
        """The parts that are evaluated row by row for each pair."""
        self.per_row = frozenset(emitter.per_row)
        """The sides of which each row should stand in the frame once: something is computed of it alone."""
        self._inputs = emitter.inputs
        self._types = [column_dtype(expr.type) if expr.type.kind != "null" else "bool" for expr in exprs]
        parameters = [part for name, _ in self._inputs for part in (name, f"{name}_valid")]
        pairs = ", ".join(f"({r.code}, {both_valid(r.valid) or 'None'})" for r in results)
        body = "".join(f"    {line}\n" for line in emitter.lines)
        namespace: dict[str, Any] = {**_NAMESPACE, "isin": np.isin}
        source = f"def program({', '.join(parameters)}):\n{body}    return [{pairs}]\n"
        names: dict[str, str] = {}
        source = _CONSTANT.sub(lambda found: names.setdefault(found[0], f"constant{len(names)}"), source)
        with np.errstate(all="ignore"):
            namespace |= {name: eval(text, namespace) for text, name in names.items()}
        exec(compile(source, "<streamjoin column program>", "exec"), namespace)  # our own text: no user text gets in
        self._function = namespace["program"]

    def run(self, frame: Frame) -> list[tuple[Array, Mask | None]]:
        """Values and validity of each expression, as full-length arrays."""
        arguments: list[Any] = []
        for _, fetch in self._inputs:
            values, valid = fetch(frame)
            arguments += [values, np.True_ if valid is None else valid]
        with np.errstate(all="ignore"):
            results = self._function(*arguments)
        return [
            (_full(values, frame.length, dtype), None if valid is None else _mask(valid, frame.length))
            for (values, valid), dtype in zip(results, self._types, strict=True)
        ]

    def true_rows(self, frame: Frame) -> Mask:
        """Rows for which all the (boolean) expressions are true."""
        keep = np.ones(frame.length, np.bool_)
        for values, valid in self.run(frame):
            keep &= values if valid is None else values & valid
        return keep


def _full(values: Any, length: int, dtype: str) -> Array:
    array = np.asarray(values)
    if array.shape == (length,) and array.dtype == dtype:
        return array
    return np.broadcast_to(array.astype(dtype), (length,))


def _mask(valid: Any, length: int) -> Mask | None:
    if valid is np.True_:
        return None
    array = np.asarray(valid)
    if array.ndim == 0:
        return None if array else np.zeros(length, np.bool_)
    return None if np.count_nonzero(array) == length else array
