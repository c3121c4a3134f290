"""Plots of a run's figures, as `--json` writes them, with the papers' figures drawn in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import ArgumentError
from ...reporting import plots
from .cells import COMPARISONS, LATENCY, TUPLES, short
from .contestants import GPU
from .papers import stated

LIMIT = "limit: processes that only scan"
Figures = dict[str, Any]


def read(file: Path) -> Figures:
    """The figures of an earlier run; ArgumentError if there are none in the file."""
    try:
        figures: Figures = json.loads(file.read_text())
        return {"limits": figures["limits"], "cells": figures["cells"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError(f"--from: {str(file)!r} has no figures of `bench machine`: {error}") from None


def draw(figures: Figures, directory: Path) -> list[Path]:
    """Scans, joins with keys, those without and latencies, over the workers."""
    cells = figures["cells"]
    written = _scans(figures, directory)
    with_keys = [cell for cell in cells if cell["figure"] == TUPLES]
    for window in dict.fromkeys(cell["window"] for cell in with_keys):
        points = _points([cell for cell in with_keys if cell["window"] == window], _tuples)
        for paper in stated():
            if paper.cores is not None and paper.window is not None and paper.tuples_per_second is not None:
                label = f"paper: {paper.paper}, {paper.kind}, W = {short(paper.window)}"
                points[label] = [(paper.cores, paper.tuples_per_second / 1e6)]
        title = f"joins with keys, one match, windows of {short(window)}"
        written += plots.lines(directory / f"machine-keys-{short(window)}", points, title, "workers")
    keyless = [cell for cell in cells if cell["figure"] == COMPARISONS and cell["kind"] == "keyless"]
    if keyless:
        points, unit = _points(keyless, _comparisons), "G comparisons/s, median"
        written += plots.lines(directory / "machine-keyless", points, "a predicate without a key", "workers", unit)
    latencies = [cell for cell in cells if cell["figure"] == LATENCY]
    if latencies:
        points, title = _points(latencies, _milliseconds), "batches of 64, from push to poll"
        written += plots.lines(directory / "machine-latency", points, title, "workers", "ms, median")
    return written


def _scans(figures: Figures, directory: Path) -> list[Path]:
    scans = [cell for cell in figures["cells"] if cell["figure"] == COMPARISONS and cell["kind"] == "celljoin"]
    if not scans:
        return []
    points = _points(scans, _comparisons)
    limits = figures["limits"]["m_comparisons_per_second"]
    points[LIMIT] = [(int(number), rates["median"] / 1e3) for number, rates in limits.items()]
    for paper in stated():
        if paper.cores is not None and paper.comparisons is not None:
            points.setdefault(f"paper: {paper.paper}", []).append((paper.cores, paper.comparisons / 1e9))
    title, unit = "CellJoin's predicate by scanning", "G comparisons/s, median"
    return plots.lines(directory / "machine-scan", points, title, "workers", unit)


def _tuples(entry: Figures) -> float:
    return float(entry["tuples_per_second"]) / 1e6


def _comparisons(entry: Figures) -> float:
    return float(entry["comparisons_per_second"]) / 1e9


def _milliseconds(entry: Figures) -> float:
    return float(entry["latency_ms"]["median"])


def _points(cells: list[Figures], of: Callable[[Figures], float]) -> plots.Points:
    """A line for each cell, and one for its GPU, which is as high for every number of workers."""
    points: plots.Points = {}
    for cell in cells:
        entries = [entry for entry in cell["entries"] if not entry["stopped"]]
        counted = [(entry["workers"], of(entry)) for entry in entries if entry["workers"]]
        if counted:
            points[cell["cell"]] = counted
        ends = [workers for workers, _ in counted] or [1]
        for entry in entries:
            if entry["contestant"] == GPU:
                points[f"{cell['cell']}, GPU"] = [(end, of(entry)) for end in (min(ends), max(ends))]
    return points
