"""Where nodes get messages from."""

from __future__ import annotations

from typing import Literal

Port = Literal["left", "right", "driver"]
"""The neighbour on one side (at the ends of a chain, the driver), or the driver."""
