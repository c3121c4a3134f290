"""What was measured, as tables and plots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from ...reporting import plots
from ...reporting.tables import spread, titled
from .measure import JoinRates


def _times(more: dict[str, Any], key: str) -> str:
    return f"{more[key]:,.3g}x" if key in more else ""


def _others(entry: JoinRates) -> str:
    return "" if entry.others is None else f"{entry.others:.2f}"


def system_table(kind: str, window: int, entries: list[JoinRates]) -> Table:
    title = f"M tuples/s, {kind}, windows of {window:,}: median (min - max)"
    columns = "contestant", "index", "median (min - max)", "all rounds", "rounds", "results/tuple", "cpu/wall"
    table = titled(title, *columns, "others", "of best peer", "all rounds", "of scan", "of 1 thread")
    for entry in entries:
        f = entry.figures()
        table.add_row(
            entry.contestant, entry.chosen or "", spread(entry.rates), f"{f['overall']:.3g}", f"{f['rounds']}",
            f"{f['results_per_tuple']:.3g}", f"{f['cpu_per_wall']:.2f}", _others(entry), _times(f, "to_best_peer"),
            _times(f, "to_best_peer_overall"), _times(f, "to_scan"), _times(f, "to_one_worker"),
        )  # fmt: skip
    table.caption = "cpu/wall: own CPU time per wall time; others: cores that other programs used meanwhile"
    scans = [entry for entry in entries if entry.index == "scan"]
    if scans:
        table.caption += (
            f". scan: the left window is full, batches of {scans[0].batch:,} tuples come from the right only"
        )
    return table


def entry_table(title: str, what: str, entries: list[JoinRates], label: Callable[[JoinRates], str]) -> Table:
    columns = what, "contestant", "window", "batch", "median (min - max)", "all rounds", "results/tuple", "ns/result"
    table = titled(title, *columns, "cpu/wall", "others")
    for entry in entries:
        f = entry.figures()
        each = "" if f["ns_per_result"] is None else f"{f['ns_per_result']:.3g}"
        table.add_row(
            label(entry), entry.contestant, f"{entry.window:,}", f"{entry.batch:,}", spread(entry.rates),
            f"{f['overall']:.3g}", f"{f['results_per_tuple']:.3g}", each, f"{f['cpu_per_wall']:.2f}", _others(entry),
        )  # fmt: skip
    return table


def memory_table(entries: list[dict[str, Any]]) -> Table:
    table = titled("Bytes per window tuple, 1 thread, in a process of its own", "join", "window", "index", "in index",
                   "payload", "RSS grows by", "raw", "index + payload / raw")  # fmt: skip
    for entry in entries:
        resident = "" if entry["rss_bytes"] is None else f"{entry['rss_bytes']:.1f}"
        ratio = (entry["index_bytes"] + entry["payload_bytes"]) / entry["raw_bytes"]
        table.add_row(
            entry["kind"], f"{entry['window']:,}", entry["index"], f"{entry['index_bytes']:.1f}",
            f"{entry['payload_bytes']:.1f}", resident, f"{entry['raw_bytes']}", f"{ratio:.2f}x",
        )  # fmt: skip
    return table


def draw(figures: dict[str, Any], directory: Path) -> list[Path]:
    """Throughput over the window by contestant, over selectivity by index, by distribution of the keys."""
    written = []
    systems = figures["systems"]
    for kind in dict.fromkeys(entry["kind"] for entry in systems):
        points = plots.points_of(
            [entry for entry in systems if entry["kind"] == kind],
            lambda entry: entry["contestant"], lambda entry: entry["window"], None,
        )  # fmt: skip
        written += plots.lines(directory / f"panjoin-{kind}", points, f"{kind}, both streams", "window (tuples)")
    if figures["selectivity"]:
        points = plots.points_of(figures["selectivity"], lambda e: e["contestant"], lambda e: e["selectivity"], None)
        title = f"band, windows of {figures['selectivity'][0]['window']:,}"
        written += plots.lines(directory / "panjoin-selectivity", points, title, "matches per probe")
    if figures["skew"]:
        written += plots.bars(directory / "panjoin-skew", figures["skew"])
    return written
