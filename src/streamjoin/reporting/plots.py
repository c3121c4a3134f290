"""Lines, bars and heat maps as picture files; matplotlib is needed only here."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, StreamJoinError

FORMATS = ("png", "svg")
Points = dict[str, list[tuple[float, float]]]
"""The points of each line, by its label."""


def library() -> Any:
    """matplotlib.pyplot, set to draw into files; ArgumentError if it is not installed."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise ArgumentError(
            "--plots: matplotlib is not installed; `pip install 'streamjoin[bench]'`, or leave out --plots"
        ) from None


def points_of(
    entries: list[dict[str, Any]],
    label: Callable[[dict[str, Any]], str],
    place: Callable[[dict[str, Any]], float],
    what: str | None,
) -> Points:
    """The medians of entries as points: one line per label. `what` names the figure that has the median."""
    points: Points = {}
    for entry in entries:
        figure = entry["median"] if what is None else entry[what]["median"]
        points.setdefault(label(entry), []).append((place(entry), figure))
    return points


def lines(
    file: Path, points: Points, title: str, x: str, y: str = "M tuples/s, median", *, log_x: bool = True,
    log_y: bool = True,
) -> list[Path]:  # fmt: skip
    """Draw one line per label. Labels that begin with "paper" are dashed. Figures of 0 need `log_y=False`."""
    plt = library()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for label, line in points.items():
        style = {"linestyle": "--", "marker": "s"} if label.startswith("paper") else {"marker": "o"}
        axes.plot(*zip(*sorted(line), strict=True), label=label, **style)
    if log_x:
        axes.set_xscale("log", base=2)
        places = sorted({place for line in points.values() for place, _ in line})
        axes.set_xticks(places, [f"{place:,.0f}" for place in places])
    if log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(visible=True, alpha=0.3)
    if points:
        axes.legend(fontsize="small")
    return save(figure, file)


def bars(file: Path, entries: list[dict[str, Any]]) -> list[Path]:
    """Draw one group of bars per distribution of the keys, one bar per contestant."""
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
    return save(figure, file)


def heat(
    file: Path, values: dict[tuple[str, str], float | None], columns: dict[str, str], title: str, *,
    less_is_better: bool = False,
) -> list[Path]:  # fmt: skip
    """Draw ratios by (row, column). 1 is white, losses are red, and a cell without a ratio is grey.

    `columns` has the label of each column, in their order.
    """
    plt = library()
    rows = list(dict.fromkeys(row for row, _ in values))
    size = 2.5 + 0.75 * len(columns), 1.3 + 0.42 * len(rows)
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    known = [[values.get((row, column)) for column in columns] for row in rows]
    shades = [[math.log2(ratio) if ratio else math.nan for ratio in line] for line in known]
    axes.set_facecolor("lightgrey")
    axes.imshow(shades, cmap="RdBu_r" if less_is_better else "RdBu", vmin=-2, vmax=2, aspect="auto")
    for y, line in enumerate(known):
        for x, ratio in enumerate(line):
            if ratio:
                color = "white" if abs(math.log2(ratio)) > 1.4 else "black"
                axes.text(x, y, f"{ratio:.3g}", ha="center", va="center", fontsize="small", color=color)
    axes.set_xticks(range(len(columns)), list(columns.values()), fontsize="small")
    axes.set_yticks(range(len(rows)), rows, fontsize="small")
    axes.set_title(title)
    return save(figure, file)


def save(figure: Any, file: Path) -> list[Path]:
    """Write a figure in all formats; StreamJoinError if that fails."""
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
