"""The command `streamjoin bench scan | subwindow | panjoin | shapes | topology | machine | spark`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .arguments import count, seconds
from .console import wide_console

KINDS = ("equality", "band", "celljoin")
TOPOLOGIES = ("throughput", "index", "latency", "scalejoin", "model")
INDEXES = ("auto", "bi-sort", "rap-table", "wib-tree", "hash")


def add_bench(commands: Any) -> None:
    """Add the command to the parser."""
    bench = commands.add_parser("bench", help="run a benchmark")
    benches = bench.add_subparsers(required=True, metavar="benchmark")
    scan = benches.add_parser("scan", help="CellJoin's band join on one core, against C++ and NumPy")
    scan.add_argument("--window", type=count, default=1_000_000, metavar="N", help="stored tuples (default: 1M)")
    scan.add_argument("--probes", type=count, nargs="+", default=[64], metavar="N", help="tuples per probe (64)")
    scan.add_argument("--rounds", type=count, default=25, metavar="N", help="measured rounds (default: 25)")
    scan.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    scan.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    scan.set_defaults(run=_compiled_first(_bench_scan))

    subwindow = benches.add_parser("subwindow", help="one subwindow's insertion and probing, against NumPy and C++")
    many: dict[str, Any] = {"type": count, "nargs": "+", "metavar": "N"}
    subwindow.add_argument("--sizes", **many, help="tuples per subwindow (64K, 1M and 8M, in powers of two)")
    subwindow.add_argument("--batches", **many, help="tuples per batch (1, 1,024 and 32,768)")
    _add_measuring(subwindow, "measured rounds (11; quick: 5)")
    subwindow.set_defaults(run=_compiled_first(_bench_subwindow))

    panjoin = benches.add_parser("panjoin", help="whole joins with indexes, against DuckDB, Polars and NumPy")
    panjoin.add_argument("--windows", **many, help="tuples per window (100K, 1M and 8M; quick: 100K)")
    panjoin.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="which joins (default: all)")
    panjoin.add_argument(
        "--batch", type=count, default=32_768, metavar="N", help="tuples per batch of a stream (32,768)"
    )
    panjoin.add_argument("--workers", **many, help="threads (1 and all cores)")
    panjoin.add_argument("--indexes", nargs="+", choices=INDEXES, default=INDEXES, help="which indexes (default: all)")
    panjoin.add_argument("--skew", action="store_true", help="also measure skewed, equal and increasing keys")
    _add_measuring(panjoin, "measured rounds (32; quick: 8)")
    panjoin.set_defaults(run=_compiled_first(_bench_panjoin))

    shapes = benches.add_parser("shapes", help="the defaults against every index and peer, over many shapes of work")
    shapes.add_argument(
        "--cells",
        nargs="+",
        default=[],
        metavar="NAME",
        help="which cells: names, shapes or patterns, such as 'band-*'",
    )
    shapes.add_argument("--seconds", type=float, metavar="S", help="seconds of laps per contestant (1.5; quick: 0.4)")
    shapes.add_argument("--limit", type=seconds, metavar="TIME", help="the longest lap (4 minutes; quick: 1 minute)")
    shapes.add_argument("--rows", type=count, metavar="N", help="fresh tuples of each stream (2M; quick: 300K)")
    shapes.add_argument("--scale", type=float, metavar="X", help="how much of the day of ticks (1; quick: 0.02)")
    shapes.add_argument("--data", type=Path, default=Path("../shared/data"), metavar="DIR", help="recorded streams")
    _add_measuring(shapes, "laps of each contestant (5; quick: 3)", "fewer cells and less of each, in some minutes")
    shapes.set_defaults(run=_compiled_first(_bench_shapes))

    topology = benches.add_parser("topology", help="the multi-core algorithms' figures, and a model of many cores")
    topology.add_argument(
        "--experiments", nargs="+", choices=TOPOLOGIES, default=TOPOLOGIES, help="which experiments (all)"
    )
    topology.add_argument("--window", type=count, default=131_072, metavar="N", help="tuples per window (131,072)")
    topology.add_argument(
        "--time-window", type=seconds, default=4.0, metavar="TIME", help="time windows of the latency experiment (4s)"
    )
    topology.add_argument("--workers", **many, default=[1, 2], help="threads (1 and 2)")
    topology.add_argument("--seconds", type=float, default=2.0, metavar="S", help="seconds per measured point (2)")
    topology.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    topology.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    topology.add_argument("--plots", type=Path, metavar="DIR", help="also draw the figures, as files in DIR")
    topology.set_defaults(run=_compiled_first(_bench_topology))

    machine = benches.add_parser("machine", help="1, 2, 4 and so on cores and the GPU, beside the machine's limits")
    machine.add_argument(
        "--cells",
        nargs="+",
        default=[],
        metavar="NAME",
        help="which cells: names, experiments or patterns, such as 'band-*'",
    )
    machine.add_argument("--workers", **many, help="numbers of workers (1, 2, 4 and so on, and all cores)")
    machine.add_argument("--seconds", type=float, metavar="S", help="seconds of laps per contestant (2; quick: 0.8)")
    machine.add_argument(
        "--limit", type=seconds, metavar="TIME", help="the longest time to fill windows (2 minutes; quick: 30 s)"
    )
    machine.add_argument(
        "--from", dest="earlier", type=Path, metavar="FILE", help="only draw --plots of what an earlier --json has"
    )
    _add_measuring(machine, "laps of each contestant (5; quick: 3)", "fewer and smaller cells, in some minutes")
    machine.set_defaults(run=_compiled_first(_bench_machine))

    spark = benches.add_parser("spark", help="the Spark pipeline, against an empty one and Spark's own join on bins")
    spark.add_argument("--window", type=count, default=1_000_000, metavar="N", help="tuples per window (1M)")
    spark.add_argument("--rows", type=count, default=500_000, metavar="N", help="rows of a micro-batch (500K)")
    spark.add_argument("--batches", type=count, default=12, metavar="N", help="measured micro-batches (12)")
    spark.add_argument(
        "--routings",
        nargs="+",
        choices=("blocks", "broadcast", "range"),
        default=["blocks", "broadcast", "range"],
        help="which routings (all)",
    )
    spark.add_argument("--peer", action="store_true", help="also measure Spark's own join on bins, which takes minutes")
    spark.add_argument("--master", default="local[*]", help="the Spark master (default: local[*])")
    spark.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    spark.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    spark.set_defaults(run=_compiled_first(_bench_spark))


def _compiled_first(run: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], None]:
    """A benchmark waits for machine code, so that nothing else is measured."""

    def measured(arguments: argparse.Namespace) -> None:
        os.environ["STREAMJOIN_COMPILE"] = "first"
        run(arguments)

    return measured


def _add_measuring(
    parser: argparse.ArgumentParser, rounds: str, quick: str = "smaller and fewer measurements, in under a minute"
) -> None:
    parser.add_argument("--rounds", type=count, metavar="N", help=rounds)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the generated tuples")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw the figures, as files in DIR")
    parser.add_argument("--quick", action="store_true", help=quick)


def _bench_scan(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from ..bench.scan.run import run

    run(
        Console(), window=arguments.window, probes=arguments.probes, rounds=arguments.rounds,
        seed=arguments.seed, json_file=arguments.json,
    )  # fmt: skip


def _bench_subwindow(arguments: argparse.Namespace) -> None:
    from ..bench.subwindow.run import run

    quick = arguments.quick
    run(
        wide_console(), sizes=arguments.sizes or ([1 << 16, 1 << 20] if quick else [1 << 16, 1 << 20, 1 << 23]),
        batches=arguments.batches or ([1_024, 32_768] if quick else [1, 1_024, 32_768]),
        rounds=arguments.rounds or (5 if quick else 11), seed=arguments.seed, quick=quick,
        json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_panjoin(arguments: argparse.Namespace) -> None:
    from ..bench.panjoin.run import run

    quick, cores = arguments.quick, os.cpu_count() or 1
    run(
        wide_console(), windows=arguments.windows or ([100_000] if quick else [100_000, 1_000_000, 8_000_000]),
        kinds=arguments.kinds, batch=arguments.batch, rounds=arguments.rounds or (8 if quick else 32),
        workers=arguments.workers or sorted({1, cores}), indexes=arguments.indexes, skew=arguments.skew,
        seed=arguments.seed, quick=quick, json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_shapes(arguments: argparse.Namespace) -> None:
    from ..bench.shapes import results
    from ..bench.shapes.run import run

    quick = arguments.quick
    run(
        wide_console(), cells=arguments.cells, laps=arguments.rounds or (3 if quick else 5),
        seconds=arguments.seconds or (results.QUICK_SECONDS if quick else results.SECONDS),
        limit=arguments.limit or (results.QUICK_LIMIT if quick else results.LIMIT),
        rows=arguments.rows or (results.QUICK_ROWS if quick else results.ROWS),
        scale=arguments.scale or (results.QUICK_SCALE if quick else results.SCALE), data=arguments.data,
        seed=arguments.seed, quick=quick, json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_topology(arguments: argparse.Namespace) -> None:
    from ..bench.topology.run import run

    run(
        wide_console(), experiments=arguments.experiments, window=arguments.window,
        time_window=arguments.time_window, workers=arguments.workers, seconds=arguments.seconds, seed=arguments.seed,
        json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_machine(arguments: argparse.Namespace) -> None:
    from ..bench.machine import results
    from ..bench.machine.run import redraw, run

    if arguments.earlier is not None:
        redraw(wide_console(), arguments.earlier, arguments.plots)
        return
    quick = arguments.quick
    usual = results.QUICK_SECONDS if quick else results.SECONDS
    run(
        wide_console(), cells=arguments.cells, workers=arguments.workers,
        laps=arguments.rounds or (results.QUICK_LAPS if quick else results.LAPS),
        seconds=usual if arguments.seconds is None else arguments.seconds,
        limit=arguments.limit or (results.QUICK_LIMIT if quick else results.LIMIT), seed=arguments.seed, quick=quick,
        json_file=arguments.json, plots_directory=arguments.plots,
    )  # fmt: skip


def _bench_spark(arguments: argparse.Namespace) -> None:
    from ..bench.spark import run

    run(
        wide_console(), window=arguments.window, rows=arguments.rows, batches=arguments.batches,
        routings=arguments.routings, peer=arguments.peer, master=arguments.master, seed=arguments.seed,
        json_file=arguments.json,
    )  # fmt: skip
