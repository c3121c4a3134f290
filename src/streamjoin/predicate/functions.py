"""Predicates as Python functions of two rows: read from their source, never run.

`lambda l, r: abs(l.x - r.a) <= 10` becomes the same tree as the SQL text would. The first parameter is the left row,
the second the right one; every other name stands for the value that it has when the function is given. An expression
evaluates to a `Row`, to a `Known` Python value or to a tree, and only trees depend on the data. None means NULL and
logic is SQL's: a condition over NULL is neither true nor false, and `if` takes its else branch.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import inspect
import math
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from ..errors import PredicateError
from ..side import Side
from .expr import Call, Cast, Column, Constant, Expr, conjunction, disjunction
from .forms import elements, is_truth, membership, negative, repeatable
from .literals import constant
from .render import shown
from .source import INSTEAD, locate
from .types import BIGINT, BOOLEAN, DOUBLE, STRING, Type

MAX_INLINED = 10
MAX_STEPS = 10_000
MAX_TERMS = 10_000
MAX_ITEMS = 100_000


@dataclass(frozen=True, slots=True)
class Row:
    """A whole row of one stream; `name` is the parameter that the user gave it."""

    side: Side
    name: str


@dataclass(frozen=True, slots=True)
class Known:
    """A Python value that does not depend on the data."""

    value: Any


Value = Row | Known | Expr

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("floormod", operator.mod), ast.Pow: ("power", operator.pow),
    ast.BitAnd: ("and", operator.and_), ast.BitOr: ("or", operator.or_),
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne), ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge),
}  # fmt: skip
_CASTS: dict[Any, Type] = {int: BIGINT, float: DOUBLE, str: STRING, bool: BOOLEAN}
_CALLS: dict[Any, tuple[str, int]] = {  # the operator and how many arguments it takes; -1: two or more
    abs: ("abs", 1), len: ("length", 1), min: ("least", -1), max: ("greatest", -1), pow: ("power", 2),
    math.fabs: ("abs", 1), math.sqrt: ("sqrt", 1), math.exp: ("exp", 1), math.log: ("ln", 1), math.sin: ("sin", 1),
    math.cos: ("cos", 1), math.tan: ("tan", 1), math.asin: ("asin", 1), math.acos: ("acos", 1),
    math.atan: ("atan", 1), math.atan2: ("atan2", 2), math.radians: ("radians", 1), math.degrees: ("degrees", 1),
    math.pow: ("power", 2), math.floor: ("floor", 1), math.ceil: ("ceil", 1), math.isnan: ("isnan", 1),
}  # fmt: skip
_METHODS = {"startswith": 1, "endswith": 1, "upper": 0, "lower": 0}
_MAKERS = (*_CALLS, *_CASTS, dt.timedelta, dt.datetime, dt.date, Decimal, range, round)
"""What may be called on known values while the function is read."""
_PLAIN = (bool, int, float, str, Decimal, dt.date, dt.timedelta, type(None))


def parse_function(fn: Any) -> Expr:
    """The unbound tree of a Python function of two rows; its columns already know their side."""
    if not isinstance(fn, types.FunctionType):
        raise PredicateError(
            f"on: {shown(fn)} is a {type(fn).__name__}, not a plain Python function; write "
            "lambda l, r: ... or def match(l, r): ..., or " + INSTEAD
        )
    count, only = fn.__code__.co_argcount, fn.__code__.co_kwonlyargcount
    names = list(fn.__code__.co_varnames[: count + only])
    optional = {*names[count - len(fn.__defaults__ or ()) : count], *(fn.__kwdefaults__ or ())}
    if count < 2 or set(names[2:]) - optional:
        raise PredicateError(
            f"on: the function {_name(fn)} takes {len(names)} parameters ({', '.join(names)}); it must take "
            "two rows, as in lambda l, r: l.x == r.y (further ones need defaults)"
        )
    rows: dict[str, Value] = {names[0]: Row("left", names[0]), names[1]: Row("right", names[1])}
    try:
        return _Reader(fn, [0]).call(rows)
    except RecursionError:
        raise PredicateError(f"on: the function {_name(fn)} is nested too deeply; {INSTEAD}") from None


def _name(fn: types.FunctionType) -> str:
    return f"{fn.__name__} ({fn.__code__.co_filename}:{fn.__code__.co_firstlineno})"


class _Reader:
    """Reads one function; `steps` counts all work, `depth` the functions inlined into one another."""

    def __init__(self, fn: types.FunctionType, steps: list[int], depth: int = 0) -> None:
        kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        if fn.__code__.co_flags & kinds:
            raise PredicateError(f"on: {_name(fn)} is a generator or async function; a plain one that returns will do")
        if fn.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            raise PredicateError(f"on: {_name(fn)} takes *args or **kwargs (a wrapper?); name its parameters")
        if depth > MAX_INLINED:
            raise PredicateError(f"on: {_name(fn)} is called over {MAX_INLINED} functions deep; {INSTEAD}")
        self.fn, self.steps, self.depth = fn, steps, depth
        self.node, self.lines = locate(fn.__code__, fn.__globals__)
        self.cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))

    def call(self, args: dict[str, Value]) -> Expr:
        """The function's result for the given arguments, as a tree."""
        return self.tree(self.result(args), self.node)

    def result(self, args: dict[str, Value]) -> Value:
        positional = self.fn.__code__.co_varnames[: self.fn.__code__.co_argcount]
        defaults = self.fn.__defaults__ or ()
        scope: dict[str, Value] = {
            **{k: Known(v) for k, v in zip(positional[len(positional) - len(defaults) :], defaults, strict=True)},
            **{k: Known(v) for k, v in (self.fn.__kwdefaults__ or {}).items()},
            **args,
        }
        if isinstance(self.node, ast.Lambda):
            return self.value(self.node.body, scope)
        return self.block(list(self.node.body), scope)

    def fail(self, node: ast.AST, what: str) -> NoReturn:
        number = getattr(node, "lineno", self.node.lineno)
        line = shown(self.lines[number - 1].strip())
        raise PredicateError(f"on: {what}, in {line} ({self.fn.__code__.co_filename}:{number})")

    def tree(self, value: Value, node: ast.AST) -> Expr:
        """A value as a tree; rows are no values, captured objects become constants."""
        if isinstance(value, Row):
            self.fail(node, f"{value.name} is a whole row; name a column of it, such as {value.name}.x")
        if not isinstance(value, Known):
            return value
        try:
            return constant(value.value)
        except (PredicateError, ValueError, OverflowError):
            self.fail(node, f"{shown(value.value)} is no constant; numbers, text, dates and None will do")

    # Statements

    def block(self, body: list[ast.stmt], scope: dict[str, Value]) -> Value:
        """What the statements return. An `if` reads what follows it once for each branch."""
        for i, statement in enumerate(body):
            self.count(statement)
            match statement:
                case ast.Return(value=None):
                    self.fail(statement, "return without a value; every path must return a condition")
                case ast.Return(value=ast.expr() as result):
                    return self.value(result, scope)
                case ast.If(test, then, otherwise):
                    condition, rest = self.value(test, scope), body[i + 1 :]
                    if isinstance(condition, Known):
                        return self.block((then if condition.value else otherwise) + rest, scope)
                    yes = self.tree(self.block(then + rest, dict(scope)), test)
                    no = self.tree(self.block(otherwise + rest, dict(scope)), test)
                    return _choice(self.tree(condition, test), yes, no)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self.assign(target, value, scope)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self.assign(target, value, scope)
                case ast.AugAssign(target=ast.Name(name) as target, op=op, value=value):
                    load = ast.copy_location(ast.Name(name, ast.Load()), target)
                    self.assign(target, ast.copy_location(ast.BinOp(load, op, value), statement), scope)
                case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                    pass
                case _:
                    self.unsupported(statement)
        self.fail(self.node, f"{self.fn.__name__} can end without return; every path must return a condition")

    def assign(self, target: ast.expr, value: ast.expr, scope: dict[str, Value]) -> None:
        match target, value:
            case ast.Name(name), _:
                result = self.value(value, scope)
                scope[name] = result if isinstance(result, (Row, Known)) else repeatable(result, MAX_TERMS)
            case ast.Tuple(names), ast.Tuple(values) if len(names) == len(values):
                new = [self.value(part, scope) for part in values]
                for name_, part in zip(names, new, strict=True):
                    if not isinstance(name_, ast.Name):
                        self.unsupported(target)
                    scope[name_.id] = part
            case _:
                self.unsupported(target)

    def count(self, node: ast.AST) -> None:
        self.steps[0] += 1
        if self.steps[0] > MAX_STEPS:
            self.fail(node, f"the function has too many branches (over {MAX_STEPS:,} steps to read)")

    def unsupported(self, node: ast.AST) -> NoReturn:
        kind = type(node).__name__
        self.fail(node, f"{kind} is not supported in a predicate function; simplify it, or {INSTEAD}")

    # Expressions

    def value(self, node: ast.expr, scope: dict[str, Value]) -> Value:
        self.count(node)
        match node:
            case ast.Constant(value):
                return Known(value)
            case ast.Name(name):
                return self.lookup(name, node, scope)
            case ast.Attribute(base, name):
                return self.attribute(self.value(base, scope), name, node)
            case ast.Subscript(base, key):
                return self.subscript(self.value(base, scope), self.value(key, scope), node)
            case ast.BoolOp(op, parts):
                return self.logic(isinstance(op, ast.And), parts, scope)
            case ast.BinOp(left, op, right):
                return self.binary(self.value(left, scope), op, self.value(right, scope), node)
            case ast.UnaryOp(op, operand):
                return self.unary(op, self.value(operand, scope), node)
            case ast.Compare(left, ops, rights):
                return self.comparisons(left, ops, rights, scope)
            case ast.IfExp(test, yes, no):
                condition = self.value(test, scope)
                if isinstance(condition, Known):
                    return self.value(yes if condition.value else no, scope)
                return _choice(self.tree(condition, test), *(self.tree(self.value(e, scope), e) for e in (yes, no)))
            case ast.Call(fn, args, keywords):
                return self.calling(fn, args, keywords, scope, node)
            case ast.Tuple(items) | ast.List(items) | ast.Set(items):
                return Known([self.known(self.value(item, scope), item) for item in items])
            case _:
                self.unsupported(node)

    def lookup(self, name: str, node: ast.AST, scope: dict[str, Value]) -> Value:
        if name in scope:
            return scope[name]
        if name in self.cells:
            try:
                return Known(self.cells[name].cell_contents)
            except ValueError:
                self.fail(node, f"{name} has no value yet")
        if name in self.fn.__code__.co_varnames:
            self.fail(node, f"{name} is used before it has a value on every path")
        for names in (self.fn.__globals__, vars(builtins)):
            if name in names:
                return Known(names[name])
        self.fail(node, f"the name {name} is not defined")

    def attribute(self, base: Value, name: str, node: ast.AST) -> Value:
        if isinstance(base, Row):
            return Column(name, base.name, base.side)
        if isinstance(base, Known):
            return Known(self.run(node, getattr, base.value, name))
        self.fail(node, f".{name} of a column is not supported; there are the methods {', '.join(_METHODS)}")

    def subscript(self, base: Value, key: Value, node: ast.AST) -> Value:
        if not isinstance(key, Known) or not isinstance(base, (Row, Known)):
            self.unsupported(node)
        if isinstance(base, Known):
            return Known(self.run(node, operator.getitem, base.value, key.value))
        if not isinstance(key.value, str):
            self.fail(node, f"a column is named by text, not by {shown(key.value)}; write {base.name}['x']")
        return Column(key.value, base.name, base.side)

    def logic(self, conjunctive: bool, parts: list[ast.expr], scope: dict[str, Value]) -> Value:
        """`and`, `or`; what a known value decides is not read any further, as Python would not run it."""
        terms: list[Expr] = []
        known = True
        for part in parts:
            value = self.value(part, scope)
            known = known and isinstance(value, Known)
            decided = isinstance(value, Known) and value.value is not None and bool(value.value) != conjunctive
            if known and (decided or part is parts[-1]):
                return value
            terms.append(self.tree(value, part))
            if decided:
                break
        return conjunction(terms) if conjunctive else disjunction(terms)

    def binary(self, left: Value, op: ast.operator, right: Value, node: ast.expr) -> Value:
        if type(op) not in _BINARY:
            self.fail(node, f"the operator {type(op).__name__} is not supported; there are + - * / // % ** & |")
        name, compute = _BINARY[type(op)]
        if isinstance(left, Known) and isinstance(right, Known):
            a, b = self.plain(left, node), self.plain(right, node)
            if name == "mul" and (isinstance(a, str) or isinstance(b, str)):
                self.fail(node, "text cannot be multiplied")
            return Known(self.run(node, _power if name == "power" else compute, a, b))
        args = self.tree(left, node), self.tree(right, node)
        if name in ("and", "or"):
            return conjunction(args) if name == "and" else disjunction(args)
        if name == "add" and any(isinstance(arg, Constant) and arg.type == STRING for arg in args):
            name = "concat"
        return Call(name, args)

    def unary(self, op: ast.unaryop, value: Value, node: ast.expr) -> Value:
        match op, value:
            case ast.USub(), Known():
                return Known(self.run(node, operator.neg, self.plain(value, node)))
            case ast.Not(), Known():
                return Known(not value.value) if value.value is not None else value
            case ast.USub(), _:
                return negative(self.tree(value, node))
            case ((ast.Not() | ast.Invert()), _):
                return Call("not", (self.tree(value, node),))
            case _:
                return self.tree(value, node)

    def comparisons(
        self, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr], scope: dict[str, Value]
    ) -> Value:
        """a < b < c is a < b and b < c."""
        terms: list[Value] = []
        a = self.value(left, scope)
        for op, right in zip(ops, rights, strict=True):
            b: Value = Known(None)
            if isinstance(op, (ast.In, ast.NotIn)):
                found = self.contains(a, right, scope)
                terms.append(self.unary(ast.Not(), found, right) if isinstance(op, ast.NotIn) else found)
            else:
                b = self.value(right, scope)
                terms.append(self.comparison(a, op, b, right))
            a = b
        if len(terms) == 1:
            return terms[0]
        return conjunction(self.tree(term, left) for term in terms)

    def comparison(self, a: Value, op: ast.cmpop, b: Value, node: ast.expr) -> Value:
        if isinstance(op, (ast.Is, ast.IsNot)):
            if not (isinstance(b, Known) and (b.value is None or isinstance(b.value, bool))):
                self.fail(node, "`is` takes None, True or False; compare values with ==")
            found: Value
            if isinstance(a, Known):
                found = Known(a.value is b.value)
            else:
                tree = self.tree(a, node)
                found = Call("isnull", (tree,)) if b.value is None else is_truth(tree, b.value)
            return self.unary(ast.Not(), found, node) if isinstance(op, ast.IsNot) else found
        name, compute = _COMPARE[type(op)]
        if any(isinstance(side, Known) and side.value is None for side in (a, b)):
            self.fail(node, "None compares with nothing; write `is None` or `is not None`")
        if isinstance(a, Known) and isinstance(b, Known):
            return Known(self.run(node, compute, a.value, b.value))
        return Call(name, (self.tree(a, node), self.tree(b, node)))

    def contains(self, item: Value, container: ast.expr, scope: dict[str, Value]) -> Value:
        """`x in (1, 2)`, `x in captured`, `"a" in l.text`."""
        if isinstance(container, (ast.Tuple, ast.List, ast.Set)):
            items = [self.tree(self.value(part, scope), part) for part in container.elts]
            return membership(self.tree(item, container), items)
        within = self.value(container, scope)
        if not isinstance(within, Known) or isinstance(within.value, str):
            return Call("contains", (self.tree(within, container), self.tree(item, container)))
        if isinstance(item, Known):
            return Known(self.run(container, operator.contains, within.value, item.value))
        if not isinstance(within.value, Iterable) or isinstance(within.value, (bytes, Iterator)):
            self.fail(container, f"{shown(within.value)} is no collection; a tuple, list, set or dict will do")
        if isinstance(within.value, Sized) and len(within.value) > MAX_ITEMS:
            self.fail(container, f"the collection has {len(within.value):,} items; put it into a stream instead")
        members = [self.tree(Known(member), container) for member in elements(within.value)]
        return membership(self.tree(item, container), members)

    # Calls

    def calling(
        self, fn: ast.expr, args: list[ast.expr], keywords: list[ast.keyword], scope: dict[str, Value], node: ast.expr
    ) -> Value:
        if any(isinstance(arg, ast.Starred) for arg in args) or any(word.arg is None for word in keywords):
            self.fail(node, "* and ** in a call are not supported")
        given = [self.value(arg, scope) for arg in args]
        named = {word.arg or "": self.value(word.value, scope) for word in keywords}
        if isinstance(fn, ast.Attribute):
            base = self.value(fn.value, scope)
            if not isinstance(base, (Row, Known)):
                return self.method(base, fn.attr, given, named, node)
            callee = self.attribute(base, fn.attr, fn)
        else:
            callee = self.value(fn, scope)
        if not isinstance(callee, Known):
            self.fail(node, "a column cannot be called")
        function = callee.value
        if isinstance(function, types.FunctionType):
            return self.inline(function, given, named, node)
        if not _is_any(function, _MAKERS):
            self.fail(node, f"the function {_called(function)} is unknown; there are: {_KNOWN}")
        if all(isinstance(arg, Known) for arg in (*given, *named.values())):
            known = [self.known(arg, node) for arg in given]
            named_ = {name: self.known(value, node) for name, value in named.items()}
            return Known(self.run(node, _power if function is pow else function, *known, **named_))
        return self.operator(function, given, named, node)

    def operator(self, function: Any, given: list[Value], named: dict[str, Value], node: ast.expr) -> Expr:
        trees = tuple(self.tree(arg, node) for arg in given)
        if not named and len(trees) == 1 and _is_any(function, _CASTS):
            return Cast(trees[0], _CASTS[function])
        if not named and _is_any(function, _CALLS):
            op, count = _CALLS[function]
            if len(trees) == count or (count < 0 and len(trees) >= 2):
                return Call(op, trees)
        self.fail(node, f"{_called(function)} with these arguments is not supported on columns")

    def method(self, base: Expr, name: str, given: list[Value], named: dict[str, Value], node: ast.expr) -> Expr:
        if name not in _METHODS:
            self.fail(node, f"the method .{name}() is unknown; there are: {', '.join(_METHODS)}")
        if named or len(given) != _METHODS[name]:
            self.fail(node, f"the method .{name}() takes {_METHODS[name]} arguments here")
        return Call(name, (base, *(self.tree(arg, node) for arg in given)))

    def inline(
        self, function: types.FunctionType, given: list[Value], named: dict[str, Value], node: ast.expr
    ) -> Value:
        """The body of another Python function in place of its call."""
        try:
            bound = inspect.signature(function, follow_wrapped=False).bind(*given, **named)
        except TypeError as error:
            self.fail(node, f"{function.__name__}(): {error}")
        result = _Reader(function, self.steps, self.depth + 1).result(bound.arguments)
        return result if isinstance(result, (Row, Known)) else repeatable(result, MAX_TERMS)

    # Python values

    def known(self, value: Value, node: ast.AST) -> Any:
        if not isinstance(value, Known):
            self.fail(node, "this value must not depend on the rows")
        return value.value

    def plain(self, value: Known, node: ast.AST) -> Any:
        """The value, if it is of a kind that computes without surprises."""
        item = value.value
        if not (isinstance(item, _PLAIN) or getattr(item, "ndim", None) == 0):
            self.fail(node, f"{shown(item)} is no constant for a predicate; numbers, text, dates and None will do")
        return item

    def run(self, node: ast.AST, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """A Python operation on known values."""
        try:
            return function(*args, **named)
        except Exception as error:
            self.fail(node, f"{type(error).__name__}: {error}")


def _choice(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """One CASE for a whole chain of if, elif and else."""
    rest = no.args if isinstance(no, Call) and no.op == "case" else (no,)
    return Call("case", (condition, yes, *rest))


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > 10_000:
        raise OverflowError("the power is too large")
    return base**exponent


def _is_any(value: Any, known: Iterable[Any]) -> bool:
    return any(value is item for item in known)


def _called(function: Any) -> str:
    return getattr(function, "__qualname__", None) or shown(function)


_KNOWN = ", ".join(sorted({_called(function) for function in _MAKERS}))
