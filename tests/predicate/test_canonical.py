"""All spellings of a predicate have one form, which is true for the same pairs."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.predicate import plan_for
from streamjoin.predicate.analyse import make_plan
from streamjoin.predicate.canonical import canonical
from streamjoin.predicate.render import render
from streamjoin.testing import assert_same_rows, stream

COLUMNS = {"k": "int32", "j": "int64", "x": "float64", "name": "string"}
SPELLINGS = [
    ("l.k = r.k", "r.k = l.k", "  r.k\n =l.k"),
    ("l.k = r.k AND l.x >= r.x - 60.0 AND l.x <= r.x + 60.0", "l.x BETWEEN r.x - 60 AND r.x + 60 AND r.k = l.k",
     "60 + r.x >= l.x AND (r.k = l.k AND r.x - 60 <= l.x)"),
    ("l.j = r.j AND l.k = r.k", "r.k = l.k AND l.j = r.j"),
    ("abs(l.x - r.x) <= 3.0", "3 >= abs(l.x - r.x)"),
    ("l.k < 3 AND l.name <> r.name", "r.name <> l.name AND 3 > l.k"),
    ("l.j * r.j > 5", "5 < r.j * l.j"),
    ("l.k = r.j OR l.x < r.x", "r.x > l.x OR r.j = l.k"),
]  # fmt: skip


def bound(on: str) -> sj.predicate.Plan:
    schema = stream(1, columns=COLUMNS).schema
    return plan_for(on, schema, schema)


@pytest.mark.parametrize("spellings", SPELLINGS, ids=[spellings[0] for spellings in SPELLINGS])
def test_spellings_have_one_form(spellings: tuple[str, ...]) -> None:
    forms = [canonical(bound(on).predicate) for on in spellings]
    assert set(forms) == {forms[0]}
    assert canonical(forms[0]) == forms[0]
    assert render(forms[0]).replace("CAST(l.k AS bigint)", "l.k") == spellings[0]
    assert make_plan(forms[0]).kind == bound(spellings[-1]).kind


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("l.k < r.k", "l.k > r.k"),
        ("l.x - r.x <= 3", "r.x - l.x <= 3"),
        ("l.k = r.j", "l.j = r.k"),
        ("(l.k = r.k OR l.j = r.j) AND l.x < r.x", "l.k = r.k OR (l.j = r.j AND l.x < r.x)"),
    ],
)
def test_other_predicates_have_other_forms(one: str, other: str) -> None:
    assert canonical(bound(one).predicate) != canonical(bound(other).predicate)


@pytest.mark.parametrize("other", ["CAST(3 AS decimal(38, 0))", "CAST(3 AS decimal(20, 0))", "(1 + 2)"])
def test_digits_on_which_a_result_depends_are_in_the_text(other: str) -> None:
    """A checkpoint knows the predicate by its text alone."""
    schema = pa.schema([("d", pa.decimal128(10, 4))])
    plans = [plan_for(f"l.d / {divisor} > r.d", schema, schema) for divisor in ("3", other)]
    texts = [render(canonical(plan.predicate)) for plan in plans]
    assert texts[0] == "l.d / 3 > r.d" != texts[1]
    assert plan_for(texts[1], schema, schema).predicate == plans[1].predicate


def test_the_form_is_true_for_the_same_pairs() -> None:
    left, right = (stream(60, columns=COLUMNS, seed=seed, domain=8, nulls=0.1) for seed in (1, 2))
    for spellings in SPELLINGS:
        given = sj.join(left, right, on=spellings[-1], window="1 hour", time="ts")
        form = render(canonical(bound(spellings[-1]).predicate))
        assert given.num_rows
        assert_same_rows(sj.join(left, right, on=form, window="1 hour", time="ts"), given, context=form)
