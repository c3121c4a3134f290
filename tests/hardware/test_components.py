"""Single components, for what the join as a whole does not show."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from amaranth import ResetInserter, Signal
from amaranth.lib import data
from amaranth.sim import Simulator

from streamjoin.hardware.admission import AdmissionController
from streamjoin.hardware.design import Design
from streamjoin.hardware.drive import Entry, Feeder, Hang
from streamjoin.hardware.handshake import HandshakeCircuit
from streamjoin.hardware.merger import FullRateMerger, Merger, MergingNetwork
from streamjoin.hardware.predicate import circuit_of
from streamjoin.hardware.segment import RamSegment, RegisterSegment
from streamjoin.hardware.simulate import run
from streamjoin.hardware.tools import netlist
from streamjoin.predicate import plan_for

pytestmark = pytest.mark.hardware

TUPLE = data.StructLayout({"valid": 1, "payload": 8})
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False)])


def simulated(component: Any, bench: Any) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("kind", [RegisterSegment, RamSegment])
@pytest.mark.parametrize("lanes", [1, 2])
def test_a_segment_holds_the_last_tuples_and_a_reset_empties_it(kind: type, lanes: int) -> None:
    rows = 3
    segment, reset = kind(TUPLE, rows, lanes), Signal()

    async def bench(context: Any) -> None:
        async def shift(payload: int) -> int | None:
            """Take a tuple in; what left for it."""
            left = context.get(segment.leaving)
            context.set(segment.entering, {"valid": 1, "payload": payload})
            context.set(segment.shift, 1)
            await context.tick()
            context.set(segment.shift, 0)
            await context.tick().repeat(rows)
            return left.payload if left.valid else None

        async def stored() -> list[int]:
            found = []
            for row in range(rows):
                context.set(segment.row, row)
                await context.tick()
                candidates = [context.get(segment.candidates[lane]) for lane in range(lanes)]
                found += [candidate.payload for candidate in candidates if candidate.valid]
            return sorted(found)

        size = rows * lanes
        for start in (10, 100):
            assert await stored() == []
            for number in range(2 * size + 1):
                left = await shift(start + number)
                assert left == (start + number - size if number >= size else None)
                assert await stored() == list(range(start + max(0, number + 1 - size), start + number + 1))
            context.set(reset, 1)
            await context.tick()
            context.set(reset, 0)

    simulated(ResetInserter(reset)(segment), bench)


@pytest.mark.parametrize("flag", ["a core", "the network"])
def test_rule_one_of_admission_control(flag: str) -> None:
    """While any full flag is up, all cores rest and nothing enters; what arrives is dropped in discard mode."""
    for mode in ("lossless", "discard"):
        control = AdmissionController(3, mode, "all")

        async def bench(context: Any, control: AdmissionController = control, mode: str = mode) -> None:
            context.set(control.ready, 0b111)
            context.set(control.left_valid, 1)
            assert context.get(control.move_left)
            context.set(control.full, 0b010 if flag == "a core" else 0)
            context.set(control.network_full, flag != "a core")
            await context.tick()
            assert context.get(control.suspend) == 0b111
            assert not context.get(control.move_left)
            assert bool(context.get(control.left_ready)) == bool(context.get(control.discard)) == (mode == "discard")
            context.set(control.full, 0)
            context.set(control.network_full, 0)
            await context.tick()
            assert context.get(control.suspend) == 0
            assert context.get(control.move_left)

        simulated(control, bench)


@pytest.mark.parametrize(("kind", "clocks"), [(Merger, 60), (FullRateMerger, 40)])
def test_rates_and_fairness_of_mergers(kind: type, clocks: int) -> None:
    """Forty results take 60 clocks as in Figure 6, or 40; and both inputs have the same share."""
    merger = kind(data.StructLayout({"payload": 8}), 4)

    async def bench(context: Any) -> None:
        taken = [0, 0]
        for port in merger.inputs:
            context.set(port.valid, 1)
        context.set(merger.output.ready, 1)
        results = 0
        for _ in range(clocks + 3):
            for side, port in enumerate(merger.inputs):
                taken[side] += context.get(port.ready)
            results += context.get(merger.output.valid)
            await context.tick()
        assert 40 <= results <= 42
        assert abs(taken[0] - taken[1]) <= 1
        assert not context.get(merger.overflow)

    simulated(merger, bench)


@pytest.mark.parametrize("inputs", [2, 3, 5, 8])
@pytest.mark.parametrize("kind", ["paper", "full-rate"])
def test_a_network_of_any_size_passes_everything_on(inputs: int, kind: str) -> None:
    network = MergingNetwork(data.StructLayout({"payload": 16}), inputs, 2, kind)  # type: ignore[arg-type]

    async def bench(context: Any) -> None:
        waiting = {side: [side * 100 + n for n in range(9)] for side in range(inputs)}
        expected = sorted(value for values in waiting.values() for value in values)
        found: list[int] = []
        for clock in range(60 * inputs + 60):
            for side, values in waiting.items():
                context.set(network.inputs[side].valid, bool(values))
                context.set(network.inputs[side].payload.payload, values[0] if values else 0)
            context.set(network.output.ready, clock % 3 > 0)
            if clock % 3 and context.get(network.output.valid):
                found.append(context.get(network.output.payload.payload))
            for side, values in waiting.items():
                if values and context.get(network.inputs[side].ready):
                    values.pop(0)
            await context.tick()
        assert sorted(found) == expected

    simulated(network, bench)


def test_alike_modules_are_written_once() -> None:
    top = HandshakeCircuit(circuit_of(plan_for("l.k = r.k", SCHEMA, SCHEMA), (), 32), Design(cores=8, segment=2))
    text = netlist(top)
    assert text.count("\nmodule \\top.core") < 5 * 4, "cores are alike, but for those at the ends"
    assert text.count("  cell \\top.core") >= 8


def test_a_circuit_that_hangs_is_noticed() -> None:
    """The output never takes anything, so at some point nothing can enter either."""

    top = HandshakeCircuit(circuit_of(plan_for("l.k = r.k", SCHEMA, SCHEMA), (), 32), Design(cores=2, segment=2))
    feeder = Feeder([Entry(1, 1)] * 30, top.design.window, 0, stall=1.0, patience=300)
    with pytest.raises(Hang, match="of 30 entries were taken"):
        run(top, feeder, "amaranth")
