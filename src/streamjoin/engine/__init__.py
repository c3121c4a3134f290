"""The embedded engine: Arrow in, Arrow out."""

from __future__ import annotations

from .explanation import Explanation, explain
from .replay import join, join_batches
from .scale_gate import ScaleGate
from .window_join import LateRows, WindowJoin

__all__ = ["Explanation", "LateRows", "ScaleGate", "WindowJoin", "explain", "join", "join_batches"]
