"""Whole columns at a time: the values of bound expressions over Arrow data, in NumPy.

Everything that reads one stream only is computed here (filters and slots, once per tuple), and rechecks of candidate
pairs, whose columns are gathered from both streams. What the dialect cannot say (text functions, wide decimals) is
evaluated row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import Array, Mask
from ..arrow.tables import decoded, raw_values
from ..errors import DataError
from ..side import Side
from . import ops_vector
from .emit import Emitter, NotEmittable, Value, both_valid, dtype_of, limit_of
from .evaluate import column_values, row_function
from .expr import COMPARISONS, Call, Column, Constant, Expr, walk
from .types import BOOLEAN, STRING, Type

_NAMESPACE = {name: getattr(ops_vector, name) for name in dir(ops_vector) if not name.startswith("_")}
PLAIN = {
    type_.id: type_.to_pandas_dtype()
    for type_ in (
        *(pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
        pa.float16(), pa.float32(), pa.float64(),
    )
}  # fmt: skip
"""The numbers of Arrow that NumPy has as well, by the type's id."""
_COMPARE = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip


class Frame:
    """Rows to compute on: Arrow columns of one or both streams, all of one length, read lazily and once."""

    def __init__(self, length: int, columns: Mapping[tuple[Side, str], pa.Array]) -> None:
        self.length = length
        self._columns = columns
        self._numbers: dict[tuple[Side | None, str], tuple[Array, Mask | None]] = {}

    def numbers(self, column: Column) -> tuple[Array, Mask | None]:
        """A numeric column as values and validity; values under NULL are arbitrary."""
        name = column.side, column.name
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = read_numbers(self.arrow(column), column.type)
        return known

    def arrow(self, column: Column) -> pa.Array:
        assert column.side is not None
        return self._columns[column.side, column.name]

    def rowwise(self, expr: Expr) -> list[Any]:
        """The expression's plain values, one row at a time."""
        function = row_function(expr)
        used = {n for n in walk(expr) if isinstance(n, Column)}
        lists = {column: column_values(self.arrow(column)) for column in used}
        left = {column.name: values for column, values in lists.items() if column.side == "left"}
        right = {column.name: values for column, values in lists.items() if column.side == "right"}
        return [
            function({name: v[i] for name, v in left.items()}, {name: v[i] for name, v in right.items()})
            for i in range(self.length)
        ]

    def decimals(self, expr: Expr, scale: int) -> pa.Array:
        """A column or constant of whole or decimal numbers, with room for 76 digits."""
        type_ = pa.decimal256(76, scale)
        if isinstance(expr, Constant):
            number = None if expr.value is None else Decimal(f"{expr.value}E-{expr.type.scale}")
            return pa.repeat(pa.scalar(number, type_), self.length)
        assert isinstance(expr, Column)
        column = decoded(self.arrow(expr))
        if pa.types.is_integer(column.type):
            column = column.cast(pa.decimal128(20, 0))
        return column.cast(type_)

    def text(self, expr: Expr) -> pa.Array:
        """A text expression as an Arrow array of large_string."""
        if isinstance(expr, Constant):
            return pa.repeat(pa.scalar(expr.value, pa.large_string()), self.length)
        if isinstance(expr, Column):
            return plain_text(self.arrow(expr))
        return pa.array(self.rowwise(expr), pa.large_string())


def _are_wide(args: tuple[Expr, ...]) -> bool:
    """Whether both are plain columns or constants, decimal or whole, and one is too wide for 64 bits."""
    plain = all(
        isinstance(arg, Column | Constant) and (arg.type.kind == "decimal" or arg.type.is_integer) for arg in args
    )
    return plain and any(arg.type.precision > 18 for arg in args)


def plain_text(column: pa.Array) -> pa.Array:
    """Any Arrow text (string_view, dictionary, ...) as large_string."""
    column = decoded(column)
    return column if column.type == pa.large_string() else column.cast(pa.large_string())


def read_numbers(column: pa.Array, type_: Type) -> tuple[Array, Mask | None]:
    """An Arrow array as a NumPy array of the type's own width, without a copy where the layouts agree."""
    column = decoded(column)  # first: a dictionary's own values may be NULL
    valid = np.asarray(column.is_valid()) if column.null_count else None
    arrow, dtype = column.type, dtype_of(type_)
    if arrow.id in PLAIN:
        return raw_values(column, PLAIN[arrow.id]).astype(dtype, copy=False), valid
    if pa.types.is_null(arrow):
        return np.zeros(len(column), dtype), np.zeros(len(column), np.bool_)
    if pa.types.is_boolean(arrow):
        return np.asarray(column.fill_null(False)), valid
    if pa.types.is_decimal(arrow):
        words = arrow.bit_width // 64
        if words == 0:
            return np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column)].astype(dtype), valid
        low = np.frombuffer(column.buffers()[1], np.int64)[::words] if len(column) else np.empty(0, np.int64)
        return low[column.offset : column.offset + len(column)], valid
    if pa.types.is_date64(arrow):
        column, arrow = column.cast(pa.date32()), pa.date32()
    raw = raw_values(column, np.int32 if pa.types.is_date32(arrow) else np.int64)
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return _to_micros(raw, valid, arrow.unit), valid
    return raw.astype(dtype, copy=False), valid


