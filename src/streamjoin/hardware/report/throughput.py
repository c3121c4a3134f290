"""Throughput over the match rate (FPGA paper, section V-C, Figures 12 and 13): 64 cores with segments of 8, so windows
of 512 tuples, and 512 or 1,024 tuples of each stream in the input buffers.

Match rate (section V-A says no more than "generated according to a match rate", in random order): at a match rate of m,
a share m of each stream's tuples carries one common key, and each of the others a key that occurs once; all are
shuffled. So two tuples match with probability m * m, none do at 0%, and all at 100%.

As in section V-A, both buffers are emptied into the circuit as fast as it takes them (an interrupted circuit takes
nothing; nothing is dropped), and no bubbles follow. Pairs that would only meet behind the last tuple are therefore not
found, neither here nor in the paper. Input throughput is tuples of both streams over the clocks until the last was
taken, output throughput is results over the clocks until the last has left, both at 100 MHz.

The nested-loop join of Terada et al. compares a tuple with the other stream's window one tuple per clock. It has at
most one result per clock, so results never hold it up, and the match rate makes no difference. With windows of W tuples
and N tuples of each stream, it needs the sum over all tuples of the other window's length at that moment:

    clocks = N * N                        for N <= W      (f * 2 N / clocks = 2 f / N tuples/s)
    clocks = W * W + 2 W * (N - W)        for N > W       (towards f / W for long streams)

Results are checked: pair by pair, those that the circuit must have found by then are the ones that it gave.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from ...reporting import plots
from ...reporting.tables import titled
from ..drive import Entry, Feeder
from ..handshake import HandshakeCircuit
from ..simulate import run, unpack_payloads
from ..synthesis import Say
from .common import Entries, Experiment, packed, papers_join

HERTZ = 100e6
CORES, SEGMENT, QUICK_CORES = 64, 8, 4
RATES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
QUICK_RATES = (0.0, 0.5, 1.0)
BUFFERS, QUICK_BUFFERS = (512, 1024), (32, 64)
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "full-rate mergers": {"merger": "full-rate"},
    "per-core admission": {"scope": "core"},
    "both": {"merger": "full-rate", "scope": "core"},
}
NESTED = "nested-loop join (estimate)"
Keys = npt.NDArray[np.int64]


def generate(count: int, rate: float, seed: int) -> dict[str, Keys]:
    """Keys of `count` tuples of each stream at a match rate."""
    rng = np.random.default_rng(seed)
    matching = round(rate * count)
    keys = {}
    for number, side in enumerate(("left", "right")):
        own = np.arange(count) + 1 + number * count
        own[:matching] = 0
        keys[side] = rng.permutation(own)
    return keys


def nested_loop_clocks(count: int, window: int) -> int:
    """Clocks of a nested-loop join for `count` tuples of each stream; see above."""
    within = min(count, window)
    return within * within + 2 * window * (count - within)


def met(keys: dict[str, Keys], cores: int, segment: int) -> npt.NDArray[np.int64]:
    """The pairs that have met when tuples i of both streams, the left one first, have entered for all i.

    The join's pairs are those of count windows. Of these, a pair has met once the left tuple's core is not before the
    right one's: with a left and b right tuples behind them, a // segment + b // segment >= cores - 1.
    """
    left, right = keys["left"], keys["right"]
    i, j = np.nonzero(left[:, None] == right[None, :])
    window, count = cores * segment, len(left)
    joined = np.where(j >= i, j - i < window, i - j <= window)  # the left tuple i enters when i right ones have
    behind = (count - 1 - i) // segment + (count - 1 - j) // segment
    chosen = joined & (behind >= cores - 1)
    return np.stack([i[chosen], j[chosen]], axis=1)


def measure_point(top: HandshakeCircuit, keys: dict[str, Keys]) -> dict[str, Any]:
    """Empty the input buffers into a circuit, and check what comes out."""
    both = zip(*(packed(top.circuit, side, keys[side].tolist()) for side in ("left", "right")), strict=True)
    feeder = Feeder([Entry(left, right) for left, right in both], 0, 0)
    run(top, feeder, "auto")
    figures = feeder.run
    pairs = unpack_payloads(top.circuit, figures)
    expected = met(keys, top.design.cores, top.design.segment)
    count = len(keys["left"])
    found, wanted = (np.sort(each[:, 0] * count + each[:, 1]) for each in (pairs, expected))
    assert np.array_equal(found, wanted), f"the circuit gave {len(found)} pairs, of which {len(wanted)} are right"
    assert not figures.overflow, "a queue of the circuit overflowed"
    return {
        "tuples": 2 * count, "results": len(pairs), "entered": figures.entered, "cycles": figures.cycles,
        "suspended": figures.suspended, "input_rate": HERTZ * 2 * count / figures.entered,
        "output_rate": HERTZ * len(pairs) / figures.cycles,
    }  # fmt: skip


def _measure(quick: bool, say: Say) -> Entries:
    cores, buffers, rates = (QUICK_CORES, QUICK_BUFFERS, QUICK_RATES) if quick else (CORES, BUFFERS, RATES)
    entries: Entries = []
    for count in buffers:
        clocks = nested_loop_clocks(count, cores * SEGMENT)
        entries.append({
            "variant": NESTED, "buffer": count, "tuples": 2 * count, "cycles": clocks,
            "input_rate": HERTZ * 2 * count / clocks, "full_windows": HERTZ / (cores * SEGMENT),
        })  # fmt: skip
    for name, design in VARIANTS.items():
        top = papers_join(cores, SEGMENT, **design)
        for count in buffers:
            for rate in rates:
                say(f"throughput: {name}, {count} tuples, match rate {rate:.0%}")
                point = measure_point(top, generate(count, rate, seed=1))
                about = {"variant": name, "buffer": count, "match_rate": rate, "selectivity": rate * rate}
                entries.append(about | point)
    return entries


def _by_rate(entries: Entries, count: int, variant: str, what: str) -> list[tuple[float, float]]:
    return [
        (100 * entry["match_rate"], entry[what] / 1e6)
        for entry in entries
        if entry["buffer"] == count and entry["variant"] == variant and "match_rate" in entry
    ]


def _lines(entries: Entries, count: int, what: str) -> plots.Points:
    lines: plots.Points = {variant: _by_rate(entries, count, variant, what) for variant in VARIANTS}
    if what == "input_rate":
        nested = next(e["input_rate"] for e in entries if e["variant"] == NESTED and e["buffer"] == count)
        ends = lines["paper"][0][0], lines["paper"][-1][0]
        lines[NESTED] = [(end, nested / 1e6) for end in ends]
    return lines


def _tables(entries: Entries) -> list[Table]:
    tables = []
    rates = list(dict.fromkeys(entry["match_rate"] for entry in entries if "match_rate" in entry))
    for what, label in (("output_rate", "Output: M results/s"), ("input_rate", "Input: M tuples/s of both streams")):
        title = f"{label} at 100 MHz by match rate"
        table = titled(title, "variant", "buffers", *(f"{rate:.0%}" for rate in rates))
        for count in dict.fromkeys(entry["buffer"] for entry in entries):
            for variant, line in _lines(entries, count, what).items():
                cells = [line[0][1]] * len(rates) if variant == NESTED else [figure for _, figure in line]
                table.add_row(variant, f"{count:,}", *(f"{figure:.3g}" for figure in cells))
            table.add_section()
        tables.append(table)
    return tables


def _draw(entries: Entries, directory: Path) -> list[Path]:
    written = []
    for what, name, y in (
        ("output_rate", "output", "M results/s at 100 MHz"),
        ("input_rate", "input", "M tuples/s of both streams at 100 MHz"),
    ):
        for count in dict.fromkeys(entry["buffer"] for entry in entries):
            title = f"{name} throughput, {count:,} tuples of each stream"
            file = directory / f"hardware-throughput-{name}-{count}"
            points, log = _lines(entries, count, what), what == "input_rate"
            written += plots.lines(file, points, title, "match rate, %", y, log_x=False, log_y=log)
    return written


THROUGHPUT = Experiment(
    "output and input throughput over the match rate (FPGA paper, Figs. 12 and 13)", _measure, _tables, _draw,
    (("FPGA paper, Fig. 12", "output throughput rises with the match rate, ever less, as queues fill and admission "
      "control interrupts the input"),
     ("FPGA paper, Fig. 13", "above the nested-loop join at low match rates, below it at high ones, because all cores "
      "are suspended together")),
)  # fmt: skip
