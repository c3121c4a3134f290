"""What `explain` says of a predicate: its keys, bands and filters, and what is left to check."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import col
from streamjoin.side import SIDES

from .. import interpreted

LEFT = pa.schema(
    {"a": pa.int32(), "b": pa.int64(), "x": pa.float64(), "f": pa.float32(), "s": pa.string(), "ts": pa.timestamp("us")}
)
RIGHT = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.int64(),
        "y": pa.float64(),
        "f": pa.float32(),
        "s": pa.string(),
        "ts": pa.timestamp("us"),
        "w": pa.int32(),
        "lo": pa.int32(),
        "hi": pa.int32(),
    }
)


@pytest.mark.parametrize(
    ("on", "equalities"),
    [
        ("l.a = r.a", ["l.a = r.a"]),
        ("r.a = l.a", ["l.a = r.a"]),
        ("NOT (l.a <> r.a)", ["l.a = r.a"]),
        ("l.a + 1 = r.a", ["l.a + 1 = r.a"]),
        ("l.a + 1 = r.b", ["CAST(l.a + 1 AS bigint) = r.b"]),
        ("l.b - r.b = 1", ["l.b = r.b + 1"]),
        ("l.a - r.b = 1", ["CAST(l.a AS bigint) = r.b + 1"]),
        ("l.b + r.b = 10", ["l.b = 10 - r.b"]),
        ("l.a = r.a AND l.x < r.y AND upper(l.s) = r.s", ["l.a = r.a", "upper(l.s) = r.s"]),
        ("(l.a = r.a AND l.x < r.y) OR (l.a = r.a AND l.s = r.s)", ["l.a = r.a"]),
    ],
)
def test_equalities(on: str, equalities: list[str]) -> None:
    plan = sj.explain(LEFT, RIGHT, on=on)
    assert list(plan.equalities) == equalities
    assert plan.kind == "equality"
    assert plan.index == "bi-sort"


BANDS = [  # predicate, kind, band with left stored, band with right stored
    ("l.a BETWEEN r.lo AND r.hi", "band", "l.a in [r.lo, r.hi]", "r.lo in (-infinity, l.a]"),
    ("l.a BETWEEN r.a - 10 AND r.a + 10", "band", "l.a in [r.a - 10, r.a + 10]", "r.a in [l.a - 10, l.a + 10]"),
    ("l.x BETWEEN r.y - 1.5 AND r.y + 1.5", "band", "l.x in [r.y - 1.5, r.y + 1.5]", "r.y in [l.x - 1.5, l.x + 1.5]"),
    ("abs(l.a - r.a) <= 3", "band", "l.a in [r.a - 3, r.a + 3]", "r.a in [l.a - 3, l.a + 3]"),
    ("3 > abs(r.a - l.a)", "band", "l.a in (r.a - 3, r.a + 3)", "r.a in (l.a - 3, l.a + 3)"),
    ("NOT abs(l.x - r.y) > 3", "band", "l.x in [r.y - 3.0, r.y + 3.0]", "r.y in [l.x - 3.0, l.x + 3.0]"),
    ("l.a - r.a <= 3 AND r.a - l.a <= 4", "band", "l.a in [r.a - 4, r.a + 3]", "r.a in [l.a - 3, l.a + 4]"),
    ("l.a - r.a BETWEEN -3 AND 3", "band", "l.a in [r.a - 3, r.a + 3]", "r.a in [l.a - 3, l.a + 3]"),
    ("l.a > r.lo AND NOT (l.a >= r.hi)", "band", "l.a in (r.lo, r.hi)", "r.lo in (-infinity, l.a)"),
    ("NOT (l.a < r.lo OR l.a > r.hi)", "band", "l.a in [r.lo, r.hi]", "r.lo in (-infinity, l.a]"),
    ("abs(l.a - r.a) <= r.w", "band", "l.a in [r.a - r.w, r.a + r.w]", "r.a + r.w in [l.a, infinity)"),
    ("abs(l.a - r.a) <= l.b", "band", None, "r.a in [CAST(l.a AS bigint) - l.b, CAST(l.a AS bigint) + l.b]"),
    ("l.a BETWEEN r.lo AND r.b", "band", "l.a in [r.lo, r.b]", "r.lo in (-infinity, l.a]"),
    ("l.a BETWEEN 2 * r.w AND 3 * r.w", "band", "l.a in [2 * r.w, 3 * r.w]", "2 * r.w in (-infinity, l.a]"),
    ("l.a IN (r.lo, r.hi)", "band", "l.a in [r.lo, r.lo] or [r.hi, r.hi]", None),
    ("r.a IN (l.a, l.b)", "band", None, "r.a in [l.a, l.a] or [l.b, l.b]"),
    (
        *("l.a BETWEEN r.lo AND r.hi OR l.a BETWEEN r.lo + 100 AND r.hi + 100", "band"),
        *("l.a in [r.lo, r.hi] or [r.lo + 100, r.hi + 100]", "r.lo in (-infinity, l.a] or (-infinity, l.a - 100]"),
    ),
    (
        "abs(r.lo - l.a) <= 3 OR abs(r.hi - l.a) <= 3",
        "band",
        "l.a in [r.lo - 3, r.lo + 3] or [r.hi - 3, r.hi + 3]",
        None,
    ),
    (
        "abs(l.a - r.a) >= 9",
        "range",
        "l.a in (-infinity, r.a - 9] or [r.a + 9, infinity)",
        "r.a in [l.a + 9, infinity) or (-infinity, l.a - 9]",
    ),
    ("l.a < r.a", "range", "l.a in (-infinity, r.a)", "r.a in (l.a, infinity)"),
    ("l.x - 1 >= r.y", "range", "l.x - 1.0 in [r.y, infinity)", "r.y in (-infinity, l.x - 1.0]"),
    ("l.a <> r.a", "none", None, None),
    ("l.x * r.y < 5", "none", None, None),
    ("TRUE", "none", None, None),
]


@pytest.mark.parametrize(("on", "kind", "left", "right"), BANDS)
def test_bands(on: str, kind: str, left: str | None, right: str | None) -> None:
    plan = sj.explain(LEFT, RIGHT, on=on)
    assert plan.kind == kind
    assert plan.index == ("bi-sort" if any(plan.keys.values()) else "scan")
    if left is not None:
        assert plan.bands["left"] == left
    if right is not None:
        assert plan.bands["right"] == right
    if left is right is None:
        assert not plan.bands


def test_filters_and_residual() -> None:
    plan = sj.explain(LEFT, RIGHT, on="l.s = r.s AND l.a > 5 AND r.w < 3 AND (l.x < r.y OR l.a = r.a)")
    assert plan.filters == {"left": ("l.a > 5",), "right": ("r.w < 3",)}
    assert plan.residual == dict.fromkeys(SIDES, ("l.x < r.y OR l.a = r.a",))
    assert plan.recheck == ()
    assert plan.recheck_long_text == ("l.s = r.s",)


def test_what_is_slow_is_said() -> None:
    """Compiled, checked again in columns, or row by row."""
    schema = pa.schema({"d": pa.decimal128(12, 2), "u": pa.uint64(), "s": pa.string(), "x": pa.float64()})
    slow = "substring(l.s || r.s, CAST(NULL AS int)) IS NULL"
    plan = sj.explain(
        schema, schema, on=f"l.d * r.d > 9000 AND l.u + r.u > 5 AND upper(l.s) || r.s LIKE 'A%' AND ({slow})"
    )
    assert len(plan.recheck) == 2
    assert [text in plan.row_by_row for text in plan.recheck] == ["substring" in text for text in plan.recheck]
    assert "in columns" in str(plan)
    assert "row by row" in str(plan)
    plan = sj.explain(schema, schema, on="l.d * r.d > 9000 AND l.u - r.u > 5 AND l.u < r.u")
    assert plan.recheck == plan.row_by_row == ()
    assert "row by row" not in str(plan)


EVERY_TYPE = {
    "bo": pa.bool_(), "ti": pa.int8(), "i": pa.int32(), "bi": pa.int64(), "u": pa.uint64(), "f": pa.float32(),
    "x": pa.float64(), "d5": pa.decimal128(5, 2), "d18": pa.decimal128(18, 4), "d38": pa.decimal128(38, 10),
    "s": pa.string(), "dt": pa.date32(), "ts": pa.timestamp("us", "UTC"), "tn": pa.timestamp("us"),
    "ns": pa.timestamp("ns"), "iv": pa.duration("us"),
}  # fmt: skip
OF_BOTH = {
    "bo": "l.bo OR r.bo", "s": "l.s || r.s", "dt": "l.dt + r.ti", "ts": "l.ts + r.iv", "tn": "l.tn + r.iv",
    "ns": "l.ns + r.iv",
    **{name: f"l.{name} * r.{name}" for name in ("ti", "i", "bi", "u", "f", "x", "d5", "d18", "d38")},
}  # fmt: skip


@pytest.mark.parametrize("name", OF_BOTH)
def test_no_conversion_of_both_streams_is_row_by_row(name: str) -> None:
    schema, done = pa.schema(EVERY_TYPE), 0
    for target in (
        "boolean", "tinyint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(18,4)", "decimal(38,10)",
        "string", "date", "timestamp", "timestamp_ntz",
    ):  # fmt: skip
        try:
            plan = sj.explain(schema, schema, on=f"CAST({OF_BOTH[name]} AS {target}) IS NULL")
        except sj.PredicateError:
            continue
        assert plan.row_by_row == ()
        done += 1
    assert done > 3


def test_an_exact_band_replaces_its_conditions() -> None:
    plan = sj.explain(LEFT, RIGHT, on="l.a BETWEEN r.lo AND r.hi AND l.x < r.y")
    assert plan.residual["left"] == ("l.x < r.y",)
    assert plan.residual["right"] == ("l.a <= r.hi", "l.x < r.y")


@pytest.mark.parametrize(
    "on",
    ["l.a = r.a AND l.s < r.s", "abs(l.a - r.a) <= 3", "l.a < r.a", "TRUE", "l.a <=> r.a", "l.s BETWEEN r.s AND 'zz'"],
)
def test_it_prints(on: str) -> None:
    plan = sj.explain(LEFT, RIGHT, on=on)
    text = str(plan)
    assert repr(plan) == text
    for heading in (
        "predicate",
        "best key",
        "index",
        "left stored, right probes",
        "right stored, left probes",
        "compiled",
    ):
        assert heading in text
    assert "None" not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)


def test_aliases_are_used_throughout() -> None:
    text = str(sj.explain(LEFT, RIGHT, on="t.a = q.a AND t.x < q.y AND t.b > 1", aliases=("t", "q")))
    assert "t.a = q.a" in text
    assert "l." not in text
    assert "r." not in text


def test_all_forms_and_all_sources() -> None:
    def function(l: pa.Table, r: pa.Table) -> bool:
        return abs(l.a - r.a) <= 3

    forms = ["abs(l.a - r.a) <= 3", (col("l.a") - col("r.a")).abs() <= 3, function]
    assert len({str(sj.explain(LEFT, RIGHT, on=on)) for on in forms}) == 1
    tables = [schema.empty_table() for schema in (LEFT, RIGHT)]
    assert str(sj.explain(*tables, on=forms[0])) == str(sj.explain(LEFT, RIGHT, on=forms[0]))
    polars = pytest.importorskip("polars")
    frames = [polars.from_arrow(table) for table in tables]
    assert sj.explain(*frames, on=forms[0]).bands == sj.explain(LEFT, RIGHT, on=forms[0]).bands


def test_the_arguments_of_a_join_are_checked() -> None:
    join = {"on": "l.a = r.a", "window": ("5 minutes", 1_000), "time": "ts", "lateness": "1 second", "order": "sorted"}
    assert sj.explain(LEFT, RIGHT, **join).index == "bi-sort"  # type: ignore[arg-type]
    assert sj.explain(LEFT, RIGHT, on="l.a = r.a", index="scan").index == "scan"
    for wrong in (
        {"window": 0},
        {"window": "5 minutes", "time": None},
        {"index": "hash", "on": "l.a < r.a"},
        {"how": "outer"},
    ):
        with pytest.raises(sj.ArgumentError):
            sj.explain(LEFT, RIGHT, **(join | wrong))  # type: ignore[arg-type]
    with pytest.raises(sj.PredicateError, match="unknown column"):
        sj.explain(LEFT, RIGHT, on="l.nothing = r.a")


def test_a_rearranged_equality_finds_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    ticks = [0, 5_000_000, 7_000_000]
    left = pa.table({"ts": pa.array(ticks, pa.timestamp("us"))})
    out = sj.join(left, left, on="l.ts - r.ts = INTERVAL 5 SECONDS", window=10)
    assert out.cast(pa.schema({"ts": pa.int64(), "ts_right": pa.int64()})).to_pylist() == [
        {"ts": 5_000_000, "ts_right": 0}
    ]


def test_which_partners_are_reported_is_said() -> None:
    plan = sj.explain(LEFT, RIGHT, on="l.a = r.a", match="latest", time="ts", window="5 minutes")
    assert plan.match == "latest"
    assert re.search("match +latest: .* not younger", str(plan))
    assert "match" not in str(sj.explain(LEFT, RIGHT, on="l.a = r.a")).splitlines()[1]
    with pytest.raises(sj.ArgumentError, match="time="):
        sj.explain(LEFT, RIGHT, on="l.a = r.a", match="latest")
