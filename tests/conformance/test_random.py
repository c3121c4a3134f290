"""Random streams, windows and predicates against the oracle.

Three tests share one body: a pool of predicates on random streams; many random predicates, whose generated kernels run
as plain Python; and random predicates as machine code, few in the short run, since each costs seconds to compile.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, example, given, note, settings
from hypothesis import strategies as st

from streamjoin.errors import PredicateError
from streamjoin.predicate import plan_for
from streamjoin.window import CountWindow, TimeWindow

from .. import interpreted
from ..long import LONG
from .engines import ALGORITHMS, HOWS, INDEXES, MATCHES, ORDERS, WORKERS, Engine, Windows, can_run
from .harness import Case, check, expected, numbered, run
from .predicates import FAMILIES, Writer, schema, table

LENGTHS = st.sampled_from([0, 1, 2, 5, 12, 25])
SIZES = st.sampled_from([1, 3, 11, 1000, None])
WINDOW = st.sampled_from([TimeWindow(n) for n in (1, 2, 7, 40)] + [CountWindow(n) for n in (1, 2, 6, 40)])
TIME_TYPES = [pa.int64(), pa.int32(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("s"), pa.date32()]

POOL_TYPES: dict[str, pa.DataType] = {
    "a": pa.int32(), "b": pa.int64(), "f": pa.float32(), "d": pa.float64(), "s": pa.string(), "m": pa.decimal128(18, 2),
    "w": pa.decimal128(38, 6), "t": pa.timestamp("us"), "n": pa.timestamp("ns"), "y": pa.date32(), "p": pa.bool_(),
    "u": pa.uint64(), "i": pa.int8(), "c": pa.dictionary(pa.int16(), pa.string()),
}  # fmt: skip
POOL = [
    "TRUE",
    "l.a = r.a",
    "l.b = r.b",
    "l.a = r.b",
    "l.b = r.a AND l.i = r.i",
    "l.s = r.s",
    "l.s = r.c AND l.a <= r.a",
    "l.d = r.d",
    "l.f = r.d",
    "l.a = r.f",
    "l.m = r.m",
    "l.m = r.w",
    "l.u = r.u",
    "l.u <= r.b",
    "l.y = r.y",
    "l.t = r.n",
    "l.p = r.p",
    "l.a + 1 = r.a - 1",
    "l.b - r.b = 1",
    "l.a BETWEEN r.a - 2 AND r.a + 2",
    "l.b BETWEEN r.b AND r.b + 10",
    "abs(l.a - r.a) <= 1",
    "abs(l.b - r.b) < 2",
    "abs(l.f - r.f) <= 0.5",
    "abs(l.d - r.d) <= 0.5 AND abs(l.f - r.f) <= 10",
    "abs(l.a - r.a) >= 2",
    "l.m BETWEEN r.m - 0.05 AND r.m + 0.05",
    "l.t BETWEEN r.t - INTERVAL 1 SECOND AND r.t",
    "l.a < r.a",
    "l.b >= r.b AND l.f > r.f",
    "l.s < r.s",
    "l.s >= r.c OR l.a = r.a",
    "l.a <> r.a",
    "l.s <> r.s AND l.i = r.i",
    "l.w < r.w",
    "l.a = r.a OR l.b = r.b + 1",
    "l.a <=> r.a",
    "l.a * r.a > 3 AND l.p",
    "CASE WHEN l.p THEN l.a ELSE r.a END = r.i",
    "NOT (l.a > r.a OR l.d < r.d)",
    "l.a % 2 = r.a % 2 AND l.i > 0 AND r.i IS NOT NULL",
    "coalesce(l.a, r.b) IN (1, 2, r.a)",
]


SHARED = ("l.b = r.b", "l.b BETWEEN r.b AND r.b + 10")
SHOWING = {
    "windows": Windows(TimeWindow(200), CountWindow(60)), "order": "none", "how": "inner", "match": "all", "size": None,
    "poll_every": 1, "lengths": (60, 60), "time_type": pa.int64(), "lateness": None, "seed": 3,
}  # fmt: skip
"""A run in which each predicate of the pool finds pairs."""


def examples(count: int) -> int:
    """So many examples in the short run, 20 times as many in the long one."""
    return count * settings().max_examples // 100


def stamps(rng: random.Random, count: int, type_: pa.DataType) -> pa.Array:
    """Timestamps with ties, pauses and some disorder."""
    steps = rng.choice([(0, 1), (0, 0, 0, 1), (1, 2, 3), (0, 1, 1, 60)])
    disorder = rng.choice([0, 0, 2, 15])
    t, times = rng.choice([0, 0, -5, 30]), list[int]()
    for _ in range(count):
        t += rng.choice(steps)
        times.append(t - rng.randint(0, disorder))
    return pa.array(times, pa.int32() if type_ in (pa.date32(), pa.int32()) else pa.int64()).cast(type_)


@st.composite
def settings_of_a_run(draw: Any) -> dict[str, Any]:
    """Everything about a run but its columns and predicate."""
    left, right = draw(WINDOW), draw(WINDOW)
    counted = isinstance(left, CountWindow) and isinstance(right, CountWindow)
    match = draw(st.sampled_from(("all", *MATCHES)))
    timed = match != "all" or not counted or draw(st.booleans())
    return {
        "windows": Windows(left, right, timed),
        "match": match,
        "order": draw(st.sampled_from(ORDERS)),
        "how": draw(st.sampled_from(HOWS if match == "all" else ("inner", "left"))),
        "size": draw(SIZES),
        "poll_every": draw(st.sampled_from([1, 3, 1000])),
        "lengths": (draw(LENGTHS), draw(LENGTHS)),
        "time_type": draw(st.sampled_from(TIME_TYPES)),
        "lateness": draw(st.sampled_from([None, None, 0, 3])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def judge(
    on: str, types: tuple[dict[str, pa.DataType], dict[str, pa.DataType]], how_run: dict[str, Any], indexes: int = 2
) -> int:
    """Make the streams, run the join on so many indexes, and compare; returns the number of results."""
    options = dict(how_run)
    rng = random.Random(options["seed"])
    time_type = options.pop("time_type")
    sides = []
    for side_types, count, number in zip(types, options.pop("lengths"), ("ln", "rn"), strict=True):
        sides.append(numbered(table(rng, side_types, count, stamps(rng, count, time_type)), number))
    case = Case("random", *sides, on, lateness=options.pop("lateness"))
    windows, order, how, match = (options.pop(name) for name in ("windows", "order", "how", "match"))
    results = 0
    plan = case.plan
    for index in rng.sample([index for index in INDEXES if can_run(index, plan)], indexes):
        engine = Engine(rng.choice(ALGORITHMS), index, rng.choice(WORKERS))
        result = run(case, engine, windows, order=order, how=how, match=match, **options)
        wanted = expected(case, windows, how=how, match=match, arrivals=result.arrivals)
        try:
            check(case, result, wanted, order=order, how=how, match=match)
        except AssertionError as error:
            raise AssertionError(f"{engine}: {error}") from None
        results += len(wanted)
    return results


@pytest.mark.parametrize("on", POOL)
def test_random_streams(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One predicate on many random streams. The short run compiles the predicates that other tests compile as well."""
    is_compiled = LONG or on in SHARED
    if not is_compiled:
        interpreted.install(monkeypatch)
    found = 0
    used = {
        name: type_ for name, type_ in POOL_TYPES.items() if f".{name} " in f"{on} ".replace(")", " ").replace(",", " ")
    }

    @settings(max_examples=examples(15 if is_compiled else 5))
    @given(settings_of_a_run())
    @example(SHOWING)
    def streams(how_run: dict[str, Any]) -> None:
        nonlocal found
        pairs = judge(on, (used, used), how_run)
        assert pairs or how_run is not SHOWING
        found += pairs

    streams()
    assert found


