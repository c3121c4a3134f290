"""What lowering makes: one frozen object whose texts refer to slots, which any kernel can name as it likes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from streamjoin.predicate import plan_for
from streamjoin.predicate.condition import ConditionText
from streamjoin.predicate.lower import Lowered, Near, lower
from streamjoin.predicate.lower import Test as SlotTest
from streamjoin.predicate.references import Names, filled, is_reference, reference, referenced_slots

SCHEMA = pa.schema({"a": pa.int32(), "b": pa.int64(), "s": pa.string()})


def lowered(on: str) -> Lowered:
    return lower(plan_for(on, SCHEMA, SCHEMA))


def test_what_is_lowered_does_not_change() -> None:
    made = lowered("l.a = r.a AND l.b < r.b")
    changed: list[tuple[Any, str]] = [(made, "condition"), (made.slots["left"][0], "required"), (made.tests[0], "op")]
    for item, name in changed:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(item, name, None)
    assert isinstance(made.slots["left"], tuple)


def test_it_travels_to_other_processes() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    made = lowered("abs(l.a - r.a) <= 10 AND l.s = r.s")
    there = cloudpickle.loads(cloudpickle.dumps(made))
    for field in dataclasses.fields(Lowered):
        if field.name != "sides":
            assert getattr(there, field.name) == getattr(made, field.name)
    assert there.sides["left"].columns == made.sides["left"].columns == ["a", "s"]


def test_tests_of_a_known_form() -> None:
    assert lowered("l.a <= r.a").tests == (SlotTest(0, "le", 0, 32),)
    assert lowered("abs(l.a - r.a) < 10").tests == (Near(0, 0, 9),)
    both = lowered("l.a <= r.a AND l.a + r.a > l.b")
    assert both.tests == (SlotTest(0, "le", 0, 32),)
    assert both.others != "True"


def test_only_the_slots_that_the_condition_reads_are_tested() -> None:
    made = lowered("l.a BETWEEN r.a - 1 AND r.a + 1 AND l.s <> r.s")
    texts = " ".join([*made.lines, made.condition])
    for side in ("left", "right"):
        assert [k for k in range(len(made.slots[side])) if reference(side, k) in texts] == list(made.tested[side])
        assert set(made.tested[side]) <= set(made.kept[side])
    assert made.recheck  # two texts with different hashes differ, but equal hashes say nothing
    assert len(made.tested["left"]) < len(made.slots["left"])


def test_a_kernel_names_the_references() -> None:
    made = lowered("l.a + r.a > l.b OR l.a = r.b")
    text = ConditionText(made, "left")
    body = text.lines("x", 0) + text.lane(made.condition, "x")
    assert "{" not in body
    assert all(f"v{k}[j]" in body for k in text.stored_slots)
    assert all(f"q{k}_x" in body for k in text.probing_slots)
    turned = ConditionText(made, "right")
    assert turned.stored_slots == text.probing_slots


def test_references() -> None:
    a, b = reference("left", 3), reference("right", 12)
    assert is_reference(a)
    assert not is_reference(f"{a} + {b}")
    assert not is_reference("t1")
    assert referenced_slots([f"({a} < {b})", reference("result", 1)]) == {"left": {3}, "right": {12}}
    names = Names("v", "[j]"), Names("q", "_0"), Names("t", "_0"), Names("w", "_0")
    assert (
        filled(f"{reference('result', 0)} = {a} <= {b} + {reference('width', 1)}", *names)
        == "t0_0 = v3[j] <= q12_0 + w1_0"
    )
