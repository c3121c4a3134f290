"""What goes wrong, and values at the edge: refused at the call or the push, never a wrong row, and nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from conformance import interpreted
from streamjoin import TimeWindow, explain
from streamjoin.compile import cache
from streamjoin.payload import payload
from streamjoin.predicate import plan_for
from streamjoin.predicate.evaluate import is_true, table_rows

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64()})


def rows(t: list[int], k: list[int] | None = None) -> pa.Table:
    return pa.table([t, k or [1] * len(t)], schema=SCHEMA)


def opened(**changes: Any) -> sj.WindowJoin:
    arguments: dict[str, Any] = {"on": "l.k = r.k", "window": TimeWindow(100), "time": "t", **changes}
    return sj.WindowJoin(SCHEMA, SCHEMA, **arguments)


def refused(join: sj.WindowJoin, push: Callable[[Any], None], batch: Any, *words: str) -> None:
    """The push raises DataError or SchemaError and leaves the join as it was."""
    before = join.metrics()
    with pytest.raises((sj.DataError, sj.SchemaError)) as caught:
        push(batch)
    for word in (push.__name__, *words):
        assert word in str(caught.value)
    assert join.metrics() == before


# --- Meaning -----------------------------------------------------------------------------------------

TEXTS = ["", "a", "b", "x", "prefix__1", "prefix__2", None]


def judge(on: str, left: pa.Table, right: pa.Table) -> int:
    """The join of all pairs against the row-wise meaning of the predicate; returns how many match."""
    matches = is_true(plan_for(on, left.schema, right.schema).predicate)
    lefts, rights = (table_rows(table, table.column_names) for table in (left, right))
    wanted = [(i, j) for i, l in enumerate(lefts) for j, r in enumerate(rights) if matches(l, r)]
    numbered = [
        table.append_column(name, pa.array(range(table.num_rows), pa.int64()))
        for table, name in ((left, "l#"), (right, "r#"))
    ]
    out = sj.join(*numbered, on=on, window=1000, order="sorted")
    found = sorted(zip(out["l#"].to_pylist(), out["r#"].to_pylist(), strict=True))
    assert found == wanted, on
    return len(wanted)


def all_texts() -> pa.Table:
    pairs = list(itertools.product(TEXTS, TEXTS))
    return pa.table({"s": [s for s, _ in pairs], "t": [t for _, t in pairs]})


@pytest.mark.parametrize(
    "on",
    [
        "l.s < r.s OR CASE WHEN l.t < r.t THEN FALSE ELSE TRUE END",
        "CASE WHEN l.t < r.t THEN FALSE ELSE TRUE END",
        "l.s < r.s OR CASE WHEN l.t <> r.t THEN FALSE ELSE TRUE END",
        "l.s < r.s OR NOT CASE WHEN l.t < r.t THEN TRUE ELSE FALSE END",
        "l.s < r.s AND CASE WHEN l.t = r.t THEN l.s <> r.t ELSE l.s >= r.t END",
        "CASE WHEN l.s < r.s THEN l.t < r.t WHEN l.s = r.s THEN l.t > r.t END",
        "CASE WHEN l.s < r.s THEN NULL ELSE l.t = r.t END",
        "CASE WHEN l.s < r.s THEN 'prefix__1' ELSE r.t END = l.t",
        "least(l.s, r.t) = r.s",
        "greatest(l.s, r.t) = l.t",
        "least(l.s, r.s) < greatest(l.t, r.t)",
        "NOT (least(l.s, r.s) >= l.t)",
        "least(l.s, r.s, 'prefix__11') <> r.t OR l.t = r.s",
        "coalesce(l.s, r.t) <= r.s",
        "l.s = r.s OR greatest(l.t, r.s) IS NULL",
        "CASE WHEN least(l.s, r.s) < l.t THEN FALSE ELSE TRUE END",
    ],
)
def test_undecided_texts_below_case_and_or(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels cannot decide about text must not be taken for false (or true) by what stands above it."""
    monkeypatch.setattr(cache, "load", interpreted.load)
    texts = all_texts()
    assert 0 < judge(on, texts, texts) < texts.num_rows**2


