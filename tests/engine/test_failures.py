"""Failures on the way: a join that broke says so, a poll that failed loses nothing, a watermark is a promise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import TimeWindow
from streamjoin.payload import payload

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64()})


def rows(t: list[int], k: list[int] | None = None) -> pa.Table:
    return pa.table([t, k or [1] * len(t)], schema=SCHEMA)


def opened(**changes: Any) -> sj.WindowJoin:
    arguments: dict[str, Any] = {"on": "l.k = r.k", "window": TimeWindow(100), "time": "t", **changes}
    return sj.WindowJoin(SCHEMA, SCHEMA, **arguments)


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
            """The push itself fails where it runs the steps that waited."""
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
@pytest.mark.parametrize("are_few", [True, False])
def test_a_poll_that_fails_loses_nothing(
    are_few: bool, order: str, last: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Few rows have a short way to a table, others the usual one."""
    fails = "layout" if are_few else "parted"
    if not are_few:
        monkeypatch.setattr(payload.Payload, "layout", lambda _: None)
    with opened(order=order) as join:
        join.push_left(rows([1, 2, 3], [1, 2, 3]))
        join.push_right(rows([1, 2, 3], [1, 2, 3]))
        calls, take = itertools.count(1), getattr(payload.Payload, fails)

        def sometimes(self: payload.Payload, *args: Any, **kwargs: Any) -> Any:
            if next(calls) == failing:
                raise MemoryError("no room for the rows")
            return take(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(payload.Payload, fails, sometimes)
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