def _to_micros(ticks: Array, valid: Mask | None, unit: str) -> Array:
    """Seconds and milliseconds as microseconds; DataError where those do not fit."""
    factor = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}[unit]
    if factor == 1:
        return ticks
    present = ticks if valid is None else ticks[valid]
    edge = np.iinfo(np.int64).max // factor
    if len(present) and (int(present.max()) > edge or int(present.min()) < -edge):
        raise DataError(f"a timestamp of {int(np.abs(present).max())} {unit} does not fit into 64 bits of microseconds")
    return ticks * np.int64(factor)


class _FrameEmitter(Emitter):
    """Writes the dialect over the columns of a frame; `inputs` says how to fetch each named input."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[tuple[str, Callable[[Frame], Any]]] = []

    def value(self, expr: Expr) -> Value:
        try:
            return super().value(expr)
        except NotEmittable:
            dtype = dtype_of(expr.type)

        def fetch(frame: Frame) -> tuple[Array, Mask]:
            values = frame.rowwise(expr)
            valid = np.fromiter((x is not None for x in values), np.bool_, len(values))
            return np.array([0 if x is None else x for x in values], dtype), valid

        self._known[expr] = self._input(expr.type, fetch)
        return self._known[expr]

    def leaf(self, expr: Expr) -> Value | None:
        if isinstance(expr, Column):
            dtype_of(expr.type)
            return self._input(expr.type, lambda frame: frame.numbers(expr))
        if isinstance(expr, Call) and expr.args[0].type == STRING:
            if expr.op in COMPARISONS:
                compare = _COMPARE[expr.op]
                a, b = expr.args

                def fetch(frame: Frame) -> tuple[Array, Mask | None]:
                    return read_numbers(compare(frame.text(a), frame.text(b)), BOOLEAN)

                return self._input(BOOLEAN, fetch)
            if expr.op == "in":
                listed = [item.value for item in expr.args[1:] if isinstance(item, Constant)]
                items = pa.array(listed, pa.large_string())
                text = expr.args[0]

                def fetch_in(frame: Frame) -> tuple[Array, Mask | None]:
                    column = frame.text(text)
                    found, _ = read_numbers(pc.is_in(column, value_set=items), BOOLEAN)
                    return found, np.asarray(column.is_valid()) if column.null_count else None

                return self._input(BOOLEAN, fetch_in)
            if expr.op == "isnull":
                return self._input(BOOLEAN, lambda frame: (np.asarray(frame.text(expr.args[0]).is_null()), None))
        if isinstance(expr, Call) and expr.op in COMPARISONS and _are_wide(expr.args):
            wide = _COMPARE[expr.op]
            scale = max(arg.type.scale for arg in expr.args)
            first, second = expr.args
            return self._input(
                BOOLEAN,
                lambda frame: read_numbers(wide(frame.decimals(first, scale), frame.decimals(second, scale)), BOOLEAN),
            )
        if isinstance(expr, Call) and expr.op == "in" and len(expr.args) > 8:
            return self._long_list(expr)
        return None

    def _long_list(self, expr: Call) -> Value | None:
        value = self.value(expr.args[0])
        items = [item.value for item in expr.args[1:] if isinstance(item, Constant)]
        if value.type.is_float or value.type.kind == "boolean":
            return None
        name = f"k{len(self.inputs)}"
        table = np.array(sorted(set(items)), dtype_of(value.type))
        self.inputs.append((name, lambda frame: (table, None)))
        return self._named(f"isin({value.code}, {name})", value.valid, BOOLEAN)

    def _input(self, type_: Type, fetch: Callable[[Frame], tuple[Any, Mask | None]]) -> Value:
        name = f"c{len(self.inputs)}"
        self.inputs.append((name, fetch))
        return Value(name, f"{name}_valid", type_, limit_of(type_))


class Program:
    """Bound expressions, compiled once to a NumPy function of a frame."""

    def __init__(self, exprs: Sequence[Expr]) -> None:
        emitter = _FrameEmitter()
        results = [emitter.value(expr) for expr in exprs]
        self._inputs = emitter.inputs
        self._types = [dtype_of(expr.type) if expr.type.kind != "null" else "bool" for expr in exprs]
        parameters = [part for name, _ in self._inputs for part in (name, f"{name}_valid")]
        pairs = ", ".join(f"({r.code}, {both_valid(r.valid) or 'None'})" for r in results)
        body = "".join(f"    {line}\n" for line in emitter.lines)
        source = f"def program({', '.join(parameters)}):\n{body}    return [{pairs}]\n"
        namespace: dict[str, Any] = {**_NAMESPACE, "isin": np.isin}
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
    return None if array.all() else array
