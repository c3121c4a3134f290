"""Values of the state store in an envelope: its version, the value's length, and a checksum of its name and content.

So a value that is cut off, changed, or stored under another name is refused before anything in it is believed. Values
without an envelope are from versions before it, which stored Arrow streams and pickles; they are still read (see
`pickled_state`).
"""

from __future__ import annotations

import zlib
from struct import Struct

import pyarrow as pa

from ..errors import StateError
from .keyed_state import KeyedState
from .messages import from_bytes

MAGIC, VERSION = b"\xf5SJ", 1
_HEAD = Struct("<3sBIQ")
OLD_STREAM, OLD_PICKLE = b"\xff\xff\xff\xff", b"\x80"
"""How values without an envelope begin."""


def sealed(name: str, body: bytes) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, _checksum(name, body), len(body)) + body


def opened(name: str, value: bytes) -> memoryview:
    """The content of a value, which is as it was stored."""
    body = memoryview(value)
    if len(value) < _HEAD.size or not value.startswith(MAGIC):
        return _old(name, body)
    _, version, checksum, length = _HEAD.unpack_from(value)
    if version != VERSION:
        raise StateError(
            f"the state store's value {name!r} has version {version}, and this streamjoin reads version {VERSION}; "
            "go on with the release that wrote it, or begin with a new checkpoint location"
        )
    body = body[_HEAD.size :]
    if len(body) != length:
        raise _damaged(name, f"it has {len(body)} bytes of {length}")
    if _checksum(name, body) != checksum:
        raise _damaged(name, "its checksum is wrong")
    return body


def _checksum(name: str, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(name.encode()))


def _old(name: str, body: memoryview) -> memoryview:
    if bytes(body[:1]) == OLD_PICKLE:
        return body
    if bytes(body[:4]) != OLD_STREAM:
        raise _damaged(name, "it does not begin as such a value does")
    try:
        from_bytes(body).validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(name, str(error)) from None
    return body


def _damaged(name: str, why: str) -> StateError:
    return StateError(
        f"the state store's value {name!r} is damaged: {why}; restore the checkpoint from a copy, or begin with a new "
        "checkpoint location"
    )


class SealedState:
    """A `KeyedState` whose values lie in another one, in envelopes."""

    def __init__(self, state: KeyedState) -> None:
        self._state = state

    def get(self, name: str) -> bytes | memoryview | None:
        value = self._state.get(name)
        return None if value is None else opened(name, bytes(value))

    def must_get(self, name: str) -> bytes | memoryview:
        """A value that must be there, since another one names it."""
        body = self.get(name)
        if body is None:
            raise StateError(
                f"the state store has lost the value {name!r}; restore the checkpoint from a copy, or begin with a new "
                "checkpoint location"
            )
        return body

    def put(self, name: str, body: bytes) -> None:
        self._state.put(name, sealed(name, body))

    def remove(self, name: str) -> None:
        self._state.remove(name)
