"""The name under which a join's figures appear, which must be the only one in its query."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

from ..arguments import unused
from .progress import NAME

_OBSERVED = re.compile(r"CollectMetrics (.+?), \[")
"""How Spark prints an observation in a plan."""


def unused_name(*inputs: Any) -> str:
    """The usual name, with a number if the inputs have figures of that name: so where they are results of joins."""
    taken = {name for frame in inputs for name in _OBSERVED.findall(_plan(frame))}
    return unused(NAME, taken)


def _plan(frame: Any) -> str:
    """Spark prints a plan, and on a Connect server it gives it in no other way."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain(extended=True)
    return printed.getvalue()
