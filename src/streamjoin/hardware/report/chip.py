"""What the handshake join takes on a chip, over the number of cores (FPGA paper, Figures 10 and 11; handshake join
paper, Figure 18): segments of 8 tuples, keys and payloads of 32 bits.

Resources are those of a Xilinx 7 series chip, whose LUTs and flip-flops are those of the papers' Virtex-6. A slice of
either has 4 LUTs and 8 flip-flops, so `slices`, the larger of LUT / 4 and FF / 8, is the fewest into which a placer
could pack the circuit; the paper counts the slices of which anything is used, which are more. Frequencies are those of
a Lattice ECP5, a slower and cheaper family for which there is an open place and route: their course over the number of
cores and the place of the slowest path can be compared with the papers', the absolute value cannot.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from rich.table import Table

from ...reporting import plots
from ...reporting.tables import titled
from ..synthesis import Say, resources, timing
from ..tools import ToolError
from .common import Entries, Experiment, fitted, papers_join

SEGMENT = 8
CORES = (2, 4, 8, 16, 32, 64)
TIMED_CORES = (2, 4, 8)
"""An ECP5 holds 32 at most; with 8, each seed takes minutes already."""
QUICK_CORES, QUICK_TIMED = (2, 4), (2,)
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
VIRTEX6 = {"lut": 150_720, "ff": 301_440, "slices": 37_680}
"""XC6VLX240T (FPGA paper, Table I)."""
FIGURES = ("lut", "ram_lut", "ff", "block_ram", "carry")
NAMES = {"lut": "LUT, logic", "ram_lut": "LUT as RAM", "ff": "FF", "block_ram": "RAMB18", "carry": "CARRY4",
         "slices": "slices, at least"}  # fmt: skip
LONGEST_NAME = 32
PAPERS_SLICES = (64, 0.80)
PAPERS_MHZ = {"paper (FPGA, Fig. 10, Virtex-6)": [(2, 150), (64, 150)],
              "paper (handshake join, Fig. 18, Virtex-6), lowest": [(2, 150), (64, 150)],
              "paper (handshake join, Fig. 18, Virtex-6), highest": [(2, 170), (64, 170)]}  # fmt: skip


def _measure_area(quick: bool, say: Say) -> Entries:
    entries: Entries = []
    for cores in QUICK_CORES if quick else CORES:
        used = resources(papers_join(cores, SEGMENT), lambda text, n=cores: say(f"area: {n} cores, {text}"))  # type: ignore[misc]
        slices = max(-(-used.all_lut // 4), -(-used.ff // 8))
        entries.append({"cores": cores, **used.figures(), "slices": slices,
                        "share": {"lut": used.all_lut / VIRTEX6["lut"], "ff": used.ff / VIRTEX6["ff"],
                                  "slices": slices / VIRTEX6["slices"]}})  # fmt: skip
    cores_ = [entry["cores"] for entry in entries]
    for name in (*FIGURES, "slices"):
        line = fitted(cores_, [entry[name] for entry in entries])
        entries[-1].setdefault("fit", {})[name] = line.figures() | {"text": str(line)}
    return entries


def _area_tables(entries: Entries) -> list[Table]:
    share = "slices of XC6VLX240T"
    table = titled("Resources on xc7 by cores, segments of 8, 64-bit tuples", "cores", *NAMES.values(), share, "paper")
    for entry in entries:
        paper = f"nearly {PAPERS_SLICES[1]:.0%}" if entry["cores"] == PAPERS_SLICES[0] else ""
        figures = (f"{entry[name]:,}" for name in NAMES)
        table.add_row(f"{entry['cores']}", *figures, f"at least {entry['share']['slices']:.1%}", paper)
    table.caption = "; ".join(f"{NAMES[name]}: {fit['text']}" for name, fit in entries[-1]["fit"].items() if any(
        entry[name] for entry in entries))  # fmt: skip
    last = entries[-1]
    parts = titled(f"Where they are, {last['cores']} cores", "part", "LUT", "FF")
    for part, known in last["parts"].items():
        parts.add_row(part, f"{known['lut']:,}", f"{known['ff']:,}")
    return [table, parts]


def _draw_area(entries: Entries, directory: Path) -> list[Path]:
    points: plots.Points = {
        NAMES[name]: [(e["cores"], e[name]) for e in entries if e[name]] for name in ("lut", "ram_lut", "ff", "slices")
    }
    points = {name: line for name, line in points.items() if line}
    points["paper: slices in use, nearly 80% of 37,680"] = [(64, PAPERS_SLICES[1] * VIRTEX6["slices"])]
    return plots.lines(directory / "hardware-area", points, "resources, segments of 8", "cores", "cells")


def _measure_frequency(quick: bool, say: Say) -> Entries:
    entries: Entries = []
    for cores in QUICK_TIMED if quick else TIMED_CORES:
        tell = lambda text, n=cores: say(f"frequency: {n} cores, {text}")  # noqa: E731
        try:
            runs = timing(papers_join(cores, SEGMENT), QUICK_SEEDS if quick else SEEDS, tell)
        except ToolError as error:
            entries.append({"cores": cores, "error": str(error)})
            continue
        rates = [run.mhz for run in runs]
        entries.append({"cores": cores, "mhz": rates, "median": median(rates), "min": min(rates), "max": max(rates),
                        "runs": [run.figures() for run in runs]})  # fmt: skip
    return entries


def _frequency_tables(entries: Entries) -> list[Table]:
    columns = "cores", "MHz: median (min - max)", "seeds", "slowest path", "ns", "in wires", "slowest wire", "ns"
    table = titled("Highest frequency on ECP5 (slowest speed grade) by cores, segments of 8", *columns, "FF used")
    for entry in entries:
        if "error" in entry:
            table.add_row(f"{entry['cores']}", "no result: " + entry["error"].splitlines()[-1])
            continue
        for number, run in enumerate(entry["runs"]):
            path = run["path"]
            rates = f"{entry['median']:.0f} ({entry['min']:.0f} - {entry['max']:.0f})"
            first = (f"{entry['cores']}", rates, f"{len(entry['mhz'])}") if number == 0 else ("", "", "")
            wire = _shortened(path["wire"].removeprefix("circuit."))
            table.add_row(
                *first, run["where"], f"{path['delay']:.1f}", f"{path['routing']:.1f}", wire,
                f"{path['wire_delay']:.1f}", f"{run['used']['TRELLIS_FF'] / run['available']['TRELLIS_FF']:.0%}",
            )  # fmt: skip
    table.caption = "papers, on Virtex-6: about 150 MHz (FPGA paper), 150 to 170 MHz (handshake join)"
    return [table]


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def _draw_frequency(entries: Entries, directory: Path) -> list[Path]:
    measured = [entry for entry in entries if "error" not in entry]
    points: plots.Points = {
        f"ECP5, {name}": [(entry["cores"], entry[name]) for entry in measured] for name in ("min", "median", "max")
    }
    title = "highest frequency, segments of 8"
    papers: plots.Points = {name: [(x, y) for x, y in line] for name, line in PAPERS_MHZ.items()}
    return plots.lines(directory / "hardware-frequency", points | papers, title, "cores", "MHz", log_y=False)


AREA = Experiment(
    "LUT, FF and RAM by cores (FPGA paper, Fig. 11)", _measure_area, _area_tables, _draw_area,
    (("FPGA paper, Fig. 11, 64 cores", "nearly 80% of the slices of an XC6VLX240T are in use; 128 cores do not fit"),
     ("handshake join, section 6.4, 200 cores", "over 96% of an XC6VLX760T")),
)  # fmt: skip
FREQUENCY = Experiment(
    "highest frequency by cores (FPGA paper, Fig. 10; handshake join, Fig. 18)",
    _measure_frequency, _frequency_tables, _draw_frequency,
    (("FPGA paper, Fig. 10, 2 to 64 cores", "all nearly 150 MHz, XC6VLX240T"),
     ("handshake join, Fig. 18, up to 200 cores", "150 to 170 MHz, largely unaffected, XC6VLX760T")),
)  # fmt: skip
