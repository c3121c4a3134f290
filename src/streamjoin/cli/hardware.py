"""The command `streamjoin hardware simulate | synthesise | report`. It imports the hardware when it runs, because the
extra `streamjoin[hardware]` may be missing."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, StateError
from .arguments import COLUMNS_HELP, count
from .console import wide_console

if TYPE_CHECKING:
    import pyarrow as pa

EXPERIMENTS = ("area", "frequency", "throughput", "power", "windows", "bi-sort")
DESIGN = ("cores", "segment", "lanes", "ram", "merger", "scope", "admission", "core_buffer", "merger_buffer")
FIRST_ROWS = 5


def add_hardware(commands: Any) -> None:
    """Add the command to the parser."""
    hardware = commands.add_parser("hardware", help="the FPGA designs: simulate, synthesise, compare with the papers")
    kinds = hardware.add_subparsers(required=True, metavar="what")

    simulate = kinds.add_parser("simulate", help="join two files with the simulated circuit")
    simulate.add_argument("left", metavar="LEFT", help="the left stream: a Parquet, CSV, Arrow or NDJSON file")
    simulate.add_argument("right", metavar="RIGHT", help="the right stream, likewise")
    simulate.add_argument("--time", nargs="+", metavar="COLUMN", help="the time column, or one of each stream")
    _add_design(simulate)
    simulate.add_argument(
        "--simulator", choices=("auto", "amaranth", "compiled"), default="auto", help="which simulator (auto)"
    )
    simulate.add_argument("--interval", type=int, metavar="N", help="clocks between tuples (as fast as possible)")
    simulate.add_argument(
        "--stall", type=float, default=0.0, metavar="P", help="the probability that the output waits (0)"
    )
    simulate.add_argument("--out", type=Path, metavar="FILE", help="write the result: Parquet, CSV, Arrow or NDJSON")
    simulate.add_argument("--report", action="store_true", help="print what the run took")
    simulate.set_defaults(run=_with_extra(_simulate))

    synthesise = kinds.add_parser("synthesise", help="the circuit as Verilog, its resources, its clock frequency")
    synthesise.add_argument("--left", required=True, metavar="COLUMNS", help=f"the left stream: {COLUMNS_HELP}")
    synthesise.add_argument("--right", required=True, metavar="COLUMNS", help="the right stream, likewise")
    synthesise.add_argument("--payload", type=int, default=32, metavar="BITS", help="bits of payload per tuple (32)")
    synthesise.add_argument("--not-null", action="store_true", help="no column has NULLs; saves their bits")
    _add_design(synthesise)
    synthesise.add_argument("--verilog", type=Path, metavar="FILE", help="write the circuit as Verilog")
    synthesise.add_argument("--target", choices=("xc7", "ecp5"), help="xc7: resources; ecp5: place and route (xc7, "
                            "unless there is --verilog)")  # fmt: skip
    synthesise.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="S", help="ecp5: seeds (1 2 3)")
    synthesise.set_defaults(run=_with_extra(_synthesise))

    report = kinds.add_parser("report", help="the papers' figures, measured on these circuits")
    report.add_argument(
        "--experiments", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS, help="which experiments (all)"
    )
    report.add_argument("--quick", action="store_true", help="small circuits: a few minutes instead of an hour or two")
    report.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    report.add_argument("--plots", type=Path, metavar="DIR", help="also draw the figures, as files in DIR")
    report.set_defaults(run=_with_extra(_report))


def _add_design(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--on", required=True, metavar="PREDICATE", help='such as "l.k = r.k AND l.x > r.x"')
    parser.add_argument("--alias", nargs=2, metavar=("LEFT", "RIGHT"), help="the streams' names in the predicate")
    parser.add_argument("--cores", type=count, default=8, metavar="N", help="join cores (8)")
    parser.add_argument("--segment", type=count, default=8, metavar="N", help="tuples of each stream per core (8)")
    parser.add_argument("--lanes", type=count, default=1, metavar="N", help="comparators per core (1)")
    parser.add_argument("--ram", action="store_true", help="windows in block RAM instead of shift registers")
    parser.add_argument("--merger", choices=("paper", "full-rate"), default="paper", help="the kind of mergers (paper)")
    parser.add_argument(
        "--scope", choices=("all", "core"), default="all", help="which cores pause for a full queue (all)"
    )
    parser.add_argument(
        "--admission",
        choices=("lossless", "discard"),
        default="lossless",
        help="what happens to tuples that arrive then (lossless: they wait)",
    )
    parser.add_argument("--core-buffer", type=count, default=8, metavar="N", help="results that a core can hold (8)")
    parser.add_argument(
        "--merger-buffer", type=count, default=4, metavar="N", help="results that a merger can hold (4)"
    )


def _with_extra(run: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], None]:
    """Explain a missing package instead of failing with its ImportError."""

    def explained(arguments: argparse.Namespace) -> None:
        try:
            run(arguments)
        except ImportError as error:
            raise StateError(f"hardware: {error}; install streamjoin[hardware]") from None

    return explained


def _design(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in DESIGN}


def _simulate(arguments: argparse.Namespace) -> None:
    from ..hardware import simulate
    from .files.reading import read_table
    from .files.writing import Output

    time = arguments.time
    if time is not None and len(time) > 2:
        raise ArgumentError(f"--time: {len(time)} columns given; give one, or one of each stream")
    output = None if arguments.out is None else Output("--out", str(arguments.out))
    left, right = read_table(arguments.left, "LEFT"), read_table(arguments.right, "RIGHT")
    table, figures = simulate(
        left, right, on=arguments.on, time=None if time is None else time[0] if len(time) == 1 else tuple(time),
        report=True, aliases=arguments.alias, simulator=arguments.simulator, interval=arguments.interval,
        stall=arguments.stall, **_design(arguments),
    )  # fmt: skip
    if output is not None:
        with output.opened(table.schema) as writer:
            writer.write(table)
    window = arguments.cores * arguments.segment
    print(f"{table.num_rows:,} results; {left.num_rows:,} and {right.num_rows:,} tuples, windows of {window:,}")
    if arguments.report:
        tuples = len(figures.accepted) + len(figures.discarded)
        per_tuple = f", {figures.entered / tuples:.2f} per tuple" if tuples else ""
        print(f"clocks            {figures.cycles:,} in all, {figures.entered:,} until the last tuple{per_tuple}")
        print(f"accepted          {len(figures.accepted.left):,} and {len(figures.accepted.right):,}")
        print(f"discarded         {len(figures.discarded.left):,} and {len(figures.discarded.right):,}")
        print(f"clocks suspended  {figures.stalls:,}")
        print(f"simulator         {figures.simulator}")
    if arguments.out is None:
        for row in table.slice(0, FIRST_ROWS).to_pylist():
            print(row)
        if table.num_rows > FIRST_ROWS:
            print(f"... and {table.num_rows - FIRST_ROWS:,} more; --out FILE writes all")


def _synthesise(arguments: argparse.Namespace) -> None:
    from ..hardware.design import check_design
    from ..hardware.synthesis import resources, timing
    from ..hardware.verilog import design_of, verilog
    from .files.columns import read_schema

    left, right = read_schema(arguments.left, "--left"), read_schema(arguments.right, "--right")
    if arguments.not_null:
        left, right = _not_null(left), _not_null(right)
    design = _design(arguments)
    if arguments.verilog is not None:
        text = verilog(left, right, on=arguments.on, payload=arguments.payload, aliases=arguments.alias, **design)
        try:
            arguments.verilog.write_text(text)
        except OSError as error:
            raise ArgumentError(f"--verilog: cannot write {str(arguments.verilog)!r}: {error.strerror}") from None
        print(f"wrote {arguments.verilog}: {len(text.splitlines()):,} lines")
    target = arguments.target or (None if arguments.verilog is not None else "xc7")
    if target is None:
        return
    top = design_of(left, right, arguments.on, arguments.payload, arguments.alias, check_design(**design))
    from rich.console import Console

    with Console(stderr=True).status(target) as status:
        if target == "xc7":
            used = resources(top, lambda text: status.update(f"{text}: {arguments.cores} cores"))
            lines = [
                f"LUT     {used.all_lut:,}, {used.ram_lut:,} of them as RAM", f"FF      {used.ff:,}",
                f"RAMB18  {used.block_ram:,}", f"CARRY4  {used.carry:,}",
                *(f"  {part}: {known['lut']:,} LUT, {known['ff']:,} FF" for part, known in used.parts.items()),
            ]  # fmt: skip
        else:
            runs = timing(top, arguments.seeds, lambda text: status.update(f"{text}: {arguments.cores} cores"))
            lines = [
                f"seed {run.seed}: {run.mhz:.1f} MHz; slowest path {run.path.delay:.2f} ns, of which "
                f"{run.path.routing:.2f} in wires: {run.path.where}" for run in runs
            ]  # fmt: skip
            places = Counter(run.path.where for run in runs)
            rates = sorted(run.mhz for run in runs)
            often, _ = places.most_common(1)[0]
            lines.append(
                f"median {median(rates):.1f} MHz ({rates[0]:.1f} - {rates[-1]:.1f}); slowest most often: {often}"
            )
            lines += [f"{kind}: {n:,} of {runs[0].available[kind]:,}" for kind, n in runs[0].used.items()]
    print("\n".join(lines))


def _not_null(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_nullable(False) for field in schema])


def _report(arguments: argparse.Namespace) -> None:
    from ..hardware.report import run

    run(
        wide_console(), experiments=arguments.experiments, quick=arguments.quick, json_file=arguments.json,
        plots_directory=arguments.plots,
    )  # fmt: skip
