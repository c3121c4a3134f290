"""Wrong predicates and arguments are refused at the call, and the message says what is valid."""

from __future__ import annotations

import datetime
import inspect
import time as clock
from typing import Any

import polars
import pyarrow as pa
import pytest

import streamjoin as sj

from ..long import LONG
from ..streams import LEFT, left, opened, right


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("l.nope = r.k", ["nope", "ts, k, x, s"]),
        ("nope = k", ["nope"]),
        ("k = 1", ["ambiguous", "l.k", "r.k"]),
        ("q.k = r.k", ["'q'", "'l'", "'r'"]),
        ("l.s < r.a", ["text", "CAST"]),
        ("l.s = 1 AND l.k = r.k", ["text"]),
        ("l.k + r.k", ["boolean"]),
        ("l.x = 1", ["only the left", "ts, k, a, t"]),
        ("r.a > 1", ["only the right"]),
        ("sum(l.x) = r.a", ["aggregate"]),
        ("l.x IN (SELECT a FROM r)", ["subquery"]),
        ("EXISTS (SELECT 1)", ["subquery"]),
        ("row_number() OVER (ORDER BY l.x) = r.a", ["window function"]),
        ("l.k = r.k; DROP TABLE users", ["one condition"]),
        ("SELECT * FROM l JOIN r", ["statement"]),
        ("DROP TABLE l", ["statement"]),
        ("l.k = r.k UNION SELECT 1", []),
        ("__import__('os').system('true') = r.k", []),
        ("exec('1') = r.k", ["EXEC"]),
        ("l.`__class__` = r.k", ["__class__"]),
        ("l.k = r.k)", []),
        ("l.k =", []),
        ("", ["empty"]),
        ("   -- nothing", ["empty"]),
        ("nofunction(l.k) = r.k", ["NOFUNCTION"]),
        ("l.k = r.k = TRUE = r.a", []),
        ("l.s LIKE r.t", ["LIKE"]),
        ("CAST(l.k AS nonsense) = r.k", ["nonsense"]),
        ("l.k = ?", ["parameter"]),
        ("*", []),
        (3, ["on"]),
        (None, ["on"]),
    ],
)
def test_wrong_predicates(on: Any, words: list[str]) -> None:
    with pytest.raises(sj.PredicateError) as caught:
        opened(on=on)
    assert str(caught.value).startswith("on:")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 0}, ["window", "0"]),
        ({"window": -3}, ["window", "-3"]),
        ({"window": "0 seconds"}, ["window"]),
        ({"window": "-5 seconds"}, ["window", "negative"]),
        ({"window": "5 fortnights"}, ["window", "fortnights"]),
        ({"window": datetime.timedelta(seconds=-1)}, ["window"]),
        ({"window": (5, 5, 5)}, ["window", "pair"]),
        ({"window": 1.5}, ["window", "1.5"]),
        ({"window": None}, ["window"]),
        ({"window": "5 seconds"}, ["window", "TimeWindow(900)"]),
        ({"window": sj.TimeWindow(5), "time": None}, ["window", "time="]),
        ({"window": (5, sj.TimeWindow(5)), "time": None}, ["window", "right"]),
        ({"time": "when"}, ["time", "when", "ts, k, x, s"]),
        ({"time": ("ts", "when")}, ["time", "when", "ts, k, a, t"]),
        ({"time": "k", "left": pa.schema({"k": pa.float64()})}, ["time", "double"]),
        ({"time": ("s", "t")}, ["time", "'s'", "string"]),
        ({"time": ("ts", "ts"), "left": LEFT.set(0, pa.field("ts", pa.timestamp("us")))}, ["time"]),
        ({"time": 3}, ["time", "3"]),
        ({"lateness": -1}, ["lateness", "-1"]),
        ({"lateness": "5 seconds"}, ["lateness"]),
        ({"lateness": 5, "time": None, "window": 5}, ["lateness"]),
        ({"how": "outer"}, ["how", "outer", "did you mean 'full'"]),
        ({"how": "LEFT_ANTI"}, ["how", "did you mean 'anti'"]),
        ({"how": "leftsemi"}, ["how", "did you mean 'semi'"]),
        ({"match": "backward"}, ["match", "did you mean 'latest'"]),
        ({"window": "0 ticks"}, ["window", "zero"]),
        ({"window": "5 parsecs"}, ["window", "parsecs"]),
        ({"lateness": "5 rows"}, ["lateness", "rows"]),
        ({"how": "lef"}, ["how", "did you mean 'left'"]),
        ({"how": None}, ["how"]),
        ({"how": ["left"]}, ["how"]),
        ({"match": "lates"}, ["match", "did you mean 'latest'"]),
        ({"match": None}, ["match", "'all'"]),
        ({"match": "latest", "how": "full"}, ["match", "latest", "how='full'", "how='left'"]),
        ({"match": "nearest", "how": "semi"}, ["match", "nearest", "how='semi'", "how='inner'"]),
        ({"match": "latest", "time": None, "window": 5}, ["match", "latest", "time="]),
        ({"order": "ascending"}, ["order", "'sorted'"]),
        ({"index": "btree"}, ["index", "btree", "'scan'"]),
        ({"index": "hash", "on": "l.x < r.a"}, ["index", "hash", "equality"]),
        ({"algorithm": "nested-loop"}, ["algorithm", "nested-loop"]),
        ({"workers": 0}, ["workers", "0"]),
        ({"workers": -1}, ["workers", "-1"]),
        ({"workers": "two"}, ["workers", "two"]),
        ({"workers": True}, ["workers"]),
        ({"aliases": "ab"}, ["aliases"]),
        ({"aliases": ("a", "a")}, ["aliases"]),
        ({"aliases": ("a",)}, ["aliases"]),
        ({"late": "maybe"}, ["late", "'keep'"]),
        ({"left": 5}, ["left", "int"]),
        ({"right": "nothing"}, ["right"]),
        ({"left": pa.schema([("k", pa.int64()), ("k", pa.int64())])}, ["left", "'k'"]),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_wrong_arguments(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(sj.ArgumentError) as caught:
        opened(**changes)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("call", "name"),
    [(sj.join, "join"), (sj.join_batches, "join_batches"), (sj.WindowJoin, "WindowJoin"), (sj.explain, "explain")],
)
def test_a_misspelt_keyword_suggests_the_right_one(call: Any, name: str) -> None:
    for given, meant in (("windw", "window"), ("predicate", "on"), ("tolerance", "window"), ("algoritm", "algorithm")):
        with pytest.raises(
            sj.ArgumentError, match=rf"^{given}: {name} has no such argument \(did you mean '{meant}'\?\)"
        ):
            call(left([1]), right([1]), **{"on": "l.k = r.k", "window": 5, given: 1})
    with pytest.raises(TypeError, match=r"^zzz: .* no such argument; it takes on, "):
        call(left([1]), right([1]), on="l.k = r.k", window=5, zzz=1)
    assert list(inspect.signature(call).parameters)[:3] == ["left", "right", "on"]


