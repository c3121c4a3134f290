"""The same join as an operator on Spark Structured Streaming: exactly once, from a laptop to a cluster."""

from __future__ import annotations

try:
    import pyspark  # noqa: F401
except ImportError:
    raise ImportError("streamjoin.spark needs PySpark 4.1 or newer: pip install 'streamjoin[spark]'") from None

from .join import stream_join
from .progress import ConsoleListener, Progress
from .session import session

__all__ = ["ConsoleListener", "Progress", "session", "stream_join"]
