"""As-of joins that run: a left row comes with its closest partner as soon as that is known, and once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.engine import replay
from streamjoin.side import SIDES

from .. import constants, interpreted
from ..predicates import KEY
from ..streams import LEFT, RIGHT, left, opened, right

TICKS = [("latest", "none"), ("latest", "sorted"), ("nearest", "none"), ("nearest", "sorted")]


@pytest.fixture(autouse=True)
def without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)


def polled(join: sj.WindowJoin) -> list[tuple[int, int | None]]:
    """The timestamps of what can be polled."""
    return timestamps(join.poll())


def timestamps(table: pa.Table) -> list[tuple[int, int | None]]:
    return list(zip(table["ts"].to_pylist(), table["ts_right"].to_pylist(), strict=True))


@pytest.mark.parametrize("order", ["none", "punctuated", "sorted"])
def test_the_latest_is_known_when_the_right_stream_has_passed(order: Any) -> None:
    """Not when the window has closed, and though neither a window of the left nor the predicate ever matches a row."""
    with opened(match="latest", how="left", order=order, window=sj.TimeWindow(100)) as join:
        join.push_left(left([5, 7, 7, 9], [1, 1, 2, 1]))
        join.push_right(right([4, 5, 6, 7]))
        assert polled(join) == [(5, 5)]
        join.push_right(right([8]))
        assert polled(join) == [(7, 7), (7, None)]
        figures = join.metrics()
        assert figures["undecided"] + figures["left"]["waiting"] == 1
        join.heartbeat("left", 10)
        join.heartbeat("right", 9)
        assert polled(join) == []
        join.heartbeat("right", 10)
        assert polled(join) == [(9, 8)]
        assert join.finish().num_rows == 0
        assert join.metrics()["undecided"] == 0


@pytest.mark.parametrize("window", [sj.TimeWindow(100), 50, (sj.TimeWindow(100), 50), (50, sj.TimeWindow(100))])
@pytest.mark.parametrize(("match", "order"), TICKS)
def test_the_nearest_is_known_when_none_can_be_nearer(match: Any, order: Any, window: Any) -> None:
    with opened(match=match, order=order, window=window) as join:
        join.push_right(right([7, 8]))
        join.push_left(left([10]))
        join.heartbeat("left", 99)
        join.heartbeat("right", 11)
        assert polled(join) == [(10, 8)] * (match == "latest")
        join.heartbeat("right", 12)
        assert polled(join) == [(10, 8)] * (match == "nearest")  # in a tie, the earlier one wins
        join.push_left(left([100, 200]))
        join.push_right(right([104, 104, 105]))
        assert polled(join) == [(100, 8 if match == "latest" else 104)]
        join.end("right")
        assert [*polled(join), *timestamps(join.finish())] == [(200, 105)]


def test_a_join_says_what_it_is() -> None:
    with opened(match="latest", how="left") as join:
        assert "on='l.k = r.k', " in repr(join)
        assert "how='left', match='latest': open, " in repr(join)
    assert ": closed, " in repr(join)


def test_lateness_holds_a_row_back() -> None:
    with opened(match="latest", lateness=3) as join:
        join.push_left(left([10]))
        join.push_right(right([13]))
        assert polled(join) == []  # one at 10 may still come
        join.push_right(right([10, 10]))
        join.push_right(right([9, 14]))
        assert join.metrics()["late"] == 1
        table = join.poll()
        assert (table["ts_right"].to_pylist(), table["a"].to_pylist()) == ([10], [1])


def test_an_ended_stream_decides() -> None:
    with opened(match="nearest", how="left", window=sj.TimeWindow(1000)) as join:
        join.push_left(left([10, 20], [1, 2]))
        join.push_right(right([12]))
        assert polled(join) == []
        join.end("right")
        assert polled(join) == [(10, 12), (20, None)]


def test_left_rows_wait_for_a_silent_stream_only_up_to_a_limit() -> None:
    many = left(list(range(70_000)))
    with opened(match="latest", max_pending=10) as join:
        join.push_left(many.slice(0, 66_000))
        with pytest.raises(sj.BackPressure, match="66000 rows of this stream wait for the other one"):
            join.push_left(many.slice(66_000))
        join.heartbeat("right", 70_000)
        join.push_left(many.slice(66_000))


@pytest.mark.parametrize(("match", "order"), TICKS)
def test_partners_are_kept_as_long_as_they_are_needed(
    match: Any, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """And no longer: neither rows nor what is known of them pile up. Pushes are refused now and then."""
    constants.replace(monkeypatch, RELEASE_ROWS=50, FORGET_ROWS=10)
    found: list[tuple[int, int | None]] = []
    options: dict[str, Any] = {"match": match, "order": order, "how": "left", "window": sj.TimeWindow(40)}
    with opened(**options, max_pending=40, max_wait=0) as join:
        for start in range(0, 4000, 20):
            batches = left(list(range(start, start + 20))), right(list(range(start - start % 60, start + 20, 20)))
            for push, batch in zip((join.push_left, join.push_right), batches, strict=True):
                while True:
                    try:
                        push(batch)
                        break
                    except sj.BackPressure:
                        found += polled(join)
        steps = join._steps
        assert steps is not None
        needed = [steps.results.first_row(side) for side in SIDES]
        assert needed[0] is not None
        assert needed[1] is not None
        assert 3900 < needed[0] < 4000
        assert 300 < needed[1] < 333
        found += timestamps(join.finish())
    assert len(found) == 4000
    for own, partner in found:
        assert partner is not None
        assert abs(own - partner) <= 20 if match == "nearest" else 0 <= own - partner < 20


def test_both_ways_to_join_tables_agree_on_ticks() -> None:
    """Walking back and the running join, over thousands of ticks that are out of order."""
    rng = np.random.default_rng(3)

    def ticks(count: int, seed: int) -> pa.Table:
        times = np.arange(count) + np.random.default_rng(seed).integers(0, 30, count)
        price = rng.normal(100, 1, count)
        return pa.table({"ts": times, "k": rng.integers(0, 9, count), "x": price, "n": np.arange(count)})

    tables = ticks(300, 1), ticks(900, 2)
    for match, how in (("latest", "left"), ("nearest", "inner")):
        arguments: dict[str, Any] = {"on": "l.k = r.k AND l.x > r.x", "window": sj.TimeWindow(50), "time": "ts"}
        arguments |= {"match": match, "how": how, "order": "sorted", "suffix": "_quote"}
        one, other = (sj.join(*tables, index=index, **arguments) for index in ("auto", "hash"))
        assert one.equals(other)
        assert one.num_rows > 200
        batches = sj.join_batches(*tables, **arguments)
        assert batches.read_all().equals(one)


def test_tables_are_joined_without_finding_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Iterator[pa.Table]:
        raise AssertionError("the running join was asked")

    monkeypatch.setattr(replay, "replay", refused)
    arguments: dict[str, Any] = {"on": KEY, "window": sj.TimeWindow(10), "time": "ts"}
    out = sj.join(left([5, 3]), right([1, 4, 4, 9]), match="latest", how="left", **arguments)
    assert (timestamps(out), out["a"].to_pylist()) == ([(3, 1), (5, 4)], [0, 2])
    with pytest.raises(AssertionError, match="was asked"):
        sj.join(left([5]), right([1]), match="all", **arguments)


def test_empty_tables() -> None:
    nothing: tuple[pa.Table, pa.Table] = (LEFT.empty_table(), RIGHT.empty_table())
    options: dict[str, Any] = {"on": KEY, "window": sj.TimeWindow(10), "time": "ts"}
    for tables in (nothing, (nothing[0], right([1])), (left([1]), nothing[1])):
        for match in ("latest", "nearest"):
            assert sj.join(*tables, match=match, **options).num_rows == 0
            out = sj.join(*tables, match=match, how="left", **options)
            assert timestamps(out) == [(t, None) for t in tables[0]["ts"].to_pylist()]


def test_bad_rows_raise_what_a_running_join_raises() -> None:
    arguments: dict[str, Any] = {"on": KEY, "window": sj.TimeWindow(10), "time": "ts", "match": "latest"}
    bad = right([1, 2]).set_column(0, RIGHT.field("ts"), pa.array([1, None], pa.int64()))
    for index in ("auto", "scan"):
        with pytest.raises(sj.DataError, match="right: time column 'ts' is NULL in row 1"):
            sj.join(left([1]), bad, index=index, **arguments)
