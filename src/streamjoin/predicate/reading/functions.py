"""Predicates as Python functions of two rows: read from their source, never run.

`lambda l, r: abs(l.x - r.a) <= 10` becomes the same tree as the SQL text would. The first parameter is the left row,
the second the right one; every other name stands for the value that it has when the function is given. An expression
evaluates to a `Row`, to a `Known` Python value or to a tree, and only trees depend on the data. None means NULL and
logic is SQL's: a condition over NULL is neither true nor false, and `if` takes its else branch.
"""

from __future__ import annotations

import ast
import inspect
import types
from typing import Any

from ...errors import PredicateError
from ..expr import Expr
from ..render import shown
from .forms import repeatable
from .python_expressions import ExpressionReader, choice
from .python_names import Known, Row, Value
from .python_source import INSTEAD

MAX_INLINED = 10
MAX_TERMS = 10_000


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
            f"on: the function {_described(fn)} takes {len(names)} parameters ({', '.join(names)}); it must take "
            "two rows, as in lambda l, r: l.x == r.y (further ones need defaults)"
        )
    rows: dict[str, Value] = {names[0]: Row("left", names[0]), names[1]: Row("right", names[1])}
    try:
        return _FunctionReader(fn, [0]).call(rows)
    except RecursionError:
        raise PredicateError(f"on: the function {_described(fn)} is nested too deeply; {INSTEAD}") from None


def _described(fn: types.FunctionType) -> str:
    return f"{fn.__name__} ({fn.__code__.co_filename}:{fn.__code__.co_firstlineno})"


class _FunctionReader(ExpressionReader):
    """Reads the statements of one function; `depth` counts the functions inlined into one another."""

    def __init__(self, fn: types.FunctionType, steps: list[int], depth: int = 0) -> None:
        kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        if fn.__code__.co_flags & kinds:
            raise PredicateError(
                f"on: {_described(fn)} is a generator or async function; give a plain one that returns"
            )
        if fn.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            raise PredicateError(f"on: {_described(fn)} takes *args or **kwargs (a wrapper?); name its parameters")
        if depth > MAX_INLINED:
            raise PredicateError(f"on: {_described(fn)} is called over {MAX_INLINED} functions deep; {INSTEAD}")
        super().__init__(fn, steps)
        self.depth = depth

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

    def inline(
        self, function: types.FunctionType, given: list[Value], named: dict[str, Value], node: ast.expr
    ) -> Value:
        """The body of another Python function in place of its call."""
        try:
            bound = inspect.signature(function, follow_wrapped=False).bind(*given, **named)
        except TypeError as error:
            self.fail(node, f"{function.__name__}(): {error}")
        result = _FunctionReader(function, self.steps, self.depth + 1).result(bound.arguments)
        return result if isinstance(result, (Row, Known)) else repeatable(result, MAX_TERMS)

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
                    return choice(self.tree(condition, test), yes, no)
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
