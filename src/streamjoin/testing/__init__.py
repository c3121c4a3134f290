"""A kit for testing stream joins: streams to order, ways to push them, hard values, and a strict comparison.

Everything random comes from `seed` alone: the same arguments give the same rows on every machine.
"""

from __future__ import annotations

from ..side import Side as Side
from .comparison import assert_same_rows as assert_same_rows
from .comparison import compare as compare
from .hard import hard_values as hard_values
from .pushes import batches as batches
from .pushes import interleave as interleave
from .streams import START as START
from .streams import Skew as Skew
from .streams import celljoin as celljoin
from .streams import stream as stream
from .streams import trades_and_quotes as trades_and_quotes

__all__ = [
    "START", "Side", "Skew", "assert_same_rows", "batches", "celljoin", "compare", "hard_values", "interleave",
    "stream", "trades_and_quotes",
]  # fmt: skip
