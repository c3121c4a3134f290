"""The command `streamjoin join`: two inputs of files, joined into a file or onto the screen."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError
from .arguments import count

EXAMPLES = """\
examples:
  streamjoin join trades.csv quotes.parquet --on "l.symbol = r.symbol AND l.price >= r.ask" \\
      --window "2 seconds" --time ts
  streamjoin join 'logs/*.ndjson' incidents.csv --on "l.host = r.host" \\
      --window "1 hour" "5 minutes" --time ts began -o out.parquet
  zcat left.csv.gz | streamjoin join - right.csv --on "abs(l.k - r.k) <= 2" --window 30 7 --time ts -o - | head

LEFT and RIGHT: Parquet, CSV (.csv, .tsv), Arrow IPC or NDJSON (.ndjson, .jsonl, .json), text also as .gz, .zst or
.bz2; a glob in quotes; a directory; or - for standard input. CSV has a header line; an empty field is NULL. Columns
and types of text are guessed. In --on, the left row is l and the right row is r: "l.price BETWEEN r.bid AND r.ask".

--window says how long a row can be met by later rows of the other side. One value serves both sides; two are the
left's and the right's:
  "2 seconds", 500ms   of time, where --time is a column of timestamps or dates
  "30 ticks"           of time, where --time is a column of integers: 30 in its own unit
  30, "30 rows"        of rows: until 30 younger rows of the same side have come

Inputs of up to 512 MB are read into memory, in any order. Larger ones are read as they are joined. They must be in time
order, up to --lateness; --sort sorts them on disk first.
"""


def add_join(commands: Any) -> None:
    """Add the command to the parser."""
    join = commands.add_parser(
        "join", help="join two files on any predicate: Parquet, CSV, Arrow, NDJSON", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Join the rows of two inputs on any predicate, within windows of time or of rows.",
        usage='streamjoin join LEFT RIGHT --on "..." --window W [W] [--time COLUMN [COLUMN]] [-o FILE] [options]',
    )  # fmt: skip
    join.add_argument("left", nargs="?", metavar="LEFT", help="the left input: a file, a glob, a directory, or -")
    join.add_argument("right", nargs="?", metavar="RIGHT", help="the right input, likewise")
    join.add_argument("--on", required=True, metavar="PREDICATE", help="the condition, in SQL")
    join.add_argument(
        "--window", required=True, nargs="+", metavar="W", help='such as "2 seconds", "30 ticks" or 30 rows; see below'
    )
    join.add_argument("--time", nargs="+", metavar="COLUMN", help="the time column, or the left's and the right's")
    join.add_argument("-o", "--out", metavar="FILE", help="where results go, by ending; - for standard output (screen)")
    join.add_argument("--limit", type=count, metavar="N", help="stop after N results; without -o, also show as many")
    join.add_argument("--explain", action="store_true", help="say how the join would run, and do not run it")

    meaning = join.add_argument_group("which rows")
    meaning.add_argument("--how", default="inner", metavar="HOW", help="inner, left, right, full, semi or anti (inner)")
    meaning.add_argument(
        "--match", default="all", metavar="WHICH", help="all partners, the latest before, or the nearest in time (all)"
    )
    meaning.add_argument("--order", default="none", metavar="ORDER", help="none, punctuated or sorted by time (none)")
    meaning.add_argument(
        "--lateness", default="0", metavar="TIME", help="how far rows of a large input may be out of order (0)"
    )
    meaning.add_argument("--sort", action="store_true", help="sort both inputs by time first, on disk where large")
    meaning.add_argument("--aliases", nargs=2, metavar=("L", "R"), help="names of the two rows in --on (l r)")
    meaning.add_argument(
        "--suffix", default="_right", metavar="TEXT", help="for the right's names that the left has too"
    )

    files = join.add_argument_group("how files are read and written")
    files.add_argument(
        "--format", metavar="F", help="of an input whose name does not say it: parquet, csv, arrow or ndjson"
    )
    files.add_argument("--output-format", metavar="F", help="of the output, likewise (by ending; csv for -)")
    files.add_argument("--delimiter", metavar="C", help="between the fields of CSV, such as ; or \\t (guessed)")
    files.add_argument("--null", nargs="+", default=[], metavar="TEXT", help="fields of CSV that mean NULL, such as NA")
    files.add_argument("--types", nargs="+", default=[], metavar="NAME=TYPE", help="types not to guess: zip=string")
    files.add_argument(
        "--time-format", metavar="F", help="how text tells time, if not as ISO 8601: '%%d.%%m.%%Y %%H:%%M'"
    )

    running = join.add_argument_group("how it runs (the result is the same)")
    running.add_argument("--algorithm", default="auto", metavar="NAME", help="three-step, panjoin, ... (auto)")
    running.add_argument("--index", default="auto", metavar="NAME", help="scan, hash, bi-sort, ... (auto)")
    running.add_argument("--workers", type=count, metavar="N", help="the most cores to use (as many as help)")
    running.add_argument("--device", default="auto", metavar="D", help="cpu, gpu or auto (auto)")
    join.set_defaults(run=_join)


def _join(arguments: argparse.Namespace) -> None:
    from .joining import run

    if arguments.right is None:
        raise ArgumentError(
            "right: two inputs are needed, before the options: streamjoin join LEFT RIGHT --on ...; --window and "
            "--time take all words that follow them"
        )
    window = read_windows(arguments.window)
    time = arguments.time
    if time is not None and len(time) > 2:
        raise ArgumentError(f"--time: {len(time)} columns given; give one, or the left's and the right's")
    join = {
        "on": arguments.on, "window": window[0] if len(window) == 1 else tuple(window),
        "time": None if time is None else time[0] if len(time) == 1 else tuple(time),
        "lateness": _number_or_text(arguments.lateness), "aliases": arguments.aliases,
    }  # fmt: skip
    for name in ("how", "match", "order", "algorithm", "index", "workers", "device"):
        join[name] = getattr(arguments, name)
    run(arguments, join)


def read_windows(words: Sequence[str]) -> list[int | str]:
    """Numbers of rows, and lengths of time. `2 seconds` without quotes is two words and one window."""
    joined: list[str] = []
    for word in words:
        if joined and word[:1].isalpha() and _number(joined[-1]) is not None:
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    if len(joined) > 2:
        given = ", ".join(joined)
        raise ArgumentError(f"--window: {len(joined)} windows given ({given}); give one, or one of each side")
    return [_number_or_text(word) for word in joined]


def _number_or_text(word: str) -> int | str:
    number = _number(word)
    return word if number is None else number


def _number(word: str) -> int | None:
    digits = word.strip().removeprefix("-").replace("_", "")
    return int(word.replace("_", "")) if digits.isascii() and digits.isdigit() else None
