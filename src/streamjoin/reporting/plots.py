"""The figures of the benchmarks as files; matplotlib is needed only here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, StreamJoinError

FORMATS = ("png", "svg")
Points = dict[str, list[tuple[float, float]]]
"""The points of each line, by its label."""


def library() -> Any:
    """matplotlib.pyplot, drawing into files; ArgumentError if it is not there."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise ArgumentError(
            "--plots: matplotlib is not installed; `pip install 'streamjoin[bench]'`, or leave out --plots"
        ) from None


def subwindow(figures: dict[str, Any], directory: Path) -> list[Path]:
    """Throughput over batch size, N, P and S, and the convergence of the splitters."""
    written = []
    grid = figures["grid"]
    for what, label in (("insert", "insertion"), ("probe", "band probe, full subwindow")):
        for size in dict.fromkeys(entry["size"] for entry in grid):
            points = _points(
                [entry for entry in grid if entry["size"] == size and what in entry],
                lambda entry: entry["contestant"], lambda entry: entry["batch"], what,
            )  # fmt: skip
            written += lines(
                directory / f"subwindow-{what}-n{size}", points, f"{label}, N = {size:,}, one thread", "batch"
            )
        for batch in [max(entry["batch"] for entry in grid)] if grid else []:
            points = _points(
                [entry for entry in grid if entry["batch"] == batch and what in entry],
                lambda entry: entry["contestant"], lambda entry: entry["size"], what,
            )  # fmt: skip
            title = f"{label}, batches of {batch:,}, one thread"
            written += lines(directory / f"subwindow-{what}-by-n", points, title, "N")
    for sweep, letter in (("partitions", "P"), ("selectivity", "S")):
        for what in ("insert", "probe"):
            chosen = [entry for entry in figures[sweep] if what in entry]
            if not chosen or (sweep == "selectivity" and what == "insert"):
                continue
            points = _points(chosen, lambda e: e["contestant"], itemgetter(sweep), what)
            title = f"{what}, N = {chosen[0]['size']:,}, batches of {chosen[0]['batch']:,}"
            written += lines(directory / f"subwindow-{what}-by-{sweep}", points, title, letter)
    errors: Points = {
        f"{entry['distribution']}, P = {entry['partitions']:,}": list(enumerate(entry["errors"]))
        for entry in figures["convergence"]
    }
    title = "RaP-Table: error of the partitions' sizes"
    written += lines(directory / "subwindow-convergence", errors, title, "adjustments", "normalised MAE", log_x=False)
    return written


def panjoin(figures: dict[str, Any], directory: Path) -> list[Path]:
    """Throughput over the window by contestant, over selectivity by index, by distribution of the keys."""
    written = []
    systems = figures["systems"]
    for kind in dict.fromkeys(entry["kind"] for entry in systems):
        points = _points(
            [entry for entry in systems if entry["kind"] == kind],
            lambda entry: entry["contestant"], lambda entry: entry["window"], None,
        )  # fmt: skip
        written += lines(directory / f"panjoin-{kind}", points, f"{kind}, both streams", "window (tuples)")
    if figures["selectivity"]:
        points = _points(figures["selectivity"], lambda e: e["contestant"], lambda e: e["selectivity"], None)
        title = f"band, windows of {figures['selectivity'][0]['window']:,}"
        written += lines(directory / "panjoin-selectivity", points, title, "matches per probe")
    if figures["skew"]:
        written += _bars(directory / "panjoin-skew", figures["skew"])
    return written


def _points(
    entries: list[dict[str, Any]],
    label: Callable[[dict[str, Any]], str],
    place: Callable[[dict[str, Any]], float],
    what: str | None,
) -> Points:
    points: Points = {}
    for entry in entries:
        figure = entry["median"] if what is None else entry[what]["median"]
        points.setdefault(label(entry), []).append((place(entry), figure))
    return points


def lines(
    file: Path, points: Points, title: str, x: str, y: str = "M tuples/s, median", *, log_x: bool = True
) -> list[Path]:
    plt = library()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for label, line in points.items():
        axes.plot(*zip(*sorted(line), strict=True), marker="o", label=label)
    if log_x:
        axes.set_xscale("log", base=2)
        places = sorted({place for line in points.values() for place, _ in line})
        axes.set_xticks(places, [f"{place:,.0f}" for place in places])
    axes.set_yscale("log")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(visible=True, alpha=0.3)
    if points:
        axes.legend(fontsize="small")
    return _save(figure, file)


def _bars(file: Path, entries: list[dict[str, Any]]) -> list[Path]:
    plt = library()
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    names = list(dict.fromkeys(entry["contestant"] for entry in entries))
    groups = list(dict.fromkeys(entry["keys"] for entry in entries))
    for number, name in enumerate(names):
        rate = {entry["keys"]: entry["median"] for entry in entries if entry["contestant"] == name}
        places = [at + 0.8 * number / len(names) for at, group in enumerate(groups) if group in rate]
        axes.bar(places, [rate[group] for group in groups if group in rate], 0.8 / len(names), label=name)
    axes.set_xticks(
        [at + 0.4 for at in range(len(groups))], [group.replace(", ", ",\n") for group in groups], fontsize="small"
    )
    axes.set_yscale("log")
    axes.set(title="by distribution of the keys", ylabel="M tuples/s, median")
    axes.legend(fontsize="small")
    return _save(figure, file)


def _save(figure: Any, file: Path) -> list[Path]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files = [file.with_suffix(f".{kind}") for kind in FORMATS]
        for each in files:
            figure.savefig(each, dpi=120)
    except OSError as error:
        raise StreamJoinError(f"--plots: cannot write to {str(file.parent)!r}: {error.strerror}") from None
    finally:
        library().close(figure)
    return files
