"""Windows in block RAM with banked comparators (the FPGA paper's future work, section VI): clocks for a tuple and
resources of one core with segments of 1,024 to 4,096 tuples and 1 to 8 lanes, beside shift registers.

Every tuple is compared with a whole segment, empty places included, so the clocks for a tuple do not depend on how full
the windows are. A tuple matches one other on average. One core finds every pair at once; all are checked. More cores
add up, as `area` shows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table

from ...reporting import plots
from ...reporting.tables import titled
from ..drive import Feeder
from ..handshake import HandshakeCircuit
from ..simulate import run, unpack_payloads
from ..synthesis import Say, resources
from .common import Entries, Experiment, alternating, packed, papers_join

SEGMENTS, QUICK_SEGMENTS = (1024, 2048, 4096), (64,)
LANES, QUICK_LANES = (1, 2, 4, 8), (1, 4)
REGISTERS, QUICK_REGISTERS = (64, 128), (16,)
"""Segments as shift registers: two that can be built, to see what a stored tuple costs."""
TUPLES = 16
"""Of each stream."""


def clocks_per_tuple(top: HandshakeCircuit, seed: int) -> float:
    """Clocks from the first tuple's entry to the last one's, by tuple; the results are checked."""
    assert top.design.window >= TUPLES, "tuples would expire"
    rng = np.random.default_rng(seed)
    keys = {side: rng.integers(0, TUPLES, TUPLES) for side in ("left", "right")}
    left, right = (packed(top.circuit, side, known.tolist()) for side, known in keys.items())
    feeder = Feeder(alternating(left, right), 0, 0)
    run(top, feeder, "auto")
    found = {(int(l), int(r)) for l, r in unpack_payloads(top.circuit, feeder.run)}
    expected = {(int(l), int(r)) for l, r in zip(*np.nonzero(keys["left"][:, None] == keys["right"]), strict=True)}
    assert found == expected, "the circuit's pairs are not the join's"
    assert len(feeder.run.results) == len(expected), "the circuit gave a pair twice"
    return (feeder.run.entered - 1) / (2 * TUPLES - 1)


def _measure(quick: bool, say: Say) -> Entries:
    designs = [
        {"segment": segment, "lanes": lanes, "ram": True}
        for segment in (QUICK_SEGMENTS if quick else SEGMENTS)
        for lanes in (QUICK_LANES if quick else LANES)
    ] + [{"segment": segment, "lanes": 1, "ram": False} for segment in (QUICK_REGISTERS if quick else REGISTERS)]
    entries: Entries = []
    for design in designs:
        where = "block RAM" if design["ram"] else "registers"
        name = f"windows: segment {design['segment']}, {design['lanes']} lanes, {where}"
        top = papers_join(1, **design)
        used = resources(top, lambda text, name=name: say(f"{name}, {text}"))  # type: ignore[misc]
        say(name)
        entries.append(design | {"clocks": clocks_per_tuple(top, seed=1)} | used.figures())
    return entries


def _tables(entries: Entries) -> list[Table]:
    columns = "segment", "in", "lanes", "clocks/tuple", "LUT", "FF", "RAMB18", "FF per stored tuple"
    table = titled("One core: clocks for a tuple, and resources on xc7", *columns, "LUT per comparison/clock")
    for entry in entries:
        stored = 2 * entry["segment"]
        table.add_row(
            f"{entry['segment']:,}", "block RAM" if entry["ram"] else "registers", f"{entry['lanes']}",
            f"{entry['clocks']:,.1f}", f"{entry['all_lut']:,}", f"{entry['ff']:,}", f"{entry['block_ram']}",
            f"{entry['ff'] / stored:.1f}", f"{entry['all_lut'] / entry['lanes']:,.0f}",
        )  # fmt: skip
    return [table]


def _draw(entries: Entries, directory: Path) -> list[Path]:
    ram = [entry for entry in entries if entry["ram"]]
    segments = dict.fromkeys(entry["segment"] for entry in ram)
    written = []
    for name, y in (("clocks", "clocks for a tuple"), ("all_lut", "LUT"), ("ff", "FF"), ("block_ram", "RAMB18")):
        points: plots.Points = {
            f"segment {segment:,}": [(e["lanes"], e[name]) for e in ram if e["segment"] == segment]
            for segment in segments
        }
        title = f"windows in block RAM, one core: {y}"
        written += plots.lines(directory / f"hardware-windows-{name.replace('_', '-')}", points, title, "lanes", y)
    return written


WINDOWS = Experiment(
    "windows in block RAM, scanned by several comparators (FPGA paper, section VI)", _measure, _tables, _draw,
    (("FPGA paper, section VI", "shift registers limit the windows strictly; something else for them is future work"),),
)  # fmt: skip
