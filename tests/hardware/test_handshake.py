"""The handshake join circuit against the oracle: all variants, match rates, stalls, rates and disciplines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjoin.hardware.compiled import compiler
from streamjoin.hardware.design import check_design
from streamjoin.hardware.drive import Entry, Feeder
from streamjoin.hardware.model import cycles_without_stalls
from streamjoin.hardware.simulate import run
from streamjoin.hardware.verilog import design_of

from ..long import LONG
from .bench import check, streams

pytestmark = pytest.mark.hardware

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "full-rate mergers": {"merger": "full-rate"},
    "admission per core": {"scope": "core"},
    "two lanes": {"lanes": 2},
    "block RAM": {"ram": True},
    "banked block RAM, full rate, per core": {"ram": True, "lanes": 2, "merger": "full-rate", "scope": "core"},
}
SEGMENTS = {"block RAM": 4, "banked block RAM, full rate, per core": 8}
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler")


def examples(count: int) -> int:
    """So many examples of an ordinary run, 20 times as many under the profile "torture"."""
    return count * settings().max_examples // 100


def design(variant: str, cores: int) -> dict[str, Any]:
    return {"cores": cores, "segment": SEGMENTS.get(variant, 2), **VARIANTS[variant]}


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8] if LONG else [4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_result_is_the_oracles(variant: str, cores: int) -> None:
    for seed, match in enumerate((0.3, 1.0) if cores < 8 else (0.5,)):
        left, right = streams((16, 16), match, seed)
        check(left, right, simulator="amaranth", **design(variant, cores))


@pytest.mark.parametrize("admission", ["lossless", "discard"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_stalls_of_the_output_and_gaps_at_the_input_lose_nothing(variant: str, admission: str) -> None:
    left, right = streams((24, 24), 0.8, 1)
    arguments = {"stall": 0.6, "gap": 0.2, "simulator": "amaranth", **design(variant, 3)}
    report = check(left, right, admission=admission, **arguments)
    assert report.stalls > 0
    assert bool(report.discarded) == (admission == "discard")


@pytest.mark.parametrize("rows", [(24, 4), (4, 24), (1, 18), (18, 1), (0, 9), (9, 0), (0, 0)])
def test_unequal_rates(rows: tuple[int, int]) -> None:
    left, right = streams(rows, 0.5, 2)
    for variant in ("paper", "banked block RAM, full rate, per core"):
        check(left, right, simulator="amaranth", **design(variant, 3))


def test_without_time_the_left_stream_comes_first() -> None:
    left, right = streams((12, 12), 0.6, 3)
    check(left, right, time=None, simulator="amaranth", cores=2, segment=3)


@needs_compiler
@pytest.mark.parametrize("cores", [16, 64] if LONG else [8])
@pytest.mark.parametrize("variant", VARIANTS if LONG else ["paper"])
def test_many_cores(variant: str, cores: int) -> None:
    """On the compiled simulator, one build for the whole range of match rates."""
    arguments = {"simulator": "compiled", **design(variant, cores)}
    for seed, match in enumerate((0.0, 0.02, 0.2, 1.0)):
        left, right = streams((cores * 2, cores * 2 + 5), match, seed)
        report = check(left, right, **arguments)
        assert report.simulator == "compiled"
    check(*streams((70, 50), 0.6, 9), stall=0.7, gap=0.3, **arguments)
    if LONG:
        check(*streams((70, 50), 0.6, 9), stall=0.7, admission="discard", **arguments)


@needs_compiler
@pytest.mark.parametrize("variant", VARIANTS if LONG else ["banked block RAM, full rate, per core"])
def test_both_simulators_take_the_same_clocks(variant: str) -> None:
    left, right = streams((20, 20), 0.5, 4)
    reports = [
        check(left, right, simulator=simulator, **design(variant, 2), **stalls)
        for stalls in ({}, {"stall": 0.4, "gap": 0.4, "seed": 5})
        for simulator in ("amaranth", "compiled")
    ]
    for one, two in (reports[:2], reports[2:]):
        assert (one.cycles, one.entered, one.stalls) == (two.cycles, two.entered, two.stalls)


@pytest.mark.parametrize("cores", [1, 3] if LONG else [1])
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_unstalled_run_takes_the_models_clocks(variant: str, cores: int) -> None:
    for rows in ((9, 9), (12, 2), (1, 0)) if LONG else ((9, 2), (1, 0)):
        left, right = streams(rows, 0.0, 6)
        report = check(left, right, simulator="amaranth", **design(variant, cores))
        assert report.cycles == cycles_without_stalls(check_design(**design(variant, cores)), sum(rows))
        assert report.stalls == 0


@pytest.mark.parametrize(("cores", "clocks"), [(1, 100), *([(2, 50), (5, 20)] if LONG else []), (10, 10)])
def test_a_tuple_takes_a_clock_per_stored_tuple_of_a_core(cores: int, clocks: int) -> None:
    """Table 1 of the handshake join paper: at 500,000 tuples/s, 50 MHz for one core and a window of 100, 5 MHz for ten
    cores: 100 and 10 clocks per tuple, so no state may cost a clock of its own."""
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False)])
    top = design_of(schema, schema, "l.k = r.k", 32, None, check_design(cores=cores, segment=100 // cores))
    for tuples in (1, 4, 5) if LONG else (5,):
        feeder = Feeder([Entry(n << 1 | 1, None) for n in range(tuples)], 0, 0)
        run(top, feeder, "amaranth")
        assert feeder.run.entered == (tuples - 1) * clocks + 1


@settings(max_examples=examples(8))
@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 2), st.booleans(), st.sampled_from(["paper", "full-rate"]),
    st.sampled_from(["all", "core"]), st.sampled_from(["lossless", "discard"]), st.integers(0, 10**6),
    st.floats(0, 1), st.sampled_from([0.0, 0.5, 0.9]), st.sampled_from([0.0, 0.5]), st.integers(3, 5),
)  # fmt: skip
def test_any_design(
    cores: int, rows: int, lanes: int, ram: bool, merger: str, scope: str, admission: str, seed: int,
    match: float, stall: float, gap: float, buffer: int,
) -> None:  # fmt: skip
    segment = max(rows, 3 if ram else 1) * lanes
    left, right = streams((seed % 17, seed % 23), match, seed, ties=seed % 2 == 0)
    check(
        left, right, cores=cores, segment=segment, lanes=lanes, ram=ram, merger=merger, scope=scope,
        admission=admission, stall=stall, gap=gap, seed=seed, core_buffer=buffer, merger_buffer=buffer - 1,
        simulator="amaranth",
    )  # fmt: skip
