"""The command line: `streamjoin demo | explain | run | bench | hardware`. Commands import what they need."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import ArgumentError, StateError, StreamJoinError
from .hardware import add_hardware

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}
KINDS = ("equality", "band", "celljoin")
TOPOLOGIES = ("throughput", "index", "latency", "scalejoin", "model")
INDEXES = ("auto", "bi-sort", "rap-table", "wib-tree", "hash")
FILES = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv"}


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
    except BrokenPipeError:  # the reader has seen enough, as in `streamjoin explain ... | head -3`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"streamjoin: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="streamjoin", description="Join two streams on any predicate.")
    parser.add_argument("--version", action="version", version=f"streamjoin {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    demo = commands.add_parser("demo", help="join generated trades and quotes on a local Spark, with live figures")
    demo.add_argument("--for", dest="seconds", type=_seconds, default=45.0, metavar="TIME", help="how long (45s)")
    demo.add_argument("--rate", type=_count, default=5_000, metavar="N", help="rows per second of each stream (5K)")
    demo.add_argument("--embedded", action="store_true", help="without Spark, in this process, as fast as it goes")
    demo.add_argument("--rows", type=_count, default=1_000_000, metavar="N", help="embedded: rows per stream (1M)")
    demo.add_argument("--seed", type=int, default=0, metavar="S", help="embedded: seed of the generated streams")
    demo.set_defaults(run=_demo)

    explain = commands.add_parser("explain", help="say how a predicate is understood and what an index can use of it")
    explain.add_argument("predicate", help='such as "l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01"')
    what = 'its columns, as in "ts timestamp, price double", or a parquet, arrow or csv file that has them'
    explain.add_argument("--left", required=True, metavar="COLUMNS", help=f"the left stream: {what}")
    explain.add_argument("--right", required=True, metavar="COLUMNS", help="the right stream, likewise")
    explain.add_argument("--alias", nargs=2, metavar=("LEFT", "RIGHT"), help="what the predicate calls the streams")
    explain.set_defaults(run=_explain)

    run = commands.add_parser("run", help="run a Spark pipeline from a file: two sources, the join, a sink")
    run.add_argument("job", type=Path, metavar="job.toml", help="the job file")
    run.add_argument("--once", action="store_true", help="end when all that is there has been joined")
    run.add_argument("--for", dest="seconds", type=_seconds, metavar="TIME", help='stop after that long, such as "60s"')
    run.add_argument("--quiet", action="store_true", help="no figures")
    run.set_defaults(run=_run)

    bench = commands.add_parser("bench", help="measure")
    benches = bench.add_subparsers(required=True, metavar="benchmark")
    scan = benches.add_parser("scan", help="CellJoin's band join on one core, against C++ and NumPy")
    scan.add_argument("--window", type=_count, default=1_000_000, metavar="N", help="stored tuples (default: 1M)")
    scan.add_argument("--probes", type=_count, nargs="+", default=[64], metavar="N", help="tuples at a time (64)")
    scan.add_argument("--rounds", type=_count, default=25, metavar="N", help="measured rounds (default: 25)")
    scan.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    scan.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    scan.set_defaults(run=_bench_scan)

    subwindow = benches.add_parser("subwindow", help="one subwindow's insertion and probing, against NumPy and C++")
    many: dict[str, Any] = {"type": _count, "nargs": "+", "metavar": "N"}
    subwindow.add_argument("--sizes", **many, help="tuples per subwindow (64K, 1M and 8M, in powers of two)")
    subwindow.add_argument("--batches", **many, help="tuples at a time (1, 1,024 and 32,768)")
    _add_measuring(subwindow, "measured rounds (11; quick: 5)")
    subwindow.set_defaults(run=_bench_subwindow)

    panjoin = benches.add_parser("panjoin", help="whole joins with indexes, against DuckDB, Polars and NumPy")
    panjoin.add_argument("--windows", **many, help="tuples per window (100K, 1M and 8M; quick: 100K)")
    panjoin.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="which joins (default: all)")
    panjoin.add_argument("--batch", type=_count, default=32_768, metavar="N", help="a stream's tuples at once (32,768)")
    panjoin.add_argument("--workers", **many, help="threads (1 and all cores)")
    panjoin.add_argument("--indexes", nargs="+", choices=INDEXES, default=INDEXES, help="which indexes (default: all)")
    panjoin.add_argument("--skew", action="store_true", help="also keys that are skewed, equal or increasing")
    _add_measuring(panjoin, "measured rounds (32; quick: 8)")
    panjoin.set_defaults(run=_bench_panjoin)

    topology = benches.add_parser("topology", help="the multi-core algorithms' figures, and a model of many cores")
    topology.add_argument("--experiments", nargs="+", choices=TOPOLOGIES, default=TOPOLOGIES, help="which (all)")
    topology.add_argument("--window", type=_count, default=131_072, metavar="N", help="tuples per window (131,072)")
    topology.add_argument("--time-window", type=_seconds, default=4.0, metavar="TIME", help="for latency (4s)")
    topology.add_argument("--workers", **many, default=[1, 2], help="threads (1 and 2)")
    topology.add_argument("--seconds", type=float, default=2.0, metavar="S", help="of each measured point (2)")
    topology.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    topology.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    topology.add_argument("--plots", type=Path, metavar="DIR", help="also draw them, into DIR")
    topology.set_defaults(run=_bench_topology)

    spark = benches.add_parser("spark", help="the Spark pipeline, against an empty one and Spark's own join on bins")
    spark.add_argument("--window", type=_count, default=1_000_000, metavar="N", help="tuples per window (1M)")
    spark.add_argument("--rows", type=_count, default=500_000, metavar="N", help="rows of a micro-batch (500K)")
    spark.add_argument("--batches", type=_count, default=12, metavar="N", help="measured micro-batches (12)")
    spark.add_argument("--routings", nargs="+", choices=("broadcast", "range"), default=["broadcast", "range"])
    spark.add_argument("--peer", action="store_true", help="also Spark's own join on bins, which takes minutes")
    spark.add_argument("--master", default="local[*]", help="the Spark master (default: local[*])")
    spark.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    spark.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    spark.set_defaults(run=_bench_spark)
    add_hardware(commands, _count)
    return parser


def _add_measuring(parser: argparse.ArgumentParser, rounds: str) -> None:
    parser.add_argument("--rounds", type=_count, metavar="N", help=rounds)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw them, into DIR")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer, in under a minute")


def _count(text: str) -> int:
    """A positive number: 64, 1_000_000, 300K, 1M."""
    match = re.fullmatch(r"([0-9][0-9_]*)([km]?)", text.strip().lower())
    number = int(match[1].replace("_", "")) * MULTIPLES[match[2]] if match else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number; write 64, 300K or 1M")
    return number


def _seconds(text: str) -> float:
    from ..window import parse_duration

    try:
        return parse_duration(text) / 1e9
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _demo(arguments: argparse.Namespace) -> None:
    if arguments.embedded:
        from .demo import run

        run(arguments.rows, arguments.seed)
        return
    try:
        from ..spark.demo import run as run_on_spark
    except ImportError as error:
        raise StateError(f"demo: {error}; or see the embedded engine with --embedded") from None
    run_on_spark(arguments.seconds, arguments.rate)


def _explain(arguments: argparse.Namespace) -> None:
    from ..engine.explain import explain

    left, right = read_schema(arguments.left, "--left"), read_schema(arguments.right, "--right")
    print(explain(left, right, on=arguments.predicate, aliases=arguments.alias))


def _run(arguments: argparse.Namespace) -> None:
    try:
        from ..spark.job import run
    except ImportError as error:
        raise StateError(str(error)) from None
    run(arguments.job, once=arguments.once, seconds=arguments.seconds, quiet=arguments.quiet)


def _bench_scan(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from ..bench.scan import run

    run(
        Console(), window=arguments.window, probes=arguments.probes, rounds=arguments.rounds,
        seed=arguments.seed, json_file=arguments.json,
    )  # fmt: skip


def _bench_subwindow(arguments: argparse.Namespace) -> None:
    from ..bench.subwindow import run

    quick = arguments.quick
    run(
        _wide_console(), sizes=arguments.sizes or ([1 << 16, 1 << 20] if quick else [1 << 16, 1 << 20, 1 << 23]),
        batches=arguments.batches or ([1_024, 32_768] if quick else [1, 1_024, 32_768]),
        rounds=arguments.rounds or (5 if quick else 11), seed=arguments.seed, quick=quick,
        json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_panjoin(arguments: argparse.Namespace) -> None:
    from ..bench.panjoin import run

    quick, cores = arguments.quick, os.cpu_count() or 1
    run(
        _wide_console(), windows=arguments.windows or ([100_000] if quick else [100_000, 1_000_000, 8_000_000]),
        kinds=arguments.kinds, batch=arguments.batch, rounds=arguments.rounds or (8 if quick else 32),
        workers=arguments.workers or sorted({1, cores}), indexes=arguments.indexes, skew=arguments.skew,
        seed=arguments.seed, quick=quick, json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_topology(arguments: argparse.Namespace) -> None:
    from ..bench.topology import run

    run(
        _wide_console(), experiments=arguments.experiments, window=arguments.window,
        time_window=arguments.time_window, workers=arguments.workers, seconds=arguments.seconds, seed=arguments.seed,
        json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_spark(arguments: argparse.Namespace) -> None:
    from ..bench.spark import run

    run(
        _wide_console(), window=arguments.window, rows=arguments.rows, batches=arguments.batches,
        routings=arguments.routings, peer=arguments.peer, master=arguments.master, seed=arguments.seed,
        json_file=arguments.json,
    )  # fmt: skip


def _wide_console() -> Console:
    """The terminal, or a file that is wide enough for the tables."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def read_schema(text: str, argument: str) -> pa.Schema:
    """The schema of a file, or of a list of columns with their SQL types."""
    kind = FILES.get(Path(text).suffix.lower())
    if kind is None or ("," in text and not Path(text).exists()):
        return _columns(text, argument)
    import pyarrow as pa

    try:
        if kind == "parquet":
            from pyarrow import parquet

            return parquet.read_schema(text)
        if kind == "csv":
            from pyarrow import csv

            with csv.open_csv(text) as reader:
                return reader.schema
        try:
            with pa.OSFile(text) as file:
                return pa.ipc.open_file(file).schema
        except pa.ArrowInvalid:
            with pa.OSFile(text) as file:
                return pa.ipc.open_stream(file).schema
    except (OSError, pa.ArrowException) as error:
        raise ArgumentError(f"{argument}: cannot read {text!r} as {kind}: {error}") from None


def _columns(text: str, argument: str) -> pa.Schema:
    import pyarrow as pa

    from ..predicate.types import Type, from_name

    plain = {
        "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
        "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
        "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
    }  # fmt: skip

    def arrow(type_: Type) -> pa.DataType:
        return pa.decimal128(type_.precision, type_.scale) if type_.kind == "decimal" else plain[type_.kind]

    fields = []
    for part in re.split(r",(?![^(]*\))", text):
        match = re.fullmatch(r"\s*(?:`([^`]+)`|(\S+))\s+(.+?)\s*", part)
        type_ = from_name(match[3]) if match else None
        if match is None or type_ is None:
            raise ArgumentError(
                f"{argument}: cannot read {part.strip()!r} as a column with its type; give a list such as "
                f"'ts timestamp, price double' (types: {', '.join(plain)}, decimal(p,s)), or the path of a "
                f"{', '.join(sorted(FILES))} file"
            )
        fields.append((match[1] or match[2], arrow(type_)))
    return pa.schema(fields)


if __name__ == "__main__":
    sys.exit(main())
