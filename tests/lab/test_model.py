"""The model of many cores: where the answer is known, it gives it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamjoin.lab.model import (
    CORES,
    HANDS_ON_FIRST,
    PAPERS_WINDOW,
    STARS,
    WAVE,
    Costs,
    Machine,
    meeting_latency,
    papers_benchmark,
)
from streamjoin.store.batch import LARGEST_PART
from streamjoin.topology.driver import CHAIN, STAR, block_size

ALGORITHMS = ("celljoin", *HANDS_ON_FIRST, *STARS)
FREE = Costs(alone=1e9, together=1e9, message=0.0, stored=0.0, hop=0.0, step=0.0, tuple=0.0)
REAL = Costs(alone=1e10, together=8e9, message=1e-4, stored=2e-7, hop=1e-5, step=6e-4, tuple=2e-7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_core_compares_all_and_pays_for_every_message(algorithm: str) -> None:
    assert Machine(algorithm, 1, FREE).throughput(1_000, 10_000) == pytest.approx(1e6)
    costs = Costs(alone=1e9, together=1.0, message=1e-3, stored=0.0, hop=0.0, step=1e-2, tuple=1e-5)
    size = LARGEST_PART if algorithm == "celljoin" else block_size(256, STAR if algorithm in STARS else CHAIN)
    blocks = 2 * math.ceil(256 / size)
    expected = 1e-2 + 512 * 1e-5 + blocks * 1e-3 + 512 * 1_000 / 1e9
    assert Machine(algorithm, 1, costs).step(512, 1_000) == pytest.approx(expected)


@pytest.mark.parametrize("algorithm", ["celljoin", *STARS])
def test_without_other_costs_cores_share_the_work_evenly(algorithm: str) -> None:
    alone = Machine(algorithm, 1, FREE).throughput(100_000, 1 << 14)
    for cores in CORES:
        assert Machine(algorithm, cores, FREE).throughput(100_000, 1 << 14) == pytest.approx(cores * alone)


def test_a_chain_is_full_but_for_its_ends() -> None:
    blocks, nodes, scan = 100, 8, 64 * 1_000 / 1e9 / 8
    first = Machine("low-latency-handshake", nodes, FREE, lock=False).wave(blocks, 64, 1_000)
    assert first == pytest.approx(blocks * scan), "a block is handed on before it is compared"
    after = Machine("handshake", nodes, FREE, lock=False).wave(blocks, 64, 1_000)
    assert blocks * scan < after <= (blocks + nodes) * scan, "a block is at one node after the other"
    for algorithm in HANDS_ON_FIRST:
        together = Machine(algorithm, nodes, FREE).wave(blocks, 64, 1_000)
        assert together == pytest.approx(blocks * scan), "all nodes compare at once"


@pytest.mark.parametrize("algorithm", [*HANDS_ON_FIRST, *STARS])
def test_messages_take_turns_under_the_lock(algorithm: str) -> None:
    costs = Costs(alone=1e12, together=1e12, message=1e-4, stored=0.0, hop=0.0, step=0.0, tuple=0.0)
    locked, free = (Machine(algorithm, 16, costs, lock).wave(WAVE, 64, 16) for lock in (True, False))
    assert locked == pytest.approx(16 * WAVE * 1e-4, rel=0.01)
    assert WAVE * 1e-4 <= free < 1.2 * WAVE * 1e-4


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("lock", [True, False])
def test_nothing_is_faster_than_comparing(algorithm: str, lock: bool) -> None:
    for cores in (1, 2, 5, 40):
        machine = Machine(algorithm, cores, REAL, lock)
        rate = REAL.alone if cores == 1 else REAL.together
        assert 0 < machine.throughput(50_000, 1 << 14) < cores * rate / 50_000


def test_the_sustained_rate_is_what_its_windows_allow() -> None:
    for algorithm in ALGORITHMS:
        machine = Machine(algorithm, 4, REAL)
        rate = machine.sustained_rate(60, 1 << 14)
        assert machine.throughput(rate * 60, 1 << 14) == pytest.approx(2 * rate, rel=0.05)
    rates = [Machine("splitjoin", cores, FREE).sustained_rate(900, 1 << 14) for cores in (1, 4, 16)]
    assert rates == pytest.approx([math.sqrt(cores * 1e9 / 1_800) for cores in (1, 4, 16)])


def test_latency_is_batching_and_the_step_and_for_handshake_join_meeting() -> None:
    def latency(algorithm: str, rate: float, batch: int) -> float:
        return Machine(algorithm, 4, REAL).mean_latency(rate, (10.0, 10.0), batch)

    step = Machine("splitjoin", 4, REAL).step(128, 10_000)
    assert latency("splitjoin", 1_000, 64) == pytest.approx(63 / 2 / 1_000 + step)
    assert latency("splitjoin", 1_000, 4) < latency("splitjoin", 1_000, 64)
    meeting = meeting_latency((10.0, 10.0), 4)[0]
    assert latency("handshake", 1_000, 64) == pytest.approx(
        meeting + latency("low-latency-handshake", 1_000, 64), rel=0.1
    )
    assert latency("splitjoin", 1e6, 64) == math.inf, "faster than it can be compared"


@pytest.mark.parametrize("windows", [(200.0, 200.0), (100.0, 200.0), (7.0, 3.0)])
def test_where_tuples_meet(windows: tuple[float, float]) -> None:
    left, right = windows
    mean, most = meeting_latency(windows)
    assert most == pytest.approx(left * right / (left + right))
    assert meeting_latency(windows, 1) == (0.0, 0.0), "one node is the three-step procedure"
    assert meeting_latency(windows, 1_000) == pytest.approx((mean, most), rel=0.01)
    for nodes in (2, 3, 5):
        assert meeting_latency(windows, nodes) == pytest.approx(_played(windows, nodes), rel=0.03, abs=0.02 * most)


def _played(windows: tuple[float, float], nodes: int) -> tuple[float, float]:
    """The same by moving pairs along the chain in small steps of time."""
    left, right = windows
    moments = np.linspace(0, max(windows), 2_000)
    latencies = []
    for apart in np.linspace(-left, right, 600, endpoint=False):
        later = moments + max(apart, 0.0) - apart, moments + max(apart, 0.0)  # ages of r and s since the later one came
        r = np.minimum(later[0] * nodes // left, nodes - 1)
        s = np.maximum(nodes - 1 - later[1] * nodes // right, 0)
        latencies.append(moments[np.argmax(r >= s)])
    return float(np.mean(latencies)), float(np.max(latencies))


def test_the_papers_benchmark_for_all_cores() -> None:
    rows = papers_benchmark("splitjoin", REAL, 1 << 14, lock=False)
    assert [cores for cores, _, _ in rows] == list(CORES)
    assert rows == papers_benchmark("splitjoin", REAL, 1 << 14, lock=False)
    alone = Machine("splitjoin", 1, REAL).sustained_rate(PAPERS_WINDOW, 1 << 14)
    assert rows[0][1] == alone
