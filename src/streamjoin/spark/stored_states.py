"""Objects from the state store: plain data, or what an earlier version has pickled."""

from __future__ import annotations

from typing import Any, TypeVar

from ..errors import StateError
from . import pickled_state
from .plain import Plain
from .sealed_values import OLD_PICKLE

Kept = TypeVar("Kept")


def loaded(body: bytes | memoryview, plain: Plain, class_: type[Kept]) -> Kept:
    """An object of this class."""
    found: Any = pickled_state.load(body) if bytes(body[:1]) == OLD_PICKLE else plain.load(body)
    if not isinstance(found, class_):
        raise StateError(f"the state is damaged: it has a {type(found).__name__} in the place of a {class_.__name__}")
    return found