def test_an_undecided_text_below_case_compiled() -> None:
    left, right = pa.table({"s": ["b"], "t": ["x"]}), pa.table({"s": ["a"], "t": ["x"]})
    on = "l.s < r.s OR CASE WHEN l.t < r.t THEN FALSE ELSE TRUE END"
    assert sj.join(left, right, on=on, window=9).num_rows == 1
    judge(on, all_texts().slice(10, 30), all_texts().slice(5, 30))


NUMBERS = [1000, -1000, 999, -999, 5, 1, 0, None]


@pytest.mark.parametrize(
    ("on", "matches"),
    [
        ("CAST(l.a AS decimal(3,0)) = r.a", lambda l, r: abs(l) < 1000 and l == r),
        ("CAST(l.a AS decimal(3,0)) <= r.a", lambda l, r: abs(l) < 1000 and l <= r),
        ("CAST(l.a AS decimal(3,0)) = CAST(r.a AS decimal(3,0))", lambda l, r: abs(l) < 1000 and l == r),
        ("CAST(l.a AS decimal(3,0)) < CAST(r.a AS decimal(4,1))", lambda l, r: max(abs(l), abs(r)) < 1000 and l < r),
        ("l.a >= CAST(r.a AS decimal(3,0))", lambda l, r: abs(r) < 1000 and l >= r),
        ("CAST(l.a AS decimal(3,1)) = r.a", lambda l, r: abs(l) < 100 and l == r),
        ("CAST(l.a AS decimal(3,0)) + 1 = r.a", lambda l, r: abs(l) < 1000 and l + 1 == r),
        ("CAST(CAST(l.a AS decimal(3,0)) AS int) = r.a", lambda l, r: abs(l) < 1000 and l == r),
        ("abs(CAST(l.a AS decimal(3,0)) - r.a) <= 1", lambda l, r: abs(l) < 1000 and abs(l - r) <= 1),
    ],
)
def test_a_cast_to_a_decimal_too_small_is_null(on: str, matches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "load", interpreted.load)
    for type_ in (pa.int32(), pa.int64()):
        table = pa.table({"a": pa.array(NUMBERS, type_)})
        wanted = sum(matches(l, r) for l in NUMBERS for r in NUMBERS if l is not None and r is not None)
        assert judge(on, table, table) == wanted > 0


@pytest.mark.parametrize(
    "on",
    [
        "CAST(l.p AS decimal(1,1)) = r.d",
        "CAST(l.p AS decimal(1,1)) < r.d",
        "CAST(l.p AS decimal(1,1)) <= CAST(r.p AS decimal(1,1))",
        "CAST(l.p AS decimal(2,1)) >= CAST(r.p AS decimal(1,1))",
    ],
)
def test_true_does_not_fit_into_a_decimal_without_whole_digits(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "load", interpreted.load)
    digits = pa.array([Decimal("0.0"), Decimal("0.9"), Decimal("1.0"), None], pa.decimal128(3, 1))
    left = pa.table({"p": [True, False, None], "d": digits.slice(0, 3)})
    right = pa.table({"p": [True, False, None, False], "d": digits})
    assert judge(on, left, right) > 0
    only_true = pa.table({"p": [True], "d": digits.slice(2, 1)})
    assert judge(on, only_true, only_true) == 0


def test_casts_to_small_decimals_compiled() -> None:
    table = pa.table({"a": pa.array([1000], pa.int32())})
    for on in ("CAST(l.a AS decimal(3,0)) = r.a", "CAST(l.a AS decimal(3,0)) = CAST(r.a AS decimal(3,0))"):
        assert sj.join(table, table, on=on, window=9).num_rows == 0


