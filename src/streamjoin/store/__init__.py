"""Where a side's window lives: a chain of subwindows, each an index over columns.

The seam is `Index`: every structure implements it, and one test matrix checks all of them. `INDEXES` names them.
"""

from __future__ import annotations

from .batch import Batch, PairSink, Probing
from .chain import Chain
from .hash import HashIndex
from .index import Index, IndexKind
from .ordered import OrderedIndex
from .registry import INDEXES
from .scan import ScanIndex
from .side_window import SideWindow

__all__ = [
    "INDEXES",
    "Batch",
    "Chain",
    "HashIndex",
    "Index",
    "IndexKind",
    "OrderedIndex",
    "PairSink",
    "Probing",
    "ScanIndex",
    "SideWindow",
]
