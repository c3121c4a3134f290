"""Small streams must reach every corner: structures that serve thousands of tuples are made to serve a handful."""

from __future__ import annotations

import os

import pytest

from streamjoin.flow import front
from streamjoin.parallel import threads
from streamjoin.store import batch, bi_sort, chain, ordered
from streamjoin.topology import driver, pan

SMALL = {
    (front, "LARGEST_STEP"): (25, 600),
    (ordered, "TAIL"): (3, 20),
    (ordered, "BELATED"): (5, 20),
    (chain, "SMALLEST"): (16, 128),
    (chain, "SMALLEST_SCANNED"): (16, 128),
    (batch, "LARGEST_PART"): (50, 300),
    (batch, "QUOTA"): (20, 2000),
    (bi_sort, "PIECE"): (16, 64),
    (pan, "ALONE"): (8, 64),
    (driver, "SMALLEST_BLOCK"): (5, 30),
    (driver, "LARGEST_BLOCK"): (40, 200),
    (driver, "WAVE"): (6, 6),
    (driver, "SMALL"): (40, 2000),
    (threads, "MESSAGES"): (8, 8),
    (threads, "REPORTS"): (2, 2),
}
"""What is made smaller: for a handful of tuples, and for the thousands of `test_long_streams` in the short run."""
TORTURE = "STREAMJOIN_TORTURE" in os.environ


@pytest.fixture(autouse=True)
def small_structures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short tails, subwindows of a few tuples, batches cut into small parts. `test_long` keeps the real sizes."""
    if "test_long" not in request.module.__name__:
        for (module, name), sizes in SMALL.items():
            monkeypatch.setattr(module, name, sizes[request.node.originalname == "test_long_streams" and not TORTURE])
