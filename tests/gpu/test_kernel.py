"""The text of the kernels."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.gpu.kernel import gpu_scan_source, with_apart_products
from streamjoin.gpu.support import unable
from streamjoin.predicate.lower import lower

from ..conformance.cases import CASES


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("t1_0 = f64(q0_0 * v1[j])", "t1_0 = times64(q0_0, v1[j])"),
        ("t1_0 = f32(q0_0 * f32(-2.5))", "t1_0 = times32(q0_0, f32(-2.5))"),
        ("t1_0 = f64(f64(1e-05) * t0_0)", "t1_0 = times64(f64(1e-05), t0_0)"),
        ("t1_0 = i32(q0_0 * v1[j])", "t1_0 = i32(q0_0 * v1[j])"),
        ("t1_0 = sat64(f64(t0_0) * f64(1000000.0))", "t1_0 = sat64(f64(t0_0) * f64(1000000.0))"),
        ("t1_0 = not_(fle(f64(t0_0 + v1[j]), f64(7.0)))", "t1_0 = not_(fle(f64(t0_0 + v1[j]), f64(7.0)))"),
    ],
)
def test_products_of_floats_are_rounded_by_themselves(text: str, apart: str) -> None:
    assert with_apart_products(text) == apart


def test_no_product_of_floats_is_left() -> None:
    """Whatever the predicate is, a product of floats has names or constants for factors."""
    schema = {"x": "float", "y": "double"}
    plan = sj.explain(
        _schema(schema), _schema(schema), on="(l.x + r.x) * (l.y * r.y - 0.5 * r.x) + 3 * l.x * r.y > 7"
    ).plan
    source = gpu_scan_source(lower(plan), "left")
    assert "times64" in source
    assert not [line for line in source.splitlines() if " * " in line and ("f64(" in line or "f32(" in line)]


def _schema(types: dict[str, str]) -> pa.Schema:

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])


def test_a_text_is_the_same_for_the_same_shape() -> None:
    plan = CASES["two-bands"].plan
    assert gpu_scan_source(lower(plan), "left") == gpu_scan_source(lower(plan), "left")
    assert unable(lower(plan)) is None
