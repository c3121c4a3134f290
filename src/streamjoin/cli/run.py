"""The command `streamjoin run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import StateError
from .arguments import seconds


def add_run(commands: Any) -> None:
    """Add the command to the parser."""
    run = commands.add_parser("run", help="run a Spark pipeline from a file: two sources, the join, a sink")
    run.add_argument("job", type=Path, metavar="job.toml", help="the job file")
    run.add_argument("--once", action="store_true", help="stop when all available data has been joined")
    run.add_argument("--for", dest="seconds", type=seconds, metavar="TIME", help='stop after this time, such as "60s"')
    run.add_argument("--quiet", action="store_true", help="print no figures")
    run.add_argument(
        "--allow-code", action="store_true", help="the file is trusted: it may name jars, classes and programs"
    )
    run.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    try:
        from ..spark.job import run
    except ImportError as error:
        raise StateError(str(error)) from None
    run(
        arguments.job,
        once=arguments.once,
        seconds=arguments.seconds,
        quiet=arguments.quiet,
        allow_code=arguments.allow_code,
    )
