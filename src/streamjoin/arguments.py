"""Checks that several public calls share."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, ParamSpec, TypeVar

from .errors import ArgumentError, UnknownArgument

P = ParamSpec("P")
R = TypeVar("R")
OTHER_NAMES = {
    "predicate": "on", "condition": "on", "where": "on", "join_type": "how", "kind": "how", "type": "how",
    "tolerance": "window", "within": "window", "windows": "window", "on_time": "time", "timestamp": "time",
    "watermark": "lateness", "delay": "lateness", "strategy": "match", "direction": "match", "threads": "workers",
    "n_jobs": "workers", "cores": "workers", "gpu": "device", "names": "aliases", "alias": "aliases",
    "rsuffix": "suffix",
}  # fmt: skip
"""What other libraries call our arguments."""


def meant(name: Any, known: Iterable[str], also: Mapping[str, str] = {}) -> str:
    """` (did you mean 'x'?)`, if a name is close to a known one or is another word for it; else nothing."""
    known = list(known)
    other = also.get(str(name).lower())
    close = [other] if other in known else difflib.get_close_matches(str(name), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def checked_names(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with an error that suggests a name where a keyword argument is not one of its own."""
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    takes = frozenset(p.name for p in parameters)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if not takes.issuperset(kwargs):
            name = next(name for name in kwargs if name not in takes)
            raise unknown_argument(function.__qualname__.removesuffix(".__init__"), name, known)
        return function(*args, **kwargs)

    return called


def unknown_argument(call: str, name: str, known: Sequence[str]) -> UnknownArgument:
    hint = meant(name, known, OTHER_NAMES)
    return UnknownArgument(f"{name}: {call} has no such argument{hint}; it takes {', '.join(known)}")


def choose(argument: str, value: Any, allowed: Sequence[str], also: Mapping[str, str] = {}) -> Any:
    """One of a few words; ArgumentError suggests the closest one. `also` has other words for them."""
    if value in allowed:
        return value
    hint = meant(value, allowed, also)
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
