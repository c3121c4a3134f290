"""What was measured, as tables, lines and heat maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from ...reporting import plots
from ...reporting.tables import others_text, titled
from .results import CellResults, Entry

FIGURES = {"regret": "regret: best index by hand / defaults", "to_peer": "defaults / best peer"}


def _rate(entry: Entry | None, name: str = "") -> str:
    """The contestant, its best lap and its slowest."""
    if entry is None:
        return ""
    rates = f"{entry.best:.3g} ({min(entry.rates.rates):.3g})" if entry.best else (entry.stopped or "")
    return f"{name or entry.contestant} {rates}"


def _times(number: float | None) -> str:
    return "" if number is None else f"{number:,.2f}"


def shape_table(cells: list[CellResults]) -> Table:
    columns = "cell", "default", "best index", "best peer", "regret", "to peer", "results/tuple", "stopped"
    table = titled("M tuples/s: best lap (slowest lap)", *columns, texts=4)
    for column in table.columns[:-1]:
        column.no_wrap = True
    for cell in cells:
        stopped = "; ".join(entry.contestant for entry in cell.entries if entry.stopped)
        each = "" if cell.results_per_tuple is None else f"{cell.results_per_tuple:.3g}"
        table.add_row(
            cell.cell, _rate(cell.default, cell.default.chosen or "default"), _rate(cell.best_index),
            _rate(cell.best_peer), _times(cell.regret), _times(cell.to_peer), each, stopped,
        )  # fmt: skip
    table.caption = "default: the index it chose; regret: best index by hand / default; to peer: default / best peer"
    return table


def cell_line(cell: CellResults) -> str:
    """What is said of a cell as soon as it is done."""
    index, peer = _rate(cell.best_index) or "none", _rate(cell.best_peer) or "none"
    return (
        f"{cell.cell}: {_rate(cell.default)}; best index {index}, regret {_times(cell.regret)}; "
        f"best peer {peer}, to peer {_times(cell.to_peer)}"
    )


def summary_lines(summary: dict[str, Any], others: float | None) -> list[str]:
    lines = []
    for what, worst, median in (
        ("regret", "worst_regret", "median_regret"), ("ratio to a peer", "worst_to_peer", "median_to_peer"),
    ):  # fmt: skip
        if summary[worst] is None:
            lines.append(f"No {what} is known.")
            continue
        number, cell = summary[worst]
        lines += [f"Worst {what}: {number:.2f} ({cell})", f"Median {what}: {summary[median]:.2f}"]
    if summary["default_stopped"]:
        lines.append(f"The defaults have no figure in: {', '.join(summary['default_stopped'])}")
    return [*lines, others_text(others)]


def draw(figures: dict[str, Any], directory: Path) -> list[Path]:
    """Heat maps of the grid, one per figure, and one of all other cells."""
    written = []
    shapes: dict[str, int] = {}
    for cell in figures["cells"]:
        shapes[cell["shape"]] = shapes.get(cell["shape"], 0) + 1
    grid = [cell for cell in figures["cells"] if shapes[cell["shape"]] > 1]
    places = sorted({(cell["window"], cell["batch"], cell["place"]) for cell in grid})
    for what, title in FIGURES.items():
        if grid:
            values = {(cell["shape"], cell["place"]): cell[what] for cell in grid}
            columns = {place: place.replace("-", "\n") for _, _, place in places}
            written += plots.heat(directory / f"shapes-{what}", values, columns, title, less_is_better=what == "regret")
    rest = [cell for cell in figures["cells"] if shapes[cell["shape"]] == 1]
    if rest:
        # The regret upside down, so that less than 1 is a loss in both columns
        values = {(c["cell"], "regret"): c["regret"] and 1 / c["regret"] for c in rest}
        values |= {(c["cell"], "to_peer"): c["to_peer"] for c in rest}
        columns = {"regret": "of best index", "to_peer": "of best peer"}
        written += plots.heat(directory / "shapes-further", values, columns, "defaults, further cells")
    return written
