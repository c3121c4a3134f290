"""Objects as plain data: JSON that says what there is, and behind it the bytes and arrays that it names.

Reading it runs no code: it makes numbers, texts, lists and arrays, and objects of the classes that the reader lists,
whose fields are set as they were. Fields that a class has got since keep their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from struct import Struct
from struct import error as StructError
from typing import Any

import numpy as np

from ..errors import StateError

MAGIC = b"P"
"""No pickle begins so."""
_HEAD = Struct("<cI")
_DTYPES = ("int8", "int32", "int64", "uint64", "bool", "float64")


class Plain:
    """`classes`: what objects may be made of, by the names that the data calls them."""

    def __init__(self, classes: Mapping[str, type[Any]] | None = None) -> None:
        self._classes = dict(classes or {})
        self._names = {class_: name for name, class_ in self._classes.items()}

    def dump(self, value: Any) -> bytes:
        parts: list[bytes] = []
        head = json.dumps(self._written(value, parts), separators=(",", ":")).encode()
        return b"".join([_HEAD.pack(MAGIC, len(head)), head, *parts])

    def load(self, body: bytes | memoryview) -> Any:
        """The value; an error if this is none."""
        view = memoryview(body)
        try:
            magic, size = _HEAD.unpack_from(view)
            start = _HEAD.size + size
            if magic != MAGIC or start > len(view):
                raise ValueError("it is cut off")
            value, rest = self._read(json.loads(bytes(view[_HEAD.size : start])), view[start:])
            if len(rest):
                raise ValueError(f"{len(rest)} bytes are left over")
            return value
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError, StructError) as error:
            raise StateError(f"the state is damaged: {type(error).__name__}: {error}") from None

    def _written(self, value: Any, parts: list[bytes]) -> Any:
        if value is None or isinstance(value, bool | str | float):
            return value
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, list):
            return [self._written(one, parts) for one in value]
        if isinstance(value, tuple):
            return {"tuple": [self._written(one, parts) for one in value]}
        if isinstance(value, dict):
            return {"dict": [[self._written(key, parts), self._written(one, parts)] for key, one in value.items()]}
        if isinstance(value, bytes):
            parts.append(value)
            return {"bytes": len(value)}
        if isinstance(value, np.ndarray):
            if value.dtype.name not in _DTYPES or value.ndim != 1:
                raise TypeError(f"plain data has no {value.ndim}-dimensional array of {value.dtype}")
            parts.append(value.tobytes())
            return {value.dtype.name: len(value)}
        state = _state_of(value)
        return {"of": self._names[type(value)], "fields": self._written(state, parts)}

    def _read(self, head: Any, rest: memoryview) -> tuple[Any, memoryview]:
        if head is None or isinstance(head, bool | str | float | int):
            return head, rest
        if isinstance(head, list):
            items = []
            for one in head:
                item, rest = self._read(one, rest)
                items.append(item)
            return items, rest
        kind, content = next(iter(head.items()))
        if kind == "of":
            state, rest = self._read(head["fields"], rest)
            return _made(self._classes[content], state), rest
        if kind in ("tuple", "dict"):
            items, rest = self._read(content, rest)
            return (tuple(items) if kind == "tuple" else dict(items)), rest
        if kind != "bytes" and kind not in _DTYPES:
            raise ValueError(f"there is no kind {kind!r}")
        size = content * (1 if kind == "bytes" else np.dtype(kind).itemsize)
        if not 0 <= size <= len(rest):
            raise ValueError("it is cut off")
        part, rest = rest[:size], rest[size:]
        return (bytes(part) if kind == "bytes" else np.frombuffer(bytes(part), kind).copy()), rest


def _state_of(value: Any) -> Any:
    if "__getstate__" in type(value).__dict__ and not is_dataclass(value):
        return value.__getstate__()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(value.__dict__)


def _made(class_: type[Any], state: Any) -> Any:
    made = object.__new__(class_)
    if "__setstate__" in class_.__dict__ and not is_dataclass(class_):
        made.__setstate__(state)
        return made
    known = dict(state)
    if is_dataclass(class_):
        for field in fields(class_):
            if field.name in known:
                value = known.pop(field.name)
            elif field.default_factory is not MISSING:
                value = field.default_factory()
            elif field.default is not MISSING:
                value = field.default
            else:
                raise ValueError(f"{class_.__name__} lacks {field.name}")
            object.__setattr__(made, field.name, value)
        if known:
            raise ValueError(f"{class_.__name__} has no field {next(iter(known))!r}")
    else:
        made.__dict__.update(known)
    return made