def test_a_band_of_several_bounds_is_not_exact() -> None:
    """Any of the bounds may be NULL, which the band does not see."""
    left = pa.table({"x": pa.array([0, None, 0, 3], pa.int64()), "y": pa.array([0, 0, None, 9], pa.int64())})
    right = pa.table({"a": pa.array([0, 4, 5, 6, None, 9], pa.int64())})
    on = "r.a >= l.x AND r.a >= l.y AND r.a <= l.x + 5"
    plan = explain(left, right, on=on)
    for side, band in ((side, plan.plan.band_of(side)) for side in ("left", "right")):
        if band is not None:
            assert plan.residual[side], f"{side}: {plan.bands[side]} is all there is"
            covered = {str(source) for source in band.sources} if band.exact else set()
            assert len(covered) < 3
    assert judge(on, left, right) == 3


def test_numbers_of_thousands_of_digits() -> None:
    left = pa.table({"s": ["1" * 5000, "-" + "9" * 5000, "0" * 5000 + "6", "5", "x"], "n": range(5)})
    right = pa.table({"s": ["7"]})
    out = sj.join(left, right, on="CAST(l.s AS int) < CAST(r.s AS int)", window=9)
    assert set(out["n"].to_pylist()) - {2} == {3}
    for type_ in ("tinyint", "bigint", "decimal(38,10)"):
        out = sj.join(left, right, on=f"CAST(l.s AS {type_}) IS NULL AND r.s = '7'", window=9)
        assert set(out["n"].to_pylist()) >= {0, 1, 4}, type_
        assert 3 not in out["n"].to_pylist()


def test_numbers_of_thousands_of_digits_among_candidates() -> None:
    """Where the cast is decided pair by pair, after the batch was taken."""
    left = pa.table({"s": [str(i % 9 + 1) for i in range(300)] + ["1" * 5000], "n": range(301)})
    right = pa.table({"s": ["1"]})
    with sj.WindowJoin(left.schema, right.schema, on="CAST(concat(l.s, r.s) AS int) > 90", window=2000) as join:
        join.push_left(left)
        join.push_right(right)
        join.push_left(pa.table({"s": ["9", "2"], "n": [777, 778]}))
        assert sorted(join.finish()["n"].to_pylist()) == [*range(8, 300, 9), 777]


def text_functions() -> dict[str, Any]:
    return {
        "strip": lambda l, r: l.s.strip() == r.s,
        "strip of the other": lambda l, r: l.s == r.s.strip(),
        "strip of an expression": lambda l, r: (l.s + r.s).strip() == r.s,
    }


@pytest.mark.parametrize("name", text_functions())
def test_strip_is_refused(name: str) -> None:
    """Python's strip takes away every kind of blank, SQL's trim only spaces."""
    table = pa.table({"s": ["\ta "]})
    with pytest.raises(sj.PredicateError, match="strip"):
        sj.join(table, table, on=text_functions()[name], window=9)


