"""What the compiled readers of texts share: `number_scanner` and `moment_scanner`.

A reader says for each text what became of it. It reads the usual forms. What it leaves open is for `casts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ..compile.cache import compiled_with

UNREADABLE, READ, OPEN, LONG = 0, 1, 2, 3
"""What became of a text. Long: a number whose digits do not fit into 64 bits."""
TENS = np.array([10**power for power in range(19)], np.int64)

inline = njit(nogil=True)


def _leave_open(*arguments: Any) -> None:
    arguments[-1][:] = OPEN


def reader(plain: Callable[..., None] = _leave_open) -> Callable[[Callable[..., None]], Any]:
    """Compiles a loop over texts that writes into `state`, its last argument, what became of each. Until there is
    machine code, `plain` serves, which may read less."""
    return compiled_with(plain)


@inline
def trimmed(content, first, last):  # type: ignore[no-untyped-def]
    """Where a text begins and ends without `literals.BLANKS`."""
    while first < last and (content[first] <= 32 or content[first] == 127):
        first += 1
    while first < last and (content[last - 1] <= 32 or content[last - 1] == 127):
        last -= 1
    return first, last


@inline
def is_digit(byte):  # type: ignore[no-untyped-def]
    return 48 <= byte <= 57


@inline
def byte_at(content, place, last):  # type: ignore[no-untyped-def]
    """The byte at a place; zero where the text has ended."""
    return content[place] if place < last else np.uint8(0)
