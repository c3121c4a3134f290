"""Finding the source of a compiled Python function, and never the wrong one."""

from __future__ import annotations
import __future__

import ast
import linecache
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from ...errors import PredicateError

INSTEAD = "give the predicate as SQL text or with col() instead"
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def locate(code: types.CodeType, namespace: dict[str, Any]) -> tuple[ast.Lambda | ast.FunctionDef, list[str]]:
    """The syntax of a compiled function, and its file's lines.

    The source is compiled again and must give the very same code: a file edited since, or the wrong one of two
    lambdas on a line, is never taken for it.
    """
    where = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, namespace)
    if not lines:
        raise PredicateError(
            f"on: the source of the function {where} is not available; {INSTEAD}, which work everywhere"
        )
    try:
        flags = (code.co_flags & _FUTURE) | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file's own, shown when it was loaded
            module = ast.parse("".join(lines))
            fresh = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        raise PredicateError(f"on: the source of the function {where} cannot be read; {INSTEAD}") from None
    positions = list(code.co_positions())
    if not any(found == code and list(found.co_positions()) == positions for found in _codes(fresh)):
        raise PredicateError(f"on: the source of {where} is not available as it was loaded (edited since?); {INSTEAD}")
    spots = [(line, col, end, end_col) for line, end, col, end_col in positions if line and end and end_col]
    candidates: Sequence[ast.Lambda | ast.FunctionDef] = [n for n in ast.walk(module) if _may_be(n, code, spots)]
    if not spots and len(candidates) > 1:  # a constant has no place of its own, but equal ones are as good
        candidates = [node for node in candidates if isinstance(node, ast.Lambda) and _compiles_to(node, code)][:1]
    if not candidates:
        raise PredicateError(f"on: several functions in the line of {where}; put each on its own line, or {INSTEAD}")
    return max(candidates, key=lambda node: (node.lineno, node.col_offset)), lines


def _compiles_to(node: ast.Lambda, code: types.CodeType) -> bool:
    module = compile(ast.Expression(node), code.co_filename, "eval")
    own = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    return (own.co_code, own.co_consts, own.co_names) == (code.co_code, code.co_consts, code.co_names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    stack = [code]
    while stack:
        yield (found := stack.pop())
        stack += (constant for constant in found.co_consts if isinstance(constant, types.CodeType))


def _may_be(
    node: ast.AST, code: types.CodeType, spots: list[tuple[int, Any, int, int]]
) -> TypeGuard[ast.Lambda | ast.FunctionDef]:
    """Whether the code may come from this node: its name and line, for a lambda also each instruction's place.

    Where one lambda holds another, both may be; then it is the inner one, which starts later: the outer one's
    code has an instruction that covers the whole body.
    """
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return code.co_name == node.name and code.co_firstlineno == first
    if not isinstance(node, ast.Lambda) or code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    start = (node.body.lineno, node.body.col_offset)
    stop = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
    return all(start <= (line, col) and (end, end_col) <= stop for line, col, end, end_col in spots)
