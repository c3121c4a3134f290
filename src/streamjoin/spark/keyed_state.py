"""The state of a worker or a router as it sees it: values by name, kept from one micro-batch to the next.

On Spark the values lie in the state store (`processor`); in tests a dictionary takes its place.
"""

from __future__ import annotations

from typing import Protocol


class KeyedState(Protocol):
    """All changes of a micro-batch are committed together with it, or none of them."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, body: bytes) -> None: ...

    def remove(self, name: str) -> None: ...
