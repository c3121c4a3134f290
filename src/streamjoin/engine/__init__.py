"""The embedded engine: Arrow in, Arrow out."""

from __future__ import annotations

from .explanation import Explanation, explain
from .scale_gate import ScaleGate
from .window_join import LateRows, WindowJoin, join

__all__ = ["Explanation", "LateRows", "ScaleGate", "WindowJoin", "explain", "join"]
