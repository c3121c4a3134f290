"""Reading the expressions of a Python function: each becomes a row, a known Python value or a tree."""

from __future__ import annotations

import ast
import builtins
import operator
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, NoReturn

from ...errors import PredicateError
from ..expr import Call, Cast, Column, Constant, Expr, conjunction, disjunction
from ..literals import constant
from ..render import shown
from ..types import STRING
from .forms import elements, is_truth, membership, negative
from .python_names import (
    BINARY,
    CALLABLE,
    CALLS,
    CASTS,
    COMPARE,
    KNOWN_FUNCTIONS,
    METHODS,
    PLAIN,
    Known,
    Row,
    Value,
    called,
    is_any,
    power,
)
from .python_source import INSTEAD, locate

MAX_STEPS = 10_000
MAX_ITEMS = 100_000


class ExpressionReader(ABC):
    """Reads the expressions of one function; `steps` counts all work."""

    def __init__(self, fn: types.FunctionType, steps: list[int]) -> None:
        self.fn, self.steps = fn, steps
        self.node, self.lines = locate(fn.__code__, fn.__globals__)
        self.cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))

    @abstractmethod
    def inline(
        self, function: types.FunctionType, given: list[Value], named: dict[str, Value], node: ast.expr
    ) -> Value:
        """The body of another Python function in place of its call."""

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
                return choice(self.tree(condition, test), *(self.tree(self.value(e, scope), e) for e in (yes, no)))
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
        if isinstance(base, Column):
            return Column(f"{base.name}.{name}", base.table, base.side)
        self.fail(node, f".{name} of an expression is not supported; there are the methods {', '.join(METHODS)}")

    def subscript(self, base: Value, key: Value, node: ast.AST) -> Value:
        if not isinstance(key, Known) or not isinstance(base, (Row, Known)):
            self.unsupported(node)
        if isinstance(base, Known):
            return Known(self.run(node, operator.getitem, base.value, key.value))
        if not isinstance(key.value, str):
            self.fail(node, f"a column is named by text, not by {shown(key.value)}; write {base.name}['x']")
        return Column(key.value, base.name, base.side)

    def logic(self, conjunctive: bool, parts: list[ast.expr], scope: dict[str, Value]) -> Value:
        """`and`, `or`. Where a known value decides, the rest is not read, as Python would not run it."""
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
        if type(op) not in BINARY:
            self.fail(node, f"the operator {type(op).__name__} is not supported; there are + - * / // % ** & |")
        name, compute = BINARY[type(op)]
        if isinstance(left, Known) and isinstance(right, Known):
            a, b = self.plain(left, node), self.plain(right, node)
            if name == "mul" and (isinstance(a, str) or isinstance(b, str)):
                self.fail(node, "text cannot be multiplied")
            return Known(self.run(node, power if name == "power" else compute, a, b))
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
        name, compute = COMPARE[type(op)]
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
            self.fail(container, f"{shown(within.value)} is no collection; give a tuple, list, set or dict")
        if isinstance(within.value, Sized) and len(within.value) > MAX_ITEMS:
            self.fail(container, f"the collection has {len(within.value):,} items; put it into a stream instead")
        members = [self.tree(Known(member), container) for member in elements(within.value)]
        return membership(self.tree(item, container), members)

    # -- calls ----------------------------------------------------------------------------------------------------

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
        if not is_any(function, CALLABLE):
            self.fail(node, f"the function {called(function)} is unknown; there are: {KNOWN_FUNCTIONS}")
        if all(isinstance(arg, Known) for arg in (*given, *named.values())):
            known = [self.known(arg, node) for arg in given]
            named_ = {name: self.known(value, node) for name, value in named.items()}
            return Known(self.run(node, power if function is pow else function, *known, **named_))
        return self.operator(function, given, named, node)

    def operator(self, function: Any, given: list[Value], named: dict[str, Value], node: ast.expr) -> Expr:
        trees = tuple(self.tree(arg, node) for arg in given)
        if not named and len(trees) == 1 and is_any(function, CASTS):
            return Cast(trees[0], CASTS[function])
        if not named and is_any(function, CALLS):
            op, count = CALLS[function]
            if len(trees) == count or (count < 0 and len(trees) >= 2):
                return Call(op, trees)
        self.fail(node, f"{called(function)} with these arguments is not supported on columns")

    def method(self, base: Expr, name: str, given: list[Value], named: dict[str, Value], node: ast.expr) -> Expr:
        if name not in METHODS:
            self.fail(node, f"the method .{name}() is unknown; there are: {', '.join(METHODS)}")
        if named or len(given) != METHODS[name]:
            self.fail(node, f"the method .{name}() takes {METHODS[name]} arguments here")
        return Call(name, (base, *(self.tree(arg, node) for arg in given)))

    # -- Python values --------------------------------------------------------------------------------------------

    def known(self, value: Value, node: ast.AST) -> Any:
        if not isinstance(value, Known):
            self.fail(node, "this value must not depend on the rows")
        return value.value

    def plain(self, value: Known, node: ast.AST) -> Any:
        """The value, if it is of a kind that computes without surprises."""
        item = value.value
        if not (isinstance(item, PLAIN) or getattr(item, "ndim", None) == 0):
            self.fail(node, f"{shown(item)} is no constant for a predicate; give a number, text, date or None")
        return item

    def run(self, node: ast.AST, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """A Python operation on known values."""
        try:
            return function(*args, **named)
        except Exception as error:
            self.fail(node, f"{type(error).__name__}: {error}")

    # -- what cannot be read --------------------------------------------------------------------------------------

    def count(self, node: ast.AST) -> None:
        self.steps[0] += 1
        if self.steps[0] > MAX_STEPS:
            self.fail(node, f"the function has too many branches (over {MAX_STEPS:,} steps to read)")

    def unsupported(self, node: ast.AST) -> NoReturn:
        kind = type(node).__name__
        self.fail(node, f"{kind} is not supported in a predicate function; simplify it, or {INSTEAD}")

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
            self.fail(node, f"{shown(value.value)} is no constant; give a number, text, date or None")


def choice(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """One CASE for a whole chain of if, elif and else."""
    rest = no.args if isinstance(no, Call) and no.op == "case" else (no,)
    return Call("case", (condition, yes, *rest))
