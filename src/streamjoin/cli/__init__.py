"""The command line: `streamjoin join | explain | demo | run | bench | hardware`. Commands import what they need."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import StreamJoinError
from .bench import add_bench
from .demo import add_demo
from .explain import add_explain
from .hardware import add_hardware
from .join import add_join
from .run import add_run


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 2 for an error that is explained, 130 after Ctrl-C."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except StreamJoinError as error:
        print(f"streamjoin: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader stopped reading, as in `streamjoin explain ... | head -3`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"streamjoin: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="streamjoin", description="Join two streams on any predicate.")
    parser.add_argument("--version", action="version", version=f"streamjoin {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (add_join, add_explain, add_demo, add_run, add_bench, add_hardware):
        add(commands)
    return parser
