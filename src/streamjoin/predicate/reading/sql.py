"""Predicates as SQL text, read with sqlglot in Spark's dialect into the unbound tree.

This module makes one condition of the text; `sql_rules` says what each construct means.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from ...errors import PredicateError
from ..expr import Expr
from ..render import shown
from .sql_rules import EXAMPLE, Node, convert

MAX_CHARACTERS = 1_000_000
MAX_NESTING = 200
_QUIET = ContextVar("quiet", default=False)  # sqlglot logs what it cannot read; our errors say it already
logging.getLogger("sqlglot").addFilter(lambda record: not _QUIET.get())
_SPARK = Dialect.get_or_raise("spark")
_STATEMENTS = {*_SPARK.parser_class.STATEMENT_PARSERS, TokenType.SELECT, TokenType.WITH, TokenType.VALUES}


def parse_sql(text: str) -> Expr:
    """The unbound tree of a SQL condition; PredicateError says what is not in the language."""
    if len(text) > MAX_CHARACTERS:
        raise PredicateError(
            f"on: the SQL text {shown(text)} has {len(text):,} characters; {MAX_CHARACTERS:,} is the most, put long "
            "lists into a stream instead"
        )
    quiet = _QUIET.set(True)
    try:
        return convert(_parse(text))
    except RecursionError:
        raise PredicateError(f"on: the SQL text {shown(text)} is nested too deeply; simplify or split it") from None
    finally:
        _QUIET.reset(quiet)


def _parse(text: str) -> Node:
    """sqlglot's tree of the text: exactly one condition, no statement."""
    tokens: list[Token] = []
    try:
        tokens = _joined(_SPARK.tokenize(text), text)
        found = [node for node in _SPARK.parser().parse_into(exp.Condition, tokens, text) if node is not None]
    except (PredicateError, RecursionError):
        raise
    except Exception as error:  # a third party's parser on text from outside: whatever goes wrong means "unreadable"
        if tokens and tokens[0].token_type in _STATEMENTS:
            raise PredicateError(f"on: {shown(text)} is a SQL statement or part of one; {EXAMPLE}") from None
        where = ""
        if isinstance(error, SqlglotError) and (details := getattr(error, "errors", None)):
            where = f" near {shown(details[0]['highlight'])} (line {details[0]['line']}, column {details[0]['col']})"
        raise PredicateError(f"on: cannot read the SQL text {shown(text)}{where}; {EXAMPLE}") from None
    if not found:
        raise PredicateError(f"on: the SQL text {shown(text)} is empty; {EXAMPLE}, or TRUE for every pair")
    if len(found) > 1:
        raise PredicateError(f"on: {shown(text)} holds several statements; {EXAMPLE}")
    return found[0]


def _joined(tokens: list[Token], text: str) -> list[Token]:
    """The tokens, with 'it''s' as one string; refuses nesting that only a very deep stack could parse."""
    out: list[Token] = []
    depth = prefixes = 0
    for token in tokens:
        kind = token.token_type
        depth += kind in (TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET, TokenType.L_BRACE)
        depth -= kind in (TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET, TokenType.R_BRACE)
        prefixes = prefixes + 1 if kind in (TokenType.NOT, TokenType.DASH, TokenType.TILDE) else 0
        if depth + prefixes > MAX_NESTING:
            raise RecursionError
        last = out[-1] if out and out[-1].token_type == kind == TokenType.STRING else None
        if last and last.end + 1 == token.start and text[last.end] == text[token.start]:
            joined = last.text + text[token.start] + token.text
            out[-1] = Token(kind, joined, last.line, last.col, last.start, token.end, last.comments)
        else:
            out.append(token)
    return out
