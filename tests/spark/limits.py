"""Limits of the product so small that a few rows reach them."""

from __future__ import annotations

import pytest

from streamjoin.store.costs import Costs

SMALL = {
    "streamjoin.spark.pack.CHUNK_ROWS": 6,
    "streamjoin.spark.side_segments.SMALL": 8,
    "streamjoin.spark.side_segments.PER_WINDOW": 1,
    "streamjoin.spark.marks.LARGEST": 8,
    "streamjoin.spark.router.ENOUGH": 1,
    "streamjoin.spark.key_router.ENOUGH": 1,
    "streamjoin.spark.key_router.UNEVEN": 1.01,
    "streamjoin.spark.key_router.SHARE": 0.05,
    "streamjoin.spark.router.UNEVEN": 1.01,
    "streamjoin.spark.router.BETTER": 1.0,
    "streamjoin.store.ordered.TAIL": 4,
    "streamjoin.store.side_window.LARGEST": 16,
}


def small(patch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        patch.setattr(name, value)
    patch.setattr("streamjoin.store.index_choice.costs", lambda: Costs(scan_step=1e9))
