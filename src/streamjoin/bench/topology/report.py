"""What was measured, as tables and plots, with the papers' figures beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from ...lab.model import Costs
from ...reporting import plots
from ...reporting.tables import spread, text_table, titled
from .gate import GATE_READERS, GATE_SOURCES
from .latency import LatencyRun
from .results import PAPER, TopologyResults
from .skew import Skew
from .throughput import LOW_LATENCY, Point

PAPERS_RATES = {("celljoin", 8): 1_000, ("handshake", 8): 1_400, (LOW_LATENCY, 8): 1_391, (LOW_LATENCY, 40): 3_200,
                ("scalejoin", 48): 1_500}  # fmt: skip
"""Tuples per second of each stream with windows of 15 minutes. ScaleJoin counts both: halved."""
PAPERS_LATENCIES = {(LOW_LATENCY, 8): 0.032, (LOW_LATENCY, 40): 0.015, ("scalejoin", 48): 0.07}
SHOWN_CORES = (4, 8, 16, 24, 32, 40, 48, 128, 256)
_BOTH = "measured", "predicted"
_LOCKS = {True: "one for all", False: "one per core"}


def tables(results: TopologyResults) -> list[Table]:
    found = []
    if results.throughput:
        found.append(_throughput_table(results))
    if results.orders:
        found.append(_point_table("M tuples/s by order of the results, time windows", results.orders, "to_none"))
    if results.index:
        title = "M tuples/s by index, l.x = r.a with one match per tuple, count windows"
        found.append(_point_table(title, results.index, "to_scan"))
    if results.latency:
        found.append(_latency_table(results.latency))
    if results.skew:
        found.append(_skew_table(results.skew, results.gate))
    if results.costs:
        found += [_cost_table(results.costs), _validation_table(results.validation)]
        title = "Predicted: tuples/s of each stream, windows of 15 minutes; in brackets: the papers', on their machines"
        found.append(_prediction_table(title, results.predictions, "rate", PAPERS_RATES, "{:,.0f}"))
        title = "Predicted: mean latency in s at half that rate, batches of 64; in brackets: the papers'"
        found.append(_prediction_table(title, results.predictions, "latency", PAPERS_LATENCIES, "{:.3g}"))
    return [*found, text_table("In the papers (not this machine)", PAPER)]


def _throughput_table(results: TopologyResults) -> Table:
    first = results.throughput[0]
    title = f"M tuples/s, count windows of {first.window:,}, scan, batches of {first.batch:,}: median (min - max)"
    columns = "algorithm", "workers", "M tuples/s", "G comparisons/s", "of the bound", "of the first", "rounds"
    table = titled(title, *columns, "cpu/wall", "others")
    for point in results.throughput:
        rates, others = point.rates.figures(), "" if point.others is None else f"{point.others:.2f}"
        table.add_row(
            point.setup.algorithm, f"{point.setup.workers}", spread(point.rates), f"{point.comparisons / 1e9:.2f}",
            f"{point.more['of_bound']:.0%}", f"{point.more['to_first']:.2f}x", f"{rates['rounds']}",
            f"{rates['cpu_per_wall']:.2f}", others,
        )  # fmt: skip
    bounds = ", ".join(f"{n}: {rate / 1e9:.2f} G comparisons/s" for n, rate in results.bounds.items())
    table.caption = f"the bound, by threads that only scan, all at once: {bounds}"
    return table


def _point_table(title: str, points: list[Point], ratio: str) -> Table:
    columns = "algorithm", "workers", "order", "index", "median (min - max)", "of the first", "held back", "in a poll"
    table = titled(title, *columns)
    for point in points:
        more, setup = point.more, point.setup
        held, most = (f"{more[key]:,}" if key in more else "" for key in ("held_back", "most_in_a_poll"))
        row = setup.algorithm, f"{setup.workers}", setup.order, setup.index, spread(point.rates), f"{more[ratio]:.3g}x"
        table.add_row(*row, held, most)
    return table


def _latency_table(runs: list[LatencyRun]) -> Table:
    title = "Latency in ms at half the highest rate, from when the later tuple was due until poll returned the result"
    columns = "algorithm", "windows, s", "batch", "tuples/s each", "mean", "median", "p99", "max", "batching", "behind"
    table = titled(title, *columns, "results", "model: mean", "max", "max, no limit")
    for run in runs:
        model = (run.model_mean, run.model_max, run.unlimited_max) if run.algorithm == "handshake" else ()
        table.add_row(
            run.algorithm, f"{run.windows[0]:g}, {run.windows[1]:g}", f"{run.batch}", f"{run.rate:,.0f}",
            *(_ms(run.seconds.get(name)) for name in ("mean", "median", "p99", "max")), _ms(run.batching),
            _ms(run.behind), f"{run.results:,}", *map(_ms, model),
        )  # fmt: skip
    table.caption = (
        "batching: the mean wait for a batch to fill; behind: the generator's latest push; model: when tuples meet "
        "on this number of nodes, or on infinitely many (section 3.1)"
    )
    return table


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:,.0f}" if seconds >= 1 else f"{1e3 * seconds:.3g}"


def _skew_table(found: list[Skew], gate: dict[int, float]) -> Table:
    title = "ScaleJoin: comparisons per node, in percent of the mean"
    columns = "rates", "streams", "nodes", "std, all", "std, worst slice", "most - least, all", "worst slice", "paper"
    table = titled(title, *columns)
    for entry in found:
        figures = entry.deviation, max(entry.deviations), entry.difference, max(entry.differences)
        sources = f"{entry.sources[0]} + {entry.sources[1]}"
        table.add_row(entry.case, sources, f"{entry.threads}", *(f"{f:.3f}%" for f in figures), entry.paper)
    rates = ", ".join(f"{rate / 1e6:.3g} M tuples/s {batch} at a time" for batch, rate in gate.items())
    table.caption = f"the gate, {GATE_SOURCES} sources and {GATE_READERS} readers on threads: {rates} (paper: 0.15 M)"
    return table


def _cost_table(known: dict[str, Costs]) -> Table:
    table = titled("Measured costs, in microseconds", "algorithm", "message", "tuple stored", "hop", "step", "tuple")
    for algorithm, costs in known.items():
        each = costs.message, costs.stored, costs.hop, costs.step, costs.tuple
        table.add_row(algorithm, *(f"{1e6 * seconds:.3g}" for seconds in each))
        rates = costs.alone / 1e9, costs.together / 1e9
    table.caption = f"a core's scan: {rates[0]:.2f} G comparisons/s alone, {rates[1]:.2f} while another core scans too"
    return table


def _validation_table(rows: list[dict[str, Any]]) -> Table:
    table = titled("The model against the runs", "algorithm", "workers", "what", "figure", "run", "model", "error")
    for row in rows:
        run, model = (f"{row[name]:,.3g}" if row[name] < 1000 else f"{row[name]:,.0f}" for name in _BOTH)
        what = row["algorithm"], f"{row['workers']}", row["what"], row["figure"]
        table.add_row(*what, run, model, f"{row['error']:+.0%}")
    return table


def _prediction_table(
    title: str, rows: list[dict[str, Any]], what: str, papers: Mapping[tuple[str, int], float], form: str
) -> Table:
    table = titled(title, "algorithm", "interpreter", *(f"{cores} cores" for cores in SHOWN_CORES))
    for (algorithm, lock), line in _by_line(rows, what).items():
        known = dict(line)
        cells = []
        for cores in SHOWN_CORES:
            own = form.format(known[cores]) if cores in known else "falls behind"
            paper = papers.get((algorithm, cores))
            cells.append(own if paper is None else f"{own} ({form.format(paper)})")
        table.add_row(algorithm, _LOCKS[lock], *cells)
    return table


def _by_line(rows: list[dict[str, Any]], what: str) -> dict[tuple[str, bool], list[tuple[float, float]]]:
    lines: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for row in rows:
        line = lines.setdefault((row["algorithm"], row["lock"]), [])
        if row[what] is not None:
            line.append((row["cores"], row[what]))
    return lines


def draw(results: TopologyResults, directory: Path) -> list[Path]:
    """Latency over time beside its model, and the predictions beside the papers' figures."""
    written = []
    for run in (run for run in results.latency if run.course):
        course: plots.Points = {"mean": [(at, mean) for at, mean, _ in run.course],
                                "max": [(at, most) for at, _, most in run.course]}  # fmt: skip
        if run.algorithm == "handshake":
            ends = run.course[0][0], run.course[-1][0]
            course["model, max"] = [(at, run.model_max) for at in ends]
            course["model, max, infinitely many nodes"] = [(at, run.unlimited_max) for at in ends]
        sizes = "-".join(f"{1e3 * seconds:.0f}ms" for seconds in run.windows)
        name = f"topology-latency-{run.algorithm}-{sizes}-batch{run.batch}"
        title = f"{run.algorithm}, windows of {run.windows[0]:g} s and {run.windows[1]:g} s, batches of {run.batch}"
        written += plots.lines(directory / name, course, title, "seconds", "latency, s", log_x=False)
    for what, papers, y in (
        ("rate", PAPERS_RATES, "tuples/s of each stream, 15-minute windows"),
        ("latency", PAPERS_LATENCIES, "mean latency at half the rate, s"),
    ):
        for lock, name in _LOCKS.items():
            points: plots.Points = {
                algorithm: line
                for (algorithm, of), line in _by_line(results.predictions, what).items()
                if line and of == lock
            }
            for (algorithm, cores), figure in papers.items():
                points.setdefault(f"{algorithm}, in its paper", []).append((cores, figure))
            if results.predictions:
                file = directory / f"topology-model-{what}-{'lock' if lock else 'no-lock'}"
                written += plots.lines(file, points, f"the model, interpreters: {name}", "cores", y)
    return written
