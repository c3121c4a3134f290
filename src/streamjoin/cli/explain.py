"""The command `streamjoin explain`."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import COLUMNS_HELP


def add_explain(commands: Any) -> None:
    """Add the command to the parser."""
    explain = commands.add_parser("explain", help="explain how a predicate is read and which index it can use")
    explain.add_argument("predicate", help='such as "l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"')
    explain.add_argument("--left", required=True, metavar="COLUMNS", help=f"the left stream: {COLUMNS_HELP}")
    explain.add_argument("--right", required=True, metavar="COLUMNS", help="the right stream, likewise")
    explain.add_argument(
        "--aliases", "--alias", nargs=2, metavar=("LEFT", "RIGHT"), help="the streams' names in the predicate"
    )
    explain.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> None:
    from ..engine import explain
    from .files.columns import read_schema

    left, right = read_schema(arguments.left, "--left"), read_schema(arguments.right, "--right")
    print(explain(left, right, on=arguments.predicate, aliases=arguments.aliases))
