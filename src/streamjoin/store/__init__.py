"""Where a side's window lives: a chain of subwindows, each an index over columns.

The seam is `Index`: a few lines that every structure implements and one test matrix checks.
"""

from __future__ import annotations

from .batch import Batch, PairSink, Probing
from .chain import Chain, Index
from .hash import HashIndex
from .ordered import OrderedIndex
from .scan import ScanIndex
from .side_window import Window

__all__ = ["Batch", "Chain", "HashIndex", "Index", "OrderedIndex", "PairSink", "Probing", "ScanIndex", "Window"]
