"""The command `streamjoin demo`."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import StateError
from .arguments import count, seconds


def add_demo(commands: Any) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser("demo", help="join generated trades and quotes on a local Spark, with live figures")
    demo.add_argument("--for", dest="seconds", type=seconds, default=45.0, metavar="TIME", help="how long (45s)")
    demo.add_argument("--rate", type=count, default=5_000, metavar="N", help="rows per second of each stream (5K)")
    demo.add_argument("--embedded", action="store_true", help="without Spark, in this process, as fast as it goes")
    demo.add_argument("--rows", type=count, default=1_000_000, metavar="N", help="embedded: rows per stream (1M)")
    demo.add_argument("--seed", type=int, default=0, metavar="S", help="embedded: seed of the generated streams")
    demo.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> None:
    if arguments.embedded:
        from .embedded_demo import run

        run(arguments.rows, arguments.seed)
        return
    try:
        from ..spark.demo import run as run_on_spark
    except ImportError as error:
        raise StateError(f"demo: {error}; or see the embedded engine with --embedded") from None
    run_on_spark(arguments.seconds, arguments.rate)
