"""Small streams must reach every corner: structures that serve thousands of tuples are made to serve a handful."""

from __future__ import annotations

import pytest

from streamjoin.gpu.support import missing

from .. import constants
from ..gpu import python_machine
from ..long import LONG
from .harness import DEVICE

HANDFUL = {
    "LARGEST_STEP": 25, "FORGET_ROWS": 15,
    "TAIL": 3, "SCANNED_TAIL": 20, "SHORTEST_TAIL": 0, "BELATED": 5, "SMALLEST_SUBWINDOW": 16,
    "SMALLEST_SCANNED": 16, "LARGEST_PART": 50, "WORTH_TRIMMING": 2, "MOST_ROWS": 10,
    "QUOTA": 20, "MERGED": 16, "LEAST_WORDS": 8, "LEAST_STORED": 8, "SHARED_ROWS": 16, "FEW_ROWS": 16, "ALONE": 8,
    "SMALLEST_BLOCK": 5, "LARGEST_BLOCK": 40, "LARGEST_OF_STAR": 20, "SMALL_STEP": 40, "MOST_INSERTED": 60,
    "MOST_ASKED": 30, "SHARED_TUPLES": 8, "MERGED_BLOCKS": 25, "PLENTY_SECONDS": 0.0, "FEW_SECONDS": 0.0,
    "CORES": lambda: 4, "SMALL_SCANNED": 4,
}  # fmt: skip
THOUSANDS = HANDFUL | {
    "LARGEST_STEP": 600, "TAIL": 20, "SCANNED_TAIL": 2000, "BELATED": 20, "SMALLEST_SUBWINDOW": 128,
    "SMALLEST_SCANNED": 128, "WORTH_TRIMMING": 20,
    "LARGEST_PART": 300, "QUOTA": 2000, "MERGED": 64, "ALONE": 64, "SMALLEST_BLOCK": 30, "LARGEST_BLOCK": 200,
    "LARGEST_OF_STAR": 300, "MOST_INSERTED": 2000, "MOST_ASKED": 200, "SHARED_TUPLES": 100,
    "SMALL_STEP": 2000,
}  # fmt: skip
"""For streams of thousands of tuples, which take hours with the smallest sizes: `make torture` has hours."""


@pytest.fixture(autouse=True)
def small_structures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short tails, subwindows of a few tuples, batches cut into small parts. `test_real_sizes` keeps the real sizes."""
    if not request.module.__name__.endswith("test_real_sizes"):
        many = request.node.originalname == "test_many_tuples" and not LONG
        constants.replace(monkeypatch, **(THOUSANDS if many else HANDFUL))
    if DEVICE == "gpu" and missing() is not None:
        python_machine.install(monkeypatch)
