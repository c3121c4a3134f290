"""A stand-in for the power figures of the handshake join paper (section 6.5, Tables 1 and 2): two windows of 100 tuples
on 1, 2, 5 and 10 cores, all with the same throughput, so with a clock that is slower the more cores there are.

Milliwatts cannot be had without the chip. What dynamic and static power depend on can be counted:

    clocks per tuple      the papers' clock rate over 500,000 tuples/s: 100, 50, 20, 10
    toggles per tuple     bits of flip-flops and of the queues' memory that change, summed over those clocks, from the
                          compiled simulator; what switches between flip-flops is not counted
    FF * clocks           how often the clock reaches a flip-flop per tuple, whether it changes or not
    LUT                   the area, which leakage is weighted with (Kuon and Rose)

These are not milliwatts and not in a known ratio to each other: a chip's dynamic power has a share of the third figure
(its clock tree) and one of the second. To see where a sum with the area is smallest, each of the two is set to the 100
mW, and the LUTs to the 68 mW, that Table 2 has for one core.

Windows are filled first; the tuples that are counted come behind. Keys are one of as many random 32-bit numbers as the
window is long, so a tuple matches one of the other window on average, and payloads are random too.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from ...reporting import plots
from ...reporting.tables import titled
from ..compiled import Compiled, Object
from ..drive import COUNTED, WATCH, Feeder
from ..handshake import HandshakeCircuit
from ..synthesis import Say, resources
from .common import Entries, Experiment, alternating, packed, papers_join

WINDOW, QUICK_WINDOW = 100, 20
CORES, QUICK_CORES = (1, 2, 5, 10), (1, 2)
TUPLES, QUICK_TUPLES = 400, 40
"""Of both streams, behind as many as fill the windows."""
PAPER = {  # cores: clock in MHz, dynamic mW, static mW by area, share of the LUTs of an XC6VLX760T
    1: (50, 100, 68, 0.0154), 2: (25, 64, 69, 0.0159), 5: (10, 62, 88, 0.0201), 10: (5, 68, 120, 0.0278),
}  # fmt: skip
VIRTEX6_LUT = 474_240
"""XC6VLX760T."""


WIRE, MEMORY, DRIVEN_SYNC = 1, 2, 4
Words = npt.NDArray[np.uint32]
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Object), ctypes.c_size_t)


class Probed(Compiled):
    """A compiled circuit that compares its flip-flops and memories before and after every clock.

    Invariant: `toggles[n]` is how many bits had changed when the clock ended in which tuple n was taken, `clocks[n]`
    which clock that was.
    """

    def __init__(self, top: HandshakeCircuit) -> None:
        super().__init__(top, WATCH, COUNTED)
        self.toggles: list[int] = []
        self.clocks: list[int] = []
        self._views, self.bits = self._storage()
        self._before = self._state()
        self._changed = self._clock = 0

    def _storage(self) -> tuple[list[Words], int]:
        """The words in which the circuit keeps its state, and how many bits of them are flip-flops."""
        views: dict[int, Words] = {}
        bits = 0

        def add(_: Any, name: bytes, found: Any, parts: int) -> None:
            nonlocal bits
            for part in range(parts):
                known = found[part]
                is_register = known.type == WIRE and known.flags & DRIVEN_SYNC
                if not (is_register or known.type == MEMORY):
                    continue
                address = ctypes.addressof(known.curr.contents)
                if address not in views:
                    words = -(-known.width // 32) * known.depth
                    views[address] = np.ctypeslib.as_array((ctypes.c_uint32 * words).from_address(address))
                    bits += known.width if is_register else 0

        # CXXRTL's own function, which hands every object of the circuit to a callback
        library: Any = self._library
        handle = ctypes.c_void_p.from_address(self._handle.value or 0)
        library.cxxrtl_enum(handle, None, _Callback(add))
        return list(views.values()), bits

    def _state(self) -> Words:
        return np.concatenate(self._views)

    async def settle(self, limit: int = 1) -> int:
        """One clock at a time, so that each is seen."""
        return await super().settle(1)

    async def edge(self) -> None:
        taken = any(self.get(f"{side}__valid") and self.get(f"{side}__ready") for side in ("left", "right"))
        await super().edge()
        self._clock += 1
        after = self._state()
        self._changed += int(np.bitwise_count(after ^ self._before).sum())
        self._before = after
        if taken:
            self.toggles.append(self._changed)
            self.clocks.append(self._clock)


@dataclass(frozen=True, slots=True)
class Activity:
    """Per tuple, in windows that are full."""

    clocks: float
    toggles: float
    flip_flops: int
    results: int = field(default=0)


def activity(top: HandshakeCircuit, tuples: int, seed: int) -> Activity:
    """Fill both windows, then count what happens for `tuples` more."""
    window = top.design.window
    rng = np.random.default_rng(seed)
    count = window + tuples // 2
    known = rng.integers(-(1 << 31), 1 << 31, window)
    left, right = (
        packed(top.circuit, side, rng.choice(known, count).tolist(), rng.integers(0, 1 << 32, count).tolist())
        for side in ("left", "right")
    )
    feeder = Feeder(alternating(left, right), 0, 0)
    probed = Probed(top)
    probed.run(feeder.drive)
    first = 2 * window - 1
    last = first + 2 * (tuples // 2)
    each = last - first
    return Activity(
        (probed.clocks[last] - probed.clocks[first]) / each, (probed.toggles[last] - probed.toggles[first]) / each,
        probed.bits, len(feeder.run.results),
    )  # fmt: skip


def _measure(quick: bool, say: Say) -> Entries:
    entries: Entries = []
    window = QUICK_WINDOW if quick else WINDOW
    for cores in QUICK_CORES if quick else CORES:
        top = papers_join(cores, window // cores)
        used = resources(top, lambda text, n=cores: say(f"power: {n} cores, {text}"))  # type: ignore[misc]
        say(f"power: {cores} cores, toggles")
        seen = activity(top, QUICK_TUPLES if quick else TUPLES, seed=1)
        clock, dynamic, static, share = PAPER[cores]
        entries.append({
            "cores": cores, "segment": window // cores, "clocks": seen.clocks, "toggles": seen.toggles, "ff": used.ff,
            "ff_clocks": used.ff * seen.clocks, "lut": used.all_lut, "simulated_ff": seen.flip_flops,
            "paper": {"mhz": clock, "clocks": 2 * clock, "dynamic": dynamic, "weighted_static": static,
                      "weighted_total": dynamic + static, "lut": round(share * VIRTEX6_LUT)},
        })  # fmt: skip
    first = entries[0]
    for entry in entries:
        entry["relative"] = {name: entry[name] / first[name] for name in ("toggles", "ff_clocks", "lut")}
        static = first["paper"]["weighted_static"] * entry["relative"]["lut"]
        entry["totals"] = {
            name: first["paper"]["dynamic"] * entry["relative"][name] + static for name in ("toggles", "ff_clocks")
        }  # fmt: skip
    return entries


def _tables(entries: Entries) -> list[Table]:
    title = f"A proxy for power, not mW: windows of {entries[0]['cores'] * entries[0]['segment']}, equal throughput"
    columns = "cores", "clocks/tuple", "toggles/tuple", "of 1 core", "FF * clocks/tuple", "of 1 core", "LUT", "totals"
    table = titled(title, *columns, "paper: clocks", "dynamic mW", "LUT", "weighted mW, all")
    for entry in entries:
        relative, paper = entry["relative"], entry["paper"]
        table.add_row(
            f"{entry['cores']}", f"{entry['clocks']:.1f}", f"{entry['toggles']:,.0f}", f"{relative['toggles']:.2f}",
            f"{entry['ff_clocks']:,.0f}", f"{relative['ff_clocks']:.2f}", f"{entry['lut']:,}", _totals(entry),
            f"{paper['clocks']}", f"{paper['dynamic']}", f"{paper['lut']:,}", f"{paper['weighted_total']}",
        )  # fmt: skip
    table.caption = "totals: by toggles and by FF * clocks, with LUTs; one core set to the paper's 100 and 68 mW"
    return [table]


def _totals(entry: dict[str, Any]) -> str:
    return ", ".join(f"{figure:.0f}" for figure in entry["totals"].values())


def _draw(entries: Entries, directory: Path) -> list[Path]:
    points: plots.Points = {
        label: [(entry["cores"], entry["relative"][name]) for entry in entries]
        for name, label in (("toggles", "toggles per tuple"), ("ff_clocks", "FF * clocks per tuple"), ("lut", "LUT"))
    }
    points["paper: dynamic mW"] = [(entry["cores"], entry["paper"]["dynamic"] / 100) for entry in entries]
    first = entries[0]["paper"]["lut"]
    points["paper: LUT"] = [(entry["cores"], entry["paper"]["lut"] / first) for entry in entries]
    title = "a proxy for power at equal throughput"
    return plots.lines(directory / "hardware-power", points, title, "cores", "relative to one core", log_y=False)


POWER = Experiment(
    "a proxy for power at equal throughput (handshake join, Tables 1 and 2)", _measure, _tables, _draw,
    (("handshake join, Table 1", "dynamic mW, 1, 2, 5, 10 cores: 100, 64, 62, 68; LUTs: 1.54%, 1.59%, 2.01%, 2.78%"),
     ("handshake join, Table 2", "dynamic and static by area, together: 168, 133, 150, 188 mW; two cores are best")),
)  # fmt: skip