@st.composite
def predicates(draw: Any, family: str) -> tuple[str, tuple[dict[str, pa.DataType], dict[str, pa.DataType]]]:
    rng = random.Random(draw(st.integers(0, 2**63)))  # far more varied than choices drawn one by one
    types = schema(rng, family), schema(rng, family)
    writer = Writer(rng, *types)
    assume(writer.kinds)
    return writer.predicate(), types


def judge_predicate(predicate: tuple[str, Any], how_run: dict[str, Any], indexes: int = 2) -> int:
    on, types = predicate
    note(on)
    try:
        plan_for(on, *(pa.schema(list(t.items())) for t in types))
    except PredicateError as error:
        assume("reads only the" not in str(error))  # what constants decided may leave one stream unread
        raise
    return judge(on, types, how_run, indexes)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_predicates_interpreted(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of generated kernels, run as plain Python."""
    interpreted.install(monkeypatch)
    found = 0

    @settings(max_examples=examples(40))
    @given(predicates(family), settings_of_a_run())
    def random_predicates(predicate: Any, how_run: dict[str, Any]) -> None:
        nonlocal found
        found += judge_predicate(predicate, how_run)

    random_predicates()
    assert found


@pytest.mark.parametrize("family", FAMILIES)
def test_random_predicates_compiled(family: str) -> None:
    """The same as machine code. The short run stores one stream and probes it with the other: one kernel each."""
    found = 0

    @settings(max_examples=examples(3) if LONG else 1, suppress_health_check=list(HealthCheck))
    @given(predicates(family), st.integers(0, 2**32 - 1), st.sampled_from(ORDERS))
    def random_predicates(predicate: Any, seed: int, order: str) -> None:
        nonlocal found
        how_run = {
            "windows": Windows(TimeWindow(30), CountWindow(20)), "order": order, "how": "full", "match": "all",
            "size": None, "poll_every": 1, "lengths": (40, 30), "time_type": pa.int64(), "lateness": None, "seed": seed,
        }  # fmt: skip
        if not LONG:
            how_run |= {"windows": Windows(TimeWindow(30), TimeWindow(20)), "order": "none", "size": 1000}
        found += judge_predicate(predicate, how_run, indexes=2 if LONG else 1)

    random_predicates()
    assert found