def test_a_lazy_frame_is_to_be_collected() -> None:
    frame = polars.LazyFrame({"ts": [1], "k": [1]})
    for call in (sj.join, sj.explain):
        for sides in ((frame, right([1])), (left([1]), frame)):
            with pytest.raises(sj.StreamJoinError, match=r"LazyFrame .*\(it is lazy: call \.collect\(\) first\)"):
                call(*sides, on="l.k = r.k", window=5)
    with opened() as join, pytest.raises(sj.SchemaError, match=r"push_left: LazyFrame .*collect"):
        join.push_left(frame)


def test_texts_say_what_numbers_say() -> None:
    tables = left([1, 2, 9]), right([1, 4, 5])
    for text, window in (
        ("4 ticks", sj.TimeWindow(4)),
        ("1_0 Rows", 10),
        (("1 tick", "3 rows"), (sj.TimeWindow(1), 3)),
    ):
        wanted = sj.join(*tables, on="l.k = r.k", window=window, time="ts", order="sorted")
        assert sj.join(*tables, on="l.k = r.k", window=text, time="ts", order="sorted", lateness="2 ticks") == wanted
    assert sj.TimeWindow("900 ticks") == sj.TimeWindow(900)


def test_a_garbage_text_is_refused_at_once() -> None:
    for text in ("l.k = r.k AND " * 700_000, "(" * 10_000_000, "\0\xff'" * 3_000_000, "a" * 10_000_000):
        started = clock.thread_time()
        with pytest.raises(sj.PredicateError) as caught:
            opened(on=text)
        assert clock.thread_time() - started < 2
        assert len(str(caught.value)) < 1000


MANY = 10_000 if LONG else 2_000
TERMS = {
    "or": " OR ".join(f"l.k = r.k + {i}" for i in range(MANY)),
    "and": " AND ".join(f"l.k <> r.k + {i}" for i in range(MANY)),
    "filter": "l.k = r.k AND (" + " OR ".join(f"l.x = {i}" for i in range(MANY)) + ")",
    "in": "l.k = r.k AND l.x IN (" + ", ".join(map(str, range(MANY))) + ")",
    "parentheses": "(" * 5000 + "l.k = r.k" + ")" * 5000,
    "not": "NOT " * 5000 + "l.k = r.k",
    "sum": "l.k = r.k" + " + 1" * MANY,
}


@pytest.mark.parametrize("on", TERMS.values(), ids=TERMS)
def test_a_predicate_of_thousands_of_terms_works_or_is_refused(on: str) -> None:
    started, message = clock.thread_time(), ""
    try:
        with opened(on=on) as join:
            join.push_left(left([1]))
            join.push_right(right([1]))
            join.finish()
    except sj.PredicateError as error:
        message = str(error)
    assert len(message) < 2000
    assert clock.thread_time() - started < 20
