"""NumPy joins until there is machine code, and must not be much slower: it looks at keys too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj


@pytest.mark.parametrize("on", ["l.x = r.a", "l.x BETWEEN r.a - 1 AND r.a + 1", "abs(l.x - r.a) <= 1"])
def test_numpy_compares_only_with_what_a_key_asks_for(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever side is stored: the bounds of a band may belong to the stored tuple."""
    monkeypatch.setattr("streamjoin.engine.window_join.rehearsed", lambda *_: lambda: False)
    rng, window, push = np.random.default_rng(1), 5_000, 500

    def rows(count: int, name: str) -> pa.Table:
        return pa.table({name: rng.integers(0, window, count)})

    with sj.WindowJoin(rows(0, "x").schema, rows(0, "a").schema, on=on, window=window) as join:
        for count in (window, push, push):
            join.push_left(rows(count, "x"))
            join.push_right(rows(count, "a"))
            found = join.poll().num_rows
        assert found > 0
        assert "NumPy" in join.metrics()["indexes"]["left"]["why"]
        assert join.metrics()["comparisons"] < 10 * 2 * (window + 2 * push)