@pytest.mark.parametrize("function", ["least", "greatest"])
def test_the_least_of_many_texts(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Used to double with each argument."""
    monkeypatch.setattr(cache, "load", interpreted.load)
    schema = pa.schema({f"c{i}": pa.string() for i in range(6)})
    arguments = ", ".join(f"{'lr'[i % 2]}.c{i // 2}" for i in range(12))
    on = f"{function}({arguments}) = 'x'"
    left = pa.table([["x", "x", "y", "x"]] * 5 + [["y", "w", "x", "x"]], schema=schema)
    right = pa.table([["x", "y", None, "a"]] * 6, schema=schema)
    matches = is_true(plan_for(on, schema, schema).predicate)
    lefts, rights = (table_rows(table, schema.names) for table in (left, right))
    wanted = sum(matches(l, r) for l in lefts for r in rights)
    assert sj.join(left, right, on=on, window=9).num_rows == wanted > 0
    explain(schema, schema, on=on)


# --- Values that are refused at the push -------------------------------------------------------------


@pytest.mark.parametrize("order", ["none", "sorted"])
def test_timestamps_beyond_64_bits_of_microseconds(order: str) -> None:
    left = pa.schema({"x": pa.timestamp("s"), "n": pa.int64()})
    right = pa.schema({"x": pa.timestamp("us"), "n": pa.int64()})
    for on in ("l.x = r.x", "l.x > r.x", "l.x + INTERVAL 1 SECOND > r.x"):
        with sj.WindowJoin(left, right, on=on, window=9, order=order) as join:
            join.push_left(pa.table([pa.array([7, None], pa.timestamp("s")), [0, 1]], schema=left))
            for seconds in (18446744073710, 1700000000000000, -18446744073710, 2**63 - 1, -(2**63)):
                batch = pa.table([pa.array([1, seconds], pa.timestamp("s")), [2, 3]], schema=left)
                refused(join, join.push_left, batch, "x")
            join.push_right(pa.table([pa.array([7_000_000, 448384], pa.timestamp("us")), [4, 5]], schema=right))
            pairs = [(row["n"], row["n_right"]) for row in join.finish().to_pylist()]
            assert pairs == ([(0, 4)] if on == "l.x = r.x" else [(0, 5)] if on == "l.x > r.x" else [(0, 4), (0, 5)])


def test_timestamps_beyond_64_bits_travel_as_payload() -> None:
    table = pa.table({"k": [1], "x": pa.array([2**62], pa.timestamp("s"))})
    out = sj.join(table, table, on="l.k = r.k", window=9)
    assert out["x"].cast(pa.int64()).to_pylist() == [2**62]


def broken_text() -> pa.Array:
    offsets, letters = np.array([0, 2, 4], np.int32).tobytes(), b"ab\xff\xfe"
    return pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


@pytest.mark.parametrize(
    "on", ["l.s = r.s", "upper(l.s) = r.s", "concat(l.s, r.s) <> 'x'", "l.s < r.s", "length(l.s) = length(r.s)"]
)
def test_text_that_is_no_utf8(on: str) -> None:
    good = pa.table({"s": ["ab", "é"]})
    with sj.WindowJoin(good.schema, good.schema, on=on, window=9) as join:
        join.push_left(good)
        refused(join, join.push_left, pa.table({"s": broken_text()}), "s")
        refused(join, join.push_right, pa.table({"s": broken_text()}), "s")
        refused(join, join.push_left, pa.table({"s": broken_text().cast(pa.binary()).cast(pa.large_binary())}))
        join.push_right(good)
        assert join.finish().num_rows == sj.join(good, good, on=on, window=9).num_rows


def test_text_that_is_no_utf8_in_a_dictionary() -> None:
    good = pa.table({"s": pa.array(["ab"]).dictionary_encode()})
    bad = pa.table({"s": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), broken_text())})
    with sj.WindowJoin(good.schema, good.schema, on="l.s = r.s", window=9) as join:
        join.push_left(good)
        refused(join, join.push_left, bad, "s")
        join.push_right(good)
        assert join.finish().num_rows == 1


@pytest.mark.parametrize("on", ["l.x = r.x", "l.x < r.x", "l.x >= r.x + INTERVAL 1 DAY"])
def test_date64_between_two_days(on: str) -> None:
    day = 86_400_000
    schema = pa.schema({"x": pa.date64()})

    def dates(*milliseconds: int | None) -> pa.Table:
        return pa.table([pa.array(milliseconds, pa.int64()).view(pa.date64())], schema=schema)

    with sj.WindowJoin(schema, schema, on=on, window=9) as join:
        join.push_left(dates(0, day, -day, None))
        refused(join, join.push_left, dates(day, day + 1), "x")
        refused(join, join.push_right, dates(-1), "x")
        join.push_right(dates(0, day))
        assert join.finish().num_rows == {"l.x = r.x": 2, "l.x < r.x": 3}.get(on, 1)


def test_date64_between_two_days_as_time_column() -> None:
    schema = pa.schema({"x": pa.date64(), "k": pa.int64()})

    def dates(*milliseconds: int) -> pa.Table:
        return pa.table([pa.array(milliseconds, pa.int64()).view(pa.date64()), [1] * len(milliseconds)], schema=schema)

    with sj.WindowJoin(schema, schema, on="l.k = r.k", window="1 day", time="x") as join:
        join.push_left(dates(0))
        before = join.metrics()
        try:  # refused, or told apart to the millisecond
            join.push_left(dates(86_400_001))
        except (sj.DataError, sj.SchemaError):
            assert join.metrics() == before
        join.push_right(dates(86_400_000))
        assert join.finish().num_rows == int(join.metrics()["left"]["in"] == 2)


# --- Failures on the way -----------------------------------------------------------------------------


class Boom(Exception):
    """Something that no one expects."""


@pytest.mark.parametrize("error", [Boom, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("order", ["none", "sorted"])
def test_a_failure_after_the_batch_was_taken_breaks_the_join(
    order: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    join = opened(order=order)
    join.push_left(rows([1, 2]))
    join.push_right(rows([1, 2]))

    def fail(*args: Any) -> Any:
        raise error("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(type(join._steps.topology), "step", fail)
        if order == "sorted":  # tuples take part only when both streams have come on
            join.push_left(rows([50]))

        def push_and_poll() -> None:
            """The push itself fails if it comes so late that it joins what has waited."""
            join.push_right(rows([50, 51]))
            join.poll()

        with pytest.raises((error, sj.StateError)):
            push_and_poll()
    for use, name in (
        (lambda: join.push_left(rows([60])), "push_left"),
        (lambda: join.push_right(rows([60])), "push_right"),
        (join.poll, "poll"),
        (join.finish, "finish"),
    ):
        with pytest.raises(sj.StateError, match=r"broken|failed") as caught:
            use()
        assert name in str(caught.value)
    join.metrics()
    join.close()
    with pytest.raises(sj.StateError, match="closed"):
        join.poll()


def test_a_failure_within_finish_breaks_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    join = opened(order="sorted")
    join.push_left(rows([1, 2]))
    join.push_right(rows([1, 2]))

    def fail(*args: Any) -> Any:
        raise Boom

    with monkeypatch.context() as patch:
        patch.setattr(type(join._steps.topology), "step", fail)
        with pytest.raises((Boom, sj.StateError)):
            join.finish()
    for use in (join.finish, join.poll, lambda: join.push_left(rows([3]))):
        with pytest.raises(sj.StateError):
            use()


def test_a_batch_refused_at_the_door_does_not_break_the_join() -> None:
    with opened() as join:
        join.push_left(rows([1]))
        with pytest.raises(sj.SchemaError):
            join.push_right(pa.table({"t": [1]}))
        with pytest.raises(sj.DataError):
            join.push_right(pa.table([pa.array([None], pa.int64()), [1]], schema=SCHEMA))
        join.push_right(rows([1]))
        assert join.finish().num_rows == 1


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("last", ["poll", "finish"])
@pytest.mark.parametrize("order", ["none", "punctuated"])
def test_a_poll_that_fails_loses_nothing(order: str, last: str, failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(order=order) as join:
        join.push_left(rows([1, 2, 3], [1, 2, 3]))
        join.push_right(rows([1, 2, 3], [1, 2, 3]))
        calls, take = itertools.count(1), payload.Payload.arrays

        def sometimes(self: payload.Payload, *args: Any, **kwargs: Any) -> list[pa.Array]:
            if next(calls) == failing:
                raise MemoryError("no room for the rows")
            return take(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(payload.Payload, "arrays", sometimes)
            with pytest.raises((MemoryError, sj.StreamJoinError)):
                getattr(join, last)()
            assert join.metrics()["pending"] == 3
            assert join.metrics()["out"] == 0
            out = getattr(join, last)()
        assert sorted(out["k"].to_pylist()) == [1, 2, 3]
        assert out["k"].equals(out["k_right"])
        assert join.metrics()["out"] == 3
        if last == "poll":
            join.push_left(rows([4], [2]))
        assert join.finish().num_rows == (last == "poll")


def test_the_watermark_is_no_further_than_the_last_poll() -> None:
    """Read at any time, it is a promise about what later polls return."""
    with opened(window=TimeWindow(50), order="punctuated") as join:
        for push in (join.push_left, join.push_right):
            push(rows([1]))
        for push in (join.push_left, join.push_right):
            push(rows([100]))
        before = join.watermark
        out = join.poll()
        assert out["t"].to_pylist() == [1, 100]
        assert before is None or before <= 1
        assert join.watermark == 100
        assert out.schema.metadata == {b"streamjoin.watermark": b"100"}
        for push in (join.push_left, join.push_right):
            push(rows([300]))
        assert join.watermark <= 300
        assert join.finish()["t"].to_pylist() == [300]


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
@pytest.mark.parametrize("order", ["none", "punctuated", "sorted"])
def test_the_watermark_is_a_promise_whenever_it_is_read(how: str, order: str) -> None:
    rng = np.random.default_rng(3)
    promise = None
    with opened(how=how, order=order, window=TimeWindow(7), lateness=4) as join:
        for i in range(120):
            push = join.push_left if rng.random() < 0.5 else join.push_right
            push(rows((i + rng.integers(-3, 4, 3)).tolist(), rng.integers(0, 4, 3).tolist()))
            readings = [join.watermark]
            if rng.random() < 0.3 or i == 119:
                out = join.finish() if i == 119 else join.poll()
                if promise is not None and out.num_rows:
                    columns = [out[name].to_pylist() for name in ("t", "t_right") if name in out.column_names]
                    pairs = zip(*columns, strict=True)
                    assert min(max(t for t in pair if t is not None) for pair in pairs) >= promise
                readings.append(join.watermark)
            for watermark in readings:
                promise = max((w for w in (promise, watermark) if w is not None), default=None)
    assert promise is not None


# --- Payload -----------------------------------------------------------------------------------------

TINY = pa.dictionary(pa.int8(), pa.string())


def words(batch: int, count: int) -> pa.Array:
    return pa.array([f"{batch}_{i}" for i in range(count)]).dictionary_encode().cast(TINY)


@pytest.mark.parametrize(("batches", "size"), [(70, 10), (130, 10), (4, 100), (200, 3), (64, 1), (300, 1)])
@pytest.mark.parametrize("matching", ["one of each batch", "one of one batch", "all"])
def test_many_small_dictionaries(batches: int, size: int, matching: str) -> None:
    """Their values together are more than the indices can number."""
    left, right = pa.schema({"k": pa.int64(), "c": TINY}), pa.schema({"k": pa.int64()})
    wanted = {
        "one of each batch": {(i * 1000, f"{i}_0") for i in range(batches)},
        "one of one batch": {(2000, "2_0")},
        "all": {(i * 1000 + j, f"{i}_{j}") for i in range(batches) for j in range(size)},
    }[matching]
    with sj.WindowJoin(left, right, on="l.k = r.k", window=10_000) as join:
        for i in range(batches):
            join.push_left(pa.table([[i * 1000 + j for j in range(size)], words(i, size)], schema=left))
        join.push_right(pa.table([[k for k, _ in sorted(wanted)]], schema=right))
        try:
            out = join.poll()
        except sj.StreamJoinError:  # more different values in one table than its type can number
            assert matching != "one of one batch"
            assert batches * size > 128
            assert join.metrics()["pending"] == len(wanted)  # nothing is lost
            assert join.metrics()["out"] == 0
        else:
            out.validate(full=True)
            assert sorted(zip(out["k"].to_pylist(), out["c"].to_pylist(), strict=True)) == sorted(wanted)
            assert out["c"].type == TINY
            join.push_right(pa.table([[2000]], schema=right))
            assert join.finish()["c"].to_pylist() == ["2_0"]


def test_small_dictionaries_as_keys() -> None:
    schema = pa.schema({"c": TINY, "n": pa.int64()})
    with sj.WindowJoin(schema, schema, on="l.c = r.c", window=10_000) as join:
        for i in range(70):
            join.push_left(pa.table([words(i, 10), range(10 * i, 10 * i + 10)], schema=schema))
        join.push_right(pa.table([words(69, 10), range(10)], schema=schema))
        out = join.finish()
        assert sorted(out["n"].to_pylist()) == list(range(690, 700))
        assert out["c"].to_pylist() == out["c_right"].to_pylist()


def test_nullability_may_differ() -> None:
    strict = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("t", "k")])
    mixed = pa.schema([pa.field("t", pa.int64()), pa.field("k", pa.int64(), nullable=False)])
    for schema in (SCHEMA, strict, mixed):
        for how in ("inner", "full"):
            with sj.WindowJoin(schema, schema, on="l.k = r.k", window=TimeWindow(100), time="t", how=how) as join:
                for i, given in enumerate((SCHEMA, strict, mixed)):
                    batch = pa.table([[i], [i]], schema=given)
                    join.push_left(batch)
                    join.push_right(batch.to_batches()[0])
                out = join.finish()
                assert out.schema == join.schema
                assert out.num_rows == 3
                out.validate(full=True)


def test_null_where_the_schema_has_none() -> None:
    strict = SCHEMA.append(pa.field("p", pa.string(), nullable=False))
    loose = pa.schema([field.with_nullable(True) for field in strict])
    with sj.WindowJoin(strict, strict, on="l.k = r.k", window=TimeWindow(100), time="t", how="full") as join:
        for given in (loose, strict):
            batch = pa.Table.from_arrays(
                [pa.array([1, 2]), pa.array([1, 2]), pa.array(["a", None])],
                schema=given,
            )
            refused(join, join.push_left, batch, "'p'")
        join.push_left(pa.table([[1], [None], ["a"]], schema=loose))
        assert join.finish().num_rows == 1


def payloads() -> dict[str, pa.Array]:
    ends = pa.array([1, 2], pa.int32())
    views = pa.array(["a", "a text of many letters", "c", "d"], pa.string_view())
    return {
        "run-end-encoded": pa.RunEndEncodedArray.from_arrays(ends, pa.array([5, 6], pa.int64())),
        "run-end-encoded text": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int16()), pa.array(["a"])),
        "map of views": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), views.slice(0, 2), pa.array([1, 2])),
        "map to views": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([1, 2]), views.slice(0, 2)),
        "fixed-size list of views": pa.FixedSizeListArray.from_arrays(views, 2),
        "list of views": pa.ListArray.from_arrays(pa.array([0, 3, 4], pa.int32()), views),
        "struct of views": pa.StructArray.from_arrays([views.slice(0, 2), pa.array([1, 2])], ["a", "b"]),
        "views": views.slice(1, 2),
        "views of bytes": pa.array([b"a", b"more than twelve bytes"], pa.binary_view()),
    }


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@pytest.mark.parametrize("name", payloads())
def test_payload_of_every_layout_travels(name: str, how: str) -> None:
    values = payloads()[name]
    schema = pa.schema({"k": pa.int64(), "p": values.type})
    batch = pa.Table.from_arrays([pa.array([1, 2]), values], schema=schema)
    with sj.WindowJoin(schema, schema, on="l.k = r.k AND l.k > 1", window=1000, how=how, order="sorted") as join:
        for _ in range(70):  # so many small batches are merged
            join.push_left(batch)
        join.push_right(batch)
        out = join.finish()
    assert out.schema == join.schema
    out.validate(full=True)
    one, two = values.to_pylist()
    lonely = [(one, None)] * (70 * (how != "inner")) + [(None, one)] * (how == "full")  # these come first
    assert list(zip(out["p"].to_pylist(), out["p_right"].to_pylist(), strict=True)) == lonely + [(two, two)] * 70


def test_late_rows_of_every_layout_are_kept() -> None:
    for name, values in payloads().items():
        schema = pa.schema({"t": pa.int64(), "k": pa.int64(), "p": values.type})
        arguments: dict[str, Any] = {"on": "l.k = r.k", "window": TimeWindow(10), "time": "t", "late": "keep"}
        with sj.WindowJoin(schema, schema, **arguments) as join:
            join.push_left(pa.Table.from_arrays([pa.array([50, 51]), pa.array([1, 2]), values], schema=schema))
            join.push_left(pa.Table.from_arrays([pa.array([60, 1]), pa.array([1, 2]), values], schema=schema))
            assert join.late().left["p"].to_pylist() == values.to_pylist()[1:], name
