"""The command `streamjoin hardware simulate | synthesise | report`. What it needs is imported when it runs, since the
extra `streamjoin[hardware]` may be missing."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, StateError
from .arguments import count
from .console import wide_console
from .files import file_kind, read_schema, read_table, write_table

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
    simulate.add_argument("left", metavar="LEFT", help="the left stream: a parquet, arrow or csv file")
    simulate.add_argument("right", metavar="RIGHT", help="the right stream, likewise")
    simulate.add_argument("--time", nargs="+", metavar="COLUMN", help="by which tuples arrive; or one of each stream")
    _add_design(simulate)
    simulate.add_argument("--simulator", choices=("auto", "amaranth", "compiled"), default="auto", help="which (auto)")
    simulate.add_argument("--interval", type=int, metavar="N", help="clocks between tuples (as fast as they are taken)")
    simulate.add_argument("--stall", type=float, default=0.0, metavar="P", help="how likely the output waits (0)")
    simulate.add_argument("--out", type=Path, metavar="FILE", help="write the result: parquet, arrow or csv")
    simulate.add_argument("--report", action="store_true", help="print what the run took")
    simulate.set_defaults(run=_with_extra(_simulate))

    synthesise = kinds.add_parser("synthesise", help="the circuit as Verilog, its resources, its clock frequency")
    what = 'its columns, as in "k int, v int", or a parquet, arrow or csv file that has them'
    synthesise.add_argument("--left", required=True, metavar="COLUMNS", help=f"the left stream: {what}")
    synthesise.add_argument("--right", required=True, metavar="COLUMNS", help="the right stream, likewise")
    synthesise.add_argument("--payload", type=int, default=32, metavar="BITS", help="that travel with a tuple (32)")
    synthesise.add_argument("--not-null", action="store_true", help="no column has NULLs, so none has a bit for them")
    _add_design(synthesise)
    synthesise.add_argument("--verilog", type=Path, metavar="FILE", help="write the circuit as Verilog")
    synthesise.add_argument("--target", choices=("xc7", "ecp5"), help="xc7: resources; ecp5: place and route (xc7, "
                            "unless there is --verilog)")  # fmt: skip
    synthesise.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="S", help="ecp5: seeds (1 2 3)")
    synthesise.set_defaults(run=_with_extra(_synthesise))

    report = kinds.add_parser("report", help="the papers' figures, measured on these circuits")
    report.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS, help="which (all)")
    report.add_argument("--quick", action="store_true", help="small circuits, a few minutes instead of an hour or two")
    report.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    report.add_argument("--plots", type=Path, metavar="DIR", help="also draw them, into DIR")
    report.set_defaults(run=_with_extra(_report))


def _add_design(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--on", required=True, metavar="PREDICATE", help='such as "l.k = r.k AND l.x > r.x"')
    parser.add_argument("--alias", nargs=2, metavar=("LEFT", "RIGHT"), help="what the predicate calls the streams")
    parser.add_argument("--cores", type=count, default=8, metavar="N", help="join cores (8)")
    parser.add_argument("--segment", type=count, default=8, metavar="N", help="tuples of each stream per core (8)")
    parser.add_argument("--lanes", type=count, default=1, metavar="N", help="comparators per core (1)")
    parser.add_argument("--ram", action="store_true", help="windows in block RAM instead of shift registers")
    parser.add_argument("--merger", choices=("paper", "full-rate"), default="paper", help="mergers (paper)")
    parser.add_argument("--scope", choices=("all", "core"), default="all", help="who rests for a full queue (all)")
    parser.add_argument(
        "--admission", choices=("lossless", "discard"), default="lossless", help="what arrives then (lossless: waits)"
    )
    parser.add_argument("--core-buffer", type=count, default=8, metavar="N", help="results a core holds (8)")
    parser.add_argument("--merger-buffer", type=count, default=4, metavar="N", help="results a merger holds (4)")


def _with_extra(run: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], None]:
    """A package that is not there is an error that is explained."""

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

    time = arguments.time
    if time is not None and len(time) > 2:
        raise ArgumentError(f"--time: {len(time)} columns given; give one, or one of each stream")
    if arguments.out is not None:
        file_kind(str(arguments.out), "--out")
    left, right = read_table(arguments.left, "LEFT"), read_table(arguments.right, "RIGHT")
    table, figures = simulate(
        left, right, on=arguments.on, time=None if time is None else time[0] if len(time) == 1 else tuple(time),
        report=True, aliases=arguments.alias, simulator=arguments.simulator, interval=arguments.interval,
        stall=arguments.stall, **_design(arguments),
    )  # fmt: skip
    if arguments.out is not None:
        write_table(table, arguments.out)
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
