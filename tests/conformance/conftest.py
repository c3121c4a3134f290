"""Small streams must reach every corner: structures that serve thousands of tuples are made to serve a handful."""

from __future__ import annotations

import pytest

from streamjoin.flow import front
from streamjoin.store import batch, bi_sort, chain, ordered
from streamjoin.topology import over_nodes, pan, threads


@pytest.fixture(autouse=True)
def small_structures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short tails, subwindows of a few tuples, batches cut into small parts. Long streams keep the real sizes."""
    if "test_long" in request.module.__name__:
        return
    monkeypatch.setattr(front, "LARGEST_STEP", 25)
    monkeypatch.setattr(ordered, "TAIL", 3)
    monkeypatch.setattr(ordered, "BELATED", 5)
    monkeypatch.setattr(chain, "SMALLEST", 16)
    monkeypatch.setattr(chain, "SMALLEST_SCANNED", 16)
    monkeypatch.setattr(batch, "LARGEST_PART", 50)
    monkeypatch.setattr(batch, "QUOTA", 20)
    monkeypatch.setattr(bi_sort, "PIECE", 16)
    monkeypatch.setattr(pan, "ALONE", 8)
    monkeypatch.setattr(over_nodes, "SMALLEST_BLOCK", 5)
    monkeypatch.setattr(over_nodes, "LARGEST_BLOCK", 40)
    monkeypatch.setattr(over_nodes, "WAVE", 6)
    monkeypatch.setattr(over_nodes, "SMALL", 40)
    monkeypatch.setattr(threads, "MESSAGES", 8)
    monkeypatch.setattr(threads, "REPORTS", 2)
