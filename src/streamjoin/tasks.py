"""Running several tasks: what does it is handed in, so that lower rooms need not know about threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

RunAll = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Runs all tasks, in any order or at the same time, and returns their results in the order of the tasks."""


def one_after_another(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """The `RunAll` that needs no threads."""
    return [task() for task in tasks]
