"""Fields of struct columns in predicates, in every way to write one: they join as if they were columns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import col
from streamjoin.side import SIDES
from streamjoin.testing import assert_same_rows

from .. import interpreted
from ..spark.simulated import Simulated, make_spec

LONG_TEXTS = ["a", None, "a text of more than seven bytes", "another text of more than seven bytes"]
PREDICATES: list[tuple[Any, str]] = [
    ("l.s.key = r.s.key AND l.s.deep.x < r.x", "l.key = r.key AND l.deep < r.x"),
    ("l.s.deep.text = r.text AND l.x <= r.s.key", "l.text = r.text AND l.x <= r.key"),
    ("l.s.deep.text <> r.text AND l.s.key = r.x", "l.text <> r.text AND l.key = r.x"),
    (col("l.s.deep.x").between(col("r.s.key") - 1, col("r.s.key") + 1), "l.deep BETWEEN r.key - 1 AND r.key + 1"),
    (lambda l, r: l.s.deep.x == r.x and l["x"] > r.s.key, "l.deep = r.x AND l.x > r.key"),
    ("l.`dotted.name` = r.x AND l.s.`two.words` < r.x", "l.dotted = r.x AND l.words < r.x"),
]


def stream(rng: random.Random, rows: int) -> tuple[pa.Table, pa.Table]:
    """Rows with a struct that may be NULL, and the same rows with the fields as columns."""

    def number() -> int | None:
        return rng.choice([None, *range(6)])

    def struct() -> dict[str, Any] | None:
        deep = rng.choice([None, {"x": number(), "text": rng.choice(LONG_TEXTS)}])
        return rng.choice([None, *3 * [{"key": number(), "deep": deep, "two.words": number()}]])

    structs, dotted = [struct() for _ in range(rows)], [number() for _ in range(rows)]
    deep = pa.struct([("x", pa.int32()), ("text", pa.string())])
    s = pa.struct([("key", pa.int32()), ("deep", deep), ("two.words", pa.int32())])
    plain = {
        "ts": range(rows), "x": pa.array([number() for _ in range(rows)], pa.int32()),
        "text": pa.array([rng.choice(LONG_TEXTS) for _ in range(rows)], pa.string()),
        "dotted.name": pa.array(dotted, pa.int32()),
    }  # fmt: skip
    inner = [(one or {}).get("deep") or {} for one in structs]
    flat = {
        "key": [(one or {}).get("key") for one in structs], "words": [(one or {}).get("two.words") for one in structs],
        "deep": [one.get("x") for one in inner], "dotted": dotted,
    }  # fmt: skip
    table = pa.table({**plain, "s": pa.array(structs, s)})
    columns = {name: pa.array(values, pa.int32()) for name, values in flat.items()}
    left_text = pa.array([one.get("text") for one in inner], pa.string())
    return table, pa.table({**plain, **columns, "inner_text": left_text})


def test_fields_join_as_columns_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.install(monkeypatch)
    rng = random.Random(1)
    tables, flat = zip(*(stream(rng, 80) for _ in SIDES), strict=True)
    left = flat[0].drop_columns("text").rename_columns({"inner_text": "text"})
    window, numbers = sj.TimeWindow(30), ["ts", "ts_right"]
    for on, on_columns in PREDICATES:
        want = sj.join(left, flat[1], on=on_columns, window=window, time="ts").select(numbers)
        assert want.num_rows
        found = sj.join(*tables, on=on, window=window, time="ts")
        assert_same_rows(found.select(numbers), want, context=on_columns)
        spec = make_spec(*(table.schema for table in tables), on=on, window=window, time="ts", cache=str(tmp_path))
        run = Simulated(spec)
        pieces = [[table.slice(0, 40), table.slice(40)] for table in tables]
        results = [run.step([one], [other]) for one, other in zip(*pieces, strict=True)]
        assert_same_rows(pa.concat_tables(results).select(numbers), want, context=on_columns)


def test_unknown_fields() -> None:
    table = pa.table({"s": pa.array([{"key": 1}]), "x": [1]})
    with pytest.raises(sj.PredicateError, match=r"unknown column 's\.kye' \(did you mean 's\.key'\?\)"):
        sj.join(table, table, on="l.s.kye = r.x", window=5)
    with pytest.raises(sj.PredicateError, match=r"unknown stream 'a' in a\.b\.c"):
        sj.join(table, table, on="a.b.c = 1", window=5)
    with pytest.raises(sj.PredicateError, match="has a type that a predicate cannot read"):
        sj.join(table, table, on="l.s = r.x", window=5)


def test_suffix() -> None:
    table = pa.table({"ts": [1], "x": [1]})
    arguments = dict(on="l.x = r.x", window=sj.TimeWindow(5), time="ts", suffix="_2")
    assert sj.join(table, table, **arguments).column_names == ["ts", "x", "ts_2", "x_2"]
    assert sj.join_batches(table, table, **arguments).schema.names == ["ts", "x", "ts_2", "x_2"]
    for wrong in ("", 5, None):
        with pytest.raises(sj.ArgumentError, match=r"suffix: .* is not valid; give a text such as '_right'"):
            sj.join(table, table, **{**arguments, "suffix": wrong})
