"""Where a side's window lives: a chain of subwindows, each an index over columns.

The seam is `Index`: five lines that every structure implements and one test matrix checks.
"""

from __future__ import annotations

from .batch import Batch, PairSink
from .chain import Chain, Index
from .hash import HashIndex
from .scan import ScanIndex

__all__ = ["Batch", "Chain", "HashIndex", "Index", "PairSink", "ScanIndex"]
