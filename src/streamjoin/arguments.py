"""Checks that several public calls share."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Sequence
from itertools import chain, count
from typing import Any

from .errors import ArgumentError


def choose(argument: str, value: Any, allowed: Sequence[str]) -> Any:
    """One of a few words; ArgumentError suggests the closest one."""
    if value in allowed:
        return value
    close = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise ArgumentError(f"{argument}: {value!r} is not valid{hint}; choose from {', '.join(map(repr, allowed))}")


def unused(name: str, taken: Container[str]) -> str:
    """The name, or name_2 and so on, whichever is the first that is not taken."""
    return next(new for new in chain([name], (f"{name}_{n}" for n in count(2))) if new not in taken)


def ignoring_case(name: Any, names: Iterable[str]) -> list[str]:
    """The name itself if it is among the names, else those that differ from it in upper and lower case only."""
    known = list(names)
    if name in known or not isinstance(name, str):
        return [name] if name in known else []
    return [other for other in known if other.lower() == name.lower()]
